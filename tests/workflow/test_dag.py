"""The whole DAG on a tiny model: what reruns, what does not, and what survives a kill."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from project import fact

SCORED = {"benchmark": 1, "measure_heldout": 1, "compare_run": 1}
AFTER_DATA = {"train_run": 1, **SCORED, "write_report": 1, "all": 1}
GLOBAL = {"select_rows": 1, "assign_splits": 1, "write_splits": 1, "write_heldout": 1}
DOWNSTREAM = GLOBAL | {
    "train_run": 1,
    "benchmark": 2,
    "measure_heldout": 2,
    "compare_run": 1,
    "write_report": 1,
    "all": 1,
}


def test_the_chain_runs_from_raw_files_to_the_report(finished):
    report = json.loads((finished.folder / "results/tiny/report/report.json").read_text())
    funnel = report["datasets"]["facts"]["funnel"]
    assert funnel["first"]["read"] == 91
    assert (funnel["first"]["rejected"], funnel["first"]["dropped"]) == (1, 1)
    for source in funnel.values():
        assert source["read"] == source["kept"] + source["rejected"] + source["dropped"]
    assert report["runs"]["lora"]["manifest"]["facts"]["steps"] == 12
    assert {row["task"] for row in report["runs"]["lora"]["comparison"]} == {"kind", "general"}


def test_the_end_is_a_table_that_names_the_report(finished):
    assert "Report: results/tiny/report/report.html" in finished.output
    assert "general" in finished.output
    assert "read" in finished.output


def test_no_row_that_is_scored_was_trained_on(finished):
    root = finished.folder / "results/tiny"
    ledger = pq.read_table(root / "data/facts/ledger.parquet").to_pylist()
    train = {row["prompt_key"] for row in ledger if row["split"] == "train"}
    heldout = [json.loads(s) for s in (root / "data/facts/heldout.jsonl").read_text().splitlines()]
    by_id = {row["id"]: row for row in ledger}
    assert heldout
    assert all(by_id[row["id"]]["split"] == "test" for row in heldout)
    assert not train & {by_id[row["id"]]["prompt_key"] for row in heldout}


def test_a_second_run_has_nothing_to_do(finished):
    assert finished.planned() == Counter()


def test_touching_raw_files_and_scripts_reruns_nothing(project):
    for pattern in ("raw/*", "scripts/**/*.py", "rules/*", "Snakefile", "config/*"):
        for path in project.folder.glob(pattern):
            os.utime(path)
    assert project.planned() == Counter()


def test_appended_rows_rerun_their_shard_and_the_global_steps(project):
    shards = len(
        list((project.folder / "results/tiny/data/facts/records").glob("first-*.manifest*"))
    )
    assert shards > 1
    with (project.folder / "raw/first.jsonl").open("a") as file:
        file.write(json.dumps(fact(500)) + "\n")
    per_shard = ("read_shard", "clean_shard", "format_shard", "tokenize_shard")
    assert project.planned() == Counter(dict.fromkeys(per_shard, 1) | DOWNSTREAM)


def test_editing_a_helper_module_reruns_its_step(project):
    project.edit("scripts/anneal/cleaning/filters.py", "-np.inf, bound", "-1.0 * np.inf, bound")
    assert project.planned() == Counter(DOWNSTREAM)


def test_comments_docstrings_and_layout_rerun_nothing(project):
    project.edit("scripts/anneal/cleaning/filters.py", '"""', '"""Edited. ')
    project.edit("scripts/train_run.py", "def main", "# a comment\n\n\ndef main")
    project.edit("config/config.yaml", "project:", "# a comment\nproject:")
    assert project.planned() == Counter()


def test_a_changed_training_setting_retrains_without_retokenizing(project):
    project.edit("config/config.yaml", "learning_rate: 1e-3", "learning_rate: 2e-3")
    assert project.planned() == Counter(AFTER_DATA)


def test_trackers_threads_and_memory_rerun_nothing(project):
    project.edit("config/config.yaml", "tracker: none", "tracker: tensorboard\n    mem_mb: 999")
    project.edit("config/config.yaml", "threads: 1", "threads: 2")
    assert project.planned() == Counter()


def test_what_is_asked_of_a_cluster_reruns_nothing(project):
    asked = "hardware: h100\n    minutes: 7\n    strategy: {kind: ddp}"
    project.edit("config/config.yaml", "tracker: none", f"tracker: none\n    {asked}")
    project.edit("config/config.yaml", "  batch_size: 4", "  batch_size: 4\n  minutes: 7")
    site = "account: lab\n\npartitions: {gpu: {name: big, max_minutes: 5}}\ngpus: {h100: h100}\n"
    (project.folder / "profiles/slurm/site.yaml").write_text(site)
    assert project.planned() == Counter()
    assert project.planned("--profile", "slurm") == Counter()


def test_a_changed_gate_reruns_the_comparison_alone(project):
    project.edit("config/config.yaml", "batch_size: 4", "batch_size: 4\n  max_drop: 0.2")
    assert project.planned() == Counter({"compare_run": 1, "write_report": 1, "all": 1})


def test_several_jobs_share_the_tasks_of_a_model(project):
    project.edit("config/config.yaml", "batch_size: 4", "batch_size: 4\n  jobs: 2")
    shared = {"benchmark_part": 4, "benchmark": 2, "compare_run": 1, "write_report": 1, "all": 1}
    assert project.planned() == Counter(shared)


def test_the_hub_s_tasks_are_refused_unless_their_data_may_be_fetched(project):
    project.edit("config/config.yaml", "  tasks:", "  tasks:\n    gsm8k: {metric: exact_match}")
    done = project.run("-n")
    assert "error: evaluate.tasks.gsm8k: there is no tasks/gsm8k.yaml" in done.stderr
    project.edit("config/config.yaml", "  tasks:", "  download: true\n  tasks:")
    assert project.planned()["benchmark"] == 2


def test_a_run_and_its_base_are_measured_on_held_out_rows(finished):
    report = json.loads((finished.folder / "results/tiny/report/report.json").read_text())
    heldout = report["runs"]["lora"]["heldout"]
    assert heldout["tuned"]["loss"] < heldout["base"]["loss"]
    assert heldout["verdict"] == "better"
    assert len(heldout["samples"]) == 4


@pytest.mark.parametrize(
    ("file", "old", "new", "first"),
    [
        ("config/config.yaml", "learning_rate: 1e-3", "learning_rate: 2e-3", "train_run"),
        ("scripts/anneal/training/loss.py", "mean = loss /", "mean = 1.0 * loss /", "train_run"),
        ("raw/first.jsonl", "river number 0", "RIVER number 0", "read_shard"),
    ],
)
def test_changes_are_seen_without_snakemakes_metadata(project, file, old, new, first):
    shutil.rmtree(project.folder / ".snakemake")
    assert project.planned() == Counter()
    project.edit(file, old, new)
    assert project.planned()[first] == 1


def test_an_unrelated_commit_and_a_dry_run_cause_no_work_and_write_nothing(project):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=project.folder, check=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "unrelated")

    def files():
        paths = [p for p in project.folder.rglob("*") if p.is_file()]
        own = [p for p in paths if not {".snakemake", ".git", "__pycache__"} & set(p.parts)]
        return {p: p.stat().st_mtime_ns for p in own}

    before = files()
    assert project.planned() == Counter()
    assert files() == before


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_works(project):
    import fcntl

    project.edit("config/config.yaml", "batch_size: 4", "batch_size: 3")
    with (project.folder / "results/tiny/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = project.run("evaluate")
    assert done.returncode != 0
    assert "another run is at work here" in done.stderr


def test_steps_that_outlive_a_killed_run_are_not_doubled(project):
    project.edit("config/config.yaml", "learning_rate: 1e-3", "learning_rate: 2e-3")
    project.slow_down()
    shutil.rmtree(project.folder / "results/tiny/checkpoints")
    with project.started("train", SLOW="10") as run:
        while run.poll() is None and not any(project.folder.rglob("checkpoint-*")):
            time.sleep(0.1)
        os.kill(run.pid, signal.SIGKILL)  # it alone, not its steps
        run.wait()
    again = project.run("train")
    assert "steps of a run that was killed are still at work" in again.stderr
    step = int(re.search(r"`kill (\d+)`", again.stderr).group(1))
    os.kill(step, signal.SIGTERM)
    while Path(f"/proc/{step}/cmdline").is_file() and Path(f"/proc/{step}/cmdline").read_bytes():
        time.sleep(0.1)
    last = project.run("train")
    assert last.returncode == 0, last.stderr
    manifest = project.folder / "results/tiny/runs/lora/manifest.json"
    assert json.loads(manifest.read_text())["facts"]["resumed_step"] > 0


SCRIPTS = (
    *("fetch_model", "read_shard", "clean_shard", "select_rows", "assign_splits"),
    *("format_shard", "tokenize_shard", "write_splits", "write_heldout"),
    *("train_run", "benchmark", "measure_heldout", "compare_run", "write_report"),
)


def test_killed_in_every_stage_the_same_command_ends_with_the_same_bytes(finished, tmp_path):
    project = finished.copy(tmp_path / "killed")
    shutil.rmtree(project.folder / "results")
    shutil.rmtree(project.folder / ".snakemake")
    waiting = set(SCRIPTS)
    while waiting:
        killed = project.kill_during(waiting, after=0.15)
        assert killed, f"never seen at work: {waiting}"
        waiting.remove(killed)
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    wanted, found = finished.artifacts(), project.artifacts()
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if found[name] != wanted[name]] == []


def test_checkpoints_survive_a_failed_training_job(project):
    project.edit("config/config.yaml", "max_steps: 12", "max_steps: 60")
    project.slow_down()
    with project.started(SLOW="0.5") as run:
        while run.poll() is None and not newest_checkpoint(project):
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert 0 < newest_checkpoint(project) < 60
    done = project.run("train")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((project.folder / "results/tiny/runs/lora/manifest.json").read_text())
    assert manifest["facts"]["resumed_step"] >= 3
    assert manifest["facts"]["steps"] == 60


def newest_checkpoint(project) -> int:
    """Last complete step of the unfinished run; 0 if there is none."""
    folder = project.folder / "results/tiny/checkpoints/lora"
    done = [p.parent for p in folder.glob("*/checkpoint-*/complete.json")]
    steps = {p.parent.name: 0 for p in done}
    for path in done:
        step = int(path.name.rpartition("-")[2])
        steps[path.parent.name] = max(steps[path.parent.name], step)
    return max((s for s in steps.values() if s != 12), default=0)


def test_two_clean_runs_give_equal_bytes_and_leave_linked_inputs_as_they_are(finished, tmp_path):
    project = finished.copy(tmp_path / "again")
    shutil.rmtree(project.folder / "results")
    before = link_inputs(project, tmp_path / "store")
    done = project.run("--cores", "1")
    assert done.returncode == 0, done.stderr
    wanted, found = finished.artifacts(), project.artifacts()
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if found[name] != wanted[name]] == []
    assert state(tmp_path / "store") == before
    for folder in ("raw", "models/base", "tasks"):
        names = sorted(p.name for p in (project.folder / folder).iterdir())
        assert names == sorted(p.name for p in (finished.folder / folder).iterdir())


def link_inputs(project, store) -> dict:
    """Raw files, base model and tasks become links, by turns hard and symbolic, to a read-only
    store; returns its state."""
    for folder in ("raw", "models/base", "tasks"):
        (store / folder).mkdir(parents=True)
        for number, path in enumerate(sorted((project.folder / folder).iterdir())):
            kept = path.rename(store / folder / path.name)
            kept.chmod(0o444)
            path.hardlink_to(kept) if number % 2 else path.symlink_to(kept)
    return state(store)


def state(folder) -> dict:
    files = [p for p in folder.rglob("*") if p.is_file()]
    return {p: (p.read_bytes(), p.stat().st_mode, p.stat().st_mtime_ns) for p in files}


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        (
            "config/config.yaml",
            "learning_rate",
            "learning_rat",
            "error: config/config.yaml:26: runs.lora.training.learning_rat: unknown key; "
            "did you mean 'learning_rate'?",
        ),
        (
            "config/config.yaml",
            "raw/first.jsonl",
            "raw/frist.jsonl",
            "error: datasets.facts.sources.first.path: no file fits 'raw/frist.jsonl'; "
            "check the path",
        ),
        (
            "config/config.yaml",
            "models/base",
            "models/bass",
            "error: models.*.path: no folder 'models/bass'; check the path",
        ),
    ],
)
def test_a_mistake_in_the_configuration_is_one_line(project, file, old, new, line):
    project.edit(file, old, new)
    done = project.run("-n")
    assert done.returncode == 1
    assert [text for text in done.stderr.splitlines() if "profile" not in text] == [line]


def test_a_source_with_too_many_bad_rows_names_file_and_line(project):
    path = project.folder / "raw/first.jsonl"
    path.write_text("{broken\n" * 60 + path.read_text())
    done = project.run("data")
    assert done.returncode == 1
    assert (
        "error: raw/first.jsonl:1: 61 of 151 rows of source 'first' are unreadable" in done.stderr
    )
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stderr.rstrip().endswith("log: results/tiny/logs/assign_splits/facts.log") or (
        "The run stopped here:" in done.stderr
    )


def test_a_model_without_chat_template_stops_at_once(project):
    (project.folder / "models/base/chat_template.jinja").unlink()
    done = project.run()
    assert done.returncode == 1
    assert "set models.NAME.chat_template to a Jinja file" in done.stderr


def test_the_report_shows_its_figures_in_a_browser(finished, tmp_path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --disable-quic"
    page = (finished.folder / "results/tiny/report/report.html").as_uri()
    command = [chromium, *flags.split(), f"--user-data-dir={tmp_path}", "--dump-dom", page]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    for figure in ("fig-funnel-facts", "fig-lengths-lora", "fig-loss-lora", "fig-scores-lora"):
        after = dom.partition(f'id="{figure}"')[2]
        assert "<svg" in after[:2000], figure


def test_snakemakes_own_report_has_captions_and_categories_and_asks_no_network(project):
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = project.run("--report", "workflow.html", **nowhere)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (project.folder / "workflow.html").read_text()
    for shown in ("Data", "Runs", "Evaluation", "Report"):
        assert f'"{shown}"' in page, shown
    for caption in ("The whole project on one page", "Splits of dataset", "on held-out rows"):
        assert caption in page, caption


def test_steps_run_without_snakemake(finished, tmp_path):
    command = [sys.executable, "scripts/read_shard.py", "--help"]
    done = subprocess.run(command, cwd=finished.folder, capture_output=True, text=True)
    assert done.returncode == 0
    assert "--rejects" in done.stdout
