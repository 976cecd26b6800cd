"""JSON lines, and lines that may be too large to hold.

A row is (line, offset, value): the 1-based physical line of a text file, or the 1-based row
elsewhere; the byte offset, where there is one; and a dict, or the reason to reject the row.
"""

from collections.abc import Iterator

import orjson

from anneal.cli import log

BOM = b"\xef\xbb\xbf"
CHUNK = 1 << 20
Row = tuple[int, int | None, dict | str]


def json_lines(stream, start: int, end: int | None, line: int, limit: int) -> Iterator[Row]:
    """Rows of the lines that begin in the byte range [start, end); blank lines are no rows.

    Args:
        line: number of the first line.
        limit: largest row in bytes.
    """
    offset, marks = start, 0
    while end is None or offset < end:
        raw, size = read_line(stream, limit)
        if not raw:
            break
        text = raw.strip()
        if text.startswith(BOM):
            text, marks = text.removeprefix(BOM).strip(), marks + 1
        if text:
            yield line, offset, too_large(size, limit) if size > limit else parse(text)
        offset, line = offset + size, line + 1
    if marks:
        log.info("dropped %d byte-order mark(s)", marks)


def read_line(stream, limit: int) -> tuple[bytes, int]:
    """A line, cut behind `limit` bytes, and its whole size; nothing and 0 at the end."""
    raw = piece = stream.readline(limit + 1)
    size = len(raw)
    while size > limit and not piece.endswith(b"\n") and (piece := stream.readline(CHUNK)):
        size += len(piece)
    return raw, size


def too_large(size: int, limit: int) -> str:
    return f"a row of {size / 1e6:.1f} MB, more than max_row_mb {limit / 1e6:g}"


def is_unicode(text: str) -> bool:
    """Whether text can be written as UTF-8: no lone surrogate, no stand-in for an odd byte."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def parse(text: bytes) -> dict | str:
    """A JSON object, or why it is none. Bytes that are no UTF-8 and lone surrogates are refused."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "UTF-8" in error.msg:
            return "not UTF-8"
        return f"not JSON: {error.msg} (column {error.colno})"
    return value if isinstance(value, dict) else f"not an object but {type(value).__name__}"
