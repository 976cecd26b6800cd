"""Personal data made of digits, confirmed by check digit: IBANs, cards, national ids, phones.

Each finder yields (start, stop, sure); what is not sure is replaced too, and counted apart.
Bare digits prove little: without a telling word nearby they are an order or a time and stay.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import phonenumbers
from stdnum import iban, luhn

from anneal.cleaning.context import leaning, words
from anneal.cleaning.pii_text import Found

# Chinese and Japanese put no space between a word and a number.
WORD = r"[^\W\u2e80-\ud7ff\uf900-\ufaff]"
# The digits lead, for speed; two letters stand in front of them.
IBAN = re.compile(
    r"\d(?<![^\W_]{3}\d)(?<=[A-Z]{2}\d)\d(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,4})?(?!\w)",
    re.A | re.I,
)
# Seven digits or more with what people put between them; the first digit leads, for speed.
RUN = re.compile(
    rf"\d(?<!{WORD}\d)(?<!\d[.,]\d)(?<!\w-\d)(?:[ .()（）/-]{{0,3}}\d){{6,30}}"
    rf"(?!(?!x\d){WORD}|[.,]\d|-\w)"
)
CARD = re.compile(r"(?:\d{4}[ .-]?){3}\d{1,7}|3\d{3}[ -]?\d{6}[ -]?\d{4,5}|\d{13,19}")
GROUP = re.compile(r"(?<!\d)\d")
# First digits and lengths of the card networks (ISO/IEC 7812 ranges as the networks publish them).
NETWORKS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[068]\d{12}|35\d{14}"
    r"|6(?:011|4|5)\d*|6[27]\d{14,17}|5[06-8]\d{10,17}"
)
DATE = re.compile(
    r"(?<![\d.-])(?:(?:19|20)\d\d([-/.])\d\d?\1\d\d?|\d\d?([-/.])\d\d?\2(?:19|20)\d\d)(?![\d-])"
)
VERSION = re.compile(r"(?!\d{3}\.\d{3}\.\d{4}$)\d{1,4}(?:\.\d{1,4}){2,3}")
# The number of an item in a list.
LISTED = re.compile(r"^ {0,3}\d{1,2}[.)] ", re.M)
# Signs of a calculation on one side of a number.
MATHS_BEFORE, MATHS_AFTER = re.compile(r"[*=+×÷^<>] $"), re.compile(r" [*=+×÷^<>]")
THINGS = (
    r"orders?|invoices?|tickets?|tracking|ref(?:erence)?|ids?|job|epoch|timestamp|unix|seconds?|"
    r"serial|isbn|issn|sku|build|versions?|amount|total|price|parcel|case|issue|pid|port|batch|"
    r"article|item|product|bestellung|bestellnummer|commande|pedido|ordine|started|trace|request|"
    r"订单|单号|编号|金额|注文|番号は|заказ\w*"
)
PHONE = words(
    r"call(?:ed|ing)?|(?:tele)?phones?|tel|mobile|cell|fax|ring|dial|whatsapp|sms|text|reach|"
    r"contact|hotline|number is|phone_number|telefon\w*|handy|anruf\w*|mobil|téléphone|portable|"
    r"rückruf|rufnummer|durchwahl|appel\w*|numéro|"
    r"teléfono|móvil|llam\w+|telefono|cellulare|chiam\w+|telefone|celular|lig(?:ue|ar)|telefoon|bel|"
    r"dzwo\w+|puh|tlf|电话|電話|手机|手機|联系|携帯|전화|휴대폰|연락처|тел\w*|(?:по)?звон\w+|هاتف|جوال|फ़ोन",
    THINGS,
)
PAY = words(
    r"(?:credit|debit)?\s?cards?|visa|mastercard|amex|pay(?:ment)?|pan|karte|carte|tarjeta", THINGS
)
IDENTITY = words(
    r"ssn|social[- ]security|national[- ]id\w*|tax[- ]?(?:id|number|code|file)|i?tin|steuer[-\w]*|"
    r"idnr|nir|sécu\w*|sécurité sociale|insee|dni|nie|bsn|burgerservicenummer|sofi\w*|cpf|pesel|"
    r"aadhaar|aadhar|uidai?|codice fiscale|nino|national insurance|ni number|identi\w+|passport|"
    r"personal (?:id|number|code)|citizen\w*|id (?:number|no|card)|ahv\w*|avs|svnr|"
    r"sozialversicherung\w*|personnummer|henkilötunnus|hetu|cpr\w*|(?:fødsels|person)nummer|fnr|"
    r"rijksregister\w*|registre national|niss|insz|cuit|cuil|rut|run|cnic|nric|mykad|ic|nik|ktp|"
    r"resident\w*|rodné číslo|isikukood|asmens kodas|personas kods|oib|jmbg|emšo|cnp|egn|егн|"
    r"kimlik|tckn|teudat|sin|tfn|nhs|pps\w*|curp|nif|contribuinte|amka|cédula|"
    r"身份证\w*|身分證\w*|주민등록번호|बैंक|आधार",
    THINGS,
)


class NationalId(NamedTuple):
    """`module` of python-stdnum verifies it.

    `untold` is what a number written in groups is where no word tells: surely an id (True), in
    doubt (False) or none (None). Bare digits always need a word.
    """

    shape: re.Pattern
    module: str
    untold: bool | None


NATIONAL_IDS = tuple(
    NationalId(re.compile(shape), module, untold)
    for shape, module, untold in (
        (r"\d{3}[- ]\d{2}[- ]\d{4}|\d{9}", "us.ssn", True),
        (r"9\d{2}[- ]\d{2}[- ]\d{4}|9\d{8}", "us.itin", True),
        (r"\d{3}\.\d{3}\.\d{3}-\d{2}|\d{11}", "br.cpf", True),
        (r"[12] ?\d{2} ?\d{2} ?\d{2} ?\d{3} ?\d{3} ?\d{2}", "fr.nir", True),
        (r"756\.\d{4}\.\d{4}\.\d{2}|756\d{10}", "ch.ssn", True),
        (r"\d{2}\.\d{2}\.\d{2}-\d{3}[. ]\d{2}|\d{11}", "be.nn", True),
        (r"\d{6}-\d{7}|\d{13}", "kr.rrn", True),
        (r"\d-\d{4}-\d{5}-\d{2}-\d|\d{13}", "th.pin", True),
        (r"[2-9]\d{3}([ -]?)\d{4}\1\d{4}", "in_.aadhaar", False),
        (r"\d{2} ?\d{3} ?\d{3} ?\d{3}", "de.idnr", False),
        (r"\d{6}-\d{4}|(?:\d\d)?\d{10}", "se.personnummer", False),
        (r"\d{6}-\d{4}", "fi.hetu", False),
        (r"\d{6} ?\d{5}", "no.fodselsnummer", False),
        (r"\d{6}/\d{3,4}", "cz.rc", False),
        (r"\d{2}-\d{8}-\d|\d{11}", "ar.cuit", False),
        (r"\d{1,2}\.\d{3}\.\d{3}-\d", "cl.rut", False),
        (r"\d{5}-\d{7}-\d", "pk.cnic", False),
        (r"\d{6}-\d{2}-\d{4}", "my.nric", False),
        (r"\d{4}\.?\d{2}\.?\d{3}|\d{8}", "nl.bsn", False),
        (r"\d{11}", "pl.pesel", None),
        (r"\d{11}", "hr.oib", None),
        (r"\d{11}", "ee.ik", None),
        (r"\d{11}", "tr.tckimlik", None),
        (r"\d{6}-?\d{5}", "lv.pk", None),
        (r"\d{6}-?\d{4}", "dk.cpr", None),
        (r"\d{4} ?\d{6}", "at.vnr", None),
        (r"\d{3}([- ]?)\d{3}\1\d{4}", "gb.nhs", None),
        (r"\d{6} ?\d{3} ?\d", "bg.egn", None),
        (r"\d{3}([- ]?)\d{3}\1\d{3}", "ca.sin", None),
        (r"\d{3} ?\d{3} ?\d{2,3}", "au.tfn", None),
        (r"\d{3} ?\d{3} ?\d{3}", "pt.nif", None),
        (r"\d{8}-?\d", "il.idnr", None),
        (r"\d{7,8}-?\d", "cl.rut", None),
        (r"\d{13}", "ro.cnp", None),
        (r"\d{6} ?\d{4} ?\d{3}", "za.idnr", None),
        (r"\d{13}", "si.emso", None),
        (r"\d{16}", "id.nik", None),
        (r"\d{18}", "cn.ric", None),
    )
)
# A letter stands in these. Only a British number has no check digit.
LETTERED = re.compile(
    r"\d(?<!\w\d)\d{7}-?(?P<dni>[A-Z])(?!\w)|[XYZ](?<!\w.)-?\d{7}-?(?P<nie>[A-Z])(?!\w)"
    r"|[A-Z]{6}(?<!\w.{6})\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}(?P<fiscal>[A-Z])(?!\w)"
    r"|[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?<!\w..)(?: ?\d\d){3} ?(?P<nino>[A-D])(?!\w)"
    r"|\d(?<!\w\d)\d{5}[-+A]\d{3}(?P<hetu>[A-Z])(?!\w)|\d(?<!\w\d)\d{16}(?P<ric>X)(?!\w)"
    r"|[A-Z]{4}(?<!\w.{4})\d{6}[HM][A-Z]{5}[0-9A-Z](?P<curp>\d)(?!\w)"
    r"|\d(?<!\w\d)\d{6}(?P<pps>[A-W])[A-IW]?(?!\w)"
    r"|\d(?<![\w.]\d)\d?\.?\d{3}\.?\d{3}-(?P<rut>K)(?!\w)",
    re.A,
)
LETTERED_MODULES = {
    "dni": "es.dni",
    "nie": "es.nie",
    "fiscal": "it.codicefiscale",
    "hetu": "fi.hetu",
    "ric": "cn.ric",
    "curp": "mx.curp",
    "pps": "ie.pps",
    "rut": "cl.rut",
}
LETTER = re.compile(r"\d[ -]?[A-Z]")
CERTAIN, NEEDS_A_WORD = ("fiscal", "curp", "ric"), ("pps",)
NO_NINO = ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")


def ibans(text: str, _region: str) -> Found:
    for match in IBAN.finditer(text):
        start = match.start() - 2
        if stop := _iban_end(text[start : match.end()]):
            yield start, start + stop, True


def _iban_end(value: str) -> int:
    """Length of the valid IBAN a text starts with: capitals behind it are not part of it."""
    ends = [m.start() for m in re.finditer(r"(?!\w)|(?=[ -])", value)]
    valid = [end for end in ends if end and iban.is_valid(value[:end], check_country=False)]
    return max(valid, default=0)


def cards(text: str, _region: str) -> Found:
    for run in RUN.finditer(text):
        for group in GROUP.finditer(run.group()):
            match = CARD.match(run.group(), group.start())
            digits = re.sub(r"\D", "", match.group()) if match else ""
            if NETWORKS.fullmatch(digits) and 12 < len(digits) < 20 and luhn.is_valid(digits):
                start, stop = run.start() + match.start(), run.start() + match.end()
                grouped, context = match.group() != digits, leaning(PAY, text, start, stop)
                if grouped or context is not False:
                    yield start, stop, grouped or context is True


def national_ids(text: str, _region: str) -> Found:
    found = [*_lettered_ids(text), *_digit_ids(text)]
    yield from sorted(found)


def _digit_ids(text: str) -> Found:
    for run in RUN.finditer(text):
        start = run.start()
        pieces = [(start, run.group()), *((start + at, x) for at, x in _dashed(run.group()))]
        found = (_as_id(text, at, value) for at, value in pieces)
        if first := next(filter(None, found), None):
            yield first


def _dashed(run: str) -> list[tuple[int, str]]:
    """Parts between blanks: an id with dashes or dots may have other numbers beside it."""
    parts = [(m.start(), m.group()) for m in re.finditer(r"\S+", run)]
    return [part for part in parts if not part[1].isdigit()] if len(parts) > 1 else []


def _as_id(text: str, start: int, value: str) -> tuple[int, int, bool] | None:
    kinds = [kind for kind in NATIONAL_IDS if kind.shape.fullmatch(value)]
    span = start, start + len(value)
    told = leaning(IDENTITY, text, *span) if kinds else False
    if told is False or (told is None and value.isdigit()):
        return None
    for kind in kinds:
        if (told or kind.untold is not None) and _valid(kind.module, value):
            return *span, bool(told or kind.untold)
    return None


def _lettered_ids(text: str) -> Found:
    for match in LETTERED.finditer(text) if LETTER.search(text) else ():
        value, kind = match.group(), match.lastgroup
        told = leaning(IDENTITY, text, *match.span())
        if (told is False and kind not in CERTAIN) or (not told and kind in NEEDS_A_WORD):
            continue
        if value[:2] not in NO_NINO if kind == "nino" else _valid(LETTERED_MODULES[kind], value):
            yield *match.span(), told is True or kind in CERTAIN


def _valid(module: str, value: str) -> bool:
    from importlib import import_module

    return import_module(f"stdnum.{module}").is_valid(value)


def phones(text: str, region: str) -> Found:
    if not RUN.search(text):
        return
    text = DATE.sub(lambda date: "_" * len(date.group()), text)
    text = LISTED.sub(lambda number: "_" * (len(number.group()) - 1) + " ", text)
    for run in RUN.finditer(text):
        before = text[max(0, run.start() - 2) : run.start()]
        start = run.start() - (len(before) - len(before.rstrip("+(（")))
        context = leaning(PHONE, text, start, run.end())
        if context or text[start] == "+" or not _is_other(text, *run.span()):
            yield from _phones_in(text[start : run.end()], start, region, context)


def _is_other(text: str, start: int, stop: int) -> bool:
    """Whether digits look like a version or a part of a sum."""
    version = VERSION.fullmatch(text, start, stop)
    before = text[max(0, start - 2) : start]
    return bool(version or MATHS_BEFORE.search(before) or MATHS_AFTER.match(text, stop))


def _phones_in(segment: str, offset: int, region: str, context: bool | None) -> Found:
    digits = sum(c.isdigit() for c in segment)
    if stop := _number_abroad(segment):
        yield offset, offset + stop, context is True or (context is None and segment[0] == "+")
    elif found := list(_national(segment, offset, region, context)):
        yield from found
    elif 7 <= digits <= 15 and (context or segment[0] == "+"):
        yield offset, offset + len(segment), False


def _national(segment: str, offset: int, region: str, context: bool | None) -> Found:
    """Numbers of the region, grouped as it groups them where no word tells."""
    leniency = phonenumbers.Leniency.VALID if context else phonenumbers.Leniency.STRICT_GROUPING
    for part in (segment, *_without_last(segment)):
        found = list(phonenumbers.PhoneNumberMatcher(part, region, leniency))
        if found:
            break
    for match in found:
        if context or not match.raw_string.isdigit():
            sure = context is True or (context is None and " - " not in match.raw_string)
            yield offset + match.start, offset + match.end, sure


def _without_last(segment: str) -> list[str]:
    """A number may stand before another: `(202) 555-0143 24/7`."""
    return [segment[: m.start()] for m in re.finditer(r"(?<=-\d{4}) ", segment)]


def _number_abroad(segment: str) -> int:
    """Length of the longest valid number with a country code that a segment starts with, or 0."""
    code = re.match(r"\(?\+|00(?=[ (]?\d)", segment)
    if code is None or (code.group() == "00" and segment.isdigit()):
        return 0
    for end in sorted((m.end() for m in re.finditer(r"\d(?!\d)", segment)), reverse=True):
        try:
            number = phonenumbers.parse("+" + segment[code.end() : end])
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return end
    return 0


Finder = Callable[[str, str], Found]
