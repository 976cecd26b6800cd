"""Preference pairs, formatted as two conversations that share their prompt."""

from anneal.formatting.roles import folded
from anneal.formatting.styles import Formatter, Problem, plain

Formatted = tuple[str, list[tuple[int, int]], list[tuple[int, int]]]


def format_pair(formatter: Formatter, row: dict) -> tuple[Formatted, Formatted]:
    """The chosen and the rejected text of one pair; only the answers are learned.

    Raises:
        Problem: the two do not share their whole prompt, or an answer is no turn of its own.
    """
    sides = [_side(formatter, row["prompt"], row[name]) for name in ("chosen", "rejected")]
    prompts = {text[: spans[0][0]] for text, spans, _ in sides}
    if len(prompts) > 1:
        raise Problem("prompts_of_the_pair_differ")
    return sides[0], sides[1]


def _side(formatter: Formatter, prompt: list[dict], answer: list[dict]) -> Formatted:
    if formatter.style != "chat":
        row = {"instruction": plain(prompt), "input": "", "output": plain(answer)}
        return formatter.format(row)
    before = formatter.folded
    text, spans, literals = formatter.format({"messages": [*prompt, *answer]})
    given = folded(prompt) if formatter.folded > before else prompt
    spans = spans[sum(turn["role"] == "assistant" for turn in given) :]
    if not spans:
        raise Problem("the_answer_is_no_turn_of_its_own")
    return text, spans, literals
