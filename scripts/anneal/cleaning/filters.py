"""Which cleaned rows are kept, by the scores that cleaning stored."""

from pathlib import Path

import pyarrow.parquet as pq


def filtered_rows(shards: list[Path], settings: dict) -> list[dict]:
    """Rows that break a rule, in order, as rows of `records.DROP`."""
    columns = ["id", "source", "file", "line", "scores"]
    dropped = []
    for shard in shards:
        for batch in pq.ParquetFile(shard).iter_batches(columns=columns):
            for row in batch.to_pylist():
                if broken := broken_rule(row.pop("scores"), settings):
                    dropped.append({**row, "rule": broken[0], "value": broken[1]})
    return dropped


def broken_rule(scores: dict, settings: dict) -> tuple[str, float] | None:
    """The first rule a row breaks, with the value that broke it; None keeps the row."""
    rules = (
        ("response_too_short", "response_chars", lambda v: v < settings["min_response_chars"]),
        ("too_long", "chars", lambda v: v > settings["max_chars"]),
        ("symbols", "symbol_ratio", lambda v: v > settings["max_symbol_ratio"]),
        ("repetition", "repeated_line_share", lambda v: v > settings["max_repeated_line_share"]),
    )
    for rule, score, broken in rules:
        if broken(scores[score]):
            return rule, float(scores[score])
    return None
