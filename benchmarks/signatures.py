"""Time and peak memory of finding candidate pairs among synthetic signatures, out of core.

    python benchmarks/signatures.py --rows 10000000

One row in ten is a near copy of the row before it; one in a hundred shares half of its bands with a
common template.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from measure import HERE

sys.path.insert(0, str(HERE.parent / "scripts"))

from anneal.cleaning import row_store
from anneal.cleaning.similarity import PERMUTATIONS, band_hashes
from anneal.duck import connect

BATCH = 50_000


def main(rows: int) -> None:
    started = time.time()
    with tempfile.TemporaryDirectory(prefix="anneal-") as folder:
        pairs = count_pairs(Path(folder) / "rows.duckdb", rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{rows} rows, {pairs} pairs in {time.time() - started:.0f} s, peak {peak:.1f} GiB")


def count_pairs(path: Path, rows: int) -> int:
    db = connect(path)
    db.execute(f"SET threads={row_store.THREADS}")
    for start in range(0, rows, BATCH):
        part = pa.table({"n": np.arange(start, start + BATCH), **hashes(start)})
        db.register("part", part)
        verb = "INSERT INTO firsts" if start else "CREATE TABLE firsts AS"
        db.execute(f"{verb} SELECT * FROM part")
    return sum(len(earlier) for _, earlier in row_store.candidate_pairs(db))


def hashes(seed: int) -> dict[str, pa.Array]:
    values = np.random.default_rng(seed).integers(0, 2**32, (BATCH, PERMUTATIONS), np.uint32)
    values[9::10, :100] = values[8::10, :100]
    values[5::100, :56] = np.arange(56)
    sizes = np.arange(0, values.size + 1, PERMUTATIONS, dtype=np.int32)
    return band_hashes(pa.ListArray.from_arrays(sizes, values.ravel()))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=1_000_000)
    main(arguments.parse_args().rows)
