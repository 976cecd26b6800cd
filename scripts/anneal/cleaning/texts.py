"""The texts of a record, whatever its kind: all of them, the prompt, and what is to be learned."""

from collections.abc import Callable

import orjson

from anneal.records import FIELDS, MESSAGES

NOT_TEXT = {"tools"}
FIELD_NAMES = dict.fromkeys(n for names in FIELDS.values() for n in names if n not in NOT_TEXT)


def full_text(row: dict) -> str:
    """All text of a record, field after field."""
    return "\n".join(part for name in FIELD_NAMES if name in row for part in _texts(row[name]))


def prompt_and_response(row: dict) -> tuple[str, str]:
    """What is given and what is to be learned.

    In a conversation the last assistant turn answers all before it; in a preference pair the
    chosen answer does. A prompt alone stands for its answer, and so does raw text.
    """
    if "messages" in row:
        turns = row["messages"]
        last = max((i for i, t in enumerate(turns) if t["role"] == "assistant"), default=len(turns))
        return _told(turns[:last]), "\n".join(_texts(turns[last : last + 1]))
    if "prompt" in row:
        prompt = _told(row["prompt"])
        return prompt, "\n".join(_texts(row["chosen"])) if "chosen" in row else prompt
    if "text" in row:
        return row["text"], row["text"]
    return f"{row['instruction']}\n{row['input']}", row["output"]


def repaired(row: dict, kind: str, repair: Callable[[str], str]) -> dict:
    """The record with `repair` done to every text of it, those inside tool calls too."""
    changed = {}
    for name, declared in FIELDS[kind].items():
        if declared == MESSAGES:
            changed[name] = [_repaired_turn(turn, repair) for turn in row[name]]
        elif name not in NOT_TEXT:
            changed[name] = repair(row[name])
    return {**row, **changed}


def _repaired_turn(turn: dict, repair: Callable[[str], str]) -> dict:
    turn = {**turn, "content": repair(turn["content"])}
    if turn.get("tool_calls"):
        turn["tool_calls"] = _inside_json(turn["tool_calls"], repair)
    return turn


def _inside_json(text: str, repair: Callable[[str], str]) -> str:
    """JSON text with each string in it repaired; a string that is JSON again stays JSON."""

    def walk(value):
        if isinstance(value, dict):
            return {name: walk(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner) for inner in value]
        if not isinstance(value, str):
            return value
        try:
            return (
                _inside_json(value, repair) if value.lstrip()[:1] in ("{", "[") else repair(value)
            )
        except orjson.JSONDecodeError:
            return repair(value)

    return orjson.dumps(walk(orjson.loads(text))).decode()


def _texts(value: str | list[dict]) -> list[str]:
    return [value] if isinstance(value, str) else [_turn_text(turn) for turn in value]


def _told(turns: list[dict]) -> str:
    return "\n".join(f"{turn['role']}: {_turn_text(turn)}" for turn in turns)


def _turn_text(turn: dict) -> str:
    """A message's text, and its tool calls as JSON."""
    calls = turn.get("tool_calls")
    return f"{turn['content']}\n{calls}" if calls else turn["content"]
