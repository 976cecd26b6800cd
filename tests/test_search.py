"""Search: a range test that suggests, and a study that workers share, resume and prune."""

import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import optuna
import pyarrow as pa
import pytest
from test_config import load, refused
from tiny import REPOSITORY

import run_trials as run_trials_step
from anneal.arrow_dataset import write_arrow_dataset
from anneal.cli import step
from anneal.config.run import Run
from anneal.config.search import Study
from anneal.errors import UserError
from anneal.records import IGNORED
from anneal.search.best import best_trial
from anneal.search.plots import plot_history, plot_range_test
from anneal.search.range_test import range_test, suggestions
from anneal.search.settings import with_values
from anneal.search.study import load_study, open_study, take_trial
from anneal.search.trials import run_trials
from anneal.splitting.write import SEQUENCE
from anneal.training.job import Job
from anneal.training.train import train

STATES = optuna.trial.TrialState


def study_settings(**given) -> dict:
    training = {"precision": "fp32", "per_device_train_batch_size": 4}
    training |= {"gradient_accumulation_steps": 1, "learning_rate": 1e-3, "logging_steps": 1}
    run = Run(dataset="d", model="m", training=training, tuning={"r": 8})
    given = {"trials": 3, "max_steps": 4, "eval_steps": 2} | given
    return Study(run="r", **given).settings(run.settings())


@pytest.fixture
def splits(tmp_path):
    """Sequences that count upwards, so that there is something to learn."""
    rng = np.random.default_rng(5)
    for name, count in (("train", 32), ("eval", 4), ("test", 2)):
        starts = rng.integers(3, 300, count)
        rows = [np.arange(start, start + 24).tolist() for start in starts]
        rows = [{"input_ids": ids, "labels": [IGNORED] * 4 + ids[4:]} for ids in rows]
        rows = [row | {"position_ids": list(range(24)), "length": 24, "ids": ["x"]} for row in rows]
        batch = pa.RecordBatch.from_pylist(rows, SEQUENCE)
        write_arrow_dataset(tmp_path / "splits" / name, SEQUENCE, [batch])
    return tmp_path / "splits"


@pytest.fixture
def job(tiny_model, splits, tmp_path):
    return Job(study_settings()["run"], tiny_model, splits, tmp_path / "unused")


# The space


def test_the_space_is_the_fields_own():
    space = study_settings()["space"]
    assert space["learning_rate"] == {"low": 5e-5, "high": 5e-4, "log": True}
    assert space["r"] == {"low": 8, "high": 64, "log": False}
    assert space["alpha"] == {"low": 16, "high": 128, "log": False}
    assert space["dropout"] == {"low": 0, "high": 0.3, "log": False}
    assert space["weight_decay"] == {"low": 0, "high": 0.1, "log": False}
    assert space["warmup_ratio"] == {"low": 0.01, "high": 0.1, "log": False}


def test_a_learning_rate_with_new_bounds_is_still_drawn_on_a_logarithmic_scale():
    space = study_settings(space={"learning_rate": {"low": 1e-6, "high": 1e-3}})["space"]
    assert space["learning_rate"]["log"] is True


def test_a_run_without_lora_has_no_values_of_lora_to_search():
    run = Run(dataset="d", model="m", tuning={"kind": "full"})
    space = Study(run="r").settings(run.settings())["space"]
    assert set(space) == {"learning_rate", "weight_decay", "warmup_ratio"}


def test_a_value_set_to_nothing_stays_as_the_run_has_it():
    assert "dropout" not in study_settings(space={"dropout": None})["space"]


SEARCH = "search:\n  tune: {run: r}\n"


