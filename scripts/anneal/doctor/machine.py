"""What this machine has: packages, Python, GPUs, disk."""

import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from anneal.doctor.finding import Finding

LOCK = Path("envs/anneal.lock")
PYTHON = (3, 11)
LEAST_DISK = 10e9
SHOWN = 3


def look_at_packages(lock: Path = LOCK) -> Iterator[Finding]:
    """Installed versions against the lock; a build such as `+cpu` is the same version."""
    if sys.version_info[:2] != PYTHON:
        here = ".".join(map(str, sys.version_info[:2]))
        yield Finding(
            "wrong", f"Python {here} runs here, not 3.11", "use .venv, made by `make setup`"
        )
    lines = [line.split("#")[0].strip() for line in lock.read_text().splitlines()]
    pinned = dict(line.split("==") for line in lines if "==" in line)
    other = [
        f"{name} {found or 'is missing'} (locked: {version})"
        for name, version in pinned.items()
        if (found := installed(name)) != version
    ]
    if other:
        more = f" and {len(other) - SHOWN} more" if len(other) > SHOWN else ""
        yield Finding("wrong", f"packages: {', '.join(other[:SHOWN])}{more}", "run `make setup`")
    else:
        yield Finding("ok", f"{len(pinned)} packages are those of {lock}")


def installed(name: str) -> str | None:
    """The version of a package here; None if there is none."""
    try:
        return metadata.version(name).split("+")[0]
    except metadata.PackageNotFoundError:
        return None


def look_at_disk(folder: Path, needed: float) -> Iterator[Finding]:
    """Free space where results go, against what the plan says, and at least 10 GB."""
    place = next(p for p in (folder, *folder.resolve().parents) if p.exists())
    free, least = shutil.disk_usage(place).free, max(needed, LEAST_DISK)
    what = f"{free / 1e9:,.0f} GB are free for {folder}, {least / 1e9:,.0f} GB are wanted"
    if free < least:
        yield Finding("wrong", what, "free space, or lower save_total_limit and keep_best")
    else:
        yield Finding("ok", what)


def look_at_devices(runs: dict[str, str]) -> Iterator[Finding]:
    """GPUs here or on a cluster, for runs that name one.

    Args:
        runs: hardware of each run.
    """
    wanted = sorted(name for name, hardware in runs.items() if hardware != "cpu")
    here = [tool for tool in ("nvidia-smi", "rocm-smi") if shutil.which(tool)]
    if not wanted:
        yield Finding("ok", "no run asks for a GPU")
    elif here:
        yield Finding("ok", f"{here[0]} is here")
    elif shutil.which("squeue"):
        yield Finding("ok", "no GPU here; Slurm has them")
    else:
        what = f"{', '.join(wanted)} ask for a GPU, and there is none here, and no Slurm"
        yield Finding("wrong", what, "run where one is, or set hardware: cpu")
