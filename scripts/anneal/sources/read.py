"""One shard of raw rows into a file of records and a file of rejects."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.errors import UserError
from anneal.progress import progress
from anneal.provenance.files import whole_file
from anneal.records import REJECT, record_schema
from anneal.sources.lines import Row
from anneal.sources.records import RecordMaker
from anneal.sources.rows import read_rows
from anneal.sources.values import Reject

BATCH_ROWS = 5_000
BATCH_BYTES = 8_000_000
SLOT = 64


def read_shard(settings: dict, source: dict, records: Path, rejects: Path) -> dict:
    """Write records and rejects; every row that was read is in exactly one of them.

    Args:
        settings: `kind`, and of the source `columns`, `query`, `subset`, `split`, `revision`,
            `max_row_mb` and `tags`; of an address `sha256` and `token_env` too.
        source: `Shard.as_source()`.

    Returns:
        counts: `read`, `records`, `rejected`, and `converted` by column.
    """
    limit = int(settings["max_row_mb"] * 1e6)
    maker = RecordMaker(settings["kind"], settings["columns"], limit, settings["tags"])
    schema = record_schema(settings["kind"])
    counts = Counter(read=0, records=0, rejected=0)
    download = records.with_name(f".{records.name}.download")
    with (
        whole_file(records) as good_path,
        whole_file(rejects) as bad_path,
        pq.ParquetWriter(good_path, schema, compression="zstd") as good,
        pq.ParquetWriter(bad_path, REJECT, compression="zstd") as bad,
    ):
        for file, rows in _tables(source, settings, download):
            place = {"source": source["source"], "file": file}
            for batch in progress(_batches(rows), f"read {file}"):
                kept, refused = _sorted_out(batch, maker, place)
                good.write_batch(pa.RecordBatch.from_pylist(kept, schema))
                bad.write_batch(pa.RecordBatch.from_pylist(refused, REJECT))
                counts.update(read=len(batch), records=len(kept), rejected=len(refused))
    return {**counts, "converted": dict(sorted(maker.values.converted.items()))}


def _tables(source: dict, settings: dict, scratch: Path) -> Iterator[tuple[str, Iterator[Row]]]:
    """What is read: the name that its rows carry, and the rows."""
    if source["format"] == "hub":
        from anneal.sources.hub import fetch_files

        hub = [settings[name] for name in ("subset", "split", "revision")]
        for name, path in fetch_files(source["file"], *hub).items():
            yield name, _fetched_rows(name, path, settings)
    elif source["format"] == "http":
        from anneal.sources.download import downloaded, shown

        name = shown(source["file"])
        how = settings["sha256"], settings["token_env"]
        with downloaded(source["file"], scratch, *how) as path:
            yield name, _fetched_rows(name, str(path), settings)
    elif source["format"] in ("sql", "sqlite"):
        from anneal.sources.database import shown

        # two queries of one database are two tables: their rows need places of their own
        yield f"{shown(source)}[{source['source']}]", read_rows(source, settings)
    else:
        yield source["file"], read_rows(source, settings)


def _fetched_rows(name: str, path: str, settings: dict) -> Iterator[Row]:
    """Rows of a file that was fetched; errors call it by the name that the user knows."""
    from anneal.sources.shards import whole_file_piece

    try:
        yield from read_rows(whole_file_piece(name, path, settings), settings)
    except UserError as error:
        raise UserError(error.where.replace(path, name, 1), error.what, error.do) from None


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


def _batches(rows: Iterable) -> Iterator[list]:
    """Rows in batches; only a large row may fill more than `BATCH_BYTES`, and is then alone."""
    batch, size = [], 0
    for row in rows:
        more = _size(row[2])
        if batch and (len(batch) == BATCH_ROWS or size + more > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += more
    if batch:
        yield batch


def _size(value) -> int:
    """About the bytes that a value takes; one without a length of its own counts as a slot."""
    if isinstance(value, str | bytes):
        return SLOT + len(value)
    inner = value.values() if isinstance(value, dict) else value
    return SLOT + (sum(map(_size, inner)) if isinstance(value, dict | list) else 0)
