"""What all command lines share."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import REPOSITORY

from anneal import cli

STEP = """
import sys; sys.path.insert(0, "scripts")
from anneal import cli
from anneal.errors import UserError
def main(arguments):
    print("at work")
    raise UserError("here", "a mistake")
cli.run(main, cli.parser("A step.").parse_args(["--log", sys.argv[1]]))
"""


def test_a_users_error_is_not_tried_again_by_the_same_run(tmp_path, monkeypatch):
    def attempt(run: str) -> subprocess.CompletedProcess:
        (tmp_path / ".lock").write_text(run)
        monkeypatch.setenv("ANNEAL_RUN", run)
        monkeypatch.setenv("ANNEAL_RESULTS", str(tmp_path))
        (tmp_path / "step.log").unlink(missing_ok=True)  # as Snakemake does
        command = [sys.executable, "-c", STEP, str(tmp_path / "step.log")]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)

    attempts = [attempt("one"), attempt("one"), attempt("two")]
    assert [done.stdout for done in attempts] == ["at work\n", "", "at work\n"]
    assert {done.stderr for done in attempts} == {"error: here: a mistake\n"}
    assert {done.returncode for done in attempts} == {1}


def parsed(*values: str) -> list[Path]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=Path, nargs="*", action=cli.Shards, default=[])
    return parser.parse_args(["--files", *values]).files


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (("a b.parquet", "c"), ["a b.parquet", "c"]),
        (("d/{shard}.x", "s:2", "t-1:1"), ["d/s-00000.x", "d/s-00001.x", "d/t-1-00000.x"]),
        (("ledger", "d/{shard}/m.json", "s:1"), ["ledger", "d/s-00000/m.json"]),
        ((), []),
    ],
)
def test_all_shards_are_named_in_short(given, meant):
    assert parsed(*given) == [Path(name) for name in meant]


def test_five_thousand_shards_fit_into_one_argument():
    assert len(parsed("results/project/data/rows/clean/{shard}.parquet", "source:5000")) == 5000
