"""Section `runs`: one training run each."""

from typing import Literal

from pydantic import Field

from anneal.config.base import Name, Section, Share


class Tuning(Section):
    """Which weights are trained."""

    kind: Literal["lora", "full"] = Field("lora", description="LoRA adapter, or all weights.")
    r: int = Field(16, ge=1, description="Rank of the LoRA matrices.")
    alpha: int = Field(32, ge=1, description="LoRA scaling numerator: the update is alpha / r.")
    dropout: Share = Field(0.05, description="Dropout before the LoRA matrices.")
    target_modules: str | list[str] = Field(
        "all-linear", description="Modules with an adapter; `all-linear` leaves out only the head."
    )


class Training(Section):
    """Hyperparameters; each is a Hugging Face training argument of the same name."""

    learning_rate: float = Field(2e-4, gt=0, description="Peak learning rate.")
    num_train_epochs: float = Field(3, gt=0, description="Passes over the training split.")
    max_steps: int = Field(-1, ge=-1, description="Optimiser steps; -1 leaves it to the epochs.")
    per_device_train_batch_size: int = Field(
        4, ge=1, description="Sequences in a micro-batch; a packed sequence counts as one."
    )
    gradient_accumulation_steps: int = Field(
        8, ge=1, description="Micro-batches in one optimiser step."
    )
    lr_scheduler_type: Literal["cosine", "linear", "constant", "constant_with_warmup"] = Field(
        "cosine", description="Schedule of the learning rate."
    )
    warmup_ratio: Share = Field(0.03, description="Share of the steps in which the rate rises.")
    weight_decay: float = Field(0.01, ge=0, description="AdamW weight decay.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient norm above which it is clipped.")
    logging_steps: int = Field(10, ge=1, description="Steps between two points of the loss curve.")
    eval_steps: int = Field(200, ge=1, description="Steps between two evaluations.")
    eval_rows: int = Field(500, ge=1, description="Rows of the fixed evaluation subset.")
    save_steps: int = Field(500, ge=1, description="Steps between two checkpoints.")
    save_total_limit: int = Field(3, ge=1, description="Checkpoints that are kept.")
    gradient_checkpointing: bool = Field(
        False, description="Recompute activations to save memory, at about 30 % more time."
    )
    precision: Literal["fp32", "bf16", "fp16"] = Field("bf16", description="Number format.")
    attention: Literal["sdpa", "eager"] = Field("sdpa", description="Attention implementation.")
    train_sampling_strategy: Literal["random", "group_by_length"] = Field(
        "random",
        description="Order of the sequences; `group_by_length` saves padding where nothing is "
        "packed.",
    )
    seed: int = Field(17, ge=0, description="Seed of weights, order and dropout.")


class Run(Section):
    """One fine-tuning run."""

    dataset: Name = Field(description="Name of the dataset.")
    model: Name = Field(description="Name of the base model.")
    method: Literal["sft"] = Field("sft", description="Supervised fine-tuning.")
    tuning: Tuning = Field(default_factory=Tuning, description="Which weights are trained.")
    training: Training = Field(default_factory=Training, description="Hyperparameters.")
    tracker: Literal["none", "dvclive", "tensorboard", "wandb", "mlflow", "trackio"] = Field(
        "none",
        description="Where curves go besides the run's own metrics.jsonl. Never causes a rerun.",
    )
    threads: int = Field(2, ge=1, description="CPU threads. Never causes a rerun.")
    mem_mb: int = Field(16_000, ge=1, description="Memory asked for. Never causes a rerun.")

    def cannot_stream(self) -> str | None:
        """Why this run cannot learn from a streamed dataset; None if it can."""
        if self.method != "sft":
            return f"method '{self.method}' cannot learn from a streamed dataset"
        if self.training.max_steps < 1:
            return "set training.max_steps: a streamed dataset has no length that epochs count"
        if self.training.train_sampling_strategy != "random":
            return "train_sampling_strategy must be random: a stream is shuffled in its buffer"
        return None
