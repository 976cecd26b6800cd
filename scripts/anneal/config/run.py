"""Section `runs`: one training run each."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.alignment import Online, Preference
from anneal.config.base import Name, Section, Share
from anneal.config.batch import solve_batch
from anneal.config.sharing import cannot_share
from anneal.config.strategy import Strategy
from anneal.config.tuning import VIRTUAL, Tuning

Method = Literal[
    *("pretrain", "continue", "sft", "dpo", "kto", "orpo", "reward", "ppo", "grpo", "rloo")
]

PAIRED = ("dpo", "kto", "orpo", "reward")

# What each method learns from.
KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("pretrain", "continue"), ("text",)),
    "sft": ("instruction", "chat", "text"),
    **dict.fromkeys(PAIRED, ("preference",)),
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
        8,
        ge=1,
        description="Micro-batches of a process in one optimiser step. Solved from "
        "`global_batch_size` where that is set and this is not.",
    )
    global_batch_size: int | None = Field(
        None,
        ge=1,
        description="Sequences in one optimiser step, over all processes: "
        "per_device_train_batch_size x gradient_accumulation_steps x processes. Set it to keep a "
        "run's result when the number of processes changes.",
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
    save_total_limit: int = Field(3, ge=1, description="Newest checkpoints that are kept.")
    keep_best: int = Field(
        1, ge=0, description="Checkpoints of lowest evaluation loss that are kept besides."
    )
    load_best: bool = Field(
        True,
        description="Keep the weights of lowest evaluation loss, not the last ones. Needs "
        "keep_best; without meaning for online methods.",
    )
    early_stopping_patience: int = Field(
        0, ge=0, description="Evaluations without a gain after which training ends; 0 never does."
    )
    optim: Literal["adamw_torch", "adamw_torch_fused", "adamw_bnb_8bit", "paged_adamw_8bit"] = (
        Field("adamw_torch", description="Optimiser; the 8-bit ones need a GPU.")
    )
    gradient_checkpointing: bool = Field(
        False, description="Recompute activations to save memory, at about 30 % more time."
    )
    precision: Literal["fp32", "bf16", "fp16"] = Field("bf16", description="Number format.")
    precision_fallback: Literal["fp32", "fp16"] | None = Field(
        None, description="Number format where the device lacks `precision`; unset, the run stops."
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = Field(
        "sdpa",
        description="Attention implementation; `flash_attention_2` needs a GPU and the package "
        "flash-attn.",
    )
    liger: bool = Field(
        False, description="Liger's kernels; they need a GPU and the package liger-kernel."
    )
    train_sampling_strategy: Literal["random", "group_by_length"] = Field(
        "random",
        description="Order of the sequences; `group_by_length` saves padding where nothing is "
        "packed.",
    )
    seed: int = Field(17, ge=0, description="Seed of weights, order and dropout.")

    @model_validator(mode="after")
    def _best_is_kept(self):
        if self.load_best and not self.keep_best:
            raise ValueError("load_best needs keep_best of at least 1")
        return self


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
    best_of: Name | None = Field(
        None,
        description="Study of `search` whose best values take the place of this run's own. It may "
        "be a study of this very run.",
    )
    tracker: Literal["none", "dvclive", "tensorboard", "wandb", "mlflow", "trackio"] = Field(
        "dvclive",
        description="Local files that the curves go to besides the run's own metrics.jsonl, in "
        "`results/PROJECT/trackers/RUN`. Never causes a rerun.",
    )
    strategy: Strategy = Field(
        default_factory=Strategy, description="How many processes train it. Never causes a rerun."
    )
    hardware: Name = Field(
        "cpu",
        description="Device of each process, by its name in config/hardware.yaml; what is not "
        "`cpu` is asked for as a GPU. Never causes a rerun.",
    )
    threads: int = Field(2, ge=1, description="CPU threads a process. Never causes a rerun.")
    mem_mb: int = Field(16_000, ge=1, description="Memory asked for. Never causes a rerun.")
    minutes: int = Field(
        1440, ge=1, description="Time asked for; a run that needs more goes on. Never a rerun."
    )

    @model_validator(mode="after")
    def _groups_are_whole(self):
        answers, group = self.batch()["global_batch"], self.online.generations
        if self.method in ("grpo", "rloo") and answers % group:
            raise ValueError(
                f"{answers} answers a step (per_device_train_batch_size times "
                f"gradient_accumulation_steps) make no whole groups of {group} (online.generations)"
            )
        return self

    @model_validator(mode="after")
    def _processes_can_share_it(self):
        if self.strategy.kind != "single" and (problem := cannot_share(self)):
            raise ValueError(f"strategy '{self.strategy.kind}': {problem}")
        return self

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

    @model_validator(mode="after")
    def _can_learn_from_pairs(self):
        if self.method == "kto" and self.training.per_device_train_batch_size < 2:
            what = "its KL is estimated from other answers of the micro-batch"
            raise ValueError(f"method 'kto' needs per_device_train_batch_size of 2 or more: {what}")
        if self.method == "reward" and self.tuning.kind == "prompt":
            raise ValueError("method 'reward' cannot tell padding behind the tokens of 'prompt'")
        return self

    def batch(self) -> dict[str, int]:
        """Global batch, micro-batch, accumulation and processes of this run."""
        training = self.training
        solved = training.global_batch_size and (
            "gradient_accumulation_steps" not in training.model_fields_set
        )
        return solve_batch(
            training.global_batch_size,
            training.per_device_train_batch_size,
            None if solved else training.gradient_accumulation_steps,
            self.strategy.data_processes,
        )

    def reward_model(self) -> str | None:
        """The run that scores this run's answers."""
        return self.online.reward_model if self.method in ONLINE else None

    def settings(self) -> dict:
        """What can change the result, resolved: only the sections that the method reads."""
        named = {"method", "tuning", "training"}
        named |= {"preference"} if self.method in ("dpo", "kto", "orpo") else set()
        named |= {"online"} if self.method in ONLINE else set()
        settings = self.model_dump(include=named)
        # how the batch is shared among processes is no part of the result
        del settings["training"]["gradient_accumulation_steps"]
        settings["training"]["global_batch_size"] = self.batch()["global_batch"]
        if self.method in PAIRED and "dropout" not in self.tuning.model_fields_set:
            settings["tuning"]["dropout"] = 0.0
        if settings["training"]["learning_rate"] is None:
            rate = RATES[self.method][self.tuning.kind == "full"]
            settings["training"]["learning_rate"] = rate
        return settings | ({"best_of": self.best_of} if self.best_of else {})

    def cannot_stream(self) -> str | None:
        """Why this run cannot learn from a streamed dataset; None if it can."""
        if self.method not in ("sft", "continue", "pretrain"):
            return f"method '{self.method}' cannot learn from a streamed dataset"
        if self.training.max_steps < 1:
            return "set training.max_steps: a streamed dataset has no length that epochs count"
        if self.training.train_sampling_strategy != "random":
            return "train_sampling_strategy must be random: a stream is shuffled in its buffer"
        if self.strategy.world_size > 1:
            return "a streamed dataset is read by one process: set strategy.kind to 'single'"
        return None
