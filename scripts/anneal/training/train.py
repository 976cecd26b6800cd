"""One training run, resumable at any moment. Reads top to bottom: load, train, save, verify."""

import json
import shutil
from pathlib import Path

import torch
from transformers import EarlyStoppingCallback

from anneal.config.run import ONLINE
from anneal.errors import UserError
from anneal.provenance.files import read_json, whole_folder
from anneal.training.advice import advice
from anneal.training.checkpoints import (
    KeepCheckpoints,
    best_checkpoint,
    last_complete,
    step_of,
    train_from,
)
from anneal.training.curves import WriteCurves, read_curves
from anneal.training.guards import try_longest_rows, watch_loss
from anneal.training.job import Job
from anneal.training.save import save_model
from anneal.training.speed import MeasureSpeed, peak_memory_mb
from anneal.training.stopping import StopOnSignal
from anneal.training.trackers import Track
from anneal.training.tuning import weights
from anneal.training.verify import samples, verify_saved


def train(job: Job, folder: Path) -> dict:
    """Train one run and write its folder: `model/`, `metrics.jsonl` and `samples.json`; of a
    stream `counts.json` and `rejects.jsonl` too.

    Returns:
        facts for the manifest: steps, rates, memory, the verification.
    """
    stop, speed = StopOnSignal(), MeasureSpeed(job)
    trainer = job.make_trainer()
    resume = last_complete(job.checkpoints)
    resumed_step = step_of(resume) if resume else 0
    for callback in _callbacks(job, resumed_step):
        trainer.add_callback(callback)
    trainer.add_callback(stop)
    trainer.add_callback(speed)
    with advice(job, lambda: f"step {trainer.state.global_step + 1}"):
        tried = _try_first(trainer, job)
        if not resume:
            trainer.evaluate()
        train_from(trainer, resume)
    stop.check(trainer.state)
    if trainer.state.global_step == 0:
        raise UserError("runs.*.training", "no step was made", "check max_steps and the epochs")
    return {
        "steps": trainer.state.global_step,
        "kept_step": _take_best(trainer, job),
        "resumed_step": resumed_step,
        "precision": job.training["precision"],
        "peak_memory_mb": peak_memory_mb(),
        "threads": torch.get_num_threads(),
        **weights(trainer.model),
        **tried,
        **speed.facts(),
        **getattr(trainer, "facts", {}),
        **write_run(job, plain(trainer), folder),
        **({"stream": read_json(job.notes / "counts.json")} if job.streamed else {}),
    }


def _callbacks(job: Job, resumed_step: int) -> list:
    training, curves = job.training, job.checkpoints / "metrics.jsonl"
    best = 0 if job.settings["method"] in ONLINE else training["keep_best"]
    callbacks = [
        WriteCurves(curves, resumed_step),
        KeepCheckpoints(training["save_total_limit"], best),
    ]
    if job.tracker != "none":
        callbacks.append(Track(job.tracker, job.trackers, job.settings, curves))
    if training["early_stopping_patience"]:
        callbacks.append(EarlyStoppingCallback(training["early_stopping_patience"]))
    return callbacks


def _try_first(trainer, job: Job) -> dict:
    """Guards of methods that learn from rows; the others make their rows as they go."""
    if job.settings["method"] in ONLINE:
        return {}
    watch_loss(trainer, job)
    return try_longest_rows(trainer, job)


def _take_best(trainer, job: Job) -> int:
    """Put the weights with the lowest evaluation loss into the model; returns their step."""
    wanted = job.training["load_best"] and job.settings["method"] not in ONLINE
    best = best_checkpoint(job.checkpoints, trainer.state) if wanted else None
    if best is None or step_of(best) == trainer.state.global_step:
        return trainer.state.global_step
    trainer.state.best_model_checkpoint = str(best)
    trainer._load_best_model()
    return step_of(best)


def plain(trainer):
    """The model without what training put around it, such as autocast."""
    return trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)


def write_run(job: Job, model, folder: Path) -> dict:
    """The run's folder, complete or not at all; what was verified about the saved model."""
    curves = read_curves(job.checkpoints / "metrics.jsonl")
    with whole_folder(folder) as partial:
        save_model(model, job.tokenizer, job.train_rows, partial / "model")
        verified = verify_saved(model, partial / "model", job.training, job.train_rows)
        shown = samples(model, job.tokenizer, job.test_rows)
        (partial / "samples.json").write_text(json.dumps(shown, indent=1, ensure_ascii=False))
        lines = (json.dumps(row) + "\n" for row in curves)
        (partial / "metrics.jsonl").write_text("".join(lines))
        if job.streamed:
            shutil.copytree(job.notes, partial, dirs_exist_ok=True)
    return verified
