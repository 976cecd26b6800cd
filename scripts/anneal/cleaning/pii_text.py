"""Personal data made of letters and signs: e-mail addresses, passwords in URLs, API keys, IPs.

Each finder yields (start, stop, sure); what is not sure is replaced too, and counted apart.
"""

import ipaddress
import re
from collections.abc import Iterator

from anneal.cleaning.context import leaning, words

Found = Iterator[tuple[int, int, bool]]

# Letters of scripts that put spaces between words, without the punctuation among them; an address
# ends where another script begins.
SPACED = (
    r"A-Za-z0-9\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u037d\u037f-\u0386\u0388-\u0481"
    r"\u0483-\u0559\u0560-\u0588\u0591-\u05bd\u05c4-\u05f2\u0610-\u061a\u0620-\u0669"
    r"\u066e-\u06d3\u06d5-\u06ff\u1e00-\u1fff"
)
# Vowel signs of Indic and Thai words are no `\w`.
MARKS = r"\u0900-\u0963\u0966-\u0dff\u0e31-\u0e3a\u0e47-\u0e4e"
OTHER = rf"(?:[^\W\x00-\u06ff]|[{MARKS}])"
EMAIL = re.compile(
    rf"(?<![{SPACED}._%+-])(?:[A-Za-z]+')?[{SPACED}_%+-][{SPACED}._%+-]*"
    rf"@(?:[{SPACED}-]+\.)+(?:(?![0-9])[{SPACED}]){{2,24}}(?![{SPACED}@(\[]|_\w)"
    rf"|(?<![\w{MARKS}.+-])[\w{MARKS}.+-]*{OTHER}@(?:[\w{MARKS}-]+\.)+[^\W\d_]{{2,24}}(?![\w@])"
    rf"|(?<![\w{MARKS}.+-])[\w{MARKS}.+-]+@(?:[\w{MARKS}-]+\.)*[\w-]*{OTHER}[\w{MARKS}-]*"
    r"\.[^\W\d_]{2,24}(?![\w@])"
)
# What stands before an address without a gap: an escape of code or of a URL.
ESCAPE = re.compile(r"(?<=\\)[nrt](?=[^@])|[^@]*%(?:0[9AD]|2[0278C]|3[A-E]|5B|7B)(?=[^@])", re.I)
REMOTE = re.compile(r":(?:[/~]|[\w.~-]+/|[\w.-]+\.git\b)")
PINNED = re.compile(r"v?\d+\.(?:\d+\.)*(?:rc|alpha|beta|dev|post|final|next)$")
# Ends of file names, of attributes of a tensor and of systemd units.
ENDS = (
    "bmp css gif html jpeg jpg js json jsx pdf png svg ts tsx txt webp xml yaml yml "
    "bias conj copy data dtype flat grad iloc imag index inv loc mean mT mH real shape size sum "
    "values weight mount path scope service slice socket target timer"
)
NOT_DOMAINS = frozenset(ENDS.split())
URL_LOGIN = re.compile(r"(?<=://)[^\s/:@\"'<>]*:(?P<password>[^\s/\"'<>]+)(?=@)")
VARIABLE = re.compile(r"\$?\{.*\}|\$\w+|%\(?\w*\)?s|\*+|\[[A-Z_]+_[a-z]{8}\]")

KEY_MARKS = {
    "_": (
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "k_live_", "k_test_", "hf_"),
        *("npm_", "dop_v1_", "shpat_", "shpss_", "gsk_", "dckr_pat_", "lin_api_", "whsec_"),
    ),
    "-": ("sk-", "xox", "xapp-", "glpat-", "GOCSPX-", "pypi-", "-----BEGIN"),
    "A": ("AKIA", "ASIA", "AIza", ":AA"),
    "y": ("eyJ", "ya29."),
    ".": ("SG.",),
    "/": ("/services/T",),
}
API_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]*-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|[\sA-Za-z0-9+/=]*)"
    r"|(?<![A-Za-z0-9])(?:"
    r"A[KS]IA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}"
    r"|glpat-[\w-]{20,}|sk-(?=[\w-]*\d)[\w-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|xapp-\d-[\w-]{20,}|npm_[A-Za-z0-9]{36}"
    r"|hf_[A-Za-z0-9]{30,}|AIza[\w-]{35}|GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,}"
    r"|SG\.[\w-]{16,32}\.[\w-]{16,64}|pypi-[\w-]{40,}|dop_v1_[0-9a-f]{64}"
    r"|shp(?:at|ss)_[0-9a-fA-F]{32}|gsk_[A-Za-z0-9]{40,}|dckr_pat_[\w-]{20,}"
    r"|lin_api_[A-Za-z0-9]{32,}|whsec_[A-Za-z0-9+/=]{24,}|\d{8,10}:AA[\w-]{32,33}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"
    r")(?![A-Za-z0-9])"
    r"|(?<=/services/)(?P<hook>T[0-9A-Z]{8,}/B[0-9A-Z]{8,}/[A-Za-z0-9]{20,})",
    re.A,
)
# A value behind a telling name. Only few names are sure of it.
NAMED_KEY = re.compile(
    r"[:=]>?\s{0,2}[\"']?(?P<scheme>(?:bearer|basic|token) )?"
    r"(?P<value>[\w/+~.-]{8,}+={0,2})(?![\w(\[{$])",
    re.A | re.I,
)
NAME = re.compile(
    r"(?:(?P<sure>secret_?access_?key|authorization)"
    r"|(?:api|secret|access|auth|client|account|private)[_-]?(?:key|token|secret))[\"']?\s{0,2}$",
    re.I,
)
DRAWN = re.compile(r"(?=.*[A-Za-z])(?:\D*\d){3}")
MADE_UP = re.compile(r"your|example|here|placeholder|changeme|dummy|redacted|xxx|insert", re.I)

