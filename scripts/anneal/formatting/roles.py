"""Conversations that a strict template refuses, brought into the form it takes.

The system text moves into the first user turn (it is never dropped), and neighbours of one role
become one turn.
"""


def folded(turns: list[dict]) -> list[dict]:
    """User and assistant turns in alternation, with the words of the given ones."""
    system = [turn["content"] for turn in turns if turn["role"] == "system"]
    merged: list[dict] = []
    for turn in turns:
        if turn["role"] == "system":
            continue
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1]["content"] += f"\n\n{turn['content']}"
        else:
            merged.append(dict(turn))
    first = next((turn for turn in merged if turn["role"] == "user"), None)
    if first is not None:
        first["content"] = "\n\n".join([*system, first["content"]])
    return merged
