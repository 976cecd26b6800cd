"""One training run, resumable at any moment. Reads top to bottom: load, train, save, verify."""

import json
import resource
import time
from importlib import import_module
from pathlib import Path

import torch
from transformers import set_seed

from anneal.config.run import method_module
from anneal.errors import UserError
from anneal.provenance.files import whole_folder
from anneal.training.checkpoints import MarkComplete, last_complete
from anneal.training.curves import WriteCurves, read_curves
from anneal.training.job import Job
from anneal.training.save import save_model
from anneal.training.trackers import Track
from anneal.training.verify import samples, verify_saved


def train(job: Job, folder: Path) -> dict:
    """Train one run and write its folder: `model/`, `metrics.jsonl` and `samples.json`.

    Returns:
        facts for the manifest: steps, rates, memory, the verification.
    """
    set_seed(job.training["seed"])
    trainer = import_module(method_module(job.settings["method"])).make_trainer(job)
    resume = last_complete(job.checkpoints)
    resumed_step = int(resume.name.rpartition("-")[2]) if resume else 0
    trainer.add_callback(MarkComplete())
    curves = job.checkpoints / "metrics.jsonl"
    trainer.add_callback(WriteCurves(curves, resumed_step))
    if job.tracker != "none":
        trainer.add_callback(Track(job.tracker, job.trackers, job.settings, curves))
    if not resume:
        trainer.evaluate()
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    seconds = time.monotonic() - started
    if trainer.state.global_step == 0:
        raise UserError("runs.*.training", "no step was made", "check max_steps and the epochs")
    verified = write_run(job, trainer.model, folder)
    return {
        "steps": trainer.state.global_step,
        "resumed_step": resumed_step,
        "train_seconds": round(seconds, 1),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "threads": torch.get_num_threads(),
        **_tokens_per_second(job, trainer.state.global_step - resumed_step, seconds),
        **verified,
    }


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
    return verified


def _tokens_per_second(job: Job, steps: int, seconds: float) -> dict:
    training, rows = job.training, job.train_rows
    sequences = training["per_device_train_batch_size"] * training["gradient_accumulation_steps"]
    rate = steps * min(sequences, len(rows)) * sum(rows["length"]) / len(rows) / max(seconds, 1e-9)
    return {"tokens_per_second": round(rate, 1)}
