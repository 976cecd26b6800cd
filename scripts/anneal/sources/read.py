"""One shard of raw rows into a file of records and a file of rejects."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
    maker = record_maker(settings)
    schema = record_schema(settings["kind"])
    counts = Counter(read=0, records=0, rejected=0)
    download = records.with_name(f".{records.name}.download")
    with (
        whole_file(records) as good_path,
        whole_file(rejects) as bad_path,
        pq.ParquetWriter(good_path, schema, compression="zstd") as good,
        pq.ParquetWriter(bad_path, REJECT, compression="zstd") as bad,
    ):
        for kept, refused in read_batches(source, settings, maker, scratch=download):
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
    scratch: Path | None = None,
) -> Iterator[tuple[list[dict], list[dict]]]:
    """Records and rejects of at most `most` rows at a time, in order; nothing is read ahead.

    Args:
        scratch: where a download lies while it is read; without one nothing that was fetched
            stays on the disk, files of the Hub neither.
    """
    for file, rows in _tables(source, settings, scratch):
        place = {"source": source["source"], "file": file}
        for batch in progress(_batches(rows, most), f"read {file}"):
            yield _sorted_out(batch, maker, place)


def _tables(
    source: dict, settings: dict, scratch: Path | None
) -> Iterator[tuple[str, Iterator[Row]]]:
    """What is read: the name that its rows carry, and the rows."""
    if source["format"] == "hub":
        from anneal.sources.hub import borrow_files, fetch_files

        named = (source["file"], *(settings[name] for name in ("subset", "split", "revision")))
        for name, path in fetch_files(*named).items() if scratch else borrow_files(*named):
            yield name, _fetched_rows(name, path, settings)
    elif source["format"] == "http":
        from anneal.sources.download import downloaded, shown

        name = shown(source["file"])
        how = settings["sha256"], settings["token_env"]
        with _download_path(scratch) as at, downloaded(source["file"], at, *how) as path:
            yield name, _fetched_rows(name, str(path), settings)
    elif source["format"] == "generated":
        yield source["file"], _fetched_rows(source["file"], source["file"], settings)
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


@contextmanager
def _download_path(scratch: Path | None) -> Iterator[Path]:
    """Where a download may lie: the path that was given, or one in a folder that goes again."""
    if scratch:
        yield scratch
        return
    with tempfile.TemporaryDirectory(prefix="anneal-") as folder:
        yield Path(folder) / "download"


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
    """Rows in batches; only a large row may fill more than `BATCH_BYTES`, and is then alone."""
    batch, size = [], 0
    for row in rows:
        more = _size(row[2])
        if batch and (len(batch) == most or size + more > BATCH_BYTES):
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
