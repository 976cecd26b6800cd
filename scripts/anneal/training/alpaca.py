"""An Alpaca JSON as training sequences, by the functions of the data steps, without the DAG."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import datasets

from anneal.config.sources import Source
from anneal.errors import UserError
from anneal.formatting.format import format_rows
from anneal.formatting.styles import Formatter
from anneal.sources.read import read_batches, record_maker
from anneal.sources.shards import whole_file_piece
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.encode import Encoder

STYLE = {"style": "alpaca", "system": None, "strict_roles": "fold"}


def alpaca_rows(data: Path, model: Path, max_length: int) -> tuple[datasets.Dataset, list[dict]]:
    """One sequence for each row, in the order of the file; a response that is too long is cut.

    Args:
        data: JSON array or JSON lines of `instruction`, `input` and `output`.
        model: folder with the tokenizer.
        max_length: longest sequence, in tokens.

    Returns:
        the sequences, and `line` and `reason` of each row that was set aside.

    Raises:
        UserError: no row is left to learn from.
    """
    if not data.is_file():
        raise UserError(str(data), "no such file", "check --data_path")
    tokenizer = Tokenizer(model)
    formatter, encoder = Formatter(STYLE, tokenizer), Encoder(tokenizer, max_length, "right")
    rows, rejects = [], []
    for records, refused in _read(data):
        rows += encoder.encode(format_rows(formatter, records))
        rejects += [{"line": row["line"], "reason": row["reason"]} for row in refused]
    rejects += [{"line": r["line"], "reason": r["problem"]} for r in rows if r["problem"]]
    kept = [_sequence(row) for row in rows if not row["problem"]]
    if not kept:
        reasons = Counter(row["reason"] for row in rejects).most_common()
        why = ", ".join(f"{n} x {reason}" for reason, n in reasons) or "the file has no rows"
        raise UserError(str(data), f"no row is left to learn from ({why})", "check the data")
    return datasets.Dataset.from_list(kept), sorted(rejects, key=lambda row: row["line"])


def _read(data: Path) -> Iterator[tuple[list[dict], list[dict]]]:
    settings = {"kind": "instruction", **Source(path=str(data)).reading()}
    piece = whole_file_piece(data.name, str(data), settings)
    return read_batches(piece, settings, record_maker(settings))


def _sequence(row: dict) -> dict:
    ids, labels = row["input_ids"], row["labels"]
    return {"input_ids": ids, "labels": labels, "position_ids": list(range(len(ids)))}
