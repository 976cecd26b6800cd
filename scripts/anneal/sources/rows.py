"""The rows of one piece of a source, whatever its format."""

import mmap
import shutil
import tempfile
from collections.abc import Iterator

from anneal.sources.document import Document
from anneal.sources.formats import column_names, opened
from anneal.sources.lines import Row, json_lines, parse, too_large
from anneal.sources.table_text import table_text_rows

# Bytes of a document that was read and may still lie in memory.
WINDOW = 16_000_000


def read_rows(piece: dict, settings: dict) -> Iterator[Row]:
    """Rows of one piece.

    Args:
        piece: `Shard.as_source()`.
        settings: `kind`, `columns`, `query` and `max_row_mb`.
    """
    kind, _, packed = piece["format"].partition(".")
    if kind in ("sqlite", "sql"):
        from anneal.sources.database import query_rows

        yield from query_rows(piece, settings["query"])
    elif kind in ("parquet", "arrow"):
        from anneal.sources.tables import table_rows

        yield from table_rows(piece)
    else:
        with opened(piece["file"], packed) as stream:
            yield from _text_rows(piece, stream, settings)


def _text_rows(piece: dict, stream, settings: dict) -> Iterator[Row]:
    kind, _, packed = piece["format"].partition(".")
    names = column_names(settings["kind"], settings["columns"])
    limit = int(settings["max_row_mb"] * 1e6)
    if kind == "jsonl":
        end = None if packed else piece["end"]
        if piece["start"]:
            stream.seek(piece["start"])
        yield from json_lines(stream, piece["start"], end, piece["first_line"], limit)
    elif kind == "csv":
        yield from table_text_rows(piece["file"], stream, names, limit)
    else:
        yield from _document_rows(piece["file"], stream, packed, names, limit)


def _document_rows(file: str, stream, packed, names, limit: int) -> Iterator[Row]:
    """A packed document is unpacked into a nameless file first: only a file can be mapped."""
    with tempfile.TemporaryFile() as unpacked:
        if packed:
            shutil.copyfileobj(stream, unpacked)
            unpacked.flush()
        whole = unpacked if packed else stream
        with mmap.mmap(whole.fileno(), 0, access=mmap.ACCESS_READ) as data:
            number, forgotten = 0, 0
            for start, end in Document(file, data, names).items():
                if start - forgotten > WINDOW:
                    data.madvise(mmap.MADV_DONTNEED, 0, start // mmap.PAGESIZE * mmap.PAGESIZE)
                    forgotten = start
                raw = data[start : min(end, start + limit + 1)]
                text = raw.strip()
                if text:
                    number += 1
                    value = too_large(end - start, limit) if len(raw) > limit else parse(text)
                    yield number, start + len(raw) - len(raw.lstrip()), value