def test_a_run_may_take_the_result_of_a_study_of_itself(tmp_path):
    config = load(tmp_path, "    best_of: tune\n" + SEARCH)
    assert config.runs["r"].settings()["best_of"] == "tune"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("    best_of: tuna\n" + SEARCH, "runs.r.best_of: no 'tuna' in search (there: tune)"),
        ("search:\n  tune: {run: s}\n", "search.tune: no 's' in runs (there: r)"),
        ("search:\n  tune: {run: r, max_steps: 7, eval_steps: 2}\n", "multiple of eval_steps"),
        ("search:\n  tune: {run: r, space: {r: {low: 9, high: 8}}}\n", "low 9 is above high 8"),
        (
            "  full: {dataset: d, model: m, tuning: {kind: full}, best_of: tune}\n" + SEARCH,
            "runs.full.best_of: 'tune' searched sft with lora, not what this run does",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused(tmp_path, extra, message):
    assert message in refused(tmp_path, extra)


def test_a_method_without_evaluation_loss_is_not_searched(tmp_path):
    extra = "  p: {dataset: e, model: m, method: grpo, online: {reward_pattern: x}}\n"
    extra += "search:\n  tune: {run: p}\n"
    base = "datasets:\n  e: {kind: prompts, sources: {s: {path: p.jsonl}}}\n"
    from test_config import BASE

    message = refused(tmp_path, extra, BASE.replace("datasets:\n", base))
    assert "search.tune: method 'grpo' has no evaluation loss to search by" in message


# The range test


def fall(rates: np.ndarray) -> np.ndarray:
    """A loss that falls fastest at 1e-3, is lowest near 1e-2, and runs away after it."""
    return 2 + 2 / (1 + (rates / 1e-3) ** 2) + (rates / 0.1) ** 2


def test_the_suggestion_is_where_the_loss_falls_fastest():
    rates = np.geomspace(1e-7, 1, 100)
    noise = np.random.default_rng(1).normal(0, 0.01, 100)
    found = suggestions(rates.tolist(), (fall(rates) + noise).tolist())
    assert 5e-4 < found["steepest"] < 2e-3
    assert 5e-4 < found["tenth_of_lowest"] < 2e-3
    assert found["suggestion"] == min(found["steepest"], found["tenth_of_lowest"])


def test_a_loss_that_never_falls_suggests_nothing():
    rates = np.geomspace(1e-7, 1, 50)
    found = suggestions(rates.tolist(), (2 + rates).tolist())
    assert (found["steepest"], found["tenth_of_lowest"], found["suggestion"]) == (None, None, None)


def test_a_range_test_raises_the_rate_stops_at_a_runaway_loss_and_saves_nothing(job, tmp_path):
    job.settings["tuning"]["kind"] = "full"
    found = range_test(job, 1e-5, 1e5, 40)
    assert found["rates"][0] == pytest.approx(1e-5)
    ratios = np.diff(np.log(found["rates"]))
    assert np.allclose(ratios, np.log(1e10) / 39)
    assert len(found["rates"]) < 40
    assert all(np.array(found["losses"][:-1]) <= 4 * np.minimum.accumulate(found["losses"][:-1]))
    assert found["suggestion"] is not None
    assert not list(tmp_path.rglob("checkpoint-*"))
    for name in ("a.svg", "b.svg"):
        plot_range_test(found, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


# Studies


def table(folder, settings) -> dict:
    return best_trial(load_study(folder), settings["trials"])


def test_the_first_trial_has_the_runs_own_values_where_the_space_holds_them(tmp_path):
    settings = study_settings(space={"learning_rate": {"low": 1e-4, "high": 1e-2}})
    study = open_study(tmp_path, settings)
    own = {"learning_rate": 1e-3, "r": 8, "alpha": 32, "dropout": 0.05}
    own |= {"weight_decay": 0.01, "warmup_ratio": 0.03}
    assert take_trial(study, tmp_path, settings, 0, 1).params == own
    assert take_trial(study, tmp_path, settings, 1, 2).params != own


def test_a_study_is_reproducible_with_one_worker(job, tmp_path):
    settings = study_settings()
    for name in ("a", "b"):
        assert run_trials(job, settings, tmp_path / name, 0, 1) == [0, 1, 2]
    found = table(tmp_path / "a", settings)
    assert found == table(tmp_path / "b", settings)
    assert [set(row["rungs"]) for row in found["trials"]] == [{"2", "4"}] * 3
    assert found["loss"] == min(row["loss"] for row in found["trials"])


def test_a_killed_worker_goes_on_and_ends_with_the_same_result(job, tmp_path):
    settings = study_settings(max_steps=20, eval_steps=10)
    folder = start_and_kill(job, settings, tmp_path)
    states = [t.state for t in load_study(folder).get_trials()]
    assert states[-1] == STATES.RUNNING
    run_trials(job, settings, folder, 0, 1)
    run_trials(job, settings, tmp_path / "undisturbed", 0, 1)
    assert table(folder, settings) == table(tmp_path / "undisturbed", settings)
    assert [t.state for t in load_study(folder).get_trials()].count(STATES.FAIL) == 1


def start_and_kill(job, settings, tmp_path):
    """Kill -9 a worker's command while it runs its second trial; the folder of the study."""
    base = tmp_path / "base"
    shutil.copytree(job.base, base)
    for folder in (base, job.splits):
        (folder / "manifest.json").write_text('{"outputs": {}, "facts": {}}')
    step = json.dumps({"settings": settings})
    command = [sys.executable, "scripts/run_trials.py", "--step", step]
    command += ["--base", base / "manifest.json", "--splits", job.splits / "manifest.json"]
    command += ["--studies", tmp_path / "studies", "--worker", "0", "--workers", "1"]
    command += ["--threads", "1", "--manifest", tmp_path / "0.json"]
    process = subprocess.Popen(command, cwd=REPOSITORY)
    while process.poll() is None and not second_runs(tmp_path / "studies"):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    return next((tmp_path / "studies").iterdir())


def second_runs(studies) -> bool:
    """Whether the second trial is under way, and no lock is held."""
    journals = [path.read_text() for path in studies.glob("*/journal.log")]
    begun = any('"trial_id":1,"user_attr":{"worker"' in text for text in journals)
    return begun and not list(studies.glob("*/*.lock"))


def test_a_hopeless_trial_is_pruned_at_a_rung(job, tmp_path):
    space = {"learning_rate": {"low": 1e-6, "high": 1e-1}}
    settings = study_settings(trials=10, max_steps=4, eval_steps=1, space=space)
    run_trials(job, settings, tmp_path / "study", 0, 1)
    trials = table(tmp_path / "study", settings)["trials"]
    pruned = [row for row in trials if row["state"] == "pruned"]
    assert 0 < len(pruned) < 6
    assert all(len(row["rungs"]) < 4 for row in pruned)
    plot_history(trials, tmp_path / "history.svg")


def test_a_trial_that_needs_too_much_memory_is_pruned_and_the_worker_goes_on(job, tmp_path):
    space = {"r": {"low": 10**13, "high": 2 * 10**13}}
    settings = study_settings(trials=2, space=space)
    assert run_trials(job, settings, tmp_path, 0, 1) == [0, 1]
    study = load_study(tmp_path)
    assert [trial.state for trial in study.get_trials()] == [STATES.PRUNED] * 2
    with pytest.raises(UserError, match="0 of them not pruned"):
        best_trial(study, 2)


def test_a_study_trains_in_the_number_format_that_the_device_has(tiny_model, splits, tmp_path):
    base = shutil.copytree(tiny_model, tmp_path / "base")
    for folder in (base, splits):
        (folder / "manifest.json").write_text('{"outputs": {}, "facts": {}}')
    settings = study_settings(trials=1)
    settings["run"]["training"] |= {"precision": "fp16", "precision_fallback": "fp32"}
    arguments = SimpleNamespace(
        **{"step": step("{}"), "studies": tmp_path / "studies", "manifest": tmp_path / "0.json"},
        **{"base": base / "manifest.json", "splits": splits / "manifest.json"},
        **{"worker": 0, "workers": 1, "threads": 1},
    )
    arguments.step.settings = settings
    run_trials_step.main(arguments)
    assert json.loads((tmp_path / "0.json").read_text())["facts"]["trials"] == [0]


def test_without_a_pruner_every_trial_comes_to_its_end(tmp_path):
    study = open_study(tmp_path, study_settings(pruner="none"))
    assert isinstance(study.pruner, optuna.pruners.NopPruner)


def work(folder, settings, worker):
    """A worker whose trials take no time."""
    study = open_study(folder, settings)
    while trial := take_trial(study, folder, settings, worker, 2):
        study.tell(trial, abs(trial.params["learning_rate"] - 2e-4))


def test_two_workers_share_the_trials_and_none_is_done_twice(tmp_path):
    settings = study_settings(trials=15)
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=work, args=(tmp_path, settings, k)) for k in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    trials = load_study(tmp_path).get_trials()
    assert [t.number for t in trials] == list(range(15))
    assert all(t.state == STATES.COMPLETE for t in trials)
    assert {t.user_attrs["worker"] for t in trials} <= {0, 1}
    assert len({t.params["learning_rate"] for t in trials}) == 15
    assert set(table(tmp_path, settings)["importance"]) == set(settings["space"])


def test_more_trials_go_on_with_the_same_study(tmp_path):
    settings = study_settings(trials=4)
    work(tmp_path, settings, 0)
    first = table(tmp_path, settings)["trials"]
    work(tmp_path, settings | {"trials": 6}, 0)
    assert table(tmp_path, settings | {"trials": 6})["trials"][:4] == first
    assert table(tmp_path, settings)["trials"] == first


def test_a_trial_of_a_worker_that_is_no_more_is_taken_over(tmp_path):
    settings = study_settings(trials=2)
    lost = take_trial(open_study(tmp_path, settings), tmp_path, settings, 3, 4)
    study = open_study(tmp_path, settings)
    taken = [take_trial(study, tmp_path, settings, worker, 2) for worker in (0, 1)]
    assert [t.number for t in taken] == [1, 2]
    assert taken[1].params == lost.params


def test_a_journal_cut_off_in_its_last_line_is_mended(tmp_path):
    settings = study_settings(trials=3)
    work(tmp_path, settings, 0)
    with (tmp_path / "journal.log").open("a") as journal:
        journal.write('{"op_code":4,"wor')
    work(tmp_path, settings | {"trials": 4}, 0)
    assert len(table(tmp_path, settings | {"trials": 4})["trials"]) == 4


@pytest.mark.slow
def test_the_lock_of_a_killed_worker_holds_nobody_up_for_ever(tmp_path):
    (tmp_path / "take.lock").touch()
    (tmp_path / "journal.log.lock").touch()
    settings = study_settings(trials=1)
    work(tmp_path, settings, 0)
    assert len(table(tmp_path, settings)["trials"]) == 1


def test_a_study_that_is_not_at_its_end_has_no_result(tmp_path):
    settings = study_settings(trials=3)
    work(tmp_path, settings, 0)
    with pytest.raises(UserError, match="3 of 5 trials ended"):
        table(tmp_path, settings | {"trials": 5})


def test_the_best_values_take_the_place_of_the_runs_own():
    run = study_settings()["run"]
    changed = with_values(run, {"learning_rate": 3e-4, "r": 24})
    assert (changed["training"]["learning_rate"], changed["tuning"]["r"]) == (3e-4, 24)
    assert run["tuning"]["r"] == 8


# What a tracker must not do


def test_a_tracker_changes_no_byte_of_the_training(tiny_model, splits, tmp_path):
    settings = study_settings()["run"]
    settings["training"] |= {"max_steps": 3, "eval_steps": 2}
    for tracker in ("none", "dvclive"):
        folder = tmp_path / tracker
        given = (settings, tiny_model, splits, folder / "checkpoints", tracker, None)
        train(Job(*given, trackers=tmp_path / "trackers"), folder / "run")
    for name in ("model/adapter_model.safetensors", "metrics.jsonl"):
        found = [(tmp_path / t / "run" / name).read_bytes() for t in ("none", "dvclive")]
        assert found[0] == found[1]
    losses = (tmp_path / "trackers/dvclive/plots/metrics/train/loss.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in losses] == ["step", "1", "2", "3"]
