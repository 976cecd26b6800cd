"""The rows of the test split as JSONL text."""

from pathlib import Path

import orjson
import pyarrow.parquet as pq

from anneal.provenance.files import whole_file
from anneal.records import IDENTITY, PLACE, fields_among, place


def write_heldout(shards: list[Path], ledger: Path, output: Path) -> int:
    """Write id, fields and category of each test row; returns their number."""
    columns = [name for name, _ in PLACE]
    test = pq.read_table(ledger, columns=columns, filters=[("split", "==", "test")])
    wanted = {place(row) for row in test.to_pylist()}
    rows = 0
    with whole_file(output) as path, path.open("wb") as stream:
        for shard in shards:
            fields = fields_among(pq.read_schema(shard).names)
            columns = [*IDENTITY, "category", *fields]
            for batch in pq.ParquetFile(shard).iter_batches(columns=columns):
                for row in batch.to_pylist():
                    if place(row) in wanted:
                        stream.write(as_line(row, fields))
                        rows += 1
    return rows


def as_line(row: dict, fields: list[str]) -> bytes:
    """A held-out row as a line of JSON: id, category and its kind's own fields."""
    return orjson.dumps({name: row[name] for name in ("id", "category", *fields)}) + b"\n"
