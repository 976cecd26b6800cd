"""Scores of a row. They are stored, and decide nothing here: `filter` does.

The repetition score follows Rae et al. 2021 (Gopher, table A1): share of characters that lie in
lines which occur more than once.
"""

from collections import Counter


def scores(text: str, response: str) -> dict:
    """Lengths in characters, and shares from 0 to 1."""
    return {
        "chars": len(text),
        "response_chars": len(response),
        "symbol_ratio": symbol_ratio(text),
        "repeated_line_share": repeated_line_share(text),
    }


def symbol_ratio(text: str) -> float:
    """Share of characters that are no letter, digit or white space."""
    symbols = sum(not (c.isalnum() or c.isspace()) for c in text)
    return symbols / len(text) if text else 0.0


def repeated_line_share(text: str) -> float:
    """Share of characters in lines that occur more than once."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    repeated = sum(len(line) * n for line, n in Counter(lines).items() if n > 1)
    return repeated / sum(map(len, lines)) if lines else 0.0
