"""One shard of raw rows into a file of records and a file of rejects."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.progress import progress
from anneal.provenance.files import whole_file
from anneal.records import REJECT, record_schema
from anneal.sources.records import RecordMaker, Reject
from anneal.sources.rows import read_rows

BATCH = 5_000


def read_shard(settings: dict, source: dict, records: Path, rejects: Path) -> dict:
    """Write records and rejects; every row that was read is in exactly one of them.

    Returns:
        counts: `read`, `records`, `rejected`, and `converted` by column.
    """
    maker = RecordMaker(settings["kind"], settings["columns"])
    place = {"source": source["source"], "file": _shown(source)}
    schema = record_schema(settings["kind"])
    counts = {"read": 0, "records": 0, "rejected": 0}
    rows = read_rows(source, settings["query"])
    with (
        whole_file(records) as good_path,
        whole_file(rejects) as bad_path,
        pq.ParquetWriter(good_path, schema, compression="zstd") as good,
        pq.ParquetWriter(bad_path, REJECT, compression="zstd") as bad,
    ):
        for batch in progress(_batches(rows), f"read {place['file']}"):
            kept, refused = _sorted_out(batch, maker, place)
            good.write_batch(pa.RecordBatch.from_pylist(kept, schema))
            bad.write_batch(pa.RecordBatch.from_pylist(refused, REJECT))
            counts["read"] += len(batch)
            counts["records"] += len(kept)
            counts["rejected"] += len(refused)
    return {**counts, "converted": dict(sorted(maker.converted.items()))}


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


def _shown(source: dict) -> str:
    return f"${source['file']}" if source["format"] == "sql" else source["file"]


def _batches(rows: Iterable) -> Iterator[list]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield batch
