"""Duplicates: what the joins find is what comparing row by row with all kept rows finds."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cleaning import cleaned

from anneal.cleaning import row_store
from anneal.cleaning.duplicates import clusters, find_duplicates
from anneal.cleaning.normalise import fold
from anneal.cleaning.similarity import BANDS, ROWS, WORDS, jaccard, shingle_sets, signatures


def row_by_row(texts: list[str], threshold: float, skip=()) -> list[tuple]:
    """The definition: each row against all kept rows that share a band, the earliest first."""
    kept, found = [], []
    for n, text in enumerate(texts):
        if n in skip:
            continue
        equal = [k for k in kept if fold(texts[k]) == fold(text)]
        near = [k for k in kept if share_a_band(texts[k], text)]
        near = [(k, similarity(texts[k], text)) for k in near]
        near = [(k, value) for k, value in near if value >= threshold]
        if equal:
            found.append((n + 1, "exact_duplicate", 1.0, equal[0] + 1))
        elif near:
            found.append((n + 1, "near_duplicate", round(near[0][1], 4), near[0][0] + 1))
        else:
            kept.append(n)
    return found


def share_a_band(a: str, b: str) -> bool:
    one, other = signatures([a, b])
    if one is None or other is None:
        return False
    cuts = range(0, BANDS * ROWS, ROWS)
    return any(one[i : i + ROWS] == other[i : i + ROWS] for i in cuts)


def shingles(text: str) -> set[str]:
    """Word 5-grams of the folded text."""
    words = fold(text).split()
    return {" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}


def similarity(a: str, b: str) -> float:
    a, b = shingles(a), shingles(b)
    return len(a & b) / len(a | b)


def found_in(texts: list[str], threshold: float, skip=()) -> list[tuple]:
    with tempfile.TemporaryDirectory() as folder:
        half = len(texts) // 2
        parts = [(texts[:half], "a"), (texts[half:], "b")]
        shards = [cleaned(Path(folder), part, name) for part, name in parts]
        place = {("a.jsonl", n + 1): n + 1 for n in range(half)}
        place |= {("b.jsonl", n + 1): half + n + 1 for n in range(len(texts) - half)}
        skipped = np.isin(np.arange(len(texts)), list(skip))
        return [
            (
                *(place[d["file"], d["line"]], d["rule"], d["value"]),
                place[d["kept_file"], d["kept_line"]],
            )
            for d in find_duplicates(shards, skipped, threshold=threshold).to_pylist()
        ]


words = st.lists(st.sampled_from("ab"), min_size=0, max_size=12)
texts = st.lists(
    words.map(lambda w: " ".join([*w, *["the", "same", "seven", "words", "close", "each", "row"]]))
)
rows = st.lists(st.sampled_from(["Yes.", "No.", "", "はい", "no."]), max_size=4)


@settings(max_examples=25, deadline=None)
@given(texts, rows, st.sampled_from([0.5, 0.7, 0.85]), st.sets(st.integers(0, 5), max_size=2))
def test_joins_find_what_comparing_row_by_row_finds(long, short, threshold, skip):
    texts = [*long, *short, *long[:2]]
    assert found_in(texts, threshold, skip) == row_by_row(texts, threshold, skip)


@given(st.lists(words.map(" ".join), max_size=6))
def test_hashes_of_many_texts_at_once_are_the_five_grams_of_each(texts):
    sets = shingle_sets(texts)
    assert [len(found) for found in sets] == [len(shingles(text)) for text in texts]
    for a, one in zip(texts, sets, strict=True):
        for b, other in zip(texts, sets, strict=True):
            if shingles(a) or shingles(b):
                assert jaccard(one, other) == similarity(a, b)


BODY = "The museum by the harbour shows nets, lamps and letters of the crews who " + " ".join(
    f"sailed in the year {n}" for n in range(30)
)


def test_a_chain_of_small_changes_does_not_drag_its_end_along():
    words = BODY.split()
    chain = [" ".join([*words[:-n], *["new"] * n] if n else words) for n in range(0, 60, 6)]
    found = found_in(chain, 0.85)
    assert found == row_by_row(chain, 0.85)
    assert 0 < len(found) < len(chain) - 1


def test_an_exact_copy_of_a_near_duplicate_points_to_the_same_kept_row():
    assert found_in([BODY, BODY + " now", BODY + " now"], 0.85) == [
        (2, "near_duplicate", pytest.approx(0.99, abs=0.02), 1),
        (3, "near_duplicate", pytest.approx(0.99, abs=0.02), 1),
    ]


def test_short_answers_and_empty_rows_are_no_near_duplicates():
    answers = ["Yes.", "No.", "7", "Red", "No.", "はい", "", "Rome", "No !"]
    assert found_in(answers, 0.85) == [(5, "exact_duplicate", 1.0, 2)]


FRAME = (
    "Good evening and welcome to the harbour radio, where every night at nine two keepers of the "
    "lighthouse read one short letter from a listener, pour the last of the coffee and look out "
    "over the bay until the ferry has passed. {} That was the letter for tonight, so thank you "
    "for listening, keep your lamps trimmed and your boots dry, and send the next letter to the "
    "keepers at the old pier before the end of the month with your name on the back of it."
)


def test_only_the_reworded_copy_of_a_templated_row_goes(tmp_path):
    letters = [
        *("Seals sleep upright in the water and wake to breathe.", "My boat leaks at the stern."),
        *("Bread baked at sea tastes of smoke and salt air.", "The storm took our old apple tree."),
    ]
    copy = letters[0].replace("wake", "rise")
    shard = cleaned(tmp_path, [FRAME.format(x) for x in [*letters, copy]])
    drops = find_duplicates([shard], np.zeros(5, bool))
    assert [(d["line"], d["kept_id"]) for d in drops.to_pylist()] == [(5, "id0")]
    assert clusters(drops) == [{"kept": "c.jsonl:1", "id": "id0", "removed": 1}]


def test_a_giant_bucket_costs_few_pairs_and_no_copy_of_its_first_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(row_store.candidate_pairs, "__defaults__", (3,))
    texts = [FRAME.format(f"Letter {n} is about {n * 7} and {n * n}.") for n in range(20)]
    texts += [FRAME.format("Letter 1 is about 7 and 1."), texts[15] + " Bye."]
    shard = cleaned(tmp_path, texts)
    found = {
        d["line"]: d["kept_line"]
        for d in find_duplicates(
            [shard], np.zeros(22, bool), exact=False, threshold=0.97
        ).to_pylist()
    }
    assert found == {21: 2, 22: 16}
