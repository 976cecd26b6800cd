"""The doctor: each thing that it can find, found, and nothing changed."""

import base64
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import REPOSITORY

from anneal.doctor.machine import look_at_devices, look_at_disk, look_at_packages
from anneal.doctor.setup import look_at_config, look_at_profile
from anneal.doctor.state import look_at_state

RESULTS = Path("results/p")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A project's folder, with its results, as the current one."""
    monkeypatch.chdir(tmp_path)
    RESULTS.mkdir(parents=True)
    return tmp_path


def write(path: Path | str, text: str = "") -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def found(findings, level: str = "wrong") -> list[str]:
    return [str(finding) for finding in findings if finding.level == level]


# What runs left behind --------------------------------------------------------------------------


def test_a_clean_project_has_nothing_wrong(here):
    findings = list(look_at_state(RESULTS))
    assert [finding.level for finding in findings] == ["ok"]


def test_a_run_at_work_is_named_and_nothing_is_wrong(here):
    with write(RESULTS / ".lock", "local-1").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        findings = list(look_at_state(RESULTS))
    assert found(findings) == []
    assert "a run is at work" in found(findings, "note")[0]


def test_the_lock_of_a_killed_run_is_no_lock(here):
    write(RESULTS / ".lock", "local-1")
    assert found(look_at_state(RESULTS), "ok") == ["ok    no run is at work here"]


@pytest.fixture
def step(here):
    """A step that a killed driver left at work: a script of ours that takes its time."""
    write("scripts/read_shard.py", "import time; time.sleep(60)")
    command = [sys.executable, "scripts/read_shard.py", "--log", f"{RESULTS}/logs/x.log"]
    process = subprocess.Popen(command)
    while Path(f"/proc/{process.pid}/cmdline").read_bytes().count(b"\0") < 3:
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


def test_steps_of_a_killed_run_are_found_by_their_ids(step):
    assert f"kill {step.pid}" in found(look_at_state(RESULTS))[0]


def test_steps_of_a_run_at_work_are_no_orphans(step):
    with write(RESULTS / ".lock", "local-1").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert found(look_at_state(RESULTS)) == []


def test_steps_of_another_project_are_left_alone(step):
    assert found(look_at_state(Path("results/other"))) == []


def slurm(folder: Path, monkeypatch, script: str) -> None:
    """A `squeue` in front of the path that answers as Slurm's does."""
    write(folder / "bin" / "squeue", f"#!/bin/sh\n{script}\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")


def test_slurm_jobs_of_a_stopped_run_are_found_by_its_name(here, monkeypatch):
    write(RESULTS / ".lock", "run-7")
    slurm(here, monkeypatch, '[ "$3" = run-7 ] && printf "11\\n12\\n"')
    lines = found(look_at_state(RESULTS))
    assert len(lines) == 1 and "2 Slurm jobs" in lines[0] and "scancel --name run-7" in lines[0]


def test_slurm_that_does_not_answer_is_said(here, monkeypatch):
    write(RESULTS / ".lock", "run-7")
    slurm(here, monkeypatch, "exit 1")
    assert "squeue does not answer" in found(look_at_state(RESULTS))[0]


def test_snakemakes_own_lock_is_found(here):
    write(".snakemake/locks/0.input.lock")
    assert "snakemake --unlock" in found(look_at_state(RESULTS))[0]


def test_half_made_things_are_named_and_need_nothing(here):
    name = base64.b64encode(b"results/p/data/d/drops.parquet").decode()
    write(f".snakemake/incomplete/{name}")
    write(RESULTS / "data" / ".x.parquet.partial")
    write(RESULTS / "checkpoints" / "r" / "f" / "checkpoint-30" / "model.safetensors")
    write(RESULTS / "checkpoints" / "r" / "f" / "checkpoint-20" / "complete.json", "{}")
    findings = list(look_at_state(RESULTS))
    assert found(findings) == []
    text = "\n".join(found(findings, "note"))
    assert "drops.parquet is not finished" in text and ".x.parquet.partial is half" in text
    assert "checkpoint-30 is not saved to the end" in text and "checkpoint-20" not in text


def test_a_torn_manifest_is_found(here):
    write(RESULTS / "runs" / "r" / "manifest.json", '{"key": "a')
    assert "runs/r/manifest.json is not readable" in found(look_at_state(RESULTS))[0]


# Machine ---------------------------------------------------------------------------------------


def test_other_versions_than_the_locked_ones_are_named(tmp_path):
    lock = write(tmp_path / "a.lock", "# by hand\npytest==0.1\nnot-there-at-all==1.0\n")
    line = found(look_at_packages(lock))[0]
    assert "pytest" in line and "locked: 0.1" in line
    assert "not-there-at-all is missing (locked: 1.0)" in line and "make setup" in line


def test_a_disk_too_small_for_the_plan_is_said(tmp_path):
    assert "free space" in found(look_at_disk(tmp_path / "not yet", 1e18))[0]
    assert found(look_at_disk(tmp_path, 0), "ok") or found(look_at_disk(tmp_path, 0))


def test_runs_that_ask_for_a_gpu_where_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "big ask for a GPU" in found(look_at_devices({"big": "h100", "small": "cpu"}))[0]
    assert found(look_at_devices({"small": "cpu"})) == []


# Profile and configuration ---------------------------------------------------------------------


def test_a_broken_configuration_is_one_line_with_its_place(tmp_path):
    config, finding = look_at_config(write(tmp_path / "c.yaml", "project: p\nmodles: {}\n"))
    assert config is None and "c.yaml:2: modles: unknown key" in finding.what


def test_profiles_that_cannot_work_are_found(here):
    assert "no such profile" in found(look_at_profile(Path("profiles/x")))[0]
    write("profiles/x/config.yaml", "executor: nothing\n")
    text = "\n".join(found(look_at_profile(Path("profiles/x"))))
    assert "rerun-incomplete" in text
    assert "snakemake-executor-plugin-nothing is not installed" in text


def test_a_default_profile_is_found(here):
    write("profiles/default/config.yaml")
    write("profiles/x/config.yaml", "rerun-incomplete: true\n")
    assert "lays it over every profile" in found(look_at_profile(Path("profiles/x")))[0]


# The command -----------------------------------------------------------------------------------


def test_the_command_changes_nothing_and_exits_with_one_if_something_is_wrong(here):
    for part in ("scripts", "envs", "profiles", "config", "data"):
        (here / part).symlink_to(REPOSITORY / part)
    write("results/expenses/runs/r/manifest.json", "{")
    before = sorted((p, p.stat().st_mtime_ns) for p in here.rglob("*"))
    command = [sys.executable, "scripts/doctor.py"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "wrong results/expenses/runs/r/manifest.json is not readable" in done.stdout
    assert sorted((p, p.stat().st_mtime_ns) for p in here.rglob("*")) == before
