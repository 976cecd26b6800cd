"""Personal data made of letters and signs: e-mail addresses, passwords in URLs, API keys, IPs.

Each finder yields (start, stop, sure); what is not sure is replaced too, and counted apart.
"""

import ipaddress
import re
from collections.abc import Iterator

from anneal.cleaning.context import leaning, words

Found = Iterator[tuple[int, int, bool]]

# Letters of scripts that put spaces between words; an address ends where another script begins.
SPACED = r"A-Za-z0-9\u00c0-\u024f\u0370-\u06ff"
EMAIL = re.compile(
    rf"(?<![{SPACED}._%+-])(?:[A-Za-z]+')?[{SPACED}_%+-][{SPACED}._%+-]*"
    rf"@(?:[{SPACED}-]+\.)+(?:(?![0-9])[{SPACED}]){{2,24}}(?![{SPACED}_@(\[])"
    r"|(?<![\w.+-])[\w.+-]*[^\x00-\u06ff]@(?:[\w-]+\.)+[^\W\d_]{2,24}(?![\w@])"
    r"|(?<![\w.+-])[\w.+-]+@(?:[\w-]+\.)*[\w-]*[^\x00-\u06ff][\w-]*\.[^\W\d_]{2,24}(?![\w@])"
)
REMOTE = re.compile(r":(?:[/~]|[\w.~-]+/|[\w.-]+\.git\b)")
PINNED = re.compile(r"v?\d+\.(?:\d+\.)*(?:rc|alpha|beta|dev|post|final|next)$")
NOT_DOMAINS = frozenset(
    [
        "bmp",
        "css",
        "gif",
        "html",
        "jpeg",
        "jpg",
        "js",
        "json",
        "jsx",
        "pdf",
        "png",
        "svg",
        "ts",
        "tsx",
        "txt",
        "webp",
        "xml",
        "yaml",
        "yml",
        "bias",
        "conj",
        "copy",
        "data",
        "dtype",
        "flat",
        "grad",
        "iloc",
        "imag",
        "index",
        "inv",
        "loc",
        "mean",
        "real",
        "shape",
        "size",
        "sum",
        "values",
        "weight",
    ]
)
URL_LOGIN = re.compile(r"(?<=://)[^\s/:@\"'<>]*:[^\s/\"'<>]+(?=@)")

KEY_MARKS = {
    "_": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "k_live_", "hf_", "npm_"),
    "-": ("sk-", "xox", "glpat-", "-----BEGIN"),
    "A": ("AKIA", "ASIA", "AIza"),
    "J": ("eyJ",),
    "e": ("ecret",),
    "E": ("SECRET",),
}
API_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"(?:[^-]*-----END [A-Z ]*PRIVATE KEY-----|[\sA-Za-z0-9+/=]*)"
    r"|(?<![A-Za-z0-9])(?:"
    r"A[KS]IA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}"
    r"|glpat-[\w-]{20,}|sk-(?=[\w-]*\d)[\w-]{20,}|[sr]k_live_[A-Za-z0-9]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|AIza[\w-]{35}|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"
    r")(?![A-Za-z0-9])"
    r"|(?i:secret_?access_?key)[\s:=\"']{1,5}(?P<secret>[A-Za-z0-9/+]{40})(?![\w/+=])",
    re.A,
)

IPV4 = re.compile(
    r"\d(?<![\w.]\d)(?<![A-Za-z_]-\d)\d{0,2}(?:\.\d{1,3}){3}(?:/\d{1,2}(?![\w/]))?(?!\w|\.\d|-[A-Za-z])"
)
IPV6 = re.compile(
    r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:/\d{1,3}(?![\w/]))?(?![\w:]|\.\d)"
)
NETWORK = words(
    r"ips?|ipv[46]|address(?:es)?|hosts?|server|client|peer|login|logged|from|at|ping|ssh|curl|"
    r"allow|deny|block(?:ed)?|ban(?:ned)?|subnet|network|cidr|range|gateway|router|dns|proxy|"
    r"firewall|listen(?:ing)?|connect(?:ed|ion|s)?|visitor|user|via|https?|tcp|udp|adresse?|"
    r"device|machine|nodes?|instance|vm|container|interface|traffic|packets?|scann?ed|attack\w*|"
    r"dirección|indirizzo|von|desde",
    r"v|ver|versions?|release|upgraded?|updated?|downgraded?|install(?:ed)?|builds?|patch|"
    r"roll(?:ed)? back|rollback|bump(?:ed)?|kernel|plugin|library|app|bios|runtime|schema|java|"
    r"python|chrome|firefox|windows|ios|android|annex|firmware|driver|agent|sdk|package|requires?|sections?|chapters?|clauses?|paragraphs?|§|"
    r"figures?|tables?|appendix|articles?|abschnitt|kapitel|oid|pip|npm|tag",
)


def emails(text: str, _region: str) -> Found:
    if "@" in text:
        for match in EMAIL.finditer(text):
            if _is_email(match.group(), text[match.end() : match.end() + 80]):
                yield *match.span(), True


def _is_email(value: str, rest: str) -> bool:
    user, _, domain = value.partition("@")
    if user.lower() in ("git", "hg") or REMOTE.match(rest) or PINNED.match(domain):
        return False
    return domain.rpartition(".")[2].lower() not in NOT_DOMAINS


def url_logins(text: str, _region: str) -> Found:
    if "://" in text and "@" in text:
        yield from ((*match.span(), True) for match in URL_LOGIN.finditer(text))


def api_keys(text: str, _region: str) -> Found:
    if any(sign in text and any(m in text for m in marks) for sign, marks in KEY_MARKS.items()):
        for match in API_KEY.finditer(text):
            yield *match.span(match.lastgroup or 0), True


def addresses(text: str, _region: str) -> Found:
    found = []
    if text.count(".") >= 3:
        found += [(m, _is_ipv4) for m in IPV4.finditer(text)]
    if text.count(":") >= 2:
        found += [(m, _is_ipv6) for m in IPV6.finditer(text)]
    for match, check in sorted(found, key=lambda pair: pair[0].start()):
        context = leaning(NETWORK, text, *match.span())
        sure = check(match.group(), text[max(0, match.start() - 2) : match.start()], context)
        if sure is not None:
            yield *match.span(), sure


def _is_ipv4(value: str, before: str, context: bool | None) -> bool | None:
    """Whether it surely is an address; None leaves it, as a version or a section number."""
    if not _parses(value):
        return None
    numbers = [int(n) for n in value.partition("/")[0].split(".")]
    versionlike = max(numbers) < 100 and "/" not in value
    if versionlike and (context is False or before.endswith(("==", ">=", "<=", "~=", "§"))):
        return None
    return context is True or "/" in value


def _is_ipv6(value: str, before: str, context: bool | None) -> bool | None:
    """A slice such as `[1::2]`, a time or a C++ name is no address unless the words say so."""
    if not _parses(value):
        return None
    groups = [g for g in value.partition("/")[0].split(":") if g]
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    if mixed and (len(groups) >= 3 or len(groups[0]) == 4):
        return True
    told = context is True and len(groups) > 1 and not before.endswith("[")
    return False if len(groups) >= 5 or told else None


def _parses(value: str) -> bool:
    try:
        network = ipaddress.ip_interface(value)
    except ValueError:
        return False
    return not network.ip.is_unspecified or "/" in value
