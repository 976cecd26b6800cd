"""Which cleaned rows are kept, by the scores that cleaning stored."""

from pathlib import Path

import pyarrow.parquet as pq

from anneal.cleaning.language import languages
from anneal.errors import UserError
from anneal.records import IDENTITY

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


def filtered_rows(shards: list[Path], settings: dict) -> list[dict]:
    """Rows that break a rule, in order, as rows of `records.DROP`."""
    check_languages(settings["languages"])
    bounds = limits(settings)
    columns = [*IDENTITY, "scores"]
    dropped = []
    for shard in shards:
        for batch in pq.ParquetFile(shard).iter_batches(columns=columns):
            for row in batch.to_pylist():
                if broken := broken_rule(row.pop("scores"), settings, bounds):
                    dropped.append({**row, "rule": broken[0], "value": broken[1]})
    return dropped


def broken_rule(
    scores: dict, settings: dict, bounds: dict | None = None
) -> tuple[str, float] | None:
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
    for score, bound in (limits(settings) if bounds is None else bounds).items():
        if bound["min"] is not None and scores[score] < bound["min"]:
            return f"{score}_low", float(scores[score])
        if bound["max"] is not None and scores[score] > bound["max"]:
            return f"{score}_high", float(scores[score])
    return _foreign(scores, settings)


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


def _foreign(scores: dict, settings: dict) -> tuple[str, float] | None:
    code = scores["language"] if settings["languages"] else None
    if code is None or code in settings["languages"]:
        return None
    score = scores["language_score"]
    return (f"language_{code}", score) if score >= settings["min_language_score"] else None
