"""Near duplicates between splits, found again on the finished split: the proof, not the promise."""

from pathlib import Path

import pyarrow as pa

from anneal.cleaning.duplicates import find_duplicates
from anneal.records import place


def cross_split_pairs(shards: list[Path], ledger: pa.Table, threshold: float) -> list[dict]:
    """Pairs of kept rows in two splits whose similarity reaches the threshold."""
    rows = ledger.to_pylist()
    split = {place(row): row["split"] for row in rows}
    skip = {at for at, side in split.items() if side is None}
    pairs = []
    for found in find_duplicates(shards, skip, threshold=threshold):
        a = split[place(found)]
        b = split[found["kept_source"], found["kept_file"], found["kept_line"]]
        if a != b:
            pairs.append({**found, "split": a, "kept_split": b})
    return pairs
