"""Personal data: what is listed goes, what only looks like it stays, doubt is counted."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cleaning import cleaned

from anneal.cleaning.normalise import normalise
from anneal.cleaning.pii import FINDERS, PLACEHOLDER, PiiRemover


def clean(text: str):
    return PiiRemover(list(FINDERS)).clean(text)


@pytest.mark.parametrize(
    ("marked", "kind"),
    [
        ("Failed login from «198.18.4.201» again.", "ip"),
        ("Block «192.0.2.0/25» at the gateway", "ip"),
        ("hosts «10.0.3.4»-«10.0.3.9»", "ip"),
        ("The cupboard «10.9.8.7» hums.", "ip_in_doubt"),
        ("neighbour «fe80::1c2» and «2001:db8:5::/48»", "ip"),
        ("mapped ::ffff:«192.0.2.9» here", "ip_in_doubt"),
        ("http://«172.16.5.4»:8080/x", "ip"),
        ("Ring «(415) 555-2671» twice", "phone"),
        ("my phone is «4155552671»", "phone"),
        ("«+44 20 7946 0958» or «+91 98765 43210»", "phone"),
        ("intl. «0044 20 7946 0958»", "phone_in_doubt"),
        ("mobile «030 90182033»", "phone_in_doubt"),
        ("pay «GB82 WEST 1234 5698 7654 32» NOW", "iban"),
        ("visa «5555-5555-5555-4444».", "card"),
        ("charged «5555555555554444»", "card_in_doubt"),
        ("SSN «536-90-4399»", "national_id"),
        ("her social security «536904399»", "national_id"),
        ("CPF «390.533.447-05»", "national_id"),
        ("NINO «AB 12 34 56 C»", "national_id"),
        ("codice fiscale «RSSMRA85T10A562S»", "national_id"),
        ("DNI «54362315K»", "national_id"),
        ("NIE «X5253868R»", "national_id"),
        ("BSN «111222333»", "national_id"),
        ("PESEL «44051401359»", "national_id"),
        ("Aadhaar «2341 2341 2346»", "national_id"),
        ("n° sécu «2 95 10 99 126 111 93»", "national_id"),
        ("Steuer-ID «36 574 261 809»", "national_id"),
        ("key=«AKIAQ3EGTZ5XW7LMN2PD»", "api_key"),
        (f"token «ghp_{'a1B2' * 9}»!", "api_key"),
        ("OPENAI_API_KEY='«sk-proj-a1b2c3d4e5f6g7h8i9j0»'", "api_key"),
        ("«xoxb-123456789012-abcdefGHIJ»", "api_key"),
        (f"«AIza{'Sy0_-' * 7}»", "api_key"),
        ("Bearer «eyJhbGciOiJI1.eyJzdWIiOiIx.c2lnbmF0dXJl»", "api_key"),
        (f"secret_access_key = '«{'wJalrXUt/9' * 4}»'", "api_key"),
        ("«-----BEGIN EC PRIVATE KEY-----\nMI1\n-----END EC PRIVATE KEY-----»\n", "api_key"),
        ("ftp://«joe:s3cr@t»@files.example.net/a", "url_credentials"),
        ("redis://«:hidden»@cache:6379", "url_credentials"),
        ('from="«o\'brien@mail.example.com»"', "email"),
        ("请写信给«lee@mail.example»谢谢", "email"),
        ("«кот@пример.example»! «müller@x.example»。", "email"),
        ("login «ann@163.com»:pass", "email"),
    ],
)
def test_values_go_and_what_stands_around_them_stays(marked, kind):
    """Values stand in «» here."""
    result, counts = clean(marked.replace("«", "").replace("»", ""))
    assert PLACEHOLDER.sub("«»", result) == re.sub("«.*?»", "«»", marked, flags=re.S)
    assert counts == {kind: marked.count("«")}


@pytest.mark.parametrize(
    "text",
    [
        "Update the driver to 7.31.0.2 now, see section 4.3.2.1.",
        "numpy==1.2.3.4 and v1.2.3.4 and lib-1.2.3.4",
        "Invoice 4155552671 was sent at 1731499200.",
        "id 12345678-1234-1234-1234-123456789012",
        "took 0.123456789012345 s and 3.14159265358979",
        "from 2026-03-14 08:15 to 2026-03-15 09:30",
        "a[1::2], x[2000::2], 12:30:45, ns::face::add, std::vector",
        "order 4111111111111111 and tracking 536904399",
        "git clone git@host.example.com:team/tool.git && scp me@box.example.com:/tmp/a .",
        "@cache\ndef f(x): return w@x.grad + a@b.mean() + icon@2x.png",
        "npm i left-pad@1.3.0 tool@2.0.0-rc.1 @types/node@20.1.1",
        "sk-learn-like-names-without-figures and skeleton",
        "DNI 54362315A has the wrong letter",
    ],
)
def test_what_only_looks_like_personal_data_stays(text):
    assert clean(text) == (text, {})


def test_review_samples_show_contexts_and_no_values(tmp_path):
    remover = PiiRemover(list(FINDERS))
    for n in range(9):
        remover.clean(f"Ask ann{n}@example.com or the server 192.0.2.{n + 100} at once.")
    assert {name: len(shown) for name, shown in remover.review.items()} == {"email": 5, "ip": 5}
    text = json.dumps(remover.review)
    assert "server [IP_" in text
    assert "@" not in text
    assert "192" not in text


def test_counts_per_row_add_up_to_the_counts_of_the_shard(tmp_path):
    import pyarrow.parquet as pq

    shard = cleaned(tmp_path, ["a@example.com b@example.com", "none", "call 415-555-2671"])
    rows = pq.read_table(shard, columns=["pii"])["pii"].to_pylist()
    assert [sum(n for _, n in row) for row in rows] == [2, 0, 1]


pieces = st.sampled_from(
    [
        *("ann@example.com", "+1 212 555 0123", "10.1.2.3", "x@", "4111111111111111", " ", ": "),
        *("tel ", "order ", "ssn ", "536904399", "2001:db8::1", "://u:p@", "/24", "-", "é", "7"),
        *("version ", "AB123456C", "sk-a1b2c3d4e5f6g7h8i9j0", "GB82WEST12345698765432", "\n", "["),
        *("eyJhbGciOiJI1.eyJzdWIiOiIx.c2ln", "54362315K", "secret_access_key=", "٤١٥٥٥٥٢٦٧١"),
    ]
)


@given(st.lists(pieces | st.text(max_size=4), max_size=10).map("".join))
def test_a_second_pass_finds_nothing_and_counts_are_placeholders(text):
    text = normalise(text)
    once, counts = clean(text)
    assert clean(once) == (once, {})
    held = len(PLACEHOLDER.findall(once)) - len(PLACEHOLDER.findall(text))
    assert sum(counts.values()) >= held
