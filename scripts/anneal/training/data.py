"""The pretokenized splits as the trainer eats them."""

from pathlib import Path

import datasets
import torch

from anneal.records import IGNORED


def load_split(folder: Path, rows: int | None = None) -> datasets.Dataset:
    """Sequences of one split, memory-mapped; only the first `rows` if given."""
    split = datasets.load_from_disk(str(folder))
    split = split.select_columns(["input_ids", "labels", "position_ids", "length"])
    return split.select(range(min(rows, len(split)))) if rows else split


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
