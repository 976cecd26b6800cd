"""Which tasks are no good, by plain rules. Each has a reason, which is counted."""

import re

from anneal.generating.novelty import words

BLANKS = re.compile(r"\[[^\]\n]*\b(insert|your|here)\b[^\]\n]*\]|<(insert|your)\b[^>\n]*>", re.I)
REFUSAL = re.compile(
    r"\b(as an ai|as a language model|i(?: a|')m sorry,? but|i can(?:no|')t (assist|help))\b", re.I
)


def fault(task: dict, settings: dict) -> str | None:
    """Why a task is no good; None if it is."""
    told = words(task["instruction"])
    if len(told) < settings["min_words"]:
        return "instruction too short"
    if len(told) > settings["max_words"]:
        return "instruction too long"
    if banned := set(told) & set(settings["banned"]):
        return f"instruction needs: {min(banned)}"
    if BLANKS.search("\n".join(task.values())):
        return "a blank to fill in"
    if REFUSAL.search(task["output"]):
        return "output is a refusal"
    return _copied(task)


def _copied(task: dict) -> str | None:
    texts = {name: words(text) for name, text in task.items()}
    for name, other in (("output", "instruction"), ("output", "input"), ("input", "instruction")):
        if texts[name] and texts[name] == texts[other]:
            return f"{name} repeats the {other}"
    return None
