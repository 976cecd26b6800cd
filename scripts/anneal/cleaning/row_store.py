"""The rows of a dataset in a DuckDB file, and which of them may be near duplicates of each other.

Rows are numbered in order of appearance. Everything that grows with the data lies in files: DuckDB
joins band hashes to candidate pairs, and the shingles that decide each pair are memory-mapped.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anneal.cleaning.similarity import BANDS, band_hashes, jaccard, shingle_sets
from anneal.cleaning.texts import full_text
from anneal.duck import connect
from anneal.records import fields_among

# In a bucket of more rows, a row is compared with its first rows only. A pair is lost if the
# earlier row comes later than that in every bucket the two share.
BUCKET = 100
THREADS, FETCH = 4, 10_000


class RowStore:
    """Table `record` of the rows that take part: `n`, `shard`, `spot`, `content_key`, band hashes
    and what `derive` makes. Table `firsts` has the first row of each content. Both are in `db`.

    Args:
        shards: cleaned shards, in the order that decides which row is earlier.
        skip: bool by row number: rows that take no part.
        columns: read besides, for `derive`, which makes columns of a batch.
        near: whether band hashes are wanted.
        distinct: whether rows of equal content count as one.
    """

    def __init__(
        self,
        shards: list[Path],
        skip: np.ndarray,
        columns: list[str],
        derive: Callable[[pa.RecordBatch], dict[str, pa.Array]],
        near: bool = True,
        distinct: bool = True,
    ):
        self.shards, self.skip, self.near, self.distinct = shards, skip, near, distinct
        self.columns, self.derive = columns, derive

    def __enter__(self) -> "RowStore":
        self.folder = tempfile.TemporaryDirectory(prefix="anneal-")
        self.db = connect(Path(self.folder.name) / "rows.duckdb")
        self.db.execute(f"SET threads={THREADS}")
        self.db.execute("SET preserve_insertion_order=false")
        self._load()
        self._name_first()
        self.shingles = None
        return self

    def __exit__(self, *_) -> None:
        self.db.close()
        self.folder.cleanup()

    def pairs(self) -> Iterator[tuple[int, list[int]]]:
        """Rows with the earlier rows that share a band hash, both ascending."""
        return candidate_pairs(self.db) if self.near else iter(())

    def similarity(self, a: int, b: int) -> float:
        """Jaccard similarity of the shingles of two rows of a candidate pair."""
        self.shingles = self.shingles or _Shingles(self.db, self.shards, Path(self.folder.name))
        return jaccard(self.shingles.of(a), self.shingles.of(b))

    def _load(self) -> None:
        columns = [*self.columns, "content_key", *(["signature"] if self.near else [])]
        schema = pq.read_schema(self.shards[0])
        empty = pa.RecordBatch.from_pylist([], pa.schema([schema.field(c) for c in columns]))
        self._insert("CREATE TABLE record AS", empty, 0, 0, 0)
        n = 0
        for number, shard in enumerate(self.shards):
            at = 0
            for batch in pq.ParquetFile(shard).iter_batches(columns=columns):
                self._insert("INSERT INTO record", batch, n, number, at)
                n, at = n + batch.num_rows, at + batch.num_rows

    def _insert(self, verb: str, batch: pa.RecordBatch, n: int, shard: int, at: int) -> None:
        size = batch.num_rows
        numbers = np.arange(n, n + size)
        part = pa.table(
            {
                "n": numbers,
                "shard": pa.repeat(pa.scalar(shard, pa.int32()), size),
                "spot": np.arange(at, at + size),
                "content_key": batch.column("content_key"),
                **self.derive(batch),
                **(band_hashes(batch.column("signature")) if self.near else {}),
            }
        )
        part = part.filter(pa.array(~self.skip[numbers]))
        self.db.register("part", part)
        self.db.execute(f"{verb} SELECT * FROM part")

    def _name_first(self) -> None:
        """Table `copy`: each row and the first row of its content, which alone is compared on."""
        first = "min(n) OVER (PARTITION BY content_key)" if self.distinct else "n"
        self.db.execute(f"CREATE TABLE copy AS SELECT n, {first} AS first FROM record")
        self.db.execute(
            "CREATE TABLE firsts AS SELECT record.* FROM record JOIN copy USING (n) WHERE first = n"
        )


def candidate_pairs(db, bucket: int = BUCKET) -> Iterator[tuple[int, list[int]]]:
    """Rows of table `firsts` with the earlier rows that share a band hash, in order."""
    if not db.execute("FROM duckdb_tables() WHERE table_name = 'candidates'").fetchall():
        _join_bands(db, bucket)
    cursor = db.cursor().execute("SELECT later, earlier FROM candidates ORDER BY later")
    while rows := cursor.fetchmany(FETCH):
        yield from rows


def _join_bands(db, bucket: int) -> None:
    """Table `candidates`: later row, list of earlier rows."""
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


class _Shingles:
    """Hashed shingles of the rows that have a candidate, in one memory-mapped file."""

    def __init__(self, db, shards: list[Path], folder: Path):
        wanted = (
            db.cursor()
            .execute(
                "SELECT n, shard, spot FROM firsts WHERE n IN (SELECT later FROM candidates UNION "
                "SELECT unnest(earlier) FROM candidates) ORDER BY n"
            )
            .fetchnumpy()
        )
        path, sizes = folder / "shingles.u64", [0]
        with path.open("wb") as file:
            for shard in np.unique(wanted["shard"]):
                for texts in _texts(shards[shard], wanted["spot"][wanted["shard"] == shard]):
                    for hashes in shingle_sets(texts):
                        file.write(hashes.tobytes())
                        sizes.append(len(hashes))
        self.numbers, self.starts = wanted["n"], np.cumsum(sizes)
        self.values = np.memmap(path, np.uint64, "r")

    def of(self, n: int) -> np.ndarray:
        at = np.searchsorted(self.numbers, n)
        return self.values[self.starts[at] : self.starts[at + 1]]


def _texts(shard: Path, wanted: np.ndarray) -> Iterator[list[str]]:
    columns = fields_among(pq.read_schema(shard).names)
    start = 0
    for batch in pq.ParquetFile(shard).iter_batches(5_000, columns=columns):
        inside = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        yield [full_text(row) for row in batch.take(pa.array(inside)).to_pylist()]
        start += batch.num_rows
