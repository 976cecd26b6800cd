"""Readers: each yields rows as (line, offset, value), where a value is a dict or a reject reason.

`line` is the 1-based physical line of a text file, or the 1-based row elsewhere.
"""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import orjson
import pyarrow as pa

from anneal.cli import log
from anneal.errors import UserError

BOM = b"\xef\xbb\xbf"
Row = tuple[int, int | None, dict | str]


def read_rows(source: dict, query: str | None) -> Iterator[Row]:
    """Rows of one shard; `source` is `Shard.as_source()`."""
    readers = {"jsonl": _jsonl, "jsonl.gz": _gzip, "jsonl.zst": _zstd, "parquet": _parquet}
    if source["format"] in ("sqlite", "sql"):
        return _sql(source, query)
    return readers[source["format"]](source)


def _jsonl(source: dict) -> Iterator[Row]:
    with Path(source["file"]).open("rb") as stream:
        stream.seek(source["start"])
        yield from _lines(stream, source["start"], source["end"], source["first_line"])


def _gzip(source: dict) -> Iterator[Row]:
    try:
        with gzip.open(source["file"], "rb") as stream:
            yield from _lines(stream, 0, None, 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        do = "get the whole file again"
        raise UserError(source["file"], f"truncated or damaged gzip: {error}", do) from None


def _zstd(source: dict) -> Iterator[Row]:
    try:
        with pa.CompressedInputStream(pa.OSFile(source["file"]), "zstd") as stream:
            yield from _lines(io.BufferedReader(stream), 0, None, 1)
    except OSError as error:
        do = "get the whole file again"
        raise UserError(source["file"], f"truncated or damaged zstd: {error}", do) from None


def _lines(stream, offset: int, end: int | None, line: int) -> Iterator[Row]:
    marks = 0
    while (end is None or offset < end) and (raw := stream.readline()):
        text = raw.strip()
        if text.startswith(BOM):
            text, marks = text.removeprefix(BOM).strip(), marks + 1
        if text:
            yield line, offset, _parse(text)
        offset += len(raw)
        line += 1
    if marks:
        log.info("dropped %d byte-order mark(s)", marks)


def _parse(text: bytes) -> dict | str:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"not JSON: {error.msg} (column {error.colno})"
    return value if isinstance(value, dict) else f"not an object but {type(value).__name__}"


def _parquet(source: dict) -> Iterator[Row]:
    import pyarrow.parquet as pq

    try:
        line = 0
        with pq.ParquetFile(source["file"]) as file:
            for batch in file.iter_batches(batch_size=4096):
                for value in batch.to_pylist():
                    line += 1
                    yield line, None, value
    except OSError as error:
        raise UserError(source["file"], f"damaged Parquet: {error}", "write it again") from None


def _sql(source: dict, query: str | None) -> Iterator[Row]:
    import sqlalchemy

    engine = sqlalchemy.create_engine(_url(source))
    try:
        with engine.connect().execution_options(stream_results=True) as connection:
            rows = connection.execute(sqlalchemy.text(query)).mappings()
            for line, row in enumerate(rows, 1):
                yield line, None, dict(row)
    except sqlalchemy.exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or type(error).__name__)
        raise UserError(source["file"], f"the query failed: {reason}", "check 'query'") from None
    finally:
        engine.dispose()


def _url(source: dict):
    import sqlalchemy

    if source["format"] == "sqlite":
        file = f"file:{quote(source['file'])}"
        return sqlalchemy.URL.create("sqlite", database=file, query={"mode": "ro", "uri": "true"})
    if not os.environ.get(source["file"]):
        raise UserError(f"${source['file']}", "is not set", "export it with the database URL")
    return os.environ[source["file"]]
