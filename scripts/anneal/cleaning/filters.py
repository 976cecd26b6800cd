"""Which cleaned rows are kept, by the scores that cleaning stored."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anneal.cleaning.language import languages
from anneal.errors import UserError
from anneal.records import DROP, IDENTITY, filled

# Rae et al. 2021, tables A1 and A2; Raffel et al. 2020, section 2.2; Penedo et al. 2024, section 3.
RULES: dict[str, dict[str, dict[str, float]]] = {
    "gopher_quality": {
        "word_count": {"min": 50, "max": 100_000},
        "mean_word_length": {"min": 3, "max": 10},
        "symbol_word_ratio": {"max": 0.1},
        "bullet_line_share": {"max": 0.9},
        "ellipsis_line_share": {"max": 0.3},
        "alphabetic_word_share": {"min": 0.8},
        "stop_words": {"min": 2},
    },
    "gopher_repetition": {
        "duplicate_line_share": {"max": 0.2},
        "duplicate_paragraph_share": {"max": 0.2},
        "top_2_gram_share": {"max": 0.2},
        "top_3_gram_share": {"max": 0.18},
        "top_4_gram_share": {"max": 0.16},
        "duplicate_5_gram_share": {"max": 0.15},
        "duplicate_6_gram_share": {"max": 0.14},
        "duplicate_7_gram_share": {"max": 0.13},
        "duplicate_8_gram_share": {"max": 0.12},
        "duplicate_9_gram_share": {"max": 0.11},
        "duplicate_10_gram_share": {"max": 0.1},
    },
    "c4": {"lorem_ipsum": {"max": 0}, "curly_braces": {"max": 0}},
    "fineweb": {
        "ended_line_share": {"min": 0.12},
        "short_line_share": {"max": 0.67},
        "duplicate_line_share": {"max": 0.1},
        "newline_word_ratio": {"max": 0.3},
    },
}


def filtered_rows(shards: list[Path], settings: dict) -> pa.Table:
    """Rows that break a rule, in order: a table of `records.DROP`."""
    check_languages(settings["languages"])
    found, start = [DROP.empty_table()], 0
    for shard in shards:
        for batch in pq.ParquetFile(shard).iter_batches(columns=[*IDENTITY, "scores"]):
            rule, value = broken_rules(batch.column("scores"), settings)
            broken = np.flatnonzero(rule != "")
            columns = {name: batch.column(name).take(pa.array(broken)) for name in IDENTITY}
            columns |= {"row": start + broken, "rule": rule[broken], "value": value[broken]}
            found.append(drop_table(columns))
            start += batch.num_rows
    return pa.concat_tables(found)


def drop_table(columns: dict) -> pa.Table:
    """A table of `records.DROP`; columns that are not given are null."""
    return filled(DROP, columns, len(columns["row"]))


def broken_rules(scores: pa.StructArray, settings: dict) -> tuple[np.ndarray, np.ndarray]:
    """The first rule that each row breaks, empty if none, and the value that broke it."""
    rule, value = np.full(len(scores), "", object), np.full(len(scores), np.nan)
    for name, score, smallest, largest in _bounds(settings):
        values = scores.field(score).to_numpy(zero_copy_only=False)
        broken = (rule == "") & ((values < smallest) | (values > largest))
        rule[broken], value[broken] = name, values[broken]
    return _foreign(scores, settings, rule, value) if settings["languages"] else (rule, value)


def _bounds(settings: dict) -> Iterator[tuple[str, str, float, float]]:
    """(rule, score, smallest, largest value that is allowed), in the order they are tried."""
    yield "response_too_short", "response_chars", settings["min_response_chars"], np.inf
    yield "too_long", "chars", -np.inf, settings["max_chars"]
    yield "symbols", "symbol_ratio", -np.inf, settings["max_symbol_ratio"]
    yield "repetition", "repeated_line_share", -np.inf, settings["max_repeated_line_share"]
    for score, bound in limits(settings).items():
        if bound["min"] is not None:
            yield f"{score}_low", score, bound["min"], np.inf
        if bound["max"] is not None:
            yield f"{score}_high", score, -np.inf, bound["max"]


def limits(settings: dict) -> dict[str, dict[str, float | None]]:
    """Bounds by score: the strictest of the chosen `rules`, then what `limits` says instead."""
    bounds: dict[str, dict[str, float | None]] = {}
    for rule in settings["rules"]:
        for score, bound in RULES[rule].items():
            old = bounds.setdefault(score, {"min": None, "max": None})
            for side, strictest in (("min", max), ("max", min)):
                values = [v for v in (old[side], bound.get(side)) if v is not None]
                old[side] = strictest(values) if values else None
    return {**bounds, **settings["limits"]}


def check_languages(wanted: list[str]) -> None:
    """Raises UserError for a code the model does not know."""
    for code in wanted:
        if code not in languages():
            known = " ".join(sorted(languages()))
            raise UserError("filter.languages", f"unknown language '{code}'", f"known: {known}")


def _foreign(scores: pa.StructArray, settings: dict, rule: np.ndarray, value: np.ndarray):
    codes = scores.field("language").to_numpy(zero_copy_only=False)
    sure = scores.field("language_score").to_numpy(zero_copy_only=False)
    other = ~np.isin(codes.astype("U3"), settings["languages"]) & (codes != None)  # noqa: E711
    broken = (rule == "") & other & (sure >= settings["min_language_score"])
    rule[broken] = [f"language_{code}" for code in codes[broken]]
    value[broken] = sure[broken]
    return rule, value
