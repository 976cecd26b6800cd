"""The ledger: one row for every row that was read, saying what became of it and why."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anneal.provenance.files import whole_file
from anneal.records import IDENTITY, PLACE, filled
from anneal.splitting.assign import SPLITS

JOINS = "joins_two_splits"
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
COLUMNS = [*IDENTITY, "category", "prompt_key"]


def dropped_rows(shards: list[Path], drops: Path) -> np.ndarray:
    """Whether each row was dropped: bool by row number."""
    dropped = np.zeros(sum(pq.read_metadata(path).num_rows for path in shards), bool)
    dropped[pq.read_table(drops, columns=["row"])["row"]] = True
    return dropped


def write_ledger(
    shards: list[Path], rejects: list[Path], drops: Path, sides: np.ndarray, output: Path
) -> None:
    """Write the ledger of a dataset, in the order of sources, files and lines.

    Args:
        shards: cleaned shards; `rejects` are their rejected rows, pairwise.
        drops: result of `select_rows`.
        sides: result of `decide_sides`.
    """
    dropped, start = pq.read_table(drops).sort_by("row"), 0
    with whole_file(output) as path, pq.ParquetWriter(path, LEDGER, compression="zstd") as writer:
        for shard, refused in zip(shards, rejects, strict=True):
            rows = pq.read_table(shard, columns=COLUMNS)
            stop = start + rows.num_rows
            first, last = np.searchsorted(dropped["row"], [start, stop])
            decided = _decided(rows, start, dropped.slice(first, last - first), sides[start:stop])
            both = pa.concat_tables([decided, _rejected(pq.read_table(refused))])
            writer.write_table(both.sort_by([("file", "ascending"), ("line", "ascending")]))
            start = stop


def _decided(rows: pa.Table, start: int, drops: pa.Table, sides: np.ndarray) -> pa.Table:
    """Read rows with what became of them; `drops` are those among them that were dropped."""
    drop_of = np.full(len(sides), -1)
    drop_of[drops["row"].to_numpy() - start] = np.arange(drops.num_rows)
    drop_of = pa.array(drop_of, mask=drop_of < 0)
    kept = pa.array(sides > 0)
    split = pa.array(np.array(["", *SPLITS])[sides])
    decided = {name: drops[name].combine_chunks().take(drop_of) for name in ("value", "kept_id")}
    rule = pc.coalesce(drops["rule"].combine_chunks().take(drop_of), JOINS)
    return filled(
        LEDGER,
        {
            **{name: rows[name] for name in COLUMNS},
            **decided,
            "status": pc.if_else(kept, "kept", "dropped"),
            "rule": pc.if_else(kept, pa.scalar(None, pa.string()), rule),
            "split": pc.if_else(kept, split, pa.scalar(None, pa.string())),
        },
        rows.num_rows,
    )


def _rejected(rows: pa.Table) -> pa.Table:
    place = {name: rows[name] for name, _ in PLACE}
    status = pa.repeat(pa.scalar("rejected"), rows.num_rows)
    return filled(LEDGER, {**place, "status": status, "rule": rows["reason"]}, rows.num_rows)
