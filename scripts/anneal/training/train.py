"""One training run, resumable at any moment. Reads top to bottom: load, train, save, verify."""

import json
import shutil
from pathlib import Path

import torch
from torch import distributed
from transformers import EarlyStoppingCallback, TrainerCallback

from anneal.config.run import ONLINE
from anneal.errors import UserError
from anneal.provenance.files import read_json, whole_folder
from anneal.training.advice import advice
from anneal.training.checkpoints import (
    KeepCheckpoints,
    best_checkpoint,
    resumable,
    step_of,
    train_from,
)
from anneal.training.curves import WriteCurves, read_curves
from anneal.training.guards import try_longest_rows, watch_loss
from anneal.training.job import Job
from anneal.training.processes import OwnNoise, is_first, places, wait
from anneal.training.save import save_model
from anneal.training.sharding import plain, whole_tensors
from anneal.training.speed import MeasureSpeed, peak_memory_mb
from anneal.training.stopping import StopOnSignal
from anneal.training.trackers import Track
from anneal.training.tuning import weights
from anneal.training.verify import live_logits, samples, verify_saved


def train(job: Job, folder: Path) -> dict:
    """Train one run and write its folder: `model/`, `metrics.jsonl` and `samples.json`; of a
    stream `counts.json` and `rejects.jsonl` too.

    Returns:
        facts for the manifest: steps, rates, memory, the verification.
    """
    stop, speed = StopOnSignal(job.strategy.resumes), MeasureSpeed(job)
    trainer = job.make_trainer()
    resume = resumable(job.checkpoints, job.strategy)
    resumed_step = step_of(resume) if resume else 0
    for callback in (*_callbacks(job, resumed_step), stop, speed):
        trainer.add_callback(callback)
    first = First(trainer, job, resume)
    with advice(job, lambda: f"step {trainer.state.global_step + 1}"):
        if job.strategy.sharded:
            trainer.add_callback(first)  # no process could hold the whole model before
        else:
            first()
        train_from(trainer, resume, job.strategy)
    stop.check(trainer.state)
    if trainer.state.global_step == 0:
        raise UserError("runs.*.training", "no step was made", "check max_steps and the epochs")
    counted = weights(trainer.model)
    return {
        "steps": trainer.state.global_step,
        "kept_step": _take_best(trainer, job),
        "resumed_step": resumed_step,
        "precision": job.training["precision"],
        "peak_memory_mb": peak_memory_mb(),
        "threads": torch.get_num_threads(),
        **counted,
        **first.tried,
        **speed.facts(**counted),
        **getattr(trainer, "facts", {}),
        **processes_facts(job),
        **write_run(job, trainer, folder),
        **({"stream": read_json(job.notes / "counts.json")} if job.streamed else {}),
    }


def _callbacks(job: Job, resumed_step: int) -> list:
    training, curves = job.training, job.checkpoints / "metrics.jsonl"
    best = 0 if job.settings["method"] in ONLINE else training["keep_best"]
    callbacks = [WriteCurves(curves, resumed_step)]
    if job.strategy.resumes:
        callbacks.append(KeepCheckpoints(training["save_total_limit"], best, job.strategy))
    if job.strategy.data_processes > 1 and not resumed_step:
        callbacks.append(OwnNoise())
    if job.tracker != "none":
        callbacks.append(Track(job.tracker, job.trackers, job.settings, curves))
    if training["early_stopping_patience"]:
        callbacks.append(EarlyStoppingCallback(training["early_stopping_patience"]))
    return callbacks


class First(TrainerCallback):
    """What comes before the first step: the longest rows, and the curve's first point."""

    def __init__(self, trainer, job: Job, resume: Path | None):
        self.trainer, self.job, self.resume, self.tried = trainer, job, resume, {}
        if job.settings["method"] not in ONLINE:
            watch_loss(trainer, job)

    def __call__(self) -> None:
        if self.job.settings["method"] not in ONLINE:  # they make their rows as they go
            self.tried = try_longest_rows(self.trainer, self.job)
        if not self.resume:
            self.trainer.evaluate()

    def on_train_begin(self, args, state, control, **_):
        self()
        if not self.resume:
            state.log_history.clear()  # there is no checkpoint of step 0 that could be the best


def _take_best(trainer, job: Job) -> int:
    """Put the weights with the lowest evaluation loss into the model; returns their step."""
    wanted = job.training["load_best"] and job.settings["method"] not in ONLINE
    best = best_checkpoint(job.checkpoints, trainer.state) if wanted else None
    if best is None or step_of(best) == trainer.state.global_step:
        return trainer.state.global_step
    trainer.state.best_model_checkpoint = str(best)
    trainer._load_best_model()
    return step_of(best)


def processes_facts(job: Job) -> dict:
    """Who trained; a lone process on one device is told by the host of the manifest."""
    backend = distributed.get_backend() if distributed.is_initialized() else "none"
    strategy = job.strategy.model_dump()
    return {
        "strategy": strategy,
        "processes": job.strategy.world_size,
        "backend": backend,
        "devices": places(),
    }


def write_run(job: Job, trainer, folder: Path) -> dict:
    """The run's folder, complete or not at all; what was verified about the saved model.

    All processes answer and gather the weights; the first one writes.
    """
    model, curves = plain(trainer), read_curves(job.checkpoints / "metrics.jsonl")
    live = live_logits(trainer, job.train_rows)
    shown = samples(model, job.tokenizer, job.test_rows)
    tensors = whole_tensors(trainer, job.strategy)
    if not is_first():
        if job.strategy.kind == "tensor_parallel":
            wait()  # transformers has the first one wait for all when it saves a split model
        return {}
    with whole_folder(folder) as partial:
        save_model(model, job.tokenizer, job.train_rows, partial / "model", tensors)
        verified = verify_saved(model, live, partial / "model", job)
        (partial / "samples.json").write_text(json.dumps(shown, indent=1, ensure_ascii=False))
        lines = (json.dumps(row) + "\n" for row in curves)
        (partial / "metrics.jsonl").write_text("".join(lines))
        if job.streamed:
            shutil.copytree(job.notes, partial, dirs_exist_ok=True)
    return verified
