"""The pretokenized splits as the trainer eats them."""

import os
from pathlib import Path

import datasets
import torch

from anneal.records import IGNORED

COLUMNS = (
    *("input_ids", "labels", "position_ids", "length"),
    *("prompt_ids", "chosen_ids", "rejected_ids"),
)


def load_split(folder: Path, rows: int | None = None) -> datasets.Dataset:
    """Sequences or pairs of one split, memory-mapped; only the first `rows` if given."""
    split = datasets.load_from_disk(str(folder))
    split = split.select_columns([name for name in COLUMNS if name in split.column_names])
    return split.select(range(min(rows, len(split)))) if rows else split


def prompt_and_answer(row: dict) -> tuple[list[int], list[int]]:
    """Token ids of what is asked and of what is to be learned; a bare prompt has no answer."""
    if "chosen_ids" in row:
        return row["prompt_ids"], row["chosen_ids"]
    answer = [label for label in row["labels"] if label != IGNORED]
    learned = (i for i, label in enumerate(row["labels"]) if label != IGNORED)
    return row["input_ids"][: next(learned, None)], answer


def load_stream(splits: Path, base: Path, seed: int, notes: Path) -> datasets.IterableDataset:
    """Training sequences of a streamed dataset, without end.

    Args:
        base: folder of the base model, whose tokenizer makes them.
        notes: folder in which the counts and rejects of the first pass are kept.
    """
    from anneal.streaming.sequences import training_sequences

    shared = {"stream": splits / "stream.json", "model": base, "seed": seed}
    shared["notes"] = notes if os.environ.get("RANK", "0") == "0" else None
    return datasets.IterableDataset.from_generator(training_sequences, gen_kwargs=shared)


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
