"""A finished project under git and DVC, its clones, and another user of the same machine."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project
from tiny import REPOSITORY

BIN = Path(sys.executable).parent
KEPT = (".gitignore", ".dvcignore", ".dvc/config", ".dvc/.gitignore", "dvc.yaml")
ANOTHER = 12345
AS_ANOTHER = (
    *("setpriv", "--reuid", str(ANOTHER), "--regid", str(ANOTHER), "--clear-groups"),
    # it may read the interpreter wherever that lies, but writes only what is its own
    *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
)


def command(folder: Path, *words: str, prefix: tuple = (), **environment: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(
        [*prefix, *words],
        cwd=folder,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"} | environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def git(folder: Path, *words: str, **more) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "safe.directory=*")
    return command(folder, "git", *name, *words, **more)


def dvc(folder: Path, *words: str, **more) -> str:
    return command(folder, sys.executable, "-m", "dvc", *words, **more)


def under_dvc(project: Project, remote: Path) -> Project:
    """Put a finished project under git and DVC as it is, without running a stage, and push it."""
    folder = project.folder
    (folder / ".dvc").mkdir()
    for name in KEPT:
        shutil.copy(REPOSITORY / name, folder / name)
    project.edit("dvc.yaml", "- data/raw", "- raw")
    project.edit("dvc.yaml", "- config/tasks", "- tasks")
    project.edit("dvc.yaml", "- config/tasks", "- tasks")
    project.edit("dvc.yaml", "  expenses-lora:", "  lora:")
    project.edit("dvc.yaml", "expenses/runs/expenses-lora", "tiny/runs/lora")
    git(folder, "init", "-q", "-b", "main")
    report = "results/tiny/report/report.json"
    command(folder, sys.executable, "scripts/write_metrics.py", report)
    dvc(folder, "commit", "--force")
    dvc(folder, "remote", "add", "--default", "store", str(remote))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "the first version")
    dvc(folder, "push")
    return project


def clone(project: Project, folder: Path, link: str, *stages: str, **more) -> Project:
    """A fresh clone with what was pulled of it."""
    git(project.folder.parent, "clone", "-q", str(project.folder), str(folder), **more)
    dvc(folder, "config", "--local", "cache.type", link, **more)
    dvc(folder, "pull", *stages, **more)
    return Project(folder)


def restore(project: Project, **more) -> tuple[list[str], dict[str, int]]:
    """The lines that are printed before the last, and the jobs that are left to run."""
    lines = command(project.folder, sys.executable, "scripts/restore.py", **more).splitlines()
    title, _, left = lines[-1].partition(": ")
    assert title == "Left to run"
    jobs = dict(reversed(job.split()) for job in left.split(", ")) if left != "nothing" else {}
    return lines[:-1], {rule: int(count) for rule, count in jobs.items()}


def shuffle_times(project: Project) -> None:
    """The order of times that a pull leaves, and none of Snakemake's records."""
    shutil.rmtree(project.folder / ".snakemake")
    files = sorted(p for p in (project.folder / "results").rglob("*") if p.is_file())
    random.Random(4).shuffle(files)
    for second, path in enumerate(files):
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))


def needs_another_user() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can act as another user, with setpriv")


def give_to_another(folder: Path) -> None:
    """Give a clone to another user, but for its cache and what is linked to it."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() or (path.lstat().st_nlink == 1 and ".dvc/cache" not in path.as_posix()):
            os.chown(path, ANOTHER, ANOTHER, follow_symlinks=False)
    for parent in list(folder.parents)[:-2]:
        parent.chmod(parent.stat().st_mode | 0o011)
