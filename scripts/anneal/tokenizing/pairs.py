"""Preference pairs into ids: the shared prompt once, and the two answers behind it."""

import numpy as np

from anneal.records import identity
from anneal.tokenizing.encode import Encoder


def encode_pairs(encoder: Encoder, rows: list[dict]) -> list[dict]:
    """Rows of `records.PAIR_TOKENS`, one for each text; a pair that does not fit says why.

    `length` and `supervised` are those of the longer of the two sequences.
    """
    chosen = encoder.whole(rows)
    rejected = encoder.whole([{**row, **(row["rejected"] or {})} for row in rows])
    pairs = zip(rows, chosen, rejected, strict=True)
    return [{**identity(row), **_pair(row, *sides, encoder.max_length)} for row, *sides in pairs]


def _pair(row: dict, chosen: tuple | None, rejected: tuple | None, max_length: int) -> dict:
    if chosen is None or rejected is None:
        return _nothing(row["problem"])
    (prompt, good), (same, bad) = _cut(*chosen), _cut(*rejected)
    longer = max(len(good), len(bad))
    length = len(prompt) + longer
    if not np.array_equal(prompt, same):
        return _nothing("prompts_of_the_pair_differ")
    if length > max_length:
        return _nothing("too_long")
    ids = {"prompt_ids": prompt, "chosen_ids": good, "rejected_ids": bad}
    return {**ids, "length": length, "supervised": longer, "problem": None}


def _cut(ids: np.ndarray, learned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Prompt and answer: the answer begins at the first learned token and ends with the last."""
    places = np.flatnonzero(learned)
    return ids[: places[0]], ids[places[0] : places[-1] + 1]


def _nothing(problem: str) -> dict:
    empty = dict.fromkeys(("prompt_ids", "chosen_ids", "rejected_ids"))
    return {**empty, "length": 0, "supervised": 0, "problem": problem}
