"""Exact and near duplicates over a whole dataset: the earliest row stays, later copies point to it.

A row is compared with rows already kept only, so rows that come later never change what was
decided about earlier ones, and similarity does not chain.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow.parquet as pq

from anneal.cleaning.clean import full_text
from anneal.cleaning.similarity import bands, jaccard, shingles
from anneal.records import FIELDS

Place = tuple[int, int]


def find_duplicates(
    shards: list[Path],
    skip: set[tuple[str, int]],
    exact: bool = True,
    near: bool = True,
    threshold: float = 0.85,
) -> list[dict]:
    """Duplicates in order of appearance, as rows of `records.DROP`.

    Args:
        shards: cleaned shards, in the order that decides which row is earlier.
        skip: (file, line) of rows that take no part.
        threshold: Jaccard similarity from which a row is a near duplicate; `value` gives it.
    """
    finder = _Finder(shards, near, threshold)
    found = []
    for place, row in _rows(shards):
        if (row["file"], row["line"]) in skip:
            continue
        match = finder.exact(row) if exact else None
        match = match or (finder.near(place, row) if near else None)
        if match:
            at = {k: row[k] for k in ("id", "source", "file", "line")}
            found.append({**at, **match})
        else:
            finder.keep(place, row)
    return found


class _Finder:
    def __init__(self, shards: list[Path], near: bool, threshold: float):
        self.shards, self.use_near, self.threshold = shards, near, threshold
        self.by_content: dict[str, dict] = {}
        self.by_band: dict[tuple[int, int], list[tuple[Place, dict]]] = defaultdict(list)
        self.texts = lru_cache(maxsize=64)(_texts)

    def exact(self, row: dict) -> dict | None:
        kept = self.by_content.get(row["content_key"])
        return _match("exact_duplicate", 1.0, kept) if kept else None

    def near(self, place: Place, row: dict) -> dict | None:
        if row["signature"] is None:
            return None
        candidates = {
            at: kept for band in bands(row["signature"]) for at, kept in self.by_band.get(band, ())
        }
        mine = shingles(self._text(place)) if candidates else set()
        for at in sorted(candidates):
            similarity = jaccard(mine, shingles(self._text(at)))
            if similarity >= self.threshold:
                return _match("near_duplicate", similarity, candidates[at])
        return None

    def keep(self, place: Place, row: dict) -> None:
        kept = {"id": row["id"], "file": row["file"], "line": row["line"]}
        self.by_content.setdefault(row["content_key"], kept)
        if self.use_near and row["signature"] is not None:
            for band in bands(row["signature"]):
                self.by_band[band].append((place, kept))

    def _text(self, place: Place) -> str:
        return self.texts(self.shards[place[0]])[place[1]]


def _rows(shards: list[Path]) -> Iterator[tuple[Place, dict]]:
    columns = ["id", "source", "file", "line", "content_key", "signature"]
    for s, shard in enumerate(shards):
        row = 0
        for batch in pq.ParquetFile(shard).iter_batches(columns=columns):
            for value in batch.to_pylist():
                yield (s, row), value
                row += 1


def _texts(shard: Path) -> list[str]:
    names = set(pq.read_schema(shard).names)
    columns = [n for fields in FIELDS.values() for n in fields if n in names]
    return [full_text(row) for row in pq.read_table(shard, columns=columns).to_pylist()]


def _match(rule: str, similarity: float, kept: dict) -> dict:
    return {
        "rule": rule,
        "value": round(similarity, 4),
        "kept_id": kept["id"],
        "kept_file": kept["file"],
        "kept_line": kept["line"],
    }
