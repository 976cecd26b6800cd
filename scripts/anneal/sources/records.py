"""Rows into records of the declared kind: columns mapped, types checked, nothing guessed."""

import json

import orjson

from anneal.provenance.digests import digest_text
from anneal.records import FIELDS, MESSAGES, OPTIONAL
from anneal.sources.lines import too_large
from anneal.sources.values import Reject, Values, pair

# The role of a message that is given as plain text, by field.
ROLE = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}


class RecordMaker:
    """Makes records of one kind from one source's rows; counts what it converted.

    Args:
        columns: our field name to the source's column name, where they differ.
        limit: largest record in bytes.
        tags: labels of the source, kept with each record as `source_tags`.
    """

    def __init__(self, kind: str, columns: dict[str, str], limit: int, tags: list[str]):
        self.kind, self.columns, self.limit, self.tags = kind, columns, limit, tags
        self.values = Values()

    def make(self, row: dict) -> dict:
        """The record's own fields, category, extra columns and id.

        Raises:
            Reject: a field is missing or of another type, or the row is too large.
        """
        row, column = dict(row), self.columns.get("category", "category")
        value = row.get(column)  # the column may be a field's too
        fields = self._pair(row) if self.kind == "preference" else self._fields(row)
        category = self._stratum(value, column)
        row.pop(column, None)
        text, extra = _json(fields), _json(row | ({"source_tags": self.tags} if self.tags else {}))
        if (size := len(text) + len(extra)) > self.limit:
            raise Reject(too_large(size, self.limit))
        return {
            **fields,
            "id": digest_text(text.decode())[:16],
            "category": category,
            "extra": extra.decode(),
        }

    def _fields(self, row: dict) -> dict:
        return {name: self._field(name, row) for name in FIELDS[self.kind]}

    def _field(self, name: str, row: dict):
        column, value = self._take(name, row)
        if value is None:
            if name in OPTIONAL:
                return ""
            raise Reject(f"'{column}' is missing or null")
        if FIELDS[self.kind][name] == MESSAGES:
            return self.values.messages(value, column, ROLE.get(name))
        if name == "tools":
            return self.values.json_list(value, column)
        return self.values.text(value, column)

    def _pair(self, row: dict) -> dict:
        column, value = self._take("prompt", row)
        prompt = [] if value is None else self.values.messages(value, column, "user")
        return pair(prompt, self._field("chosen", row), self._field("rejected", row))

    def _take(self, name: str, row: dict) -> tuple[str, object]:
        column = self.columns.get(name, name)
        if column not in row and name == "messages":
            column = "conversations"
        return column, row.pop(column, None)

    def _stratum(self, value, column: str) -> str:
        """Null, empty and missing categories are all `none`."""
        if value is None or value != value:  # NaN
            return "none"
        if isinstance(value, str | bytes | dict | list):
            value = self.values.text(value, column).strip()
        if not isinstance(value, str) or not value:
            self.values.converted[f"category: {'empty to none' if value == '' else 'to text'}"] += 1
        return str(value) or "none"


def _json(value) -> bytes:
    """JSON with sorted keys.

    Raises:
        Reject: text in it is not UTF-8.
    """
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        pass
    try:  # integers of more than 64 bits
        text = json.dumps(value, default=str, sort_keys=True, ensure_ascii=False)
        return text.encode("utf-8")
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        raise Reject(f"a column does not become JSON: {type(error).__name__}") from None
