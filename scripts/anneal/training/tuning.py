"""Which weights of a model are trained."""

from pathlib import Path

from peft import (
    IA3Config,
    LoraConfig,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
    prepare_model_for_kbit_training,
)

from anneal.errors import UserError
from anneal.training.bottleneck import MLP, BottleneckConfig
from anneal.training.mixture import mixture
from anneal.training.virtual import generate_rightly

TASKS = {"causal": "CAUSAL_LM", "score": "SEQ_CLS"}


def tuned(
    model,
    tuning: dict,
    head: str = "causal",
    new_tokens: tuple[int, ...] = (),
    adapters: tuple[Path, ...] = (),
):
    """The model with the weights that the tuning trains, and those alone, requiring gradients.

    Args:
        head: `causal`, or `score` for a reward model, whose new head is always trained.
        new_tokens: ids whose embedding rows a LoRA adapter trains and saves too.
        adapters: folders of the LoRA adapters that `xlora` mixes.

    Raises:
        UserError: the model has no module that the tuning could act on.
    """
    kind = tuning["kind"]
    if kind == "full":
        return model
    if kind == "qlora":
        # our gradient checkpointing is not reentrant, so PEFT need not prepare the model for it
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if kind == "xlora":
        config = mixture(model, adapters, TASKS[head])
    elif kind in CONFIGS:
        config = CONFIGS[kind](tuning, TASKS[head])
    else:
        config = _lora(model, tuning, TASKS[head], new_tokens)
    try:
        return generate_rightly(get_peft_model(model, config))
    except ValueError as error:
        what = f"tuning '{kind}' does not fit this model ({error})"
        raise UserError("runs.*.tuning", what, "choose another kind or target_modules") from None


def weights(model) -> dict[str, int]:
    """How many weights a model has, and how many of them are trained."""
    if hasattr(model, "get_nb_trainable_parameters"):
        trained, total = model.get_nb_trainable_parameters()
    else:
        sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
        trained, total = sum(n for n, needed in sizes if needed), sum(n for n, _ in sizes)
    return {"weights": total, "trained_weights": trained}


def _lora(model, tuning: dict, task: str, new_tokens: tuple[int, ...]) -> LoraConfig:
    return LoraConfig(
        task_type=task,
        r=tuning["r"],
        lora_alpha=tuning["alpha"],
        lora_dropout=tuning["dropout"],
        target_modules=tuning["target_modules"],
        use_dora=tuning["kind"] == "dora",
        **_vocabulary(model, tuning["train_embeddings"], new_tokens),
    )


def _vocabulary(model, train_all: bool, new_tokens: tuple[int, ...]) -> dict:
    """What of the embeddings and the head is trained; a tied head follows the embeddings."""
    sides = [model.get_input_embeddings(), model.get_output_embeddings()]
    tied = model.config.get_text_config().tie_word_embeddings
    names = [
        name.rpartition(".")[2]
        for side in sides[: 1 if tied else 2]
        for name, module in model.named_modules()
        if module is side
    ]
    if train_all:
        return {"modules_to_save": names, "ensure_weight_tying": tied}
    if new_tokens:
        return {"trainable_token_indices": {name: list(new_tokens) for name in names}}
    return {}


def _bottleneck(tuning: dict, task: str) -> BottleneckConfig:
    targets = tuning["target_modules"]
    targets = MLP if targets == "all-linear" else targets
    return BottleneckConfig(task_type=task, bottleneck=tuning["bottleneck"], target_modules=targets)


def _prompt(tuning: dict, task: str) -> PromptTuningConfig:
    """Virtual tokens start as tokens of the vocabulary (Lester 2021, arXiv:2104.08691)."""
    return PromptTuningConfig(
        task_type=task,
        num_virtual_tokens=tuning["virtual_tokens"],
        prompt_tuning_init="SAMPLE_VOCAB",
    )


def _prefix(tuning: dict, task: str) -> PrefixTuningConfig:
    return PrefixTuningConfig(task_type=task, num_virtual_tokens=tuning["virtual_tokens"])


def _ia3(tuning: dict, task: str) -> IA3Config:
    return IA3Config(task_type=task)


CONFIGS = {"adapter": _bottleneck, "prompt": _prompt, "prefix": _prefix, "ia3": _ia3}
