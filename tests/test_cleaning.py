"""Cleaning: text is repaired, personal data goes, duplicates point to the row that stays."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anneal.cleaning.clean import clean_shard
from anneal.cleaning.duplicates import find_duplicates
from anneal.cleaning.filters import broken_rules
from anneal.cleaning.normalise import normalise
from anneal.cleaning.pii import FINDERS, PiiRemover
from anneal.cleaning.quality import scores
from anneal.config.clean import Clean, Filter
from anneal.records import SCORES, record_schema


def cleaned(tmp_path, texts: list[str], name="c", **settings):
    """A cleaned shard of instruction records whose outputs are the texts."""
    rows = [
        {
            **{"id": f"id{i}", "source": "s", "file": f"{name}.jsonl", "line": i + 1, "offset": 0},
            **{"instruction": "", "input": "", "output": text, "category": "none", "extra": "{}"},
        }
        for i, text in enumerate(texts)
    ]
    raw, done = tmp_path / f"{name}-raw.parquet", tmp_path / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, record_schema("instruction")), raw)
    clean_shard({"kind": "instruction", "clean": Clean(**settings).model_dump()}, raw, done)
    return done


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("E = mc² and x³", "E = mc² and x³"),
        ("ﬁne print", "ﬁne print"),
        ("if a < b and c > d: pass", "if a < b and c > d: pass"),
        ("List<String> names;", "List<String> names;"),
        ("cafe\u0301", "café"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("a\u200bb\ufeffc\u0000d", "abcd"),
        ("<p>Press the <b>green</b> button &amp; go.</p>", "Press the green button & go."),
        ("👩\u200d🔧 می\u200cخواهم", "👩\u200d🔧 می\u200cخواهم"),
    ],
)
def test_text_is_repaired_without_loss(text, wanted):
    assert normalise(text) == wanted


def test_personal_data_is_replaced_by_stable_placeholders_of_its_kind():
    remover = PiiRemover(list(FINDERS))
    text = (
        "Write to ann.lee@example.com or ann.lee@example.com, call +44 20 7946 0958, "
        "pay DE89 3704 0044 0532 0130 00 or 4111 1111 1111 1111 from 192.0.2.17."
    )
    result, counts = remover.clean(text)
    assert counts == {"email": 2, "phone": 1, "iban": 1, "card": 1, "ip": 1}
    for value in ("ann", "7946", "3704", "4111", "192.0"):
        assert value not in result
    first, second = [w.strip(",") for w in result.split() if w.startswith("[EMAIL_")]
    assert first == second


@pytest.mark.parametrize(
    "text",
    [
        "Upgrade from 2.31.4 to 2.32.0 today.",
        "Order 20260314 took 1760000000 seconds",
        "git clone git@github.com:org/name.git",
        "result = a @ b",
        "Card 4111 1111 1111 1112 fails its check digit.",
        "Room 214, 3 nights, 12 May, 4 people",
    ],
)
def test_numbers_and_code_that_are_no_personal_data_stay(text):
    assert PiiRemover(list(FINDERS)).clean(text)[0] == text


def test_a_password_inside_a_url_goes():
    result, _ = PiiRemover(list(FINDERS)).clean("postgresql://bob:hunter2@db.internal/x")
    assert "hunter2" not in result


def test_the_key_changes_the_placeholder():
    text = "ann@example.com"
    assert PiiRemover(["email"], b"one").clean(text) != PiiRemover(["email"], b"two").clean(text)


fragments = st.sampled_from(
    [
        "ann@example.com",
        "+1 212 555 0123",
        "10.1.2.3",
        "x@",
        "4111111111111111",
        " ",
        ": ",
        "é",
        "7",
    ]
)


@given(st.lists(fragments | st.text(max_size=5), max_size=8).map("".join))
def test_cleaning_twice_changes_nothing(text):
    remover = PiiRemover(list(FINDERS))
    once = remover.clean(normalise(text))[0]
    assert remover.clean(normalise(once))[0] == once


LONG = "Refund policy for orders placed online: " + " ".join(f"clause {i}" for i in range(40))


def duplicates(*shards, skip=()) -> list[dict]:
    rows = sum(pq.read_metadata(shard).num_rows for shard in shards)
    return find_duplicates(list(shards), np.isin(np.arange(rows), skip)).to_pylist()


def broken_rule(row: dict, settings: dict) -> tuple[str, float] | None:
    """The rule that one row of scores breaks."""
    rule, value = broken_rules(pa.array([row], SCORES), settings)
    return (rule[0], value[0]) if rule[0] else None


def test_exact_and_near_duplicates_point_to_the_earliest_row(tmp_path):
    texts = [LONG, "Yes.", LONG.upper(), LONG + " again", "No.", "No .", "Blue", "はい", "No."]
    shard = cleaned(tmp_path, texts)
    found = {d["line"]: (d["rule"], d["kept_line"]) for d in duplicates(shard)}
    assert found == {
        3: ("exact_duplicate", 1),
        4: ("near_duplicate", 1),
        9: ("exact_duplicate", 5),
    }


def test_rows_that_share_only_a_template_all_stay(tmp_path):
    frame = (
        "Please read the notes below with care and answer in full sentences only. Topic: {}. " * 2
    )
    topics = [
        "the tides of the north sea",
        "how bread rises",
        "the first railways",
        "sleep in birds",
    ]
    shard = cleaned(tmp_path, [frame.format(t, t) for t in topics])
    assert duplicates(shard) == []


def test_later_rows_never_change_what_was_decided_about_earlier_ones(tmp_path):
    early = cleaned(tmp_path, [LONG, "short", LONG + " x"], "a")
    late = cleaned(tmp_path, [LONG + " y", "short"], "b")
    alone = duplicates(early)
    assert duplicates(early, late)[: len(alone)] == alone


def test_a_dropped_row_does_not_drag_a_good_copy_with_it(tmp_path):
    shard = cleaned(tmp_path, [LONG, LONG])
    assert duplicates(shard, skip=[0]) == []


def test_filters_give_rule_and_value():
    settings = Filter(min_response_chars=2).model_dump()
    row = {**scores("Yes.", "Y"), "language": None, "language_score": None}
    assert broken_rule(row, settings) == ("response_too_short", 1.0)
    assert broken_rule({**row, "response_chars": 2}, settings) is None
