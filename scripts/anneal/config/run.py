"""Section `runs`: one training run each."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.alignment import Online, Preference
from anneal.config.base import Name, Section, Share
from anneal.config.tuning import VIRTUAL, Tuning

Method = Literal[
    *("pretrain", "continue", "sft", "dpo", "kto", "orpo", "reward", "ppo", "grpo", "rloo")
]

# What each method learns from.
KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("pretrain", "continue"), ("text",)),
    "sft": ("instruction", "chat", "text"),
    **dict.fromkeys(("dpo", "kto", "orpo", "reward"), ("preference",)),
    **dict.fromkeys(("ppo", "grpo", "rloo"), ("prompts",)),
}
ONLINE = ("ppo", "grpo", "rloo")


def method_module(method: str) -> str:
    """The module that trains a method; the code digest of a run covers no other method's."""
    names = {"pretrain": "sft", "continue": "sft", "rloo": "grpo"}
    return f"anneal.training.{names.get(method, method)}"


# Learning rates the field settled on: of adapters, and of all weights.
RATES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("sft", "continue"), (2e-4, 2e-5)),
    "pretrain": (2e-4, 3e-4),
    **dict.fromkeys(("dpo", "kto", "orpo"), (1e-5, 1e-6)),
    "reward": (1e-4, 1e-5),
    **dict.fromkeys(ONLINE, (1e-5, 1e-6)),
}


class Training(Section):
    """Hyperparameters; each is a Hugging Face training argument of the same name."""

    learning_rate: float | None = Field(
        None,
        gt=0,
        description="Peak learning rate. Unset: 2e-4 for adapters, 2e-5 for all weights; "
        "3e-4 for `pretrain`; a tenth to a twentieth of that for preference and online methods.",
    )
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
    """One training run."""

    dataset: Name = Field(description="Name of the dataset.")
    model: Name = Field(description="Name of the model it starts from.")
    method: Method = Field(
        "sft",
        description="`pretrain`, `continue` learn from `text`; `sft` from `instruction`, `chat` or "
        "`text`; `dpo`, `kto`, `orpo`, `reward` from `preference`; `ppo`, `grpo`, `rloo` from "
        "`prompts`.",
    )
    tuning: Tuning = Field(default_factory=Tuning, description="Which weights are trained.")
    training: Training = Field(default_factory=Training, description="Hyperparameters.")
    preference: Preference = Field(
        default_factory=Preference, description="Settings of preference methods."
    )
    online: Online = Field(default_factory=Online, description="Settings of online methods.")
    tracker: Literal["none", "dvclive", "tensorboard", "wandb", "mlflow", "trackio"] = Field(
        "none",
        description="Where curves go besides the run's own metrics.jsonl. Never causes a rerun.",
    )
    threads: int = Field(2, ge=1, description="CPU threads. Never causes a rerun.")
    mem_mb: int = Field(16_000, ge=1, description="Memory asked for. Never causes a rerun.")

    @model_validator(mode="after")
    def _reward_is_given(self):
        given = self.online.reward_model or self.online.reward_pattern
        if self.method in ONLINE and not given:
            raise ValueError(f"method '{self.method}' needs online.reward_model or reward_pattern")
        return self

    @model_validator(mode="after")
    def _tuning_fits_the_method(self):
        kind, training = self.tuning.kind, self.training
        if self.method == "pretrain" and kind != "full":
            raise ValueError("method 'pretrain' trains all weights: set tuning.kind to 'full'")
        if kind in (*VIRTUAL, "xlora") and self.method not in ("sft", "continue"):
            raise ValueError(f"tuning '{kind}' goes with methods sft and continue only")
        if kind in ("prefix", "xlora") and training.gradient_checkpointing:
            raise ValueError(
                f"tuning '{kind}' cannot recompute activations: set "
                "training.gradient_checkpointing to false"
            )
        return self

    def reward_model(self) -> str | None:
        """The run that scores this run's answers."""
        return self.online.reward_model if self.method in ONLINE else None

    def settings(self) -> dict:
        """What can change the result, resolved: only the sections that the method reads."""
        named = {"method", "tuning", "training"}
        named |= {"preference"} if self.method in ("dpo", "kto", "orpo") else set()
        named |= {"online"} if self.method in ONLINE else set()
        settings = self.model_dump(include=named)
        if settings["training"]["learning_rate"] is None:
            rate = RATES[self.method][self.tuning.kind == "full"]
            settings["training"]["learning_rate"] = rate
        return settings
