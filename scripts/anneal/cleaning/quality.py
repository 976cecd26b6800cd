"""Scores of a row. They are stored, and decide nothing here: `filter` does.

Sources: Rae et al. 2021 (Gopher, appendix A.1.1), Raffel et al. 2020 (C4, section 2.2), Penedo et
al. 2024 (FineWeb, section 3.6). One difference: an n-gram counts as repeated only if it occurs
twice, so that short texts are not all repetition.
"""

import re
from collections import Counter
from itertools import pairwise

TOP, DUPLICATE = (2, 3, 4), (5, 6, 7, 8, 9, 10)
SHORT_LINE = 30
BULLETS = ("•", "●", "○", "■", "□", "▪", "▫", "-", "*", "‣", "–")
ENDS = tuple(".!?。！？…؟।\"'”’»」』)")
LETTER, SYMBOL = re.compile(r"[^\W\d_]"), re.compile(r"[^\w\s]")
STOP_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the be to of and that have with",
        "de": "der die das und ist zu den mit nicht ein",
        "fr": "le la les et de des un une est que",
        "es": "el la los y de que en un una es",
        "it": "il la di e che un una per è non",
        "pt": "o a os de e que um uma para não",
        "nl": "de het een en van is dat niet met op",
        "pl": "i w na z nie się to jest że do",
    }.items()
}


def scores(text: str, response: str) -> dict:
    """Lengths and counts, and shares from 0 to 1; every name is in `records.SCORES`."""
    words, lines = text.split(), [line for x in text.split("\n") if (line := x.strip())]
    return {
        "chars": len(text),
        "response_chars": len(response),
        "symbol_ratio": symbol_ratio(text),
        "repeated_line_share": repeated_line_share(lines),
        **word_scores(text, words),
        **line_scores(text, words, lines),
        **repetition_scores(text, words, lines),
    }


def symbol_ratio(text: str) -> float:
    """Share of characters that are no letter, digit or white space."""
    symbols = len(SYMBOL.findall(text)) + text.count("_")
    return symbols / len(text) if text else 0.0


def repeated_line_share(lines: list[str]) -> float:
    """Share of characters in lines that occur more than once."""
    if len(set(lines)) == len(lines):
        return 0.0
    repeated = sum(len(line) * n for line, n in Counter(lines).items() if n > 1)
    return repeated / sum(map(len, lines))


def word_scores(text: str, words: list[str]) -> dict:
    """Gopher's quality scores over words (those between white space)."""
    n = len(words) or 1
    mixed = [word for word in words if not word.isalpha()]
    letterless = sum(not LETTER.search(word) for word in mixed)
    known = set(text.lower().translate(PUNCTUATION).split())
    return {
        "word_count": len(words),
        "mean_word_length": sum(map(len, words)) / n,
        "symbol_word_ratio": (text.count("#") + text.count("...") + text.count("…")) / n,
        "alphabetic_word_share": (len(words) - letterless) / n,
        "stop_words": max(len(known & stop) for stop in STOP_WORDS.values()),
    }


def line_scores(text: str, words: list[str], lines: list[str]) -> dict:
    """Gopher's, C4's and FineWeb's scores over lines that are not blank."""
    n = len(lines) or 1
    return {
        "bullet_line_share": sum(line.startswith(BULLETS) for line in lines) / n,
        "ellipsis_line_share": sum(line.endswith(("...", "…")) for line in lines) / n,
        "ended_line_share": sum(line.endswith(ENDS) for line in lines) / n,
        "short_line_share": sum(len(line) <= SHORT_LINE for line in lines) / n,
        "newline_word_ratio": text.count("\n") / (len(words) or 1),
        "lorem_ipsum": float("lorem ipsum" in text.lower()),
        "curly_braces": text.count("{") + text.count("}"),
    }


def repetition_scores(text: str, words: list[str], lines: list[str]) -> dict:
    """Gopher's shares of repeated lines, paragraphs and n-grams, by characters."""
    length = len(text) or 1
    paragraphs = [p for x in text.split("\n\n") if (p := x.strip())]
    shares = {
        "duplicate_line_share": _again(lines) / length,
        "duplicate_paragraph_share": _again(paragraphs) / length,
        **{f"top_{n}_gram_share": 0.0 for n in TOP},
        **{f"duplicate_{n}_gram_share": 0.0 for n in DUPLICATE},
    }
    for n in (*TOP, *DUPLICATE):
        grams = _grams(words, n)
        if len(set(grams)) == len(grams):
            break  # no repeated n-gram, hence none of more words
        if n in TOP:
            shares[f"top_{n}_gram_share"] = min(_top(grams) / length, 1.0)
        else:
            shares[f"duplicate_{n}_gram_share"] = _covered(words, grams, n) / length
    return shares


def _grams(words: list[str], n: int) -> list:
    return (
        list(pairwise(words)) if n == 2 else list(zip(*(words[i:] for i in range(n)), strict=False))
    )


def _again(parts: list[str]) -> int:
    """Characters in parts that have occurred before."""
    if len(set(parts)) == len(parts):
        return 0
    return sum(map(len, parts)) - sum(map(len, set(parts)))


def _top(grams: list) -> int:
    """Characters in the n-gram that occurs most often."""
    counts = Counter(grams)
    most = max(counts.values())
    return most * max(sum(map(len, g)) + len(g) - 1 for g, n in counts.items() if n == most)


def _covered(words: list[str], grams: list, n: int) -> int:
    """Characters of words that lie in an n-gram which has occurred before."""
    seen, covered, end = set(), 0, 0
    for at, gram in enumerate(grams):
        if gram in seen:
            first, end = max(at, end), at + n
            covered += sum(map(len, words[first:end]))
        seen.add(gram)
    return covered


PUNCTUATION = str.maketrans(dict.fromkeys(".,;:!?\"'()[]", " "))
