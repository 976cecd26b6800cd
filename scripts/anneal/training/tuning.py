"""Which weights of a model are trained."""

from peft import LoraConfig, get_peft_model

TASKS = {"causal": "CAUSAL_LM", "score": "SEQ_CLS"}


def tuned(model, tuning: dict, head: str = "causal"):
    """The model with the weights that the tuning trains, and those alone, requiring gradients.

    Args:
        head: `causal`, or `score` for a reward model, whose new head is always trained.
    """
    if tuning["kind"] == "full":
        return model
    config = LoraConfig(
        task_type=TASKS[head],
        r=tuning["r"],
        lora_alpha=tuning["alpha"],
        lora_dropout=tuning["dropout"],
        target_modules=tuning["target_modules"],
    )
    return get_peft_model(model, config)
