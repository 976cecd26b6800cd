"""One shard of raw rows into a file of records and a file of rejects."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.progress import progress
from anneal.provenance.files import whole_file
from anneal.records import REJECT, record_schema
from anneal.sources.records import RecordMaker
from anneal.sources.rows import read_rows
from anneal.sources.values import Reject

BATCH_ROWS = 5_000
BATCH_CHARS = 32_000_000


def read_shard(settings: dict, source: dict, records: Path, rejects: Path) -> dict:
    """Write records and rejects; every row that was read is in exactly one of them.

    Args:
        settings: `kind`, and of the source `columns`, `query`, `subset`, `split`, `revision`,
            `max_row_mb` and `tags`.
        source: `Shard.as_source()`.

    Returns:
        counts: `read`, `records`, `rejected`, and `converted` by column.
    """
    maker = record_maker(settings)
    schema = record_schema(settings["kind"])
    counts = Counter(read=0, records=0, rejected=0)
    with (
        whole_file(records) as good_path,
        whole_file(rejects) as bad_path,
        pq.ParquetWriter(good_path, schema, compression="zstd") as good,
        pq.ParquetWriter(bad_path, REJECT, compression="zstd") as bad,
    ):
        for kept, refused in read_batches(source, settings, maker):
            good.write_batch(pa.RecordBatch.from_pylist(kept, schema))
            bad.write_batch(pa.RecordBatch.from_pylist(refused, REJECT))
            read = len(kept) + len(refused)
            counts.update(read=read, records=len(kept), rejected=len(refused))
    return {**counts, "converted": dict(sorted(maker.values.converted.items()))}


def record_maker(settings: dict) -> RecordMaker:
    """What makes records of a source's rows; `settings` as in `read_shard`."""
    limit = int(settings["max_row_mb"] * 1e6)
    return RecordMaker(settings["kind"], settings["columns"], limit, settings["tags"])


def read_batches(
    source: dict,
    settings: dict,
    maker: RecordMaker,
    most: int = BATCH_ROWS,
    keep: bool = True,
) -> Iterator[tuple[list[dict], list[dict]]]:
    """Records and rejects of at most `most` rows at a time, in order; nothing is read ahead.

    Args:
        keep: whether files of the Hub stay on the disk when they have been read.
    """
    for file, piece in _pieces(source, settings, keep):
        place = {"source": source["source"], "file": file}
        for batch in progress(_batches(read_rows(piece, settings), most), f"read {file}"):
            yield _sorted_out(batch, maker, place)


def _pieces(source: dict, settings: dict, keep: bool) -> Iterator[tuple[str, dict]]:
    """What is read, each with the name that its rows carry."""
    if source["format"] == "hub":
        from anneal.sources.hub import borrow_files, fetch_files
        from anneal.sources.shards import whole_file_piece

        hub = [settings[name] for name in ("subset", "split", "revision")]
        named = (source["file"], *hub)
        for name, path in fetch_files(*named).items() if keep else borrow_files(*named):
            yield name, whole_file_piece(name, path, settings)
    elif source["format"] in ("sql", "sqlite"):
        from anneal.sources.database import shown

        # two queries of one database are two tables: their rows need places of their own
        yield f"{shown(source)}[{source['source']}]", source
    else:
        yield source["file"], source


def _sorted_out(batch, maker: RecordMaker, place: dict) -> tuple[list[dict], list[dict]]:
    kept, refused = [], []
    for line, offset, value in batch:
        at = {**place, "line": line, "offset": offset}
        try:
            if isinstance(value, str):
                raise Reject(value)
            kept.append({**at, **maker.make(value)})
        except Reject as reason:
            refused.append({**at, "reason": str(reason)})
    return kept, refused


def _batches(rows: Iterable, most: int) -> Iterator[list]:
    batch, chars = [], 0
    for row in rows:
        batch.append(row)
        chars += _chars(row[2])
        if len(batch) >= most or chars >= BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _chars(value) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    inner = value.values() if isinstance(value, dict) else value
    return sum(map(_chars, inner)) if isinstance(value, dict | list) else 8
