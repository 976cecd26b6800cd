"""A trained model as a folder that transformers or PEFT opens, with its tokenizer and template."""

import json
from pathlib import Path

from transformers import GenerationConfig

from anneal.cli import log
from anneal.training.data import prompt_and_answer


def save_model(model, tokenizer, rows, folder: Path, tensors: dict | None = None) -> None:
    """Write weights, tokenizer, template and generation settings; equal models, equal bytes.

    Args:
        tensors: the weights, where the model itself holds shards.
    """
    stop = align_stop_token(tokenizer, rows)
    own = {"selected_adapters": ["default"]} if hasattr(model, "peft_config") else {}
    model.save_pretrained(folder, safe_serialization=True, state_dict=tensors, **own)
    tokenizer.save_pretrained(folder)
    _sort_lists(folder / "adapter_config.json")
    if not model.can_generate():
        return
    generation = GenerationConfig.from_dict(model.generation_config.to_dict())
    known = generation.eos_token_id
    known = known if isinstance(known, list) else [known] if known is not None else []
    if stop not in known:
        log.warning("the trained stop token %d was added to generation_config.eos_token_id", stop)
        generation.eos_token_id = [*known, stop]
    generation.save_pretrained(folder)


def align_stop_token(tokenizer, rows) -> int:
    """The token that training teaches as the end; it becomes the tokenizer's eos too."""
    _, answer = prompt_and_answer(rows[0])
    stop = answer[-1] if answer else tokenizer.eos_token_id
    if tokenizer.eos_token_id != stop and stop in tokenizer.added_tokens_decoder:
        token = tokenizer.convert_ids_to_tokens(stop)
        log.warning("eos_token was %s; training ends with %s", tokenizer.eos_token, token)
        tokenizer.eos_token = token
    return stop


def _sort_lists(path: Path) -> None:
    """PEFT writes sets in hash order; sorted, equal adapters have equal bytes."""
    if path.is_file():
        config = json.loads(path.read_text())
        config = {k: sorted(v) if _is_set(v) else v for k, v in config.items()}
        path.write_text(json.dumps(config, indent=2, sort_keys=True))


def _is_set(value) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
