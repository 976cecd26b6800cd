"""Checkpoints that count only when complete, in a folder that belongs to one fingerprint.

They are not outputs of the workflow, which deletes outputs of failed jobs.
"""

import math
import shutil
from itertools import count
from pathlib import Path

from transformers import TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from anneal.cli import log
from anneal.config.strategy import Strategy
from anneal.errors import UserError
from anneal.provenance.files import read_json, write_json
from anneal.training.processes import first_before_others, is_first, wait

COMPLETE = "complete.json"


class KeepCheckpoints(TrainerCallback):
    """Marks each checkpoint complete, keeps the last and the best ones, and saves new best ones.

    A checkpoint is as good as the evaluation loss at its step.

    Args:
        last, best: how many of each are kept.
        strategy: how the processes that save share the work.
    """

    def __init__(self, last: int, best: int, strategy: Strategy):
        self.last, self.best, self.strategy = last, best, strategy

    def on_evaluate(self, args, state, control, **_):
        losses = _eval_losses(state)
        if state.global_step in sorted(losses, key=losses.get)[: self.best]:
            control.should_save = True

    def on_save(self, args, state, control, **_):
        wait()  # each process has written its part
        if is_first():
            self._keep(Path(args.output_dir), state)
        wait()

    def _keep(self, folder: Path, state) -> None:
        mark_complete(folder / f"checkpoint-{state.global_step}", self.strategy)
        losses = _eval_losses(state)
        there = sorted(folder.glob("checkpoint-*"), key=step_of)
        ranked = sorted(
            (p for p in there if step_of(p) in losses), key=lambda p: losses[step_of(p)]
        )
        for checkpoint in set(there) - set(there[-self.last :]) - set(ranked[: self.best]):
            shutil.rmtree(checkpoint)


def mark_complete(checkpoint: Path, strategy: Strategy) -> None:
    """List the checkpoint's files and sizes and whose it is; unlisted ones do not count."""
    files = sorted(p for p in checkpoint.rglob("*") if p.is_file())
    sizes = {p.relative_to(checkpoint).as_posix(): p.stat().st_size for p in files}
    made = {"run": checkpoint.parent.name, "strategy": saved_by(strategy), "files": sizes}
    write_json(checkpoint / COMPLETE, made)


def saved_by(strategy: Strategy) -> str:
    """Strategy and processes as words; a state is whole only for the same again."""
    stage = f" ZeRO-{strategy.zero_stage}" if strategy.kind == "deepspeed" else ""
    version = f" {strategy.fsdp_version}" if strategy.kind == "fsdp" else ""
    return f"{strategy.kind}{stage}{version} on {strategy.world_size} process(es)"


def resumable(folder: Path, strategy: Strategy) -> Path | None:
    """The newest complete checkpoint, the same in all processes.

    Raises:
        UserError: another strategy, or another number of processes, has saved it.
    """
    with first_before_others():
        found = last_complete(folder)
    if found is None:
        return None
    before, now = read_json(found / COMPLETE)["strategy"], saved_by(strategy)
    if before != now:
        what = f"{before} saved this checkpoint, and the run's strategy is now {now}"
        do = "go on with the strategy of before, or remove this folder's parent to start again"
        raise UserError(str(found), what, do)
    return found


def last_complete(folder: Path) -> Path | None:
    """The newest complete checkpoint; broken ones are moved aside and named in the log."""
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=step_of, reverse=True):
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
        complete = read_json(checkpoint / COMPLETE)
    except (FileNotFoundError, ValueError):
        return "it was not saved to the end"
    if complete["run"] != checkpoint.parent.name:
        return f"it belongs to other data or settings ({complete['run']})"
    for name, size in complete["files"].items():
        path = checkpoint / name
        if not path.is_file() or path.stat().st_size != size:
            return f"{name} is missing or cut"
    return None


def train_from(trainer, checkpoint: Path | None, strategy: Strategy) -> None:
    """Train to the end, from a checkpoint if there is one; the last one has the weights."""
    if checkpoint and is_last(checkpoint):
        _take(trainer, checkpoint, strategy.sharded)
    else:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def _take(trainer, checkpoint: Path, sharded: bool) -> None:
    """The weights and the state of a run that had come to its end."""
    state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    if sharded:
        rows = trainer.get_train_dataloader()
        trainer._prepare_for_training(state.max_steps, rows, str(checkpoint))
    else:
        trainer._load_from_checkpoint(str(checkpoint))
    trainer.state = state


def is_last(checkpoint: Path) -> bool:
    """Whether training had come to its end here: the Trainer would make one step more."""
    state = read_json(checkpoint / "trainer_state.json")
    early = state["stateful_callbacks"].get("EarlyStoppingCallback")
    if early:
        patience = early["args"]["early_stopping_patience"]
        if early["attributes"]["early_stopping_patience_counter"] >= patience:
            return True
    return state["global_step"] >= state["max_steps"]


def best_checkpoint(folder: Path, state) -> Path | None:
    """The kept checkpoint with the lowest evaluation loss."""
    losses = _eval_losses(state)
    there = [p for p in folder.glob("checkpoint-*") if step_of(p) in losses]
    return min(there, key=lambda p: (losses[step_of(p)], step_of(p)), default=None)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _eval_losses(state) -> dict[int, float]:
    rows = [row for row in state.log_history if "eval_loss" in row]
    return {row["step"]: row["eval_loss"] for row in rows if math.isfinite(row["eval_loss"])}


def _free_name(checkpoint: Path) -> Path:
    names = (checkpoint.with_name(f"broken-{checkpoint.name}.{n}") for n in count())
    return next(name for name in names if not name.exists())
