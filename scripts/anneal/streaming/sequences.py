"""Training sequences out of a stream, read while training: nothing of it is stored.

The rows' fate hangs on rows before them (copies, groups), so one reader goes through all shards in
order: any number of data workers gives the same sequences.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count, islice
from pathlib import Path

import numpy as np

from anneal.errors import UserError
from anneal.provenance.files import read_json, write_json
from anneal.splitting.mixture import copies
from anneal.splitting.write import joined, row_numbers
from anneal.streaming.counts import RowCounts, TokenCounts
from anneal.streaming.rows import kept_rows
from anneal.streaming.tokens import Encode, row_encoder

COUNTS, REJECTS = "counts.json", "rejects.jsonl"


def training_sequences(
    stream: Path, model: Path, seed: int, notes: Path | None = None
) -> Iterator[dict]:
    """Rows of `splitting.write.SEQUENCE` without end, pass after pass; equal arguments, equal rows.

    Each pass reads the sources again. Rows are shuffled and packed within a buffer.

    Args:
        stream: `stream.json`, as `write_stream` wrote it.
        model: folder of the base model.
        notes: folder for the first pass's counts and rejects; None keeps none.

    Raises:
        UserError: a pass has no row to learn from, or too many that are unreadable.
    """
    plan = read_json(stream)
    encode = row_encoder(plan, model)
    for number in count():
        generator = np.random.default_rng([seed, number])
        yield from _one_pass(plan, encode, generator, notes if number == 0 else None)


def _one_pass(plan: dict, encode: Encode, generator, notes: Path | None) -> Iterator[dict]:
    tokens = TokenCounts(plan["tokenize"]["max_length"])
    with _rejects_file(notes) as refused:
        rows = RowCounts(plan["max_reject_share"], refused)
        taken = _training_rows(plan, encode, rows, tokens)
        while buffer := list(islice(taken, plan["stream"]["buffer_rows"])):
            buffer = [buffer[i] for i in generator.permutation(len(buffer))]
            sequences = list(_packed(buffer, plan))
            tokens.add(buffer, len(sequences))
            if notes:
                refused.flush()
                write_json(notes / COUNTS, {**rows.facts(), "train": tokens.facts()})
            for sequence in sequences:
                yield _sequence([buffer[i] for i in sequence])
    if not tokens.sums["rows"]:
        why = ", ".join(f"{n} x {reason}" for reason, n in tokens.set_aside.items())
        raise UserError("datasets.*", f"no training row is left ({why})", "see format, tokenize")


def _training_rows(
    plan: dict, encode: Encode, rows: RowCounts, tokens: TokenCounts
) -> Iterator[dict]:
    """Usable token rows of the training side, each as often as the weight of its source says."""
    for batch in kept_rows(plan, rows):
        for row in encode([row for row in batch if row["split"] == "train"]):
            if row["problem"]:
                tokens.set_aside[row["problem"]] += 1
            else:
                yield from [row] * copies(row["id"], plan["weights"][row["source"]])


def _packed(buffer: list[dict], plan: dict) -> Iterator[list[int]]:
    lengths = np.array([row["length"] for row in buffer])
    settings = {**plan["tokenize"], "kind": plan["kind"]}
    return row_numbers(lengths, settings, "train")


def _sequence(rows: list[dict]) -> dict:
    arrays = ([row[name] for row in rows] for name in ("input_ids", "labels"))
    made = joined([row["id"] for row in rows], *arrays)
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in made.items()}


def _rejects_file(notes: Path | None):
    if notes is None:
        return nullcontext()
    notes.mkdir(parents=True, exist_ok=True)
    return (notes / REJECTS).open("wb")
