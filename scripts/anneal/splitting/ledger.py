"""The ledger: one row for every row that was read, saying what became of it and why."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.errors import UserError
from anneal.records import IDENTITY, PLACE, place
from anneal.splitting.groups import JOINS, Groups

LEDGER = pa.schema(
    [
        ("id", pa.string()),
        *PLACE,
        ("category", pa.string()),
        ("status", pa.string()),
        ("rule", pa.string()),
        ("value", pa.float64()),
        ("kept_id", pa.string()),
        ("split", pa.string()),
        ("prompt_key", pa.string()),
    ]
)
COLUMNS = [*IDENTITY, "category", "prompt_key", "extra"]


def decide(shards: list[Path], rejects: list[Path], drops: Path, split: dict) -> pa.Table:
    """The ledger of a dataset, in the order of sources and lines.

    Args:
        shards: cleaned shards; `rejects` are their rejected rows, pairwise.
        drops: result of `select_rows`.
        split: the `split` section.
    """
    dropped = {place(drop): drop for drop in pq.read_table(drops).to_pylist()}
    groups, rows = Groups(split), []
    for shard, refused in zip(shards, rejects, strict=True):
        decided = [_decided(row, dropped, groups) for row in _rows(shard)]
        decided += [_rejected(row) for row in pq.read_table(refused).to_pylist()]
        rows += sorted(decided, key=lambda row: row["line"])
    return pa.Table.from_pylist(rows, LEDGER)


def check_reject_share(ledger: pa.Table, allowed: float) -> None:
    """Raises UserError: nothing was read, or a source has too many unreadable rows."""
    if ledger.num_rows == 0:
        raise UserError("datasets", "all sources are empty", "check their paths")
    read = Counter(ledger["source"].to_pylist())
    bad = [row for row in ledger.to_pylist() if row["status"] == "rejected"]
    for source, rejected in Counter(row["source"] for row in bad).items():
        if rejected > allowed * read[source]:
            first = next(row for row in bad if row["source"] == source)
            raise too_many_rejects(first, first["rule"], rejected, read[source], allowed)


def too_many_rejects(first: dict, reason: str, rejected: int, read: int, allowed: float):
    """The error for a source, of which `first` is the first row that was rejected."""
    return UserError(
        f"{first['file']}:{first['line']}",
        f"{rejected} of {read} rows of source '{first['source']}' are unreadable "
        f"(first: {reason}), more than the {allowed:.0%} allowed",
        "see the rejects files; name its columns, mend it, or raise max_reject_share",
    )


def _rows(shard: Path) -> Iterator[dict]:
    for batch in pq.ParquetFile(shard).iter_batches(columns=COLUMNS):
        yield from batch.to_pylist()


def _decided(row: dict, dropped: dict, groups: Groups) -> dict:
    if drop := dropped.get(place(row)):
        reason = {name: drop[name] for name in ("rule", "value", "kept_id")}
        return {**row, "status": "dropped", **reason}
    side = groups.side(row)
    if side is None:
        return {**row, "status": "dropped", "rule": JOINS}
    return {**row, "status": "kept", "split": side}


def _rejected(row: dict) -> dict:
    at = {name: row[name] for name, _ in PLACE}
    return {**at, "status": "rejected", "rule": row["reason"]}
