"""Exact and near duplicates over a whole dataset: the earliest row stays, later copies point to it.

A row is compared with rows already kept only, so rows that come later never change what was
decided about earlier ones, and similarity does not chain. Real Jaccard similarity decides.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anneal.cleaning.row_store import RowStore
from anneal.records import DROP, IDENTITY


def find_duplicates(
    shards: list[Path],
    skip: np.ndarray,
    exact: bool = True,
    near: bool = True,
    threshold: float = 0.85,
) -> pa.Table:
    """Duplicates in order of appearance: a table of `records.DROP`.

    Args:
        shards: cleaned shards, in the order that decides which row is earlier.
        skip: bool by row number: rows that take no part.
        threshold: Jaccard similarity from which a row is a near duplicate; `value` gives it.
    """
    with RowStore(shards, skip, list(IDENTITY), _identity, near, distinct=exact) as rows:
        _store(rows.db, _decide(rows, threshold))
        return _drops(rows.db).cast(DROP)


def _identity(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: batch.column(name) for name in IDENTITY}


def _decide(rows: RowStore, threshold: float) -> Iterator[tuple[int, int, float]]:
    """(row, kept row, similarity) of near duplicates; a row that was dropped is no candidate."""
    dropped = bytearray(len(rows.skip))
    for later, candidates in rows.pairs():
        for earlier in candidates:
            if not dropped[earlier]:
                similarity = rows.similarity(later, earlier)
                if similarity >= threshold:
                    dropped[later] = True
                    yield later, earlier, similarity
                    break


def _store(db, decisions) -> None:
    """Table `near`: the near duplicates, with the kept row and the similarity of each."""
    db.execute("CREATE TABLE near (n BIGINT, kept BIGINT, similarity DOUBLE)")
    kinds = [("n", np.int64), ("kept", np.int64), ("similarity", np.float64)]
    rows = np.fromiter(decisions, kinds)
    found = pa.table({name: rows[name] for name, _ in kinds})
    db.register("found", found)
    db.execute("INSERT INTO near SELECT * FROM found")


def _drops(db) -> pa.Table:
    """A copy of a row that is itself a near duplicate shares its fate."""
    return db.sql(
        """
        SELECT copy.n AS row, record.id, record.source, record.file, record.line,
            if(near.n IS NULL, 'exact_duplicate', 'near_duplicate') AS rule,
            coalesce(round(near.similarity, 4), 1.0) AS value,
            kept.id AS kept_id, kept.source AS kept_source,
            kept.file AS kept_file, kept.line AS kept_line
        FROM copy JOIN record USING (n) LEFT JOIN near ON near.n = copy.first
        JOIN record AS kept ON kept.n = coalesce(near.kept, copy.first)
        WHERE near.n IS NOT NULL OR copy.first < copy.n
        ORDER BY copy.n
        """
    ).to_arrow_table()


def clusters(drops: pa.Table, most: int = 5) -> list[dict]:
    """The rows that stand for most duplicates: `kept` as file:line, `id` and `removed`."""
    copies = drops.filter(pc.is_valid(drops["kept_id"]))
    names = ["kept_file", "kept_line", "kept_id"]
    sizes = copies.group_by(names).aggregate([("row", "count")])
    order = [("row_count", "descending"), *((name, "ascending") for name in names)]
    return [
        {
            "kept": f"{r['kept_file']}:{r['kept_line']}",
            "id": r["kept_id"],
            "removed": r["row_count"],
        }
        for r in sizes.sort_by(order).slice(0, most).to_pylist()
    ]
