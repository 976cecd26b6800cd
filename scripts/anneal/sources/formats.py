"""What a file holds, told by its first bytes and never by its name."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import orjson

from anneal.errors import UserError
from anneal.records import FIELDS
from anneal.sources.document import stays_open, wraps_records
from anneal.sources.lines import BOM

HEAD = 1 << 16
DELIMITERS = ",\t;|"
TABLES = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",  # a stream of it
    b"SQLite format 3\0": "sqlite",
}
PACKED = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst"}
REFUSED = (
    (rb"PK\x03\x04", "a zip archive or an office file", "unpack or export it"),
    (rb"BZh\d1AY&SY", "bzip2", "pack it with gzip or zstd"),
    (rb"\xfd7zXZ\0", "xz", "pack it with gzip or zstd"),
    (rb"\xff\xfe[^\0]\0|\xfe\xff\0[^\0]", "UTF-16 text", "save it as UTF-8"),
)


def column_names(kind: str, columns: dict[str, str]) -> frozenset[str]:
    """Names under which a source may hold its fields."""
    own = {columns.get(name, name) for name in FIELDS[kind]}
    return frozenset(own | ({"conversations"} if kind == "chat" else set()))


def sniff(path: str | Path, names: frozenset[str] = frozenset()) -> str:
    """`jsonl`, `json` or `csv`, each also with `.gz` or `.zst`; `parquet`, `arrow` or `sqlite`.

    Args:
        names: `column_names()`; a table is known by them, and a record from a wrapper.

    Raises:
        UserError: the file cannot be opened, or is packed or coded in another way.
    """
    try:
        with Path(path).open("rb") as stream:
            start = stream.read(16)
    except OSError as error:
        raise UserError(str(path), f"cannot be opened: {error.strerror}", "check it") from None
    packed = _named(PACKED, start)
    with opened(path, packed) as stream:
        head = stream.read(HEAD)
    for pattern, what, do in REFUSED:
        if re.match(pattern, head, re.DOTALL):
            raise UserError(str(path), f"is {what}", do)
    table = _named(TABLES, head)
    if table and packed:
        raise UserError(str(path), f"is {table} packed again", "unpack it")
    return table or f"{_text_format(head, names)}{'.' if packed else ''}{packed}"


def is_blank(path: str | Path) -> bool:
    """Whether a file, unpacked, holds white space alone; it is read up to the first other byte."""
    with Path(path).open("rb") as stream:
        packed = _named(PACKED, stream.read(16))
    with opened(path, packed) as stream:
        return not any(
            block.removeprefix(BOM).strip() for block in iter(lambda: stream.read(HEAD), b"")
        )


@contextmanager
def opened(path: str | Path, packed: str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked.

    Raises:
        UserError: it is cut off or damaged.
    """
    try:
        with _stream(str(path), packed) as stream:
            yield stream
    except (EOFError, zlib.error, OSError) as error:
        if not packed:
            raise
        name = {"gz": "gzip", "zst": "zstd"}[packed]
        do = "get the whole file again"
        raise UserError(str(path), f"truncated or damaged {name}: {error}", do) from None


def _stream(path: str, packed: str) -> BinaryIO:
    if packed == "gz":
        return gzip.open(path, "rb")
    if packed == "zst":
        import io

        import pyarrow as pa

        return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(path), "zstd"))
    return Path(path).open("rb")


def delimiter(head: bytes, names: frozenset[str]) -> str | None:
    """What cuts a table's first line into column names; None if this is no table."""
    lines = _text_lines(head)
    if not lines:
        return None
    header, second = (line.decode("utf-8", "replace") for line in (*lines, b"")[:2])
    if "\ufffd" in header or not header.replace("\t", " ").isprintable():
        return None
    found = [(_score(cut(header, d), names), d) for d in DELIMITERS]
    (declared, width), best = max(found, key=lambda pair: pair[0])
    alike = width > 1 and len(cut(second, best)) == width
    return best if declared or (alike and not any(map(_is_object, lines))) else None


def cut(line: str, mark: str) -> list[str]:
    """The fields of one line of a table; none if its quotes do not fit."""
    try:
        return next(csv.reader([line], delimiter=mark, strict=True), [])
    except csv.Error:
        return []


def _score(fields: list[str], names: frozenset[str]) -> tuple[int, int]:
    return len(names & {field.strip() for field in fields}), len(fields)


def _text_format(head: bytes, names: frozenset[str]) -> str:
    lines = _text_lines(head)
    if lines and lines[0][:1] in (b"{", b"["):
        return "json" if _is_document(lines, names) else "jsonl"
    return "csv" if delimiter(head, names) else "jsonl"


def _is_document(lines: list[bytes], names: frozenset[str]) -> bool:
    """Whether JSON text is one value over many lines, and not one value a line.

    The first line of a document opens what a later one closes, and an object that fills its line
    can only follow `[`, `,` or `:`.
    """
    first = lines[0]
    if len(lines) == 1:
        return first.startswith(b"[") or wraps_records(first, names)
    if _parses(first):
        return False
    pairs = pairwise(lines)
    if any(_is_object(line) and before[-1:] not in b"[,:" for before, line in pairs):
        return False
    return stays_open(first) and (first[-1:] in b"[{,:}]" or lines[1][:1] in b",]}")


def _text_lines(head: bytes) -> list[bytes]:
    lines = (line.strip() for line in head.removeprefix(BOM).split(b"\n", 200))
    return [line for line in lines if line]


def _is_object(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}") and _parses(line)


def _parses(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _named(known: dict[bytes, str], head: bytes) -> str:
    return next((name for magic, name in known.items() if head.startswith(magic)), "")
