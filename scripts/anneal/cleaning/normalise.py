"""Repair of text: broken Unicode, NFC, line ends, invisible marks, and HTML that really is HTML."""

import re
import unicodedata
from html import unescape
from html.entities import name2codepoint

import ftfy
from lxml import etree, html

REPAIR = ftfy.TextFixerConfig(
    unescape_html=False,
    uncurl_quotes=False,
    fix_latin_ligatures=False,
    fix_character_width=False,
    fix_surrogates=False,
    normalization=None,
)
# Joiners stay inside emoji and the words of many scripts; between Latin letters they do nothing.
INVISIBLE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b\x0e-\x1f\x7f\u00ad\u061c\u200b\u200e\u200f"
    "\u202a-\u202e\u2060\u2066-\u2069\ufeff]|(?<=[A-Za-z])[\u200c\u200d]+(?=[A-Za-z])"
)
LINE_END = re.compile("\r\n|[\r\v\f]")
NAMES = "|".join([*name2codepoint, "apos"])
ENTITY = re.compile(rf"&(?:{NAMES}|#\d{{2,7}}|#x[0-9a-fA-F]{{2,6}});")
TAG = re.compile(
    r"<(p|div|span|b|i|u|em|strong|a|ul|ol|li|dl|dt|dd|h[1-6]|table|thead|tbody|tr|th|td|sup|sub|"
    r"html|body|blockquote|font|center)\b[^<>]*>",
    re.I,
)
END_TAG = re.compile(r"</[a-z][a-z0-9]*\s*>", re.I)
CODE = re.compile(r"```|`[^`\n]*[<&]|^\s{4,}\S|[{};]\s*$", re.M)
SCRIPT = re.compile(r"<(?:script|style)\b", re.I)
SCRIPT_END = re.compile(r"</(?:script|style)\s*>", re.I)

# Elements that stand on lines of their own.
BLOCKS = (
    "address article aside blockquote body br caption center dd div dl dt figure footer form h1 h2 "
    "h3 h4 h5 h6 header hr html li main nav ol option p pre section table title tr ul"
)
LINES = frozenset(BLOCKS.split())
# U+2028 marks where a line ends until the white space around is known.
BREAK = "\u2028"
BREAKS = re.compile(rf"\s*{BREAK}\s*")
FIGURES = {
    "sup": ("^", str.maketrans("0123456789+-−=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱ")),
    "sub": ("_", str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")),
}


def normalise(text: str, unescape_html: bool = True) -> str:
    """NFC text without control marks, with `\\n` line ends and no outer white space."""
    text = _repaired(text)
    while unescape_html and is_html(text) and (bare := _repaired(_text_of(text))) != text:
        text = bare
    return text


def _repaired(text: str) -> str:
    """The repaired text: what one repair uncovers, the next one mends."""
    while (mended := _mended(text)) != text:
        text = mended
    return text


def _mended(text: str) -> str:
    text = INVISIBLE.sub("", LINE_END.sub("\n", text)).strip()
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", ftfy.fix_text(text, REPAIR))


def is_html(text: str) -> bool:
    """Whether a text is marked up as HTML: an entity, or a known tag that is also closed.

    A comparison, a generic type or a code block is not.
    """
    if "<" not in text and "&" not in text:
        return False
    text = _without_scripts(text)
    entities = ENTITY.search(text)
    if not entities and not _is_tagged(text):
        return False
    return not CODE.search(ENTITY.sub("", text) if entities else text)


def _is_tagged(text: str) -> bool:
    return any(f"</{tag.lower()}" in text.lower() for tag in TAG.findall(text))


def _text_of(text: str) -> str:
    """Text without tags and scripts; where only entities tell of HTML, a `<` is no tag.

    Tags that were shown as text stay escaped: they are what the text is about.
    """
    if _is_tagged(text):
        text = _shown(html.fromstring(f"<div>{_without_scripts(text)}</div>"))
    else:
        text = ENTITY.sub(lambda match: unescape(match.group()), text)
    if _is_tagged(text):
        for pattern in (TAG, END_TAG):
            text = pattern.sub(lambda tag: f"&lt;{tag.group()[1:-1]}&gt;", text)
    return text


def _shown(root: html.HtmlElement) -> str:
    """Lines where a browser begins new ones, tabs between cells, raised and lowered figures."""
    parts, opened = [], []
    for event, element in etree.iterwalk(root, ("start", "end", "comment", "pi")):
        if event == "start":
            opened.append(len(parts))
            parts += [BREAK if element.tag in LINES else "", element.text or ""]
            continue
        if event == "end":
            at = opened.pop()
            parts[at:] = [_closed(element.tag, "".join(parts[at:]))]
        parts.append(element.tail or "")
    return BREAKS.sub(_line_end, "".join(parts))


def _closed(tag: str, text: str) -> str:
    """What stands for an element, given the text inside."""
    if tag in LINES:
        return text + BREAK
    if tag in FIGURES and text:
        mark, figures = FIGURES[tag]
        moved = text.translate(figures)
        return moved if moved != text else mark + text
    return f"{text}\t" if tag in ("td", "th") else text


def _line_end(match: re.Match) -> str:
    return "\n" * min(max(match.group().count("\n"), 1), 2)


def _without_scripts(text: str) -> str:
    *closed, rest = SCRIPT_END.split(text)
    return "".join([*(SCRIPT.split(part, maxsplit=1)[0] for part in closed), rest])


def fold(text: str) -> str:
    """The form in which texts are compared, never stored: NFKC, case and white space folded."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
