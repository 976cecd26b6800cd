"""Repair of text: broken Unicode, NFC, line ends, invisible marks, and HTML that really is HTML."""

import re
import unicodedata

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
CODE = re.compile(r"```|^\s{4,}\S|[{};]\s*$", re.M)


def normalise(text: str, unescape_html: bool = True) -> str:
    """NFC text without control marks, with `\\n` line ends and no outer white space."""
    if unescape_html and is_html(text):
        text = html.fromstring(f"<div>{text}</div>").text_content()
    if not text.isascii():
        text = unicodedata.normalize("NFC", ftfy.fix_text(text, REPAIR))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return INVISIBLE.sub("", text).strip()


def is_html(text: str) -> bool:
    """Whether a text is marked up as HTML: an entity, or a known tag that is also closed.

    A comparison, a generic type or a code block is not.
    """
    if CODE.search(text):
        return False
    if ENTITY.search(text):
        return True
    return any(f"</{tag.lower()}" in text.lower() for tag in TAG.findall(text))


def fold(text: str) -> str:
    """The form in which texts are compared, never stored: NFKC, case and white space folded."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
