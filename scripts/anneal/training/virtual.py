"""Virtual tokens of prompt and prefix tuning: where PEFT puts them, and what that means for us."""

from collections.abc import Callable
from functools import wraps


def virtual_places(model) -> int:
    """How many places the model puts before a row: those of prompt tuning take some, others none.

    Prefix tuning puts keys and values before the row, which take no place in the logits.
    """
    model = getattr(model, "module", model)  # what DDP put around it
    config = getattr(model, "active_peft_config", None)
    return config.num_virtual_tokens if _is_prompt(config) else 0


def generate_rightly(model):
    """The model, its `generate` in agreement with its forward pass.

    PEFT 0.21 looks for the cache by a name that transformers 5 has changed, so prefixes are left
    out and prompts repeated; and it gives the rows of a prompt positions that count the padding.
    """
    if not getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        return model
    prepare = model.base_model_prepare_inputs_for_generation
    model.base_model_prepare_inputs_for_generation = _then(_renamed, prepare)
    if _is_prompt(model.active_peft_config):
        prepare = model.prepare_inputs_for_generation
        model.prepare_inputs_for_generation = _then(_placed, prepare)
    return model


def _is_prompt(config) -> bool:
    return getattr(config, "peft_type", None) == "PROMPT_TUNING"


def _then(change: Callable, prepare: Callable) -> Callable:
    @wraps(prepare)
    def changed(*args, **kwargs):
        return change(prepare(*args, **kwargs))

    return changed


def _renamed(inputs: dict) -> dict:
    return {"past_key_values" if name == "cache" else name: v for name, v in inputs.items()}


def _placed(inputs: dict) -> dict:
    """Positions that count what the attention mask (rows, virtual and real tokens) lets through."""
    if inputs.get("attention_mask") is None:
        return inputs
    given = inputs["input_ids"] if inputs.get("inputs_embeds") is None else inputs["inputs_embeds"]
    positions = (inputs["attention_mask"].long().cumsum(1) - 1).clamp(min=0)
    return {**inputs, "position_ids": positions[:, -given.shape[1] :]}
