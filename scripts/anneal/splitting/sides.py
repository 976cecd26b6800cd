"""Rows that must stay on one side of the split: equal prompts, named groups, near duplicates.

Rows are taken in order; the earliest row of a group decides its side, by the hash of its prompt.
A later row that would join two groups on different sides is set aside: so nothing that was decided
about earlier rows ever changes, and no group is torn.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from anneal.cleaning.row_store import FETCH, RowStore
from anneal.splitting.assign import SPLITS, group_hash, side_of

NONE = 0


def decide_sides(
    shards: list[Path], dropped: np.ndarray, split: dict, threshold: float
) -> tuple[np.ndarray, list[tuple[int, int, float]]]:
    """Side of each row: 1, 2 and 3 for `SPLITS`, 0 for rows that were dropped or set aside.

    Args:
        shards: cleaned shards, in order.
        dropped: bool by row number.
        split: the `split` section; `group_by` names columns of the raw rows.
        threshold: similarity from which two rows are near duplicates.

    Returns:
        also (row, row, similarity) of near duplicates in two splits, searched for on the result.
    """
    columns = ["prompt_key", *(["extra"] if split["group_by"] else [])]
    with RowStore(shards, dropped, columns, partial(_keys, split["group_by"])) as rows:
        sides = _Sides(rows, split, threshold).decide()
        return sides, list(_torn(rows, sides, threshold))


def _keys(group_by: list[str], batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Column `prompt_key`, and a hash column for each name of `group_by`, null without a value."""
    keys = {"prompt_key": batch.column("prompt_key")}
    if group_by:
        extras = [orjson.loads(text) for text in batch.column("extra").to_pylist()]
    for number, name in enumerate(group_by):
        values = [group_hash(extra.get(name)) for extra in extras]
        keys[f"g{number}"] = pa.array(values, pa.uint64())
    return keys


class _Sides:
    """The walk over the rows; a group is a number, and its side one byte."""

    def __init__(self, rows: RowStore, split: dict, threshold: float):
        self.rows, self.split, self.threshold = rows, split, threshold
        self.sides = bytearray(len(rows.skip))
        self.groups = [bytearray(count) for count in self._number_groups()]

    def decide(self) -> np.ndarray:
        near = self.rows.pairs()
        later, earlier = next(near, (-1, ()))
        for n, prompt_key, *numbers in self._walk():
            while -1 < later < n:
                later, earlier = next(near, (-1, ()))
            self._place(n, prompt_key, numbers, earlier if later == n else ())
        return np.frombuffer(self.sides, np.uint8)

    def _place(self, n: int, prompt_key: str, numbers: list[int | None], near) -> None:
        groups = [
            (sides, g) for sides, g in zip(self.groups, numbers, strict=True) if g is not None
        ]
        found = {sides[g] for sides, g in groups} - {NONE}
        for row in near:
            side = self.sides[row]
            if side and side not in found and self.rows.similarity(n, row) >= self.threshold:
                found.add(side)
        if len(found) > 1:
            return
        side = found.pop() if found else 1 + SPLITS.index(side_of(prompt_key, self.split))
        self.sides[n] = side
        for sides, g in groups:
            sides[g] = side

    def _number_groups(self) -> list[int]:
        """Table `grouped`: row, prompt key and the number of each of its groups; their counts."""
        names = ["prompt_key", *(f"g{number}" for number in range(len(self.split["group_by"])))]
        ranks = [f"if({n} IS NULL, NULL, dense_rank() OVER (ORDER BY {n}) - 1)" for n in names]
        columns = ", ".join(f"{rank} AS r{i}" for i, rank in enumerate(ranks))
        db = self.rows.db
        db.execute(f"CREATE TABLE grouped AS SELECT n, prompt_key, {columns} FROM record")
        most = ", ".join(f"coalesce(max(r{i}), -1) + 1" for i in range(len(names)))
        return list(db.execute(f"SELECT {most} FROM grouped").fetchone())

    def _walk(self) -> Iterator[tuple]:
        cursor = self.rows.db.cursor().execute("SELECT * FROM grouped ORDER BY n")
        while found := cursor.fetchmany(FETCH):
            yield from found


def _torn(rows: RowStore, sides: np.ndarray, threshold: float) -> Iterator[tuple[int, int, float]]:
    for later, candidates in rows.pairs():
        for earlier in candidates:
            if NONE != sides[later] != sides[earlier] != NONE:
                similarity = rows.similarity(later, earlier)
                if similarity >= threshold:
                    yield later, earlier, similarity
