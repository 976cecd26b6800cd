"""One run at a time in a folder, and none beside what a killed one left at work."""

import os
import subprocess
import sys

import pytest
from tiny import REPOSITORY

from anneal.errors import UserError
from anneal.lock import FOLDER, RUN, RunLock

STEP = """
import sys; sys.path.insert(0, "scripts")
from anneal.lock import hold_step
with hold_step():
    print("at work", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def no_run(monkeypatch):
    """What a lock leaves in the environment goes with the test."""
    monkeypatch.setenv(RUN, "")
    monkeypatch.setenv(FOLDER, "")


@pytest.fixture
def step():
    """Starts a step of the current run; it works until its input is closed."""
    started = []

    def start() -> subprocess.Popen:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-c", STEP]
        started.append(subprocess.Popen(command, cwd=REPOSITORY, text=True, **pipes))
        started[-1].stdout.readline()
        return started[-1]

    yield start
    for process in started:
        process.communicate()


def test_a_second_run_is_refused(tmp_path):
    first = RunLock(tmp_path)
    with pytest.raises(UserError, match="another run is at work here"):
        RunLock(tmp_path)
    del first
    RunLock(tmp_path)


def test_steps_that_outlive_their_run_are_named(tmp_path, step):
    first = RunLock(tmp_path)
    process = step()
    del first
    with pytest.raises(UserError, match=f"still at work; .* or `kill {process.pid}`"):
        RunLock(tmp_path)
    process.communicate()
    RunLock(tmp_path)


def test_a_step_that_begins_after_another_run_took_over_stops(tmp_path, step):
    first = RunLock(tmp_path)
    name = os.environ[RUN]
    del first
    second = RunLock(tmp_path)
    os.environ[RUN] = name
    _, error = step().communicate()
    assert "another run is at work here; this step leaves it alone" in error
    del second


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """Puts a `squeue` on the path that runs a line of shell."""

    def write(line: str) -> None:
        program = tmp_path / "bin" / "squeue"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return write


def test_a_slurm_that_does_not_answer_is_no_empty_queue(tmp_path, squeue):
    RunLock(tmp_path / "results", "anneal_1")
    squeue("exit 1")
    for _ in range(2):
        with pytest.raises(UserError, match="start where `squeue` answers"):
            RunLock(tmp_path / "results", "anneal_2")


def test_jobs_are_asked_for_by_the_name_of_the_run_that_was_here_last(tmp_path, squeue):
    RunLock(tmp_path / "results", "anneal_1")
    squeue('case "$*" in *anneal_1*) echo 17; esac')
    with pytest.raises(UserError, match=r"at work \(1\); .* `scancel --name anneal_1`"):
        RunLock(tmp_path / "results", "anneal_2")
