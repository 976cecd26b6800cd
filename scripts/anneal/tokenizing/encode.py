"""Text into token ids and labels; labels are -100 for everything that is not to be learned.

A token is learned if its characters lie inside a supervised span. Where a token reaches across a
span's edge, the row is encoded again piece by piece, as a model sees it: first the prompt, then
the response. Control tokens that somebody typed are pieces too, and encoded as plain text.
"""

from itertools import pairwise

import numpy as np

from anneal.errors import UserError
from anneal.records import IGNORED, identity
from anneal.tokenizer import Tokenizer

CUT_AWAY, NOTHING_LEFT = "response_cut_away", "part_of_one_token"


class Encoder:
    """Encodes rows of `records.TEXT` into rows of `records.TOKENS`.

    Args:
        max_length: longest row in tokens.
        truncation: `drop`, `right`, `left` or `split`, see the configuration.
        learns: False for bare prompts, of which nothing is learned.
    """

    def __init__(self, tokenizer: Tokenizer, max_length: int, truncation: str, learns: bool = True):
        self.tokenizer, self.max_length, self.truncation = tokenizer, max_length, truncation
        self.bos = tokenizer.id(tokenizer.special.get("bos_token", ""))
        self.starts_with_bos = bool(tokenizer.bos)
        self.learns, self.resegmented = learns, 0

    def encode(self, rows: list[dict]) -> list[dict]:
        """Tokenized rows, in order: one for each text, or more where `split` cuts it."""
        pairs = zip(rows, self.whole(rows), strict=True)
        return [made for row, whole in pairs for made in self._rows(row, whole)]

    def whole(self, rows: list[dict]) -> list[tuple[np.ndarray, np.ndarray] | None]:
        """Ids and whether each is learned, of any length; None for a row with a problem."""
        texts = [row["text"] or "" for row in rows]
        encodings = self.tokenizer.backend.encode_batch(texts, add_special_tokens=False)
        pairs = zip(rows, encodings, strict=True)
        return [None if row["problem"] else self._whole(row, found) for row, found in pairs]

    def _rows(self, row: dict, whole: tuple | None) -> list[dict]:
        made = self._fitted(*whole) if whole else [_nothing(row["problem"])]
        return [{**identity(row), **one} for one in made]

    def _whole(self, row: dict, encoding) -> tuple[np.ndarray, np.ndarray]:
        spans = [(s["start"], s["end"]) for s in row["spans"]]
        literals = {(s["start"], s["end"]) for s in row["literals"] or ()}
        ids, learned = self._ids(row["text"], spans, literals, encoding)
        self._check(row, ids, learned)
        return ids, learned

    def _ids(self, text: str, spans, literals, encoding) -> tuple[np.ndarray, np.ndarray]:
        if literals:
            return self._by_segment(text, spans, literals)
        ids = np.array(encoding.ids, dtype=np.int32)
        learned = np.zeros(len(ids), dtype=bool)
        for start, end in spans:
            tokens = _tokens_of(encoding, start, end)
            if tokens is None:
                return self._by_segment(text, spans, literals)
            learned[tokens] = True
        return ids, learned

    def _by_segment(self, text: str, spans, literals) -> tuple[np.ndarray, np.ndarray]:
        self.resegmented += 1
        edges = {0, len(text), *(edge for span in (*spans, *literals) for edge in span)}
        ids, learned = [], []
        for start, end in pairwise(sorted(edges)):
            backend = self.tokenizer.continuing if start else self.tokenizer.backend
            ids.append(_piece(backend, text[start:end], (start, end) in literals))
            inside = any(a <= start and end <= b for a, b in spans)
            learned.append(np.full(len(ids[-1]), inside))
        return np.concatenate(ids), np.concatenate(learned)

    def _check(self, row: dict, ids: np.ndarray, learned: np.ndarray) -> None:
        where = f"{row['file']}:{row['line']}"
        if self.learns and not learned.any():
            raise UserError(where, "no token of this row would be learned", "check the template")
        if self.bos is not None and self.starts_with_bos and (ids[:2] == self.bos).sum() > 1:
            do = "remove the BOS from the template"
            raise UserError(where, "the row starts with two BOS tokens", do)

    def _fitted(self, ids: np.ndarray, learned: np.ndarray) -> list[dict]:
        """The row if it fits, or what the truncation policy makes of it."""
        if len(ids) <= self.max_length:
            return [_made(ids, learned)]
        if self.truncation == "drop":
            return [_nothing("too_long")]
        if self.truncation == "split":
            cuts = range(0, len(ids), self.max_length)
            parts = [slice(at, at + self.max_length) for at in cuts]
            return [_part(ids[part], learned[part]) for part in parts]
        kept = (
            slice(self.max_length) if self.truncation == "right" else self._without_beginning(ids)
        )
        return [_made(ids[kept], learned[kept]) if learned[kept].any() else _nothing(CUT_AWAY)]

    def _without_beginning(self, ids: np.ndarray) -> np.ndarray:
        """Positions of the last tokens; a BOS stays at the front."""
        last = np.arange(len(ids) - self.max_length, len(ids))
        if self.starts_with_bos and ids[0] == self.bos:
            last[0] = 0
        return last


def _piece(backend, text: str, literal: bool) -> np.ndarray:
    backend.encode_special_tokens = literal
    ids = backend.encode(text, add_special_tokens=False).ids
    backend.encode_special_tokens = False
    return np.array(ids, dtype=np.int32)


def _tokens_of(encoding, start: int, end: int) -> slice | None:
    """The tokens of a span of characters; None if one reaches across an edge of the span."""
    first, last = encoding.char_to_token(start), encoding.char_to_token(end - 1)
    if first is not None and last is not None:
        begins, ends = encoding.token_to_chars(first)[0], encoding.token_to_chars(last)[1]
        after = encoding.token_to_chars(last + 1) if last + 1 < len(encoding) else None
        if (begins, ends) == (start, end) and (after is None or after[0] >= end):
            return slice(first, last + 1)
    return _tokens_by_offsets(np.array(encoding.offsets).reshape(-1, 2), start, end)


def _tokens_by_offsets(offsets: np.ndarray, start: int, end: int) -> slice | None:
    """The same where blanks belong to no token, or several tokens make one character."""
    starts, ends = offsets[:, 0], offsets[:, 1]
    for edge in (start, end):
        if ((starts < edge) & (edge < ends)).any():
            return None
    inside = np.flatnonzero((starts >= start) & (ends <= end))
    return slice(inside[0], inside[-1] + 1) if len(inside) else slice(0)


def _made(ids: np.ndarray, learned: np.ndarray) -> dict:
    labels = np.where(learned, ids, IGNORED).astype(np.int32)
    labels[0] = IGNORED
    return {
        "input_ids": ids,
        "labels": labels,
        "length": len(ids),
        "supervised": int((labels != IGNORED).sum()),
        "problem": None,
    }


def _part(ids: np.ndarray, learned: np.ndarray) -> dict:
    """A part of a split row; its first token is only seen, so one token teaches nothing."""
    return _made(ids, learned) if learned[1:].any() else _nothing(NOTHING_LEFT)


def _nothing(problem: str) -> dict:
    empty = {"input_ids": None, "labels": None, "length": 0, "supervised": 0}
    return {**empty, "problem": problem}
