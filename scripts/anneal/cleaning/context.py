"""Which way the words around a number lean: the same digits are a phone or an order, by context."""

import re

BEFORE, AFTER = 48, 24


def words(yes: str, no: str = "") -> re.Pattern:
    """A pattern for `leaning`; a placeholder such as `[PHONE_abcdefgh]` is no context."""
    either = f"(?P<yes>{yes})" + (f"|(?P<no>{no})" if no else "")
    return re.compile(rf"(?<![a-z])(?:{either})(?![a-z]|_[a-z]{{8}}\])", re.I)


def leaning(pattern: re.Pattern, text: str, start: int, stop: int) -> bool | None:
    """True or False for the nearest telling word before the span, else after it; None without."""
    before = list(pattern.finditer(text[max(0, start - BEFORE) : start]))
    nearest = (
        before[-1]
        if before
        else pattern.search(re.split(r"[.!?;\n]", text[stop : stop + AFTER])[0])
    )
    return None if nearest is None else nearest.lastgroup == "yes"
