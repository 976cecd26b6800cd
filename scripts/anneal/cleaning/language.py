"""Language and script of a text: py3langid's model for the one, Unicode ranges for the other."""

import re
from functools import cache

# The blocks that tell a script, per https://www.unicode.org/Public/UNIDATA/Blocks.txt.
SCRIPTS = {
    "latin": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "cyrillic": "\u0400-\u052f",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "hebrew": "\u0590-\u05ff",
    "devanagari": "\u0900-\u097f",
    "bengali": "\u0980-\u09ff",
    "tamil": "\u0b80-\u0bff",
    "thai": "\u0e00-\u0e7f",
    "kana": "\u3040-\u30ff",
    "han": "\u3400-\u4dbf\u4e00-\u9fff",
    "hangul": "\u1100-\u11ff\uac00-\ud7af",
}
PATTERNS = {name: re.compile(f"[{ranges}]+") for name, ranges in SCRIPTS.items()}


def script(text: str) -> str | None:
    """The script most letters are of; None for a text without letters of a known one.

    Japanese mixes kana and han: a text with both is kana.
    """
    if text.isascii():
        return "latin" if PATTERNS["latin"].search(text) else None
    counts = {name: sum(map(len, p.findall(text))) for name, p in PATTERNS.items()}
    if counts["kana"]:
        counts["kana"] += counts.pop("han")
    name = max(counts, key=counts.__getitem__)
    return name if counts[name] else None


def language(text: str) -> tuple[str, float]:
    """ISO 639-1 code and probability; the model is loaded at the first call."""
    return _identifier().classify(text)


@cache
def _identifier():
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def languages() -> frozenset[str]:
    """All codes the model knows."""
    return frozenset(_identifier().labels)
