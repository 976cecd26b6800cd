"""Section `search`: the best hyperparameters of a run, found by short trials."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.base import Name, Section

# Where each value of the space stands in a run's settings.
PLACES: dict[str, str] = {
    "learning_rate": "training",
    "r": "tuning",
    "alpha": "tuning",
    "dropout": "tuning",
    "weight_decay": "training",
    "warmup_ratio": "training",
}
LORA = ("lora", "dora", "qlora")


class Range(Section):
    """What a value may be."""

    low: float = Field(ge=0, description="Smallest value.")
    high: float = Field(ge=0, description="Largest value.")
    log: bool = Field(False, description="Draw evenly on a logarithmic scale.")

    @model_validator(mode="after")
    def _is_a_range(self):
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        if self.log and self.low == 0:
            raise ValueError("a logarithmic range cannot start at 0")
        return self


class LogRange(Range):
    """What a value of many magnitudes may be."""

    log: bool = Field(True, description="Draw evenly on a logarithmic scale.")


class WholeRange(Range):
    """What a whole number may be."""

    low: int = Field(ge=1, description="Smallest value.")
    high: int = Field(ge=1, description="Largest value.")


class Space(Section):
    """What is searched. A value set to nothing (`r:`) stays as the run has it."""

    learning_rate: LogRange | None = Field(
        LogRange(low=5e-5, high=5e-4), description="Peak learning rate."
    )
    r: WholeRange | None = Field(WholeRange(low=8, high=64), description="Rank of LoRA.")
    alpha: WholeRange | None = Field(WholeRange(low=16, high=128), description="Alpha of LoRA.")
    dropout: Range | None = Field(Range(low=0, high=0.3), description="Dropout of LoRA.")
    weight_decay: Range | None = Field(Range(low=0, high=0.1), description="Weight decay.")
    warmup_ratio: Range | None = Field(
        Range(low=0.01, high=0.1), description="Share of the steps in which the rate rises."
    )


class RangeTest(Section):
    """The learning rate rises from step to step until the loss runs away (Smith 2017)."""

    low: float = Field(1e-7, gt=0, description="First learning rate.")
    high: float = Field(1, gt=0, description="Last learning rate.")
    steps: int = Field(100, ge=10, description="Steps from the first to the last.")

    @model_validator(mode="after")
    def _rises(self):
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")
        return self


class Study(Section):
    """One study: trials of a run with other values, judged by its evaluation loss."""

    run: Name = Field(description="Run whose data, model and other settings the trials have.")
    trials: int = Field(20, ge=1, description="Trials. More of them later go on with the study.")
    workers: int = Field(4, ge=1, description="Jobs that share the trials. Never causes a rerun.")
    max_steps: int = Field(200, ge=1, description="Optimiser steps of a trial.")
    eval_steps: int = Field(
        50, ge=1, description="Steps between two evaluations, at which a trial may be pruned."
    )
    pruner: Literal["median", "none"] = Field(
        "median",
        description="`median` stops a trial that is worse than the median of the others at the "
        "same step.",
    )
    seed: int = Field(17, ge=0, description="Seed of what the trials try.")
    space: Space = Field(default_factory=Space, description="What is searched.")
    range_test: RangeTest = Field(
        default_factory=RangeTest, description="The learning-rate range test."
    )

    @model_validator(mode="after")
    def _ends_with_an_evaluation(self):
        if self.max_steps % self.eval_steps:
            raise ValueError("max_steps must be a multiple of eval_steps")
        return self

    def settings(self, run: dict) -> dict:
        """What decides the study's result; `run` is the resolved settings of its run."""
        left_out = {"run", "workers", "range_test"}
        space = self.space.model_dump(exclude_none=True)
        if run["tuning"]["kind"] not in LORA:
            space = {n: r for n, r in space.items() if PLACES[n] != "tuning"}
        return {**self.model_dump(exclude=left_out), "space": space, "run": run}
