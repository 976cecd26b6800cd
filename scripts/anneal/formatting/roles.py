"""Conversations that a strict template refuses, brought into the form it takes.

The system text moves into the first user turn (it is never dropped: without a user turn it becomes
one), and neighbours of one role become one turn. Results of tools stay apart: each answers a call.
"""

JOINED = ("user", "assistant")


def folded(turns: list[dict]) -> list[dict]:
    """User and assistant turns in alternation, with the words of the given ones."""
    system = [turn["content"] for turn in turns if turn["role"] == "system"]
    merged: list[dict] = []
    for turn in turns:
        if turn["role"] == "system":
            continue
        if merged and merged[-1]["role"] == turn["role"] and turn["role"] in JOINED:
            merged[-1] = _joined(merged[-1], turn)
        else:
            merged.append(turn)
    if not system:
        return merged
    at = next((i for i, turn in enumerate(merged) if turn["role"] == "user"), None)
    if at is None:
        return [{"role": "user", "content": _paragraphs(system)}, *merged]
    user = {**merged[at], "content": _paragraphs([*system, merged[at]["content"]])}
    return [*merged[:at], user, *merged[at + 1 :]]


def _joined(turn: dict, after: dict) -> dict:
    both = {**turn, "content": _paragraphs([turn["content"], after["content"]])}
    if calls := [*turn.get("tool_calls", ()), *after.get("tool_calls", ())]:
        both["tool_calls"] = calls
    return both


def _paragraphs(texts: list[str]) -> str:
    return "\n\n".join(text for text in texts if text)
