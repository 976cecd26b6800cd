"""A JSON document of many records, item by item without loading it.

The items of an array at the top, or of the one array of objects inside an object at the top, are
the rows; so is an object at the top that holds no such array. Only brackets, commas and strings
are looked at here. Each item is then parsed by itself, so one bad item costs one row. An array
may hold many items on one line: rows are numbered by item.
"""

import mmap
import re
from collections.abc import Iterator

from anneal.errors import UserError
from anneal.sources.lines import BOM

# A string (its group is the colon that makes it a key), a string cut off by the end, or a mark.
TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"(\s*+:)?|\\?\Z)|[{}\[\],]', re.DOTALL)
LIST, OBJECT, COMMA, QUOTE = b'[{,"'
CLOSES = {ord("]"): LIST, ord("}"): OBJECT}


def wraps_records(head: bytes, names: frozenset[str]) -> bool:
    """Whether the object that `head` begins with is no record but holds an array of them."""
    depth, keys, wraps, before = 0, set(), False, b""
    for token in TOKEN.finditer(head):
        text = token[0]
        if text in (b"}", b"]"):
            depth -= 1
        elif text in (b"{", b"["):
            wraps = wraps or (depth == 2 and text == b"{" and before == b"[")
            depth += 1
        elif token[1] and depth == 1:
            keys.add(_key(token))
        before = text
    return wraps and not keys & names


def stays_open(line: bytes) -> bool:
    """Whether more brackets open than close in a line, outside its strings."""
    marks = [token[0] for token in TOKEN.finditer(line)]
    return sum(m in (b"{", b"[") for m in marks) > sum(m in (b"}", b"]") for m in marks)


class Document:
    """Walks over the text of a document.

    Args:
        names: `formats.column_names()`: an object with such a key is a record.
    """

    def __init__(self, file: str, data: bytes | mmap.mmap, names: frozenset[str]):
        self.file, self.data, self.names = file, data, names
        self.open: list[int] = []
        self.start = 0
        self.level = 0
        self.key = self.wrapped = self.array = None
        self.record = False

    def items(self) -> Iterator[tuple[int, int]]:
        """Start and end of each item's bytes.

        Raises:
            UserError: the document is cut off, damaged, or holds two arrays of records.
        """
        for token in TOKEN.finditer(self.data):
            mark, at = self.data[token.start()], token.start()
            if mark == QUOTE:
                if token[1] and self.open == [OBJECT]:
                    self.key = _key(token)
                    self.record = self.record or self.key in self.names
            elif mark == COMMA:
                if self.level and len(self.open) == self.level:
                    yield self.start, at
                    self.start = at + 1
            elif mark in CLOSES:
                yield from self._close(mark, at)
            else:
                self._open(mark, at)
        self._finish()

    def _open(self, mark: int, at: int) -> None:
        if not self.open:
            self._blank(at)
            self.wrapped, self.array, self.record = None, None, False
            self.start, self.level = (at + 1, 1) if mark == LIST else (at, 0)
        elif self.open == [OBJECT]:
            self.array = at + 1 if mark == LIST and not self.record else None
        elif self.open == [OBJECT, LIST] and mark == OBJECT and self.array and not self.level:
            if not self.data[self.array : at].strip():
                self._wrap()
            self.array = None  # only its first item tells what an array holds
        self.open.append(mark)

    def _wrap(self) -> None:
        if self.wrapped:
            what = f"holds two arrays of records, '{self.wrapped}' and '{self.key}'"
            raise UserError(self.file, what, "keep each in its own file")
        self.wrapped, self.level, self.start = self.key or "?", 2, self.array

    def _close(self, mark: int, at: int) -> Iterator[tuple[int, int]]:
        if not self.open or self.open[-1] != CLOSES[mark]:
            raise self._damaged("damaged", at)
        if self.level and len(self.open) == self.level:
            yield self.start, at
            self.level = 0
        self.open.pop()
        if not self.open:
            if mark == ord("}") and not self.wrapped:
                yield self.start, at + 1
            self.start = at + 1

    def _finish(self) -> None:
        if self.open:
            raise self._damaged("truncated", len(self.data))
        self._blank(len(self.data))

    def _blank(self, end: int) -> None:
        gap = self.data[self.start : end]
        if gap.removeprefix(BOM).strip():
            raise self._damaged("damaged", self.start)

    def _damaged(self, how: str, at: int) -> UserError:
        line = self.data[:at].count(b"\n") + 1
        return UserError(
            f"{self.file}:{line}", f"{how} JSON (byte {at})", "get the whole file again"
        )


def _key(token: re.Match) -> str:
    return token[0][1 : token.start(1) - token.start() - 1].decode("utf-8", "replace")
