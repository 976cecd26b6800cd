"""Personal data: found by pattern, confirmed by a check, replaced by a keyed, stable placeholder.

The same value always becomes the same placeholder, so rows keep their meaning; a placeholder
holds letters only. Passes repeat until one finds nothing, so cleaning twice changes nothing.
"""

import re
from collections import Counter
from hashlib import blake2b

from anneal.cleaning import pii_numbers, pii_text

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
PLACEHOLDER = re.compile(r"\[[A-Z_]+_[a-z]{8}\]")
IN_DOUBT = "_in_doubt"
SAMPLES, AROUND = 5, 40

NUMBERS = frozenset({"iban", "card", "national_id", "phone"})
# Most texts hold nothing: a few cheap signs tell which finders are worth their time.
SIGNS = bytes(set(range(256)) - set(b"0123456789.:@"))
DOTTED = re.compile(rb"\d\.\d{1,3}\.\d{1,3}\.\d")
CLUSTER = re.compile(r"\d(?:[^\d\n]{0,3}\d){4}")
OTHER_DIGITS = re.compile("[٠-٩۰-۹०-९০-৯๐-๙０-９＠]")
# Signs that differ by their width or by how lines break; one character each, so places stay.
SIGN_FORMS = re.compile(
    "[\u00a0\u2007\u2010-\u2013\u202f\u2212\uff0b\uff0d\uff0e\uff10-\uff19\uff20-\uff3a\uff41-\uff5a]"
)
# An address would swallow the key in front of its `@`: keys come first.
FINDERS: dict[str, pii_numbers.Finder] = {
    "url_credentials": pii_text.url_logins,
    "api_key": pii_text.api_keys,
    "email": pii_text.emails,
    "iban": pii_numbers.ibans,
    "card": pii_numbers.cards,
    "national_id": pii_numbers.national_ids,
    "ip": pii_text.addresses,
    "phone": pii_numbers.phones,
}


class PiiRemover:
    """Replaces the chosen kinds of personal data in texts and counts them.

    Args:
        kinds: names out of `FINDERS`.
        key: secret bytes; empty makes placeholders that can be confirmed by guessing.
        region: where phone numbers without a country code are read.

    `review` collects a few contexts of each kind, as they are after cleaning.
    """

    def __init__(self, kinds: list[str], key: bytes = b"", region: str = "US"):
        self.kinds = [kind for kind in FINDERS if kind in kinds]
        self.key, self.region = key, region
        self.numbers = NUMBERS.intersection(kinds)
        self.review: dict[str, list[str]] = {}

    def clean(self, text: str) -> tuple[str, Counter[str]]:
        """The text with placeholders, and how many of each kind were put in.

        What was replaced without being sure counts as `KIND_in_doubt`.
        """
        put_in: list[tuple[str, str]] = []
        while (result := self._pass(text, put_in)) != text:
            text = result
        if not put_in:
            return text, Counter()
        self._remember(text, put_in)
        return text, Counter(name for name, _ in put_in)

    def _pass(self, text: str, put_in: list) -> str:
        worth = _worth_looking(text, self.numbers)
        for kind in self.kinds:
            if kind in worth:
                text = self._replace(kind, text, put_in)
        return text

    def _replace(self, kind: str, text: str, put_in: list) -> str:
        parts, end = [], 0
        for start, stop, sure in FINDERS[kind](_plain(text), self.region):
            if start >= end:
                new = self.placeholder(kind, text[start:stop])
                parts += [text[end:start], new]
                put_in.append((kind if sure else kind + IN_DOUBT, new))
                end = stop
        return "".join([*parts, text[end:]]) if parts else text

    def placeholder(self, kind: str, value: str) -> str:
        """`[EMAIL_kqzfbdrw]`: eight letters out of a keyed hash of the bare value."""
        bare = re.sub(r"[^\w@.:]", "", value).casefold()
        number = int.from_bytes(blake2b(bare.encode(), key=self.key[:64], digest_size=8).digest())
        letters = "".join(ALPHABET[number // 26**i % 26] for i in range(8))
        return f"[{kind.upper()}_{letters}]"

    def _remember(self, text: str, put_in: list) -> None:
        for name, new in put_in:
            shown = self.review.setdefault(name, [])
            at = text.find(new)
            if at >= 0 and len(shown) < SAMPLES:
                around = text[max(0, at - AROUND) : at + len(new) + AROUND]
                shown.append(" ".join(around.split()))


def _plain(text: str) -> str:
    """The text as the patterns know it, character for character."""
    return text if text.isascii() else SIGN_FORMS.sub(_plain_sign, text)


def _plain_sign(match: re.Match) -> str:
    sign = match.group()
    if sign >= "\uff00":
        return chr(ord(sign) - 0xFEE0)
    return " " if sign.isspace() else "-"


def _worth_looking(text: str, numbers: set[str]) -> set[str]:
    """Kinds that a text may hold, by the digits and signs in it."""
    if not text.isascii() and OTHER_DIGITS.search(text):
        return set(FINDERS)
    signs = text.encode("utf-8", "surrogatepass").translate(None, SIGNS)
    worth = {"api_key"} if "-----BEGIN" in text or "uthoriz" in text else set()
    if not signs:
        return worth
    digits = len(signs.translate(None, b".:@"))
    if b"@" in signs:
        worth |= {"email", "url_credentials"}
    if digits:
        worth.add("api_key")
    if DOTTED.search(signs) or signs.count(b":") > 1:
        worth.add("ip")
    if digits > 5 and numbers and CLUSTER.search(text):
        worth |= numbers
    return worth
