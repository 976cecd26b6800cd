"""One value of a row as text, as messages or as a preference pair; nothing is guessed."""

import math
from collections import Counter
from decimal import Decimal

import orjson

from anneal.sources.lines import is_unicode

MAPPED_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant"}
ROLES = {"system", "user", "assistant", "tool"}
MESSAGE_KEYS = {"role", "from", "content", "value", "name", "tool_calls", "tool_call_id"}
# Beyond this, a JSON number read as a float may have lost digits.
EXACT = 2**53


class Reject(Exception):
    """A row that cannot become a record; the message is the reason."""


class Values:
    """Converts values without loss, or rejects them; `converted` counts by column and kind."""

    def __init__(self):
        self.converted: Counter[str] = Counter()

    def text(self, value, column: str) -> str:
        """Text; a number or UTF-8 bytes become text."""
        if isinstance(value, str):
            if not is_unicode(value):
                raise Reject(f"'{column}' holds a lone surrogate or is not UTF-8")
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return self._decoded(bytes(value), column)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise Reject(f"'{column}' must be text, not {type(value).__name__}")
        if not math.isfinite(value) or (isinstance(value, float) and abs(value) >= EXACT):
            raise Reject(f"'{column}' must be text, and {value} does not become it without loss")
        self.converted[f"{column}: number to text"] += 1
        return str(value)

    def messages(self, value, column: str, role: str | None = None) -> list[dict]:
        """A list of messages as in `records.MESSAGES`.

        Args:
            role: plain text becomes one message of this role; without it, text must be JSON.
        """
        if isinstance(value, str) and role is None:
            value = self.json(value, column)
        if isinstance(value, dict):
            value = [value]
        if not isinstance(value, list) and role:
            return [_message(role, self.text(value, column))]
        if not isinstance(value, list) or not value:
            raise Reject(f"'{column}' must be a list of messages")
        return [self._turn(turn, f"{column}[{i}]") for i, turn in enumerate(value)]

    def json(self, value: str, column: str):
        """A value that a table holds as JSON text."""
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise Reject(f"'{column}' is text, and not JSON") from None
        self.converted[f"{column}: JSON text"] += 1
        return parsed

    def json_list(self, value, column: str) -> str:
        """A list of objects, or its JSON text, as JSON text."""
        value = self.json(value, column) if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise Reject(f"'{column}' must be a list of objects")
        try:
            return orjson.dumps(value).decode()
        except TypeError as error:
            raise Reject(f"'{column}' does not become JSON: {error}") from None

    def _decoded(self, value: bytes, column: str) -> str:
        try:
            text = value.decode("utf-8")
        except UnicodeDecodeError:
            raise Reject(f"'{column}' holds bytes that are not UTF-8") from None
        self.converted[f"{column}: bytes to text"] += 1
        return text

    def _turn(self, turn, where: str) -> dict:
        if not isinstance(turn, dict):
            raise Reject(f"'{where}' must be an object")
        role = turn.get("role", turn.get("from"))
        role = MAPPED_ROLES.get(role, role) if isinstance(role, str) else role
        if not isinstance(role, str) or role not in ROLES:
            raise Reject(f"'{where}' has the unknown role {role!r}")
        for key in turn.keys() - MESSAGE_KEYS:
            self.converted[f"{where.split('[')[0]}: left out '{key}'"] += 1
        calls, content = turn.get("tool_calls"), turn.get("content", turn.get("value"))
        calls = self.json_list(calls, f"{where}.tool_calls") if calls else None
        text = "" if content is None and calls else self._content(content, f"{where}.content")
        more = {name: self._optional(turn, name, where) for name in ("name", "tool_call_id")}
        return _message(role, text, tool_calls=calls, **more)

    def _content(self, content, where: str) -> str:
        """Content parts become one text."""
        if isinstance(content, list):
            if not all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in content):
                raise Reject(f"'{where}' has a part that is no text")
            return "".join(self.text(part["text"], where) for part in content)
        return self.text(content, where)

    def _optional(self, turn: dict, name: str, where: str) -> str | None:
        return None if turn.get(name) is None else self.text(turn[name], f"{where}.{name}")


def pair(prompt: list[dict], chosen: list[dict], rejected: list[dict]) -> dict[str, list[dict]]:
    """A preference pair without the messages that both answers begin with: they are the prompt.

    Raises:
        Reject: there is no prompt, it differs from the shared one, or the answers are equal.
    """
    if chosen == rejected:
        raise Reject("'chosen' and 'rejected' are equal")
    shared = _shared(chosen, rejected)
    if shared and shared[0]["role"] == "assistant":
        prompt = prompt + shared
    elif shared and prompt not in ([], shared[-len(prompt) :], shared[: len(prompt)]):
        raise Reject("'prompt' differs from the one inside 'chosen' and 'rejected'")
    elif shared:
        prompt = shared
    if not prompt:
        raise Reject("'prompt' is missing, and 'chosen' and 'rejected' share none")
    return {"prompt": prompt, "chosen": chosen[len(shared) :], "rejected": rejected[len(shared) :]}


def _shared(chosen: list[dict], rejected: list[dict]) -> list[dict]:
    """The messages both begin with; each keeps at least one of its own."""
    most = min(len(chosen), len(rejected)) - 1
    same = (i for i in range(most) if chosen[i] != rejected[i])
    return chosen[: next(same, most)]


def _message(role: str, content: str, **more) -> dict:
    empty = {"name": None, "tool_calls": None, "tool_call_id": None}
    return {"role": role, "content": content, **empty, **more}
