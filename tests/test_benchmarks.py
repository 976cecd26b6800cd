"""The benchmarks' own side runs, and their table says which bar is met."""

import json
import subprocess
import sys

import pytest
from tiny import make_tokenizer

from measure import HERE, Line, shown
from rows import write_rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl", 300)


def figures(script, *arguments) -> dict:
    command = [sys.executable, HERE / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_tokenizing_is_measured_on_its_own_and_with_formatting(rows, tmp_path):
    model = make_tokenizer(tmp_path / "model")
    found = figures("tokenizing.py", rows, model, tmp_path, "--processes", "2")
    assert 0 < found["format and tokenize"] < found["tokenize"]
    assert len((tmp_path / "texts.jsonl").read_text().splitlines()) == 300


def test_the_clean_step_is_slower_than_any_of_its_parts(rows):
    found = figures("cleaning.py", rows, "--rows", "300")
    assert found["clean step"] == min(rate for n, rate in found.items() if "language" not in n)


def test_one_generated_row_in_ten_is_found_as_a_near_duplicate(rows, tmp_path):
    found = figures("near_duplicates.py", rows, tmp_path)
    assert found["found"] == 30
    assert 0 < found["whole"] < found["signatures"]


def test_a_bar_is_about_the_ratio_to_the_peer():
    assert Line("tokenize", 70, 100, 0.7).met
    assert not Line("tokenize", 69, 100, 0.7).met
    assert not Line("append", 6, 100, 0.05, at_most=True).met


def test_a_bar_without_a_peer_is_about_the_figure_itself():
    assert Line("start", 0.4, None, 0.5, at_most=True).met
    assert not Line("start", 0.6, None, 0.5, at_most=True).met


def test_the_table_shows_a_missed_bar():
    assert shown(Line("near duplicates", 5, 10, 0.7)).endswith("0.5  >= 0.7  NO")
