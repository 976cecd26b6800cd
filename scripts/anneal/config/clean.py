"""Sections `clean`, `filter` and `deduplicate` of a dataset."""

from typing import Literal

from pydantic import Field

from anneal.config.base import Section, Share

PiiKind = Literal["email", "url_credentials", "ip", "iban", "card", "phone"]


class Clean(Section):
    """Repair of text and removal of personal data; nothing is dropped here."""

    unescape_html: bool = Field(
        True, description="Turn HTML into text, in fields that really are HTML."
    )
    pii: list[PiiKind] = Field(
        ["email", "url_credentials", "ip", "iban", "card", "phone"],
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


class Deduplicate(Section):
    """Removal of exact and near duplicates; the earlier row stays."""

    exact: bool = Field(True, description="Remove rows equal after case and space folding.")
    near: bool = Field(True, description="Remove near duplicates.")
    threshold: Share = Field(
        0.85, description="Jaccard similarity of word 5-grams from which a row is a near duplicate."
    )
