"""What runs of a project left behind: locks, processes, Slurm jobs, half-made outputs."""

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from anneal.doctor.finding import Finding
from anneal.lock import is_held, slurm_jobs

SCRIPTS = Path(__file__).resolve().parents[2]
COMPLETE = "complete.json"
SHOWN = 3


def look_at_state(results: Path, driver: Path = Path(".snakemake")) -> Iterator[Finding]:
    """Findings of a project's results folder and of Snakemake's own.

    Args:
        results: `results/PROJECT`.
    """
    lock = results / ".lock"
    running = lock.is_file() and is_held(lock)
    yield from _lock(lock, running)
    steps = steps_at_work(Path.cwd(), results)
    if steps and not running:
        pids = " ".join(map(str, steps))
        what = f"{len(steps)} steps of a run that was killed are still at work"
        yield Finding("wrong", what, f"wait for them to end, or `kill {pids}`")
    if lock.is_file() and not running:
        yield from _jobs(lock.read_text())
    yield from _snakemake_locks(driver)
    if not running:
        yield from _half_made(results, driver)
    yield from _manifests(results)


def _lock(lock: Path, running: bool) -> Iterator[Finding]:
    if running:
        yield Finding("note", f"{lock}: a run is at work", "wait for it to end, or stop it")
    else:
        yield Finding("ok", "no run is at work here")


def steps_at_work(folder: Path, results: Path) -> list[int]:
    """Processes of our scripts that were started in `folder` and write to `results`."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
            here = (place / "cwd").readlink() == folder
        except OSError:  # it is over by now, or somebody else's
            continue
        ours = any(_is_step(word) for word in words[1:3])
        inside = any(word.startswith(f"{results}/") for word in words)
        if here and ours and inside and int(place.name) != os.getpid():
            found.append(int(place.name))
    return sorted(found)


def _is_step(word: str) -> bool:
    path = Path(word)
    return (
        path.suffix == ".py" and path.parent.name == "scripts" and (SCRIPTS / path.name).is_file()
    )


def _jobs(name: str) -> Iterator[Finding]:
    """Slurm jobs of the run that held the lock last."""
    try:
        jobs = slurm_jobs(name, patience=30)
    except (OSError, subprocess.SubprocessError):
        what = "the last run had Slurm jobs, and squeue does not answer here"
        yield Finding("wrong", what, "look again on a node where it does")
        return
    if jobs:
        what = f"{len(jobs)} Slurm jobs of a run that was stopped are queued or at work"
        yield Finding("wrong", what, f"wait for them to end, or `scancel --name {name}`")


def _snakemake_locks(driver: Path) -> Iterator[Finding]:
    if any((driver / "locks").glob("*")):
        what = f"{driver}/locks: Snakemake's own lock was left, by a run without our profiles"
        yield Finding("wrong", what, "`snakemake --unlock`, if no run is at work")


def _half_made(results: Path, driver: Path) -> Iterator[Finding]:
    """Nothing of this has to be mended: the next run makes it again, or passes over it."""
    marked = [name for name in map(_marked, (driver / "incomplete").glob("*")) if name]
    if marked:
        what = f"{_some(marked)} not finished when a run ended"
        yield Finding("note", what, "the next run makes it again")
    partial = [path.as_posix() for path in results.rglob(".*.partial")]
    if partial:
        yield Finding("note", f"{_some(partial)} half-written", "the next run replaces it")
    broken = [
        folder.as_posix()
        for folder in (results / "checkpoints").glob("*/*/checkpoint-*")
        if not (folder / COMPLETE).is_file()
    ]
    if broken:
        what = f"{_some(broken)} not saved to the end"
        yield Finding("note", what, "the next run goes on from the one before")


def _marked(path: Path) -> str | None:
    """The output that Snakemake marks as incomplete by a file of this name."""
    try:
        return base64.b64decode(path.name, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _manifests(results: Path) -> Iterator[Finding]:
    torn = []
    for path in results.rglob("*manifest.json"):
        try:
            json.loads(path.read_bytes())["key"]
        except (ValueError, KeyError, TypeError):
            torn.append(path.as_posix())
    if torn:
        yield Finding("wrong", f"{_some(torn)} not readable", "remove it: its step runs again")


def _some(names: list[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more + (" is" if len(names) == 1 else " are")
