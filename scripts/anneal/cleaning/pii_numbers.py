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

IBAN = re.compile(r"[A-Z]{2}(?<!\w..)\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,4})?(?!\w)")
# Seven digits or more with what people put between them; the first digit leads, for speed.
RUN = re.compile(
    r"\d(?<!\w\d)(?<!\d[.,]\d)(?<!\w-\d)(?:[ .\u00a0()/\u2010-\u2013-]{0,3}\d){6,30}"
    r"(?!\w|[.,]\d|-\w)"
)
CARD = re.compile(r"(?:\d{4}[ -]?){3}\d{1,7}|3\d{3}[ -]?\d{6}[ -]?\d{4,5}|\d{13,19}")
# First digits and lengths of the card networks (ISO/IEC 7812 ranges as the networks publish them).
NETWORKS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[068]\d{12}|35\d{14}"
    r"|6(?:011|4|5)\d*|6[27]\d{14,17}|5[06-8]\d{10,17}"
)
DATE = re.compile(
    r"(?:19|20)\d\d[-/.]\d\d?[-/.]\d\d?(?!\d)|\d\d?[-/.]\d\d?[-/.](?:19|20)\d\d(?!\d)"
)
VERSION = re.compile(r"\d{1,4}(?:\.\d{1,4}){2,3}")
THINGS = (
    r"orders?|invoices?|tickets?|tracking|ref(?:erence)?|ids?|job|epoch|timestamp|unix|seconds?|"
    r"serial|isbn|issn|sku|build|versions?|amount|total|price|parcel|case|issue|pid|port|batch|"
    r"article|item|product|bestellung|bestellnummer|commande|pedido|ordine|started|trace|request"
)
PHONE = words(
    r"call(?:ed|ing)?|(?:tele)?phones?|tel|mobile|cell|fax|ring|dial|whatsapp|sms|text|reach|"
    r"contact|hotline|number is|phone_number|telefon\w*|handy|anruf\w*|mobil|téléphone|portable|"
    r"teléfono|móvil|llam\w+|telefono|cellulare|telefone|celular|telefoon|bel|电话|手机|電話|тел\w*",
    THINGS,
)
PAY = words(
    r"(?:credit|debit)?\s?cards?|visa|mastercard|amex|pay(?:ment)?|pan|karte|carte|tarjeta", THINGS
)
IDENTITY = words(
    r"ssn|social[- ]security|national[- ]id\w*|tax[- ]?(?:id|number|code)|tin|steuer[-\w]*|idnr|"
    r"nir|sécu\w*|sécurité sociale|insee|dni|nie|bsn|burgerservicenummer|sofi\w*|cpf|pesel|"
    r"aadhaar|aadhar|uidai?|codice fiscale|nino|national insurance|ni number|identity|"
    r"identification|passport|personal (?:id|number|code)|citizen\w*",
    THINGS,
)


class NationalId(NamedTuple):
    """`module` of python-stdnum verifies it; `alone` says that its shape needs no context."""

    shape: re.Pattern
    module: str
    alone: bool


NATIONAL_IDS = tuple(
    NationalId(re.compile(shape), module, alone)
    for shape, module, alone in (
        (r"\d{3}[- ]\d{2}[- ]\d{4}|\d{9}", "us.ssn", True),
        (r"\d{3}\.\d{3}\.\d{3}-\d{2}|\d{11}", "br.cpf", True),
        (r"[12] ?\d{2} ?\d{2} ?\d{2} ?\d{3} ?\d{3} ?\d{2}", "fr.nir", True),
        (r"[2-9]\d{3}([ -]?)\d{4}\1\d{4}", "in_.aadhaar", False),
        (r"\d{2} ?\d{3} ?\d{3} ?\d{3}", "de.idnr", False),
        (r"\d{11}", "pl.pesel", False),
        (r"\d{4}\.?\d{2}\.?\d{3}|\d{8}", "nl.bsn", False),
    )
)
LETTERED = re.compile(
    r"\d(?<!\w\d)\d{7}-?(?P<dni>[A-Z])(?!\w)|[XYZ](?<!\w.)-?\d{7}-?(?P<nie>[A-Z])(?!\w)"
    r"|[A-Z]{6}(?<!\w.{6})\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}(?P<fiscal>[A-Z])(?!\w)"
    r"|[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?<!\w..)(?: ?\d\d){3} ?(?P<nino>[A-D])(?!\w)"
)
LETTERED_MODULES = {"dni": "es.dni", "nie": "es.nie", "fiscal": "it.codicefiscale", "nino": None}
NO_NINO = ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")


def ibans(text: str, _region: str) -> Found:
    for match in IBAN.finditer(text):
        if stop := _iban_end(match.group()):
            yield match.start(), match.start() + stop, True


def _iban_end(value: str) -> int:
    """Length of the valid IBAN a text starts with: capitals behind it are not part of it."""
    ends = (m.start() for m in re.finditer(r"(?!\w)|(?=[ -])", value))
    return max((end for end in ends if end and iban.is_valid(value[:end])), default=0)


def cards(text: str, _region: str) -> Found:
    for run in RUN.finditer(text):
        for match in CARD.finditer(run.group()):
            digits = re.sub(r"\D", "", match.group())
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
        value = run.group()
        for kind in NATIONAL_IDS:
            if kind.shape.fullmatch(value) and _valid(kind.module, value):
                context = leaning(IDENTITY, text, *run.span())
                if context or (not value.isdigit() and context is None):
                    yield *run.span(), kind.alone or context is True
                    break


def _lettered_ids(text: str) -> Found:
    for match in LETTERED.finditer(text):
        value, module = match.group(), LETTERED_MODULES[match.lastgroup]
        valid = _valid(module, value) if module else value[:2] not in NO_NINO
        context = leaning(IDENTITY, text, *match.span())
        if valid and (context is not False or match.lastgroup == "fiscal"):
            yield *match.span(), context is True or match.lastgroup == "fiscal"


def _valid(module: str, value: str) -> bool:
    from importlib import import_module

    return import_module(f"stdnum.{module}").is_valid(value)


def phones(text: str, region: str) -> Found:
    for run in RUN.finditer(text):
        before = text[max(0, run.start() - 2) : run.start()]
        start = run.start() - (len(before) - len(before.rstrip("+(")))
        context = leaning(PHONE, text, start, run.end())
        if context is not True and (DATE.match(run.group()) or VERSION.fullmatch(run.group())):
            continue
        yield from _phones_in(text[start : run.end()], start, region, context)


def _phones_in(segment: str, offset: int, region: str, context: bool | None) -> Found:
    found = False
    for match in phonenumbers.PhoneNumberMatcher(segment, region, phonenumbers.Leniency.VALID):
        if context is True or not match.raw_string.isdigit():
            found = True
            yield offset + match.start, offset + match.end, context is not False
    digits = sum(c.isdigit() for c in segment)
    if not found and 7 <= digits <= 15 and (context or segment.startswith("+")):
        yield offset, offset + len(segment), False
    elif not found and segment.startswith("00") and _is_abroad(segment):
        yield offset, offset + len(segment), context is True


def _is_abroad(segment: str) -> bool:
    try:
        number = phonenumbers.parse("+" + segment[2:])
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(number) and not segment.isdigit()


Finder = Callable[[str, str], Found]
