"""A trained reward model put to use: checked before it is loaded, one number for a sequence."""

from pathlib import Path

import torch
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoConfig

from anneal.errors import UserError
from anneal.training.models import SAFE, load_model, load_tokenizer


def load_reward_model(folder: Path, tokenizer, precision: str = "fp32", attention: str = "sdpa"):
    """The frozen reward model of a run.

    Args:
        folder: `model/` of a run of method `reward`.
        tokenizer: that of the model whose answers are scored.

    Raises:
        UserError: it does not give one number, or reads another tokenizer's ids.
    """
    check_reward_model(folder, tokenizer)
    model = load_model(folder, precision, attention, head="score")
    return model.eval().requires_grad_(False)


def check_reward_model(folder: Path, tokenizer) -> None:
    """Raises UserError unless the folder gives one number and reads this tokenizer's ids."""
    labels = _labels(folder)
    if labels != 1:
        what = f"this model gives {labels} numbers for a sequence, a reward model gives one"
        raise UserError(str(folder), what, "name a run of method 'reward'")
    if load_tokenizer(folder).get_vocab() != tokenizer.get_vocab():
        what = "this reward model has another tokenizer than the model that is trained"
        raise UserError(str(folder), what, "train both from models of one family")


def _labels(folder: Path) -> int:
    """Outputs of the head; an adapter carries its head as a tensor."""
    if not (folder / "adapter_config.json").is_file():
        return AutoConfig.from_pretrained(str(folder), **SAFE).num_labels
    with safe_open(folder / "adapter_model.safetensors", framework="pt") as tensors:
        heads = [tensors.get_slice(n) for n in tensors.keys() if n.endswith("score.weight")]  # noqa: SIM118
        return heads[0].get_shape()[0] if heads else 0


def scores(model, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The reward at the last real token of each sequence, whatever its id.

    Args:
        ids, mask: (rows, length), padded on the right; the mask is 1 for real tokens.

    Returns:
        (rows,), float32.
    """
    ids, mask = ids.to(model.device), mask.to(model.device)
    classifier = model.get_base_model() if isinstance(model, PeftModel) else model
    hidden = classifier.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    last = mask.sum(1) - 1
    rows = torch.arange(len(ids), device=ids.device)
    return classifier.score(hidden.last_hidden_state[rows, last]).squeeze(-1).float()
