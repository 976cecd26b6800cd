"""Comparison: paired where it can be, silent about nothing, no delta between unlike results."""

import json
import math

import pytest

from anneal.config.evaluate import Evaluate
from anneal.errors import UserError
from anneal.evaluation.compare import compare, mcnemar
from anneal.evaluation.compare_heldout import compare_heldout, ratio_error
from anneal.evaluation.tasks import check_local, shares, stage_tasks

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


def test_right_and_wrong_answers_are_tested_by_mcnemar():
    from scipy.stats import binomtest

    for gained, lost in ((0, 0), (3, 0), (9, 1), (20, 12), (600, 500)):
        changed = gained + lost
        exact = binomtest(gained, changed).pvalue if changed else 1.0
        assert mcnemar(gained, lost) == pytest.approx(exact, rel=1e-2)
    assert row([0, 0, 1, 1] * 10, [0, 1, 1, 1] * 10)["test"] == "McNemar"


def test_three_questions_gained_and_none_lost_prove_nothing():
    assert row([0, 0, 0, 1], [1, 1, 1, 1])["verdict"] == "same"


def test_graded_answers_are_tested_by_their_paired_difference():
    found = row([0.1, 0.4, 0.5, 0.2] * 5, [0.3, 0.5, 0.9, 0.4] * 5)
    assert (found["test"], found["verdict"]) == ("paired difference", "better")


def test_where_samples_are_missing_the_two_errors_are_added():
    before, _ = result([0, 1] * 50)
    after, _ = result([1] * 80 + [0] * 20)
    found = compare(before, after, [], [], SETTINGS)[0]
    assert found["stderr"] == pytest.approx(math.hypot(before["t"]["stderr"], after["t"]["stderr"]))
    assert (found["paired"], found["verdict"]) == (False, "better")


def test_without_any_error_no_difference_is_called_real():
    before, after = (result(scores)[0] for scores in ([1, 1, 1], [0, 0, 1]))
    before["t"]["stderr"] = None
    found = compare(before, after, [], [], SETTINGS)[0]
    assert (found["verdict"], found["forgotten"]) == ("same", False)
    assert "no standard error is known" in found["warnings"][0]


def test_a_metric_that_should_fall_is_better_when_it_falls():
    sides = [result([5.0, 6.0, 5.5, 5.2]), result([2.0, 2.5, 2.2, 2.1])]
    for results, _ in sides:
        results["t"]["higher_is_better"] = False
    (before, old), (after, new) = sides
    assert compare(before, after, old, new, SETTINGS)[0]["verdict"] == "better"
    assert compare(after, before, new, old, SETTINGS)[0]["forgotten"]


def test_a_score_that_a_guess_would_get_is_warned_about_with_answers():
    before, old = result([0, 1] * 20)
    before["t"]["chance"] = 0.5
    old = [{**sample, "answer": "odd", "target": "even"} for sample in old]
    found = compare(before, *result([1] * 40)[:1], old, result([1] * 40)[1], SETTINGS)[0]
    assert found["warnings"][0].startswith(
        "base scores as a guess would, 0.500 (answers: 'odd' for"
    )


def test_a_model_whose_every_likelihood_is_the_bases_is_flagged():
    before, old = result([0, 1, 1])
    before["t"]["responses"] = "abc"
    found = compare(before, before, old, old, SETTINGS)[0]
    assert found["same_as_base"]
    assert found["warnings"][-1].startswith("every answer and likelihood is the base's")


def test_a_task_that_training_rows_may_give_away_is_marked():
    unchecked = {**SETTINGS["tasks"]["t"], "checked": False}
    before, old = result([0, 1, 1])
    found = compare(before, before, old, old, {**SETTINGS, "tasks": {"t": unchecked}})[0]
    assert "they may give it away" in found["warnings"][-1]


def measured(losses, tokens, stopped=1.0, **more):
    total = sum(losses) / sum(tokens)
    figures = {"loss": total, "perplexity": math.exp(total), "token_accuracy": 0.5}
    rows = [{"loss": a, "tokens": b} for a, b in zip(losses, tokens, strict=True)]
    sample = {"prompt": "p", "expected": "e", "answer": str(total), "stopped": stopped > 0}
    shared = {"rows": rows, "asked": "ids", "samples": [sample], "stopped": stopped}
    return {**figures, "tokens": sum(tokens), **shared, **more}


def test_losses_on_held_out_rows_are_compared_row_by_row():
    import numpy as np

    generator = np.random.default_rng(3)
    tokens = generator.integers(5, 50, 400)
    before = tokens * 3.0 + generator.normal(0, 3, 400)
    after = before - tokens * 0.1 + generator.normal(0, 2, 400)
    rows = [measured(list(side), [int(n) for n in tokens]) for side in (before, after)]
    found = compare_heldout(*rows, "instruction")
    assert found["verdict"] == "better"
    drawn = generator.integers(0, 400, (2000, 400))
    spread = ((after - before)[drawn].sum(1) / tokens[drawn].sum(1)).std()
    assert found["stderr"] == pytest.approx(spread, rel=0.1)
    assert ratio_error(rows[0]["rows"], rows[0]["rows"], 0.0) == 0


def test_rows_of_other_tokens_have_no_difference_of_losses():
    found = compare_heldout(measured([3], [2]), measured([3], [3], asked="other"), "chat")
    assert (found["verdict"], found["differing"]) == ("not comparable", ["asked", "tokens"])
    assert "delta" not in found


def test_answers_that_never_stop_are_warned_about_but_not_those_to_raw_text():
    base, tuned = measured([3], [2]), measured([2], [2], stopped=0.0)
    assert "stopped by itself" in compare_heldout(base, tuned, "instruction")["warnings"][0]
    assert compare_heldout(base, tuned, "text")["warnings"] == []


def test_a_model_with_the_bases_losses_and_answers_is_flagged():
    same = measured([3, 4], [2, 2])
    assert compare_heldout(same, same, "chat")["same_as_base"]


def test_tasks_are_shared_by_their_cost(tmp_path):
    (tmp_path / "long.yaml").write_text("output_type: generate_until")
    task = {"limit": 100, "num_fewshot": None}
    tasks = {"a": task, "b": task, "long": task, "c": task}
    assert shares(tmp_path, tasks, 2) == [["long"], ["a", "b", "c"]]
    assert sorted(shares(tmp_path, tasks, 9)) == sorted([name] for name in tasks)
    assert shares(tmp_path, {}, 3) == [[]]


def test_a_task_whose_data_would_come_from_the_hub_is_refused_in_one_line(tmp_path):
    with pytest.raises(UserError) as error:
        check_local(tmp_path, "gsm8k")
    assert "evaluate.tasks.gsm8k: there is no" in str(error.value)
    assert "evaluate.download" in str(error.value)


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
