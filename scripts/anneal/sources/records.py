"""Rows into records of the declared kind: columns mapped, types checked, nothing guessed."""

import math
from collections import Counter

import orjson

from anneal.provenance.digests import digest_text
from anneal.records import FIELDS, OPTIONAL

ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant"}
KNOWN_ROLES = {"system", "user", "assistant", "tool"}


class Reject(Exception):
    """A row that cannot become a record; the message is the reason."""


class RecordMaker:
    """Makes records of one kind from one source's rows; counts what it converted.

    Args:
        columns: our field name to the source's column name, where they differ.
    """

    def __init__(self, kind: str, columns: dict[str, str]):
        self.kind, self.columns = kind, columns
        self.converted: Counter[str] = Counter()

    def make(self, row: dict) -> dict:
        """The record's own fields, category, extra columns and id.

        Raises:
            Reject: a field is missing or of another type.
        """
        row = dict(row)
        fields = {name: self._field(name, row) for name in FIELDS[self.kind]}
        category = row.pop(self.columns.get("category", "category"), None)
        extra = orjson.dumps(row, default=str, option=orjson.OPT_SORT_KEYS).decode()
        return {
            **fields,
            "id": digest_text(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode())[:16],
            "category": _stratum(category),
            "extra": extra,
        }

    def _field(self, name: str, row: dict):
        column = self.columns.get(name, name)
        if column not in row and name == "messages":
            column = "conversations"
        value = row.pop(column, None)
        if value is None:
            if name in OPTIONAL:
                return ""
            raise Reject(f"'{column}' is missing or null")
        return self._messages(value, column) if name == "messages" else self._text(value, column)

    def _text(self, value, column: str) -> str:
        if isinstance(value, str):
            if any("\ud800" <= c <= "\udfff" for c in value):
                raise Reject(f"'{column}' holds a lone surrogate")
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Reject(f"'{column}' must be text, not {type(value).__name__}")
        if isinstance(value, float) and not math.isfinite(value):
            raise Reject(f"'{column}' must be text, not {value}")
        self.converted[f"{column}: number to text"] += 1
        return str(value)

    def _messages(self, value, column: str) -> list[dict]:
        if not isinstance(value, list) or not value:
            raise Reject(f"'{column}' must be a list of messages")
        return [self._message(turn, f"{column}[{i}]") for i, turn in enumerate(value)]

    def _message(self, turn, where: str) -> dict:
        if not isinstance(turn, dict):
            raise Reject(f"'{where}' must be an object")
        role = turn.get("role", turn.get("from"))
        role = ROLES.get(role, role) if isinstance(role, str) else role
        if role not in KNOWN_ROLES:
            raise Reject(f"'{where}' has the unknown role {role!r}")
        content = turn.get("content", turn.get("value"))
        return {"role": role, "content": self._text(_joined(content), f"{where}.content")}


def _joined(content):
    """Content parts become one text."""
    if isinstance(content, list) and all(isinstance(p, dict) and "text" in p for p in content):
        return "".join(str(part["text"]) for part in content)
    return content


def _stratum(value) -> str:
    """Null, empty and missing categories are all `none`."""
    text = "" if value is None else str(value).strip()
    return text or "none"
