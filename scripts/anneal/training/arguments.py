"""The run's settings as Hugging Face training arguments, the same for every method."""

import torch

from anneal.training.job import Job
from anneal.training.precision import has_tf32
from anneal.training.sharding import sharing

OURS = {
    *("eval_rows", "precision", "precision_fallback", "attention", "warmup_ratio"),
    *("gradient_checkpointing", "early_stopping_patience", "keep_best", "load_best"),
    *("global_batch_size", "liger"),
    "save_total_limit",  # checkpoints.KeepCheckpoints keeps the best ones too
}


def arguments(job: Job) -> dict:
    """Keyword arguments of `TrainingArguments`, or of a TRL config, which inherits it."""
    training = job.training
    return {
        **{name: value for name, value in training.items() if name not in OURS},
        "output_dir": str(job.checkpoints),
        "warmup_steps": training["warmup_ratio"],
        "per_device_eval_batch_size": training["per_device_train_batch_size"],
        "eval_strategy": "steps",
        "save_strategy": "steps",
        "bf16": training["precision"] == "bf16",
        "fp16": training["precision"] == "fp16",
        "tf32": True if has_tf32() else None,
        "use_liger_kernel": training["liger"],
        "metric_for_best_model": "eval_loss",
        "greater_is_better": False,
        "restore_callback_states_from_checkpoint": True,
        "report_to": "none",
        "logging_nan_inf_filter": False,  # it would show an earlier loss in place of a NaN
        "remove_unused_columns": False,
        "dataloader_num_workers": 0,
        # each rank reads a stream by itself and takes its part: batches differ in length
        "accelerator_config": {"dispatch_batches": False},
        "logging_first_step": True,
        "full_determinism": False,
        "use_cpu": not torch.cuda.is_available(),
        "activation_checkpointing": training["gradient_checkpointing"],
        "activation_checkpointing_kwargs": {"use_reentrant": False},
        **sharing(job),
    }
