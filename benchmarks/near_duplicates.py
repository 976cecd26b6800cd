"""Time and peak memory of finding duplicates: `rows` (whole) or `signatures` (candidates only).

python benchmarks/near_duplicates.py rows --rows 1000000 --folder /tmp/rows
python benchmarks/near_duplicates.py signatures --rows 10000000 --folder /tmp/rows

One row in ten is a near copy of an earlier one; one in a hundred shares half of its bands with a
common template.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from anneal.cleaning import duplicates, row_store
from anneal.cleaning.similarity import BANDS, PERMUTATIONS, band_hashes, signatures

SHARD = 50_000


def main(what: str, rows: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    started = time.time()
    if what == "rows":
        shards = [_write_rows(folder, n, rows) for n in range(0, rows, SHARD)]
        print(f"written in {time.time() - started:.0f} s")
        started = time.time()
        found = duplicates.find_duplicates(shards, np.zeros(rows, bool)).num_rows
    else:
        found = _pairs(rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{rows} rows, {found} found in {time.time() - started:.0f} s, peak {peak:.1f} GiB")


def _write_rows(folder: Path, start: int, rows: int) -> Path:
    """A shard whose every tenth text repeats the one before but for its last words."""
    path = folder / f"{start:09}-{rows}.parquet"
    if path.is_file():
        return path
    size = min(SHARD, rows - start)
    words = np.random.default_rng(start).integers(0, 20_000, (size, 60)).astype("U5")
    words[9::10, :58] = words[8::10, :58][: len(words[9::10])]
    texts = [" ".join(row) for row in words]
    columns = {
        "id": [f"id{start + n}" for n in range(size)],
        **{"source": ["s"] * size, "file": ["f.jsonl"] * size},
        "line": list(range(start + 1, start + size + 1)),
        **{"instruction": [""] * size, "input": [""] * size, "output": texts},
        "content_key": texts,
        "signature": pa.array(signatures(texts), pa.list_(pa.uint32())),
    }
    pq.write_table(pa.table(columns), path)
    return path


def _pairs(rows: int) -> int:
    with tempfile.TemporaryDirectory(prefix="anneal-") as folder:
        db = duckdb.connect(Path(folder) / "rows.duckdb")
        db.execute(f"SET memory_limit='{row_store.MEMORY}'")
        columns = ", ".join(f"h{band} UBIGINT" for band in range(BANDS))
        db.execute(f"CREATE TABLE firsts (n BIGINT, {columns})")
        for start in range(0, rows, SHARD):
            part = pa.table({"n": np.arange(start, start + SHARD), **_hashes(start)})
            db.execute("INSERT INTO firsts SELECT * FROM part")
            del part
        return sum(len(earlier) for _, earlier in row_store.candidate_pairs(db))


def _hashes(seed: int) -> dict[str, pa.Array]:
    values = np.random.default_rng(seed).integers(0, 2**32, (SHARD, PERMUTATIONS), np.uint32)
    values[9::10, :100] = values[8::10, :100]
    values[5::100, :56] = np.arange(56)
    sizes = np.arange(0, values.size + 1, PERMUTATIONS, dtype=np.int32)
    return band_hashes(pa.ListArray.from_arrays(sizes, values.ravel()))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("what", choices=["rows", "signatures"])
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--folder", type=Path, default=Path("/tmp/anneal-near-duplicates"))
    given = arguments.parse_args()
    main(given.what, given.rows, given.folder)
