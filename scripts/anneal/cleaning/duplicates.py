"""Exact and near duplicates over a whole dataset: the earliest row stays, later copies point to it.

A row is compared with rows already kept only, so rows that come later never change what was
decided about earlier ones, and similarity does not chain. Everything that grows with the data lies
in files: DuckDB joins band hashes to candidate pairs, and real Jaccard similarity decides each.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anneal.cleaning.similarity import BANDS, band_hashes, jaccard, shingle_hashes
from anneal.cleaning.texts import full_text
from anneal.records import IDENTITY, fields_among

# In a bucket of more rows, a row is compared with its first rows only. A pair is lost if the
# earlier row comes later than that in every bucket the two share.
BUCKET = 100
MEMORY, THREADS = "1GB", 4


def find_duplicates(
    shards: list[Path],
    skip: set[tuple[str, str, int]],
    exact: bool = True,
    near: bool = True,
    threshold: float = 0.85,
) -> list[dict]:
    """Duplicates in order of appearance, as rows of `records.DROP`.

    Args:
        shards: cleaned shards, in the order that decides which row is earlier.
        skip: (source, file, line) of rows that take no part.
        threshold: Jaccard similarity from which a row is a near duplicate; `value` gives it.
    """
    with tempfile.TemporaryDirectory(prefix="anneal-") as name:
        folder = Path(name)
        with duckdb.connect(folder / "rows.duckdb") as db:
            db.execute(f"SET memory_limit='{MEMORY}'; SET threads={THREADS}")
            db.execute("SET preserve_insertion_order=false")
            _load(db, shards, skip, near)
            _name_first(db, exact)
            pairs = candidate_pairs(db) if near else iter(())
            _store(db, _decide(pairs, _Shingles(db, shards, folder), threshold))
            return _drops(db)


def _load(db, shards: list[Path], skip: set[tuple[str, str, int]], near: bool) -> None:
    """Table `record`: a number in order of appearance, place, content key and band hashes."""
    hashes = ", ".join(f"h{band} UBIGINT" for band in range(BANDS))
    db.execute(
        "CREATE TABLE record (n BIGINT, shard INT, spot BIGINT, id VARCHAR, source VARCHAR, "
        f"file VARCHAR, line BIGINT, content_key VARCHAR, {hashes})"
    )
    n = 0
    for number, shard in enumerate(shards):
        at = 0
        columns = [*IDENTITY, "content_key", "signature"]
        for batch in pq.ParquetFile(shard).iter_batches(columns=columns):
            size, signatures = batch.num_rows, batch.column("signature")
            part = pa.table(
                {
                    "n": np.arange(n, n + size),
                    "shard": pa.repeat(pa.scalar(number, pa.int32()), size),
                    "spot": np.arange(at, at + size),
                    **{name: batch.column(name) for name in (*IDENTITY, "content_key")},
                    **(band_hashes(signatures) if near else _no_hashes(size)),
                }
            )
            n, at = n + size, at + size
            part = part.filter(_taking_part(batch, skip)) if skip else part
            db.register("part", part)
            db.execute("INSERT INTO record SELECT * FROM part")


def _no_hashes(size: int) -> dict[str, pa.Array]:
    return {f"h{band}": pa.nulls(size, pa.uint64()) for band in range(BANDS)}


def _taking_part(batch: pa.RecordBatch, skip: set[tuple[str, str, int]]) -> pa.Array:
    columns = (batch.column(name).to_pylist() for name in ("source", "file", "line"))
    return pa.array([row not in skip for row in zip(*columns, strict=True)])


def _name_first(db, exact: bool) -> None:
    """Table `copy`: each row and the first row of its content, which alone is compared on."""
    first = "min(n) OVER (PARTITION BY content_key)" if exact else "n"
    db.execute(f"CREATE TABLE copy AS SELECT n, {first} AS first FROM record")
    db.execute(
        "CREATE TABLE firsts AS SELECT record.* FROM record JOIN copy USING (n) WHERE first = n"
    )


def candidate_pairs(db, bucket: int = BUCKET) -> Iterator[tuple[int, list[int]]]:
    """Rows of table `firsts` with the earlier rows that share a band hash, in order."""
    db.execute("CREATE TABLE pair (later BIGINT, earlier BIGINT)")
    for band in range(BANDS):
        db.execute(
            f"""
            INSERT INTO pair
            WITH shared AS (SELECT h{band} AS h FROM firsts GROUP BY h HAVING count(*) > 1),
            placed AS (
                SELECT n, h{band} AS h, row_number() OVER (PARTITION BY h{band} ORDER BY n) AS place
                FROM firsts WHERE h{band} IN (FROM shared)
            )
            SELECT later.n, earlier.n FROM placed AS later JOIN placed AS earlier USING (h)
            WHERE earlier.n < later.n AND earlier.place <= {bucket}
            """
        )
    db.execute(
        "CREATE TABLE candidates AS SELECT later, list(DISTINCT earlier ORDER BY earlier) "
        "AS earlier FROM pair GROUP BY later; DROP TABLE pair"
    )
    cursor = db.cursor().execute("SELECT later, earlier FROM candidates ORDER BY later")
    while rows := cursor.fetchmany(10_000):
        yield from rows


def _decide(pairs, shingles: "_Shingles", threshold: float) -> Iterator[tuple[int, int, float]]:
    """(row, kept row, similarity) of near duplicates; a row that was dropped is no candidate."""
    dropped: set[int] = set()
    for later, candidates in pairs:
        mine = shingles.of(later)
        for earlier in candidates:
            if earlier not in dropped:
                similarity = jaccard(mine, shingles.of(earlier))
                if similarity >= threshold:
                    dropped.add(later)
                    yield later, earlier, similarity
                    break


class _Shingles:
    """Hashed shingles of the rows that have a candidate, in one memory-mapped file."""

    def __init__(self, db, shards: list[Path], folder: Path):
        self.db, self.shards, self.path = db, shards, folder / "shingles.u64"
        self.numbers = self.values = None

    def of(self, n: int) -> np.ndarray:
        if self.numbers is None:
            self._write()
        at = np.searchsorted(self.numbers, n)
        return self.values[self.starts[at] : self.starts[at + 1]]

    def _write(self) -> None:
        db = self.db.cursor()
        wanted = db.execute(
            "SELECT n, shard, spot FROM firsts WHERE n IN (SELECT later FROM candidates UNION "
            "SELECT unnest(earlier) FROM candidates) ORDER BY n"
        ).fetchnumpy()
        self.numbers, sizes = wanted["n"], [0]
        with self.path.open("wb") as file:
            for shard in np.unique(wanted["shard"]):
                for text in _texts(self.shards[shard], wanted["spot"][wanted["shard"] == shard]):
                    hashes = shingle_hashes(text)
                    file.write(hashes.tobytes())
                    sizes.append(len(hashes))
        self.starts = np.cumsum(sizes)
        self.values = np.memmap(self.path, np.uint64, "r")


def _texts(shard: Path, wanted: np.ndarray) -> Iterator[str]:
    columns = fields_among(pq.read_schema(shard).names)
    start = 0
    for batch in pq.ParquetFile(shard).iter_batches(columns=columns):
        inside = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        yield from map(full_text, batch.take(pa.array(inside)).to_pylist())
        start += batch.num_rows


def _store(db, decisions) -> None:
    """Table `near`: the near duplicates, with the kept row and the similarity of each."""
    db.execute("CREATE TABLE near (n BIGINT, kept BIGINT, similarity DOUBLE)")
    columns = list(zip(*decisions, strict=True)) or [(), (), ()]
    found = pa.table(dict(zip(("n", "kept", "similarity"), map(pa.array, columns), strict=True)))
    db.register("found", found)
    db.execute("INSERT INTO near SELECT * FROM found")


def _drops(db) -> list[dict]:
    """A copy of a row that is itself a near duplicate shares its fate."""
    return (
        db.sql(
            """
            SELECT record.id, record.source, record.file, record.line,
                if(near.n IS NULL, 'exact_duplicate', 'near_duplicate') AS rule,
                coalesce(round(near.similarity, 4), 1.0) AS value,
                kept.id AS kept_id, kept.source AS kept_source,
                kept.file AS kept_file, kept.line AS kept_line
            FROM copy JOIN record USING (n) LEFT JOIN near ON near.n = copy.first
            JOIN record AS kept ON kept.n = coalesce(near.kept, copy.first)
            WHERE near.n IS NOT NULL OR copy.first < copy.n
            ORDER BY copy.n
            """
        )
        .to_arrow_table()
        .to_pylist()
    )


def clusters(drops: list[dict], most: int = 5) -> list[dict]:
    """The rows that stand for most duplicates: `kept` as file:line, `id` and `removed`."""
    sizes: dict[tuple, int] = defaultdict(int)
    for drop in drops:
        if drop["rule"].endswith("_duplicate"):
            sizes[drop["kept_file"], drop["kept_line"], drop["kept_id"]] += 1
    largest = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:most]
    return [{"kept": f"{f}:{line}", "id": i, "removed": n} for (f, line, i), n in largest]
