"""What all command lines share."""

import subprocess
import sys

from tiny import REPOSITORY

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
