"""Supervised fine-tuning on pretokenized sequences, resumable at any moment.

Reads top to bottom: load, train, save, verify.
"""

import json
import resource
import shutil
import time
from pathlib import Path

import datasets
import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments, set_seed

from anneal.errors import UserError
from anneal.provenance.files import read_json, whole_folder
from anneal.training.checkpoints import MarkComplete, last_complete
from anneal.training.curves import WriteCurves, read_curves
from anneal.training.data import Collator, load_split, load_training
from anneal.training.loss import evaluate_loss, token_losses
from anneal.training.models import load_model, load_tokenizer, tuned
from anneal.training.save import save_model
from anneal.training.verify import samples, verify_saved


class SftTrainer(Trainer):
    """The Trainer with our token-normalised loss, and evaluation that keeps sums, not logits."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        losses, learned, _ = token_losses(model, inputs)
        tokens = learned.sum() if num_items_in_batch is None else num_items_in_batch
        return losses.sum() / tokens

    def evaluate(self, *_, **__) -> dict[str, float]:
        batches = DataLoader(
            self.eval_dataset, self.args.eval_batch_size, collate_fn=self.data_collator
        )
        batches = (self._prepare_inputs(batch) for batch in batches)
        metrics = evaluate_loss(self.model, batches)
        metrics = {f"eval_{name}": value for name, value in metrics.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics


def train(settings: dict, base: Path, splits: Path, checkpoints: Path, folder: Path, tracker: str):
    """Train one run and write its folder: `model/`, `metrics.jsonl`, `samples.json`; of a stream
    `counts.json` and `rejects.jsonl` too.

    Args:
        settings: `tuning` and `training` sections of the run.
        base, splits: folders of the base model and of the tokenized splits.
        checkpoints: where training state is kept between attempts.

    Returns:
        facts for the manifest: steps, rates, memory, the verification.
    """
    training = settings["training"]
    set_seed(training["seed"])
    tokenizer = load_tokenizer(base)
    model = load_model(base, training["precision"], training["attention"])
    model = tuned(model, settings["tuning"])
    notes = checkpoints / "stream"
    train_rows, first_rows = load_training(splits, base, training["seed"], notes)
    resume = last_complete(checkpoints)
    resumed_step = int(resume.name.rpartition("-")[2]) if resume else 0
    trainer = SftTrainer(
        model=model,
        args=_arguments(training, checkpoints, tracker),
        data_collator=Collator(tokenizer.pad_token_id),
        train_dataset=train_rows,
        eval_dataset=load_split(splits / "eval", training["eval_rows"]),
        callbacks=[MarkComplete(), WriteCurves(checkpoints / "metrics.jsonl", resumed_step)],
    )
    if not resume:
        trainer.evaluate()
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    seconds = time.monotonic() - started
    if trainer.state.global_step == 0:
        raise UserError("runs.*.training", "no step was made", "check max_steps and the epochs")
    curves = read_curves(checkpoints / "metrics.jsonl")
    with whole_folder(folder) as partial:
        save_model(model, tokenizer, first_rows, partial / "model")
        verified = verify_saved(model, partial / "model", training, first_rows)
        shown = samples(model, tokenizer, load_split(splits / "test"))
        (partial / "samples.json").write_text(json.dumps(shown, indent=1, ensure_ascii=False))
        lines = (json.dumps(row) + "\n" for row in curves)
        (partial / "metrics.jsonl").write_text("".join(lines))
        if notes.is_dir():
            shutil.copytree(notes, partial, dirs_exist_ok=True)
    return {
        "steps": trainer.state.global_step,
        "resumed_step": resumed_step,
        "train_seconds": round(seconds, 1),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "threads": torch.get_num_threads(),
        **_tokens_per_second(train_rows, first_rows, training, trainer, resumed_step, seconds),
        **({"stream": read_json(notes / "counts.json")} if notes.is_dir() else {}),
        **verified,
    }


def _arguments(training: dict, folder: Path, tracker: str) -> TrainingArguments:
    ours = {"eval_rows", "precision", "attention", "warmup_ratio", "gradient_checkpointing"}
    return TrainingArguments(
        **{name: value for name, value in training.items() if name not in ours},
        output_dir=str(folder),
        warmup_steps=training["warmup_ratio"],
        per_device_eval_batch_size=training["per_device_train_batch_size"],
        eval_strategy="steps",
        save_strategy="steps",
        bf16=training["precision"] == "bf16",
        fp16=training["precision"] == "fp16",
        report_to=tracker,
        remove_unused_columns=False,
        dataloader_num_workers=0,
        # each rank reads a stream by itself and takes its part: batches differ in length
        accelerator_config={"dispatch_batches": False},
        logging_first_step=True,
        full_determinism=False,
        use_cpu=not torch.cuda.is_available(),
        activation_checkpointing=training["gradient_checkpointing"],
        activation_checkpointing_kwargs={"use_reentrant": False},
    )


def _tokens_per_second(rows, first_rows, training, trainer, resumed_step, seconds) -> dict:
    steps = trainer.state.global_step - resumed_step
    sequences = training["per_device_train_batch_size"] * training["gradient_accumulation_steps"]
    most = len(rows) if isinstance(rows, datasets.Dataset) else sequences
    mean = sum(map(len, first_rows["input_ids"])) / len(first_rows)
    rate = steps * min(sequences, most) * mean / max(seconds, 1e-9)
    return {"tokens_per_second": round(rate, 1)}
