"""Personal data: found by pattern, confirmed by a check, replaced by a keyed, stable placeholder.

The same value always becomes the same placeholder, so rows keep their meaning; a placeholder
holds letters only, so a second pass finds nothing in it.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b

import phonenumbers
from stdnum import iban, luhn

EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@(?:[\w-]+\.)+[^\W\d_]{2,24}(?![\w@]|:\S)")
URL_LOGIN = re.compile(r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)")
IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
IPV6 = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])")
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")
CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)")
ALPHABET = "abcdefghijklmnopqrstuvwxyz"

Spans = Iterator[tuple[int, int]]


class PiiRemover:
    """Replaces the chosen kinds of personal data in texts and counts them.

    Args:
        kinds: names out of `FINDERS`.
        key: secret bytes; empty makes placeholders that can be confirmed by guessing.
        region: where phone numbers without a country code are read.
    """

    def __init__(self, kinds: list[str], key: bytes = b"", region: str = "US"):
        self.kinds = [kind for kind in FINDERS if kind in kinds]
        self.key, self.region = key, region

    def clean(self, text: str) -> tuple[str, Counter[str]]:
        """The text with placeholders, and how many of each kind were put in."""
        counts: Counter[str] = Counter()
        if not any(c.isdigit() or c in "@:" for c in text):
            return text, counts
        for kind in self.kinds:
            text, found = self._replace(kind, text)
            if found:
                counts[kind] = found
        return text, counts

    def _replace(self, kind: str, text: str) -> tuple[str, int]:
        parts, end, found = [], 0, 0
        for start, stop in FINDERS[kind](text, self.region):
            parts += [text[end:start], self.placeholder(kind, text[start:stop])]
            end, found = stop, found + 1
        return "".join([*parts, text[end:]]) if found else text, found

    def placeholder(self, kind: str, value: str) -> str:
        """`[EMAIL_kqzfbdrw]`: eight letters out of a keyed hash of the bare value."""
        bare = re.sub(r"[^\w@.:]", "", value).casefold()
        number = int.from_bytes(blake2b(bare.encode(), key=self.key[:64], digest_size=8).digest())
        letters = "".join(ALPHABET[number // 26**i % 26] for i in range(8))
        return f"[{kind.upper()}_{letters}]"


def _emails(text: str, _region: str) -> Spans:
    return (m.span() for m in EMAIL.finditer(text)) if "@" in text else iter(())


def _url_logins(text: str, _region: str) -> Spans:
    return (m.span() for m in URL_LOGIN.finditer(text)) if "://" in text else iter(())


def _ibans(text: str, _region: str) -> Spans:
    return (m.span() for m in IBAN.finditer(text) if iban.is_valid(m.group()))


def _cards(text: str, _region: str) -> Spans:
    return (m.span() for m in CARD.finditer(text) if luhn.is_valid(re.sub(r"\D", "", m.group())))


def _addresses(text: str, _region: str) -> Spans:
    matches = [*IPV4.finditer(text), *IPV6.finditer(text)]
    return iter(sorted(m.span() for m in matches if _is_address(m.group())))


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False


def _phones(text: str, region: str) -> Spans:
    if sum(c.isdigit() for c in text) < 7:
        return iter(())
    found = phonenumbers.PhoneNumberMatcher(text, region, phonenumbers.Leniency.POSSIBLE)
    return ((m.start, m.end) for m in found if _is_phone(m))


def _is_phone(match) -> bool:
    """Written with a country code, or valid in its region: digits alone prove nothing."""
    return match.raw_string.startswith("+") or phonenumbers.is_valid_number(match.number)


FINDERS: dict[str, Callable[[str, str], Spans]] = {
    "url_credentials": _url_logins,
    "email": _emails,
    "iban": _ibans,
    "card": _cards,
    "ip": _addresses,
    "phone": _phones,
}
