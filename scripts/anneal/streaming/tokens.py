"""Kept rows of a stream as token ids, by the functions of format_shard and tokenize_shard."""

from collections.abc import Callable
from pathlib import Path

from anneal.formatting.format import format_rows
from anneal.formatting.styles import Formatter
from anneal.records import FIELDS, IDENTITY
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.encode import Encoder

Encode = Callable[[list[dict]], list[dict]]


def row_encoder(plan: dict, model: Path) -> Encode:
    """What makes rows of `records.TOKENS` out of cleaned rows.

    Args:
        plan: with the sections `format` and `tokenize`.
        model: folder of the base model.
    """
    tokenizer, limits = Tokenizer(model), plan["tokenize"]
    formatter = Formatter(plan["format"], tokenizer)
    encoder = Encoder(tokenizer, limits["max_length"], limits["truncation"])
    names = (*IDENTITY, "category", *FIELDS[plan["kind"]])

    def encode(rows: list[dict]) -> list[dict]:
        records = [{name: row[name] for name in names} for row in rows]
        return encoder.encode(format_rows(formatter, records))

    return encode
