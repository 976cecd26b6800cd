"""New tokens for a base model: special tokens that it lacks, and words of the user's."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from anneal.training.models import SAFE


def extend_vocabulary(folder: Path, special: dict[str, str], words: list[str]) -> list[int]:
    """Add tokens to the model in a folder, in place; returns the ids of those that were new.

    New rows start at the mean of the old ones, on the input side and, where it is not tied, on the
    output side: a new token begins as likely as an average one (Hewitt 2021,
    nlp.stanford.edu/~johnhew/vocab-expansion.html).
    """
    tokenizer = AutoTokenizer.from_pretrained(str(folder), **SAFE)
    missing = {k: v for k, v in special.items() if getattr(tokenizer, k, None) != v}
    added = tokenizer.add_special_tokens(missing) + tokenizer.add_tokens(words)
    tokenizer.save_pretrained(folder)
    if added:
        model = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype="auto", use_safetensors=True, **SAFE
        )
        _grow(model, len(tokenizer), added)
        _align(model, tokenizer)
        for file in folder.glob("*.safetensors*"):
            file.unlink()
        model.save_pretrained(folder, safe_serialization=True)
    return list(range(len(tokenizer) - added, len(tokenizer)))


@torch.no_grad()
def _grow(model, size: int, added: int) -> None:
    old = size - added
    if model.get_input_embeddings().num_embeddings < size:
        model.resize_token_embeddings(size, mean_resizing=False)
    sides = (model.get_input_embeddings(), model.get_output_embeddings())
    weights = {id(side.weight): side.weight for side in sides if side is not None}
    for weight in weights.values():
        weight[old:size] = weight[:old].float().mean(0).to(weight.dtype)


def _align(model, tokenizer) -> None:
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(model.config, name, getattr(tokenizer, name))
        setattr(model.generation_config, name, getattr(tokenizer, name))