IPV4 = re.compile(
    r"\d(?<![\w.]\d)(?<![A-Za-z_]-\d)\d{0,2}(?:\.\d{1,3}){3}(?:/\d{1,2}(?![\w/]))?(?!\w|\.\d|-[A-Za-z])",
    re.A,
)
IPV6 = re.compile(
    r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:/\d{1,3}(?![\w/]))?(?![\w:]|\.\d)",
    re.A,
)
NETWORK = words(
    r"ips?|ipv[46]|address(?:es)?|hosts?|server|client|peer|login|logged|from|at|ping|ssh|curl|"
    r"allow|deny|block(?:ed)?|ban(?:ned)?|subnet|network|cidr|range|gateway|router|dns|proxy|"
    r"firewall|listen(?:ing)?|connect(?:ed|ion|s)?|visitor|user|via|https?|tcp|udp|adresse?|"
    r"device|machine|nodes?|instance|vm|container|interface|traffic|packets?|scann?ed|attack\w*|"
    r"dirección|indirizzo|von|desde",
    r"v|ver|\w*versions?|release|upgraded?|updated?|downgraded?|install(?:ed)?|builds?|patch|"
    r"roll(?:ed)? back|rollback|bump(?:ed)?|kernel|plugin|library|app|bios|runtime|schema|java|"
    r"python|chrome|firefox|windows|ios|android|annex|firmware|driver|agent|sdk|package|requires?|sections?|chapters?|clauses?|paragraphs?|§|"
    r"figures?|tables?|appendix|articles?|abschnitt|kapitel|oid|pip|npm|tag",
)


def emails(text: str, _region: str) -> Found:
    if "@" in text:
        for match in EMAIL.finditer(text):
            rest = text[match.end() : match.end() + 80]
            if _is_email(match.group(), rest):
                yield _email_start(match, rest), match.end(), True


def _email_start(match: re.Match, rest: str) -> int:
    """Where an address begins: not with an escape or with the `_` of emphasis."""
    start = match.start()
    if escape := ESCAPE.match(match.string, start, match.end()):
        start = escape.end()
    return start + (match.group()[0] == "_" == rest[:1])


def _is_email(value: str, rest: str) -> bool:
    user, _, domain = value.partition("@")
    if user.lower() in ("git", "hg") or REMOTE.match(rest) or PINNED.match(domain):
        return False
    top = domain.rpartition(".")[2]
    return not domain.startswith("self.") and NOT_DOMAINS.isdisjoint((top, top.lower()))


def url_logins(text: str, _region: str) -> Found:
    if "://" in text and "@" in text:
        for match in URL_LOGIN.finditer(text):
            if not VARIABLE.fullmatch(match["password"]):
                yield *match.span(), True


def api_keys(text: str, _region: str) -> Found:
    found = []
    if any(sign in text and any(m in text for m in marks) for sign, marks in KEY_MARKS.items()):
        found += [(*m.span(m.lastgroup or 0), True) for m in API_KEY.finditer(text)]
    for match in NAMED_KEY.finditer(text):
        if name := _name_of_key(match):
            found.append((*match.span("value"), name["sure"] is not None))
    yield from sorted(found, key=lambda at: (at[0], not at[2]))


def _name_of_key(match: re.Match) -> re.Match | None:
    """What a value is called, if it is called a key and looks drawn by chance."""
    value, scheme = match["value"], match["scheme"]
    if not scheme and (len(value) < 20 or not DRAWN.match(value) or MADE_UP.search(value)):
        return None
    name = NAME.search(match.string[max(0, match.start() - 40) : match.start()])
    return name if name and (not scheme or name["sure"]) else None


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
    if not _parses(value) or value.startswith("255."):
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
    if len(groups) == 8 and {len(g) for g in groups} == {2}:
        return None  # the number of a device
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
