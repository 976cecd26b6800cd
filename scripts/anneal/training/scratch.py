"""A new model: a byte-level BPE tokenizer trained on a dataset, and random weights."""

import difflib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import torch
from huggingface_hub.errors import StrictDataclassError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from anneal.errors import UserError

END = "<|endoftext|>"
CHATML = ["<|im_start|>", "<|im_end|>"]
TEXTS = """
SELECT text FROM read_parquet(?) AS rows JOIN read_parquet(?) AS ledger
USING (source, file, line) WHERE split = 'train' ORDER BY source, file, line
"""
BATCH = 1_000


def make_model(model: dict, origins: list[Path], folder: Path) -> None:
    """Write tokenizer and weights.

    Args:
        model: the model's section; with a `chat_template` the tokenizer knows ChatML's tokens.
        origins: the ledger of the dataset, then its cleaned shards.

    Raises:
        UserError: the architecture, or a key or value of its configuration, is not known.
    """
    scratch = model["scratch"]
    check_keys(scratch["architecture"], scratch["config"])
    ledger, *shards = origins
    special = [END, *(CHATML if model["chat_template"] else [])]
    tokenizer = trained_tokenizer(training_texts(ledger, shards), scratch["vocab_size"], special)
    tokenizer.save_pretrained(folder)
    random_model(scratch, tokenizer).save_pretrained(folder, safe_serialization=True)


def training_texts(ledger: Path, shards: list[Path]) -> Iterator[str]:
    """The texts of the training rows, in the order of shards and lines."""
    with duckdb.connect() as db:
        for shard in shards:
            found = db.execute(TEXTS, [str(shard), str(ledger)])
            while rows := found.fetchmany(BATCH):
                yield from (text for (text,) in rows)


def trained_tokenizer(texts: Iterator[str], size: int, special: list[str]):
    """A byte-level BPE tokenizer of at most `size` tokens; END ends a text, and pads."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, pad_token=END)


def random_model(scratch: dict, tokenizer):
    """A causal model of the architecture, its weights drawn by the seed."""
    end = tokenizer.eos_token_id
    ids = {"bos_token_id": None, "eos_token_id": end, "pad_token_id": end}
    values = {**scratch["config"], "vocab_size": len(tokenizer), **ids}
    torch.manual_seed(scratch["seed"])
    try:
        config = AutoConfig.for_model(scratch["architecture"], **values)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except (ValueError, TypeError, ArithmeticError, RuntimeError, StrictDataclassError) as error:
        first = str(error).strip().splitlines()[0]
        do = "mend scratch.config, or choose another scratch.architecture"
        raise UserError("models.*.scratch", f"no such model can be made: {first}", do) from None


def check_keys(architecture: str, config: dict) -> None:
    """Raises UserError with the nearest name for an unknown architecture or key."""
    _known("models.*.scratch.architecture", architecture, list(CONFIG_MAPPING))
    default = AutoConfig.for_model(architecture)
    for key in config:
        _known("models.*.scratch.config", key, [*default.to_dict(), *default.attribute_map])


def _known(where: str, given: str, names: list[str]) -> None:
    if given not in names:
        near = difflib.get_close_matches(given, names, n=1, cutoff=0.4)
        do = f"did you mean '{near[0]}'?" if near else "see transformers' documentation"
        raise UserError(where, f"unknown: '{given}'", do)
