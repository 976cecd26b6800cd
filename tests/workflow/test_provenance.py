"""Ancestry, differences, stages and housekeeping of whole projects, by their command lines."""

import json
import re
import subprocess
import sys

import pytest
from project import Project, fact


def command(project: Project, script: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, f"scripts/{script}.py", *map(str, arguments)],
        cwd=project.folder,
        capture_output=True,
        text=True,
    )


def told(project: Project, script: str, *arguments: str) -> str:
    done = command(project, script, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_score_is_traced_to_raw_lines_over_every_step_and_each_byte_is_checked(finished):
    text = told(finished, "trace", "kind", "--project", "results/tiny", "--bytes")
    assert "runs.lora.comparison.kind: base" in text.splitlines()[0]
    steps = (
        *("compare_run", "benchmark", "train_run", "write_splits", "tokenize_shard"),
        *("format_shard", "clean_shard", "read_shard", "assign_splits", "select_rows"),
    )
    assert [step for step in steps if step not in text] == []
    assert "raw raw/first.jsonl bytes 0-" in text
    assert "training.seed 17" in text


def test_the_loss_on_held_out_rows_is_traced_as_a_score_is(finished):
    text = told(finished, "trace", "runs.lora.heldout", "--project", "results/tiny")
    assert re.match(r"runs\.lora\.heldout: base [\d.]+, tuned [\d.]+ \(\w+\)", text)
    assert "measure_heldout evaluation/facts/base" in text


def test_the_trace_of_a_run_reaches_every_raw_piece(finished):
    traced = json.loads(told(finished, "trace", "results/tiny/runs/lora", "--json"))
    pieces = [p for a in traced[0]["artifacts"].values() for p in a["pieces"]]
    raw = (finished.folder / "raw/first.jsonl").stat().st_size
    read = sum(p["end"] - p["start"] for p in pieces if p["source"] == "first")
    assert read == raw


def test_two_projects_with_the_same_artifacts_do_not_differ(finished, project):
    here, there = finished.folder / "results/tiny", project.folder / "results/tiny"
    assert told(project, "diff", here, there).startswith("no difference")


def test_changed_rows_and_settings_are_named(finished, project):
    rows = (project.folder / "raw/first.jsonl").read_text().splitlines()
    rows.insert(2, json.dumps(fact(700)))
    rows[7] = rows[20]
    (project.folder / "raw/first.jsonl").write_text("\n".join(rows) + "\n")
    project.edit("config/config.yaml", "max_length: 96", "max_length: 90")
    assert project.run("data").returncode == 0
    here, there = finished.folder / "results/tiny", project.folder / "results/tiny"
    text = told(project, "diff", here, there)
    assert "max_length: 96 -> 90" in text
    assert "raw raw/first.jsonl: bytes" in text
    assert "1 only in B (kept in " in text
    found = json.loads(told(project, "diff", here, there, "--json"))
    assert sum(c["rows"] for c in found["rows"]["facts"] if c["in_a"] is None) == 2


def test_what_no_configuration_reaches_is_listed_then_removed_and_nothing_else(project):
    root = project.folder / "results/tiny"
    kept = {p for p in root.rglob("*") if p.is_file()}
    stale = ("checkpoints/lora/0000", "checkpoints/gone/1111", "runs/gone", "tokens/facts/gone")
    for name in stale:
        (root / name).mkdir(parents=True)
        (root / name / "weights").write_text("old")
    (root / "data/facts/clean/first-00099.parquet").write_text("old")
    (root / "notes").mkdir()
    (root / "notes/mine").write_text("kept")
    outside = project.folder / "models"
    (root / "runs/link").symlink_to(outside)
    listed = told(project, "clean_stale")
    told_of = ("checkpoints/lora/0000", "checkpoints/gone\n", "runs/gone\n", "tokens/facts/gone\n")
    told_of += ("clean/first-00099.parquet", "runs/link")
    assert [name for name in told_of if name not in listed] == []
    assert "notes" not in listed
    assert (root / "runs/gone/weights").is_file()
    told(project, "clean_stale", "--yes")
    assert not any((root / name).exists() for name in (*stale, "runs/link"))
    assert [path for path in kept if not path.is_file()] == []
    assert (root / "notes/mine").is_file()
    assert (outside / "base/config.json").is_file()
    assert not project.planned()


def test_results_of_every_given_configuration_stay(project):
    project.edit("config/config.yaml", "  lora:\n", "  other:\n")
    first = project.folder / "config/first.yaml"
    first.write_text((project.folder / "config/config.yaml").read_text().replace("other", "lora"))
    alone = told(project, "clean_stale")
    both = told(project, "clean_stale", "--configs", "config/config.yaml", "config/first.yaml")
    assert "results/tiny/runs/lora" in alone
    assert "results/tiny/runs/lora" not in both


@pytest.fixture
def versioned(project) -> Project:
    """A project in git and DVC, its run named as an artifact."""
    (project.folder / ".gitignore").write_text("results\n.snakemake\nraw\nmodels\n")
    (project.folder / "dvc.yaml").write_text(
        "stages: {train: {cmd: 'true', outs: [results/tiny/runs: {persist: true}]}}\n"
        "artifacts: {lora: {path: results/tiny/runs/lora, type: model}}\n"
    )
    git(project, "init", "-q")
    dvc(project, "init", "-q")
    dvc(project, "commit", "-q", "-f")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "trained")
    return project


def git(project: Project, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    done = subprocess.run(["git", *identity, *arguments], cwd=project.folder, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def dvc(project: Project, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=project.folder, check=True)


def test_a_run_is_promoted_to_a_stage_that_gto_and_dvc_know(versioned, monkeypatch):
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.com")
    git(versioned, "config", "user.name", "a")
    git(versioned, "config", "user.email", "a@example.com")
    told(versioned, "registry", "promote", "lora", "candidate")
    told(versioned, "registry", "promote", "lora", "released")
    listed = json.loads(told(versioned, "registry", "list", "--json"))["lora"]
    assert listed["problems"] == []
    assert listed["versions"][0]["version"] == "v0.0.1"
    assert set(listed["versions"][0]["stages"]) == {"candidate", "released"}
    assert listed["versions"][0]["fingerprint"] == listed["fingerprint"]
    assert set(git(versioned, "tag").split()) == {
        *("lora@v0.0.1", "lora#candidate#1", "lora#released#2")
    }


def test_a_run_whose_gate_failed_is_promoted_only_with_a_reason_that_is_kept(versioned):
    git(versioned, "config", "user.name", "a")
    git(versioned, "config", "user.email", "a@example.com")
    comparison = versioned.folder / "results/tiny/evaluation/comparisons/lora.json"
    rows = json.loads(comparison.read_text())
    comparison.write_text(json.dumps([{**row, "forgotten": True} for row in rows]))
    versioned.edit("config/config.yaml", "learning_rate: 1e-3", "learning_rate: 2e-3")
    refused = command(versioned, "registry", "promote", "lora", "released")
    assert refused.returncode == 1
    for problem in ("task general fell", "it is not current", "git has uncommitted changes"):
        assert problem in refused.stderr
    told(versioned, "registry", "promote", "lora", "released", "--because", "a trial for two days")
    message = git(versioned, "tag", "-n99", "-l", "lora#*")
    assert "because: a trial for two days" in message
    assert "problem: it is not current" in message
