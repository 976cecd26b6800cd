"""Checkpoints that count only when complete, in a folder that belongs to one fingerprint.

They are not outputs of the workflow, which deletes outputs of failed jobs.
"""

from itertools import count
from pathlib import Path

from transformers import TrainerCallback

from anneal.cli import log
from anneal.provenance.files import read_json, write_json

COMPLETE = "complete.json"


class MarkComplete(TrainerCallback):
    """After each save, list the checkpoint's files and sizes; unlisted ones do not count."""

    def on_save(self, args, state, control, **_):
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        sizes = {p.relative_to(folder).as_posix(): p.stat().st_size for p in files}
        write_json(folder / COMPLETE, sizes)


def last_complete(folder: Path) -> Path | None:
    """The newest complete checkpoint; broken ones are moved aside and named in the log."""
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=_step, reverse=True):
        problem = broken(checkpoint)
        if problem is None:
            return checkpoint
        aside = _free_name(checkpoint)
        checkpoint.rename(aside)
        log.warning("skipped %s: %s; kept as %s", checkpoint.name, problem, aside.name)
    return None


def broken(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint folder; None if it is whole."""
    try:
        sizes = read_json(checkpoint / COMPLETE)
    except (FileNotFoundError, ValueError):
        return "it was not saved to the end"
    for name, size in sizes.items():
        path = checkpoint / name
        if not path.is_file() or path.stat().st_size != size:
            return f"{name} is missing or cut"
    return None


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _free_name(checkpoint: Path) -> Path:
    names = (checkpoint.with_name(f"broken-{checkpoint.name}.{n}") for n in count())
    return next(name for name in names if not name.exists())
