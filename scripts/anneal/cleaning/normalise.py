"""Repair of text: broken Unicode, NFC, line ends, invisible marks, and HTML that really is HTML."""

import re
import unicodedata
from html import unescape

import ftfy
from lxml import html

REPAIR = ftfy.TextFixerConfig(
    unescape_html=False,
    uncurl_quotes=False,
    fix_latin_ligatures=False,
    fix_character_width=False,
    fix_surrogates=False,
    normalization=None,
)
INVISIBLE = re.compile("[\u0000\u200b\u2060\ufeff\u00ad\u202a-\u202e\u2066-\u2069]")
ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{2,5}|#x[0-9a-fA-F]{2,5});")
TAG = re.compile(r"<(p|div|span|b|i|u|em|strong|a|ul|ol|li|h[1-6]|table|tr|td)\b[^<>]*>", re.I)
CODE = re.compile(r"```|`[^`\n]*[<&]|^\s{4,}\S|[{};]\s*$", re.M)
SCRIPT = re.compile(r"<(?:script|style)\b", re.I)
SCRIPT_END = re.compile(r"</(?:script|style)\s*>", re.I)


def normalise(text: str, unescape_html: bool = True) -> str:
    """NFC text without control marks, with `\\n` line ends and no outer white space."""
    if unescape_html and is_html(text):
        text = _text_of(text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", ftfy.fix_text(text, REPAIR))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return INVISIBLE.sub("", text).strip()


def is_html(text: str) -> bool:
    """Whether a text is marked up as HTML: an entity, or a known tag that is also closed.

    A comparison, a generic type or a code block is not.
    """
    text = _without_scripts(text)
    return not CODE.search(text) and (_is_tagged(text) or bool(ENTITY.search(text)))


def _is_tagged(text: str) -> bool:
    return any(f"</{tag.lower()}" in text.lower() for tag in TAG.findall(text))


def _text_of(text: str) -> str:
    """Text without tags and scripts; where only entities tell of HTML, a `<` is no tag."""
    if not _is_tagged(text):
        return ENTITY.sub(lambda match: unescape(match.group()), text)
    return html.fromstring(f"<div>{_without_scripts(text)}</div>").text_content()


def _without_scripts(text: str) -> str:
    *closed, rest = SCRIPT_END.split(text)
    return "".join([*(SCRIPT.split(part, maxsplit=1)[0] for part in closed), rest])


def fold(text: str) -> str:
    """The form in which texts are compared, never stored: NFKC, case and white space folded."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
