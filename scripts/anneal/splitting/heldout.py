"""The rows of the test split as JSONL text."""

from pathlib import Path

import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anneal.provenance.files import whole_file
from anneal.records import FIELDS


def write_heldout(shards: list[Path], ledger: Path, output: Path) -> int:
    """Write id, fields and category of each test row; returns their number."""
    kept = pq.read_table(ledger, columns=["file", "line", "split"])
    test = kept.filter(pc.equal(kept["split"], "test"))
    wanted = set(zip(test["file"].to_pylist(), test["line"].to_pylist(), strict=True))
    rows = 0
    with whole_file(output) as path, path.open("wb") as stream:
        for shard in shards:
            names = set(pq.read_schema(shard).names)
            fields = [n for kind in FIELDS.values() for n in kind if n in names]
            columns = ["id", "file", "line", "category", *fields]
            for row in pq.read_table(shard, columns=columns).to_pylist():
                if (row.pop("file"), row.pop("line")) in wanted:
                    stream.write(orjson.dumps(row) + b"\n")
                    rows += 1
    return rows
