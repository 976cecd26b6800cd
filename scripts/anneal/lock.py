"""One run at a time in a results folder, and none beside what a killed run left at work.

The run holds `.lock` and writes its name into it; each of its steps holds `.steps`, shared. The
kernel frees both with the process, however it ends.
"""

import fcntl
import os
import subprocess
import uuid
from contextlib import nullcontext
from pathlib import Path

from anneal.errors import UserError

RUN, FOLDER = "ANNEAL_RUN", "ANNEAL_RESULTS"
LOCAL = "local-"


class RunLock:
    """The lock of a run, held as long as this object lives.

    Args:
        folder: results of the project.
        jobs: the name that all Slurm jobs of this run will have; None where it has none.

    Raises:
        UserError: another run holds it, or steps or Slurm jobs of an earlier one are not over.
    """

    def __init__(self, folder: Path, jobs: str | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / ".lock").open("a+")
        if not _flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB):
            do = "wait for it to end, or stop it"
            raise UserError(str(folder), "another run is at work here", do)
        self.file.seek(0)
        _no_jobs(folder, self.file.read())
        name = jobs or f"{LOCAL}{uuid.uuid4()}"
        self.file.truncate(0)
        print(name, end="", file=self.file, flush=True)
        _no_steps(folder)
        os.environ |= {RUN: name, FOLDER: str(folder.resolve())}


def hold_step():
    """A context in which a step works, so that the next run knows of it.

    Raises:
        UserError: its run was killed, and another one is there now.
    """
    name = os.environ.get(RUN)
    if not name:
        return nullcontext()
    folder = Path(os.environ[FOLDER])
    steps = (folder / ".steps").open("a")
    _flock(steps, fcntl.LOCK_SH)
    if (folder / ".lock").read_text() != name:
        raise UserError(str(folder), "another run is at work here", "this step leaves it alone")
    return steps


def is_held(lock: Path) -> bool:
    """Whether a process holds this file locked; the lock goes with its process."""
    with lock.open() as file:
        return not _flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def slurm_jobs(name: str, patience: float | None = None) -> list[str]:
    """Ids of the Slurm jobs, queued or at work, of the run that wrote this name into its lock.

    Args:
        patience: seconds to wait for Slurm; None waits as long as squeue does.

    Raises:
        OSError, subprocess.SubprocessError: squeue is not here, or does not answer.
    """
    if not name or name.startswith(LOCAL):
        return []
    command = ["squeue", "--noheader", "--name", name, "--format", "%i"]
    asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=patience)
    return asked.stdout.split()


def _no_jobs(folder: Path, name: str) -> None:
    """No Slurm job of the run that was here last is queued or at work."""
    try:
        jobs = slurm_jobs(name)
    except (OSError, subprocess.CalledProcessError) as error:
        what = f"cannot ask Slurm for jobs of the last run ({error})"
        raise UserError(str(folder), what, "start where `squeue` answers") from None
    if jobs:
        what = f"Slurm jobs of a run that was stopped are queued or at work ({len(jobs)})"
        raise UserError(str(folder), what, f"wait for them to end, or `scancel --name {name}`")


def _no_steps(folder: Path) -> None:
    with (folder / ".steps").open("a") as steps:
        if not _flock(steps, fcntl.LOCK_EX | fcntl.LOCK_NB):
            pids = " ".join(_holders(steps))
            what = "steps of a run that was killed are still at work"
            raise UserError(str(folder), what, f"wait for them to end, or `kill {pids}`")


def _flock(file, how: int) -> bool:
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True


def _holders(file) -> list[str]:
    """Processes that hold a file locked, as Linux tells."""
    inode = f":{os.fstat(file.fileno()).st_ino}"
    table = Path("/proc/locks")
    rows = [line.split() for line in table.read_text().splitlines()] if table.is_file() else []
    return sorted({row[-4] for row in rows if row[-3].endswith(inode)}, key=int)
