"""CSV and its kin: rows with their first physical line, also where quoted fields hold line ends."""

import csv
import io
from collections import deque
from collections.abc import Iterator

from anneal.errors import UserError
from anneal.sources.formats import HEAD, delimiter
from anneal.sources.lines import BOM, Row, is_unicode, read_line, too_large

# A row of so many lines is an open quote; its lines are held until its end is found.
ROW_LINES = 100_000


def table_text_rows(file: str, stream, names: frozenset[str], limit: int) -> Iterator[Row]:
    """Rows of a table whose first line names its columns.

    A row that does not fit gives up its first line alone: reading goes on at the next line, so
    an open quote costs one row and not the rest of the file.

    Args:
        limit: largest row in bytes.
    """
    csv.field_size_limit(limit + 1)
    lines = _Lines(stream, limit)
    mark = delimiter(lines.head(), names) or ","
    reader = csv.reader(lines, delimiter=mark, strict=True)
    header = _header(file, reader)
    lines.taken(whole=True)
    while True:
        try:
            value = _value(next(reader), header)
        except StopIteration:
            return
        except (csv.Error, _TooLarge) as error:
            value = str(error)
        place = lines.line, lines.offset
        lines.taken(whole=not isinstance(value, str))
        if value is not None:
            yield *place, value


class _TooLarge(Exception):
    """A row grew beyond the limit."""


class _Lines:
    """Decoded lines of a stream; all lines of a bad row but its first can be read again."""

    def __init__(self, stream, limit: int):
        self.stream, self.limit = stream, limit
        self.row: list[tuple[bytes, int]] = []
        self.again: deque[tuple[bytes, int]] = deque()
        self.size = 0
        self.line, self.offset = 1, 0

    def head(self) -> bytes:
        """The beginning of the stream; it is read again."""
        head = self.stream.read(HEAD)
        rest, size = read_line(self.stream, self.limit)
        lines = list(io.BytesIO(head + rest))
        self.again.extend((line, len(line)) for line in lines[:-1])
        self.again.extend((line, len(line) + size - len(rest)) for line in lines[-1:])
        return head + rest

    def __iter__(self):
        return self

    def __next__(self) -> str:
        raw, size = self.again.popleft() if self.again else read_line(self.stream, self.limit)
        if not raw:
            raise StopIteration
        self.row.append((raw, size))
        self.size += size
        if self.size > self.limit:
            raise _TooLarge(too_large(self.size, self.limit))
        if len(self.row) > ROW_LINES:
            raise _TooLarge(f"a row of more than {ROW_LINES} lines; is a quote left open?")
        start = self.offset == 0 and len(self.row) == 1
        return (raw.removeprefix(BOM) if start else raw).decode("utf-8", "surrogateescape")

    def taken(self, whole: bool) -> None:
        """Go on behind the row in hand, or behind its first line alone."""
        done = self.row if whole else self.row[:1]
        self.again.extendleft(reversed(self.row[len(done) :]))
        self.line += len(done)
        self.offset += sum(size for _, size in done)
        self.row, self.size = [], 0


def _header(file: str, reader) -> list[str]:
    try:
        names = [name.strip() for name in next(reader, [])]
    except (csv.Error, _TooLarge) as error:
        raise UserError(f"{file}:1", f"no line of column names: {error}", "mend it") from None
    names = [name or f"column {i}" for i, name in enumerate(names, 1)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{file}:1", f"two columns are called '{twice}'", "rename one")
    return names


def _value(fields: list[str], header: list[str]) -> dict | str | None:
    if not fields:
        return None
    if len(fields) != len(header):
        return f"{len(fields)} fields where the first line names {len(header)} columns"
    if not all(map(is_unicode, fields)):
        return "not UTF-8"
    return dict(zip(header, fields, strict=True))
