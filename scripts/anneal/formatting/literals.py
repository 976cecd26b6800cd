"""Control tokens that somebody typed: they stay text, through the template and the tokenizer.

Before rendering, each is hidden behind one private-use character that occurs nowhere in the row;
afterwards it is put back, and its place is recorded so that the tokenizer reads it as text.
"""

from itertools import islice

Spans = list[tuple[int, int]]
PRIVATE = range(0xE000, 0xF8FF)


def hide(texts: list[str], control: list[str]) -> dict[str, str]:
    """Private-use character of each control token that occurs in the texts; usually none."""
    found = [token for token in control if any(token in text for text in texts)]
    if not found:
        return {}
    used = set("".join(texts))
    free = (chr(code) for code in PRIVATE if chr(code) not in used)
    longest_first = sorted(found, key=lambda token: (-len(token), token))
    return dict(zip(longest_first, islice(free, len(found)), strict=True))


def hidden(text: str, names: dict[str, str]) -> str:
    """The text with each control token behind its character."""
    for token, name in names.items():
        text = text.replace(token, name)
    return text


def shown(text: str, spans: Spans, names: dict[str, str]) -> tuple[str, Spans, Spans]:
    """The text as it was meant, its spans moved accordingly, and the spans of typed tokens."""
    tokens = {name: token for token, name in names.items()}
    parts, literals, moved, at = [], [], [], 0
    for character in text:
        moved.append(at)
        part = tokens.get(character, character)
        if character in tokens:
            literals.append((at, at + len(part)))
        parts.append(part)
        at += len(part)
    moved.append(at)
    return "".join(parts), [(moved[start], moved[end]) for start, end in spans], literals
