"""A reward model: one number for a prompt with its answer."""

from pathlib import Path

import torch
from safetensors import safe_open

from anneal.errors import UserError
from anneal.training.models import load_model, load_tokenizer


def load_reward_model(folder: Path, tokenizer):
    """The model that a run of method `reward` saved, an adapter on its base or a whole model.

    Raises:
        UserError: it has more than one output, or was trained on other token ids.
    """
    heads = [shape for file in folder.glob("*.safetensors") for shape in _heads(file)]
    if [head[0] for head in heads] != [1]:
        what = f"a reward model has one output, and this has {heads[0][0] if heads else 'no head'}"
        raise UserError(str(folder), what, "train it with method 'reward'")
    own = load_tokenizer(folder)
    if own.get_vocab() != tokenizer.get_vocab():
        what = "the reward model's tokenizer differs from the policy's"
        raise UserError(str(folder), what, "train both from one base model")
    return load_model(folder, head="score")


def scores(model, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Score (rows,) of each sequence of (rows, length), read at its last real token."""
    ids, mask = ids.to(model.device), mask.to(model.device)
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    states = whole.base_model(input_ids=ids, attention_mask=mask, use_cache=False)[0]
    last = mask.sum(1) - 1
    return whole.score(states[torch.arange(len(ids)), last]).squeeze(-1).float()


def _heads(file: Path) -> list[list[int]]:
    with safe_open(file, framework="pt") as tensors:
        names = [name for name in tensors.keys() if "score" in name.split(".")]  # noqa: SIM118
        return [tensors.get_slice(name).get_shape() for name in names]
