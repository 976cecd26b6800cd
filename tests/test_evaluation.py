"""Comparison: paired where it can be, silent about nothing, no delta between unlike results."""

import json
import math

import pytest

from anneal.config.evaluate import Evaluate
from anneal.evaluation.benchmark import stage_tasks
from anneal.evaluation.compare import compare

ASKED = {"version": "1.0", "filter": "none", "template": "abc", "num_fewshot": 0}
SETTINGS = Evaluate(tasks={"t": {"forgetting": "true"}}).model_dump()


def result(scores, **asked):
    mean = sum(scores) / len(scores)
    spread = math.sqrt(sum((s - mean) ** 2 for s in scores) / (len(scores) - 1) / len(scores))
    outcome = {"metric": "acc", "value": mean, "stderr": spread, "questions": len(scores)}
    samples = [{"task": "t", "question": i, "score": s} for i, s in enumerate(scores)]
    return {"t": {**outcome, "asked": {**ASKED, **asked}}}, samples


def row(base, tuned, **asked):
    before, old = result(base)
    after, new = result(tuned, **asked)
    return compare(before, after, old, new, SETTINGS)[0]


def test_the_error_of_a_paired_difference_is_that_of_the_differences():
    found = row([0, 0, 1, 1] * 10, [0, 1, 1, 1] * 10)
    assert found["delta"] == pytest.approx(0.25)
    assert found["stderr"] == pytest.approx(math.sqrt(0.1875 * 40 / 39 / 40))
    assert (found["paired"], found["verdict"]) == (True, "better")


def test_unlike_settings_are_not_comparable_and_have_no_delta():
    found = row([0, 1], [1, 1], version="2.0", filter="flexible")
    assert found["verdict"] == "not comparable"
    assert found["differing"] == ["filter", "version"]
    assert "delta" not in found


def test_a_missing_task_is_listed_and_not_treated_as_zero():
    before, old = result([0, 1])
    assert compare(before, {}, old, [], SETTINGS)[0]["differing"] == ["missing in tuned"]


def test_a_drop_beyond_noise_and_allowance_is_forgetting():
    assert row([1] * 60 + [0] * 40, [1] * 20 + [0] * 80)["forgotten"]


def test_a_drop_within_noise_is_not():
    assert not row([1, 0, 1, 0, 1, 0], [0, 1, 1, 0, 1, 0])["forgotten"]


def test_an_exact_zero_and_an_unchanged_model_are_warned_about():
    warnings = row([0, 0, 0], [0, 0, 0])["warnings"]
    assert len(warnings) == 3


def test_the_held_out_path_is_put_into_task_files_whatever_its_name(tmp_path):
    import yaml

    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "t.yaml").write_text("data_files: {test: HELDOUT}\n")
    heldout = tmp_path / 'odd "name": #1.jsonl'
    stage_tasks(tmp_path / "in", tmp_path / "out", {"t": heldout})
    read = yaml.safe_load((tmp_path / "out" / "t.yaml").read_text())
    assert read["data_files"]["test"] == str(heldout)
    assert json.dumps(str(heldout)) in (tmp_path / "out" / "t.yaml").read_text()
