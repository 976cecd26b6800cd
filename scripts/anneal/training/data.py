"""The pretokenized splits as the trainer eats them."""

import os
from pathlib import Path

import datasets
import torch

from anneal.records import IGNORED


def load_split(folder: Path, rows: int | None = None) -> datasets.Dataset:
    """Sequences of one split, memory-mapped; only the first `rows` if given."""
    split = datasets.load_from_disk(str(folder))
    split = split.select_columns(["input_ids", "labels", "position_ids", "length"])
    return split.select(range(min(rows, len(split)))) if rows else split


def load_training(splits: Path, base: Path, seed: int, notes: Path) -> tuple:
    """What is trained on, and sequences of it to look at: all of them, or a stream's first ones.

    Args:
        base: folder of the base model, whose tokenizer a stream needs.
        seed: of a stream's order.
        notes: folder in which a stream keeps its counts and rejects.
    """
    if (splits / "train").is_dir():
        rows = load_split(splits / "train")
        return rows, rows
    from anneal.streaming.sequences import training_sequences

    shared = {"stream": splits / "stream.json", "model": base, "seed": seed}
    shared["notes"] = notes if os.environ.get("RANK", "0") == "0" else None
    stream = datasets.IterableDataset.from_generator(training_sequences, gen_kwargs=shared)
    return stream, load_split(splits / "first")


class Collator:
    """Sequences into a batch, padded on the right.

    Padding is known by its place, never by its id, so a pad token that is also the end token costs
    no label. It carries position 0 in every place: to the attention each pad is a row of its own.
    """

    def __init__(self, pad_token_id: int):
        self.fill = {"input_ids": pad_token_id, "labels": IGNORED, "position_ids": 0}

    def __call__(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        """`input_ids`, `labels` and `position_ids`, each int64 of (rows, longest)."""
        longest = max(len(row["input_ids"]) for row in rows)
        return {
            name: torch.tensor([row[name] + [pad] * (longest - len(row[name])) for row in rows])
            for name, pad in self.fill.items()
        }
