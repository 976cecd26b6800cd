"""Sections `clean`, `filter`, `decontaminate` and `deduplicate` of a dataset."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from anneal.config.base import Section, Share
from anneal.records import COUNTS, SHARES

PiiKind = Literal[
    "email", "url_credentials", "api_key", "ip", "iban", "card", "national_id", "phone"
]
Score = Literal[*COUNTS, *SHARES]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]


class Clean(Section):
    """Repair of text and removal of personal data; nothing is dropped here."""

    unescape_html: bool = Field(
        True, description="Turn HTML into text, in fields that really are HTML."
    )
    pii: list[PiiKind] = Field(
        ["email", "url_credentials", "api_key", "ip", "iban", "card", "national_id", "phone"],
        description="Kinds of personal data that are replaced by placeholders.",
    )
    pii_key_env: str | None = Field(
        None,
        description="Environment variable with the secret key of the placeholders; without it "
        "a placeholder can be confirmed by whoever guesses the value.",
    )
    phone_region: str = Field(
        "US", description="Region in which phone numbers without a country code are read."
    )
    language: bool = Field(
        False,
        description="Store the language of each row; on by itself where `filter.languages` asks.",
    )


class Limit(Section):
    """Bounds of one score."""

    min: float | None = Field(None, description="Rows below are dropped.")
    max: float | None = Field(None, description="Rows above are dropped.")

    @model_validator(mode="after")
    def _bounds(self):
        if self.min is None and self.max is None:
            raise ValueError("a limit needs min, max or both")
        if None not in (self.min, self.max) and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}: no row would be kept")
        return self


class Filter(Section):
    """Which cleaned rows are kept. Scores are stored, so a change here recomputes none."""

    min_response_chars: int = Field(1, ge=0, description="Shorter responses are dropped.")
    max_chars: int = Field(200_000, ge=1, description="Longer rows are dropped, in characters.")
    max_symbol_ratio: Share = Field(
        0.9, description="Rows with a larger share of characters that are no letter, digit or space"
    )
    max_repeated_line_share: Share = Field(
        0.6, description="Rows with a larger share of characters in repeated lines are dropped."
    )
    rules: list[Literal["gopher_quality", "gopher_repetition", "c4", "fineweb"]] = Field(
        [],
        description="Published sets of limits, made for web pages: they drop most short answers.",
    )
    limits: dict[Score, Limit] = Field(
        default_factory=dict, description="Bounds of any stored score; they win over `rules`."
    )
    languages: list[Language] = Field(
        [], description="Languages that are kept, such as `[en, de]`; empty keeps all."
    )
    min_language_score: Share = Field(
        0.7, description="Certainty from which another language is dropped: short texts tell little"
    )


class Decontaminate(Section):
    """Removal of rows that give away the test questions of `evaluate.tasks`."""

    enabled: bool = Field(True, description="Compare rows with local test data of the tasks.")
    ngram: int = Field(
        13, ge=8, description="A row that shares so many words in a row with a question is dropped."
    )
    coverage: Share = Field(
        0.8,
        gt=0,
        description="So is a row that covers this share of a question's words by 8-grams.",
    )


class Deduplicate(Section):
    """Removal of exact and near duplicates; the earlier row stays."""

    exact: bool = Field(True, description="Remove rows equal after case and space folding.")
    near: bool = Field(True, description="Remove near duplicates.")
    threshold: Share = Field(
        0.85, description="Jaccard similarity of word 5-grams from which a row is a near duplicate."
    )
    warn_share: Share = Field(
        0.5, description="Share of a source removed as duplicates above which a warning is given."
    )
