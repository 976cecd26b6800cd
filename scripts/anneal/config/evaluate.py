"""Section `evaluate`: the benchmarks that judge base and tuned models alike."""

from typing import Literal

from pydantic import Field

from anneal.config.base import Name, Section, Share


class Task(Section):
    """One lm-eval task, or group of tasks, and how it is put to the models."""

    metric: str = Field("acc", description="The metric that is compared, as lm-eval names it.")
    filter: str | None = Field(
        None, description="The answer filter that the metric is taken behind; unset, the first."
    )
    chat_template: bool = Field(
        False, description="Put questions through the tokenizer's chat template."
    )
    system: str | None = Field(
        None,
        min_length=1,
        description="System message of chat questions; unset, it is the one of `format.system`, so "
        "that models are asked as they were trained.",
    )
    num_fewshot: int | None = Field(
        None, ge=0, description="Solved examples before each question; unset, as the task says."
    )
    fewshot_as_multiturn: bool = Field(
        True, description="With the chat template, put solved examples as turns of the chat."
    )
    limit: int | None = Field(None, ge=1, description="Ask only the first questions.")
    heldout: Name | None = Field(
        None,
        description="Dataset whose held-out rows take the place of HELDOUT in the task's file; "
        "unset, it is the run's own.",
    )
    forgetting: bool = Field(
        False, description="Unrelated to the training data: a drop here means forgetting."
    )


class Evaluate(Section):
    """Benchmarks, held-out rows, and the gate behind them."""

    tasks: dict[Name, Task] = Field(
        default_factory=dict,
        description="Tasks by name: a YAML file `<include>/<name>.yaml`, or a task of lm-eval.",
    )
    include: str = Field("config/tasks", description="Folder of local task files.")
    download: bool = Field(
        False,
        description="Let lm-eval fetch the data of tasks from the Hub. Off, tasks without a local "
        "file are refused. Never causes a rerun.",
    )
    batch_size: int = Field(8, ge=1, description="Questions scored at once.")
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        "fp32", description="Arithmetic in which base and tuned models answer."
    )
    heldout_rows: int = Field(
        500, ge=1, description="Held-out rows whose loss base and tuned models are measured by."
    )
    samples: int = Field(
        4, ge=0, description="Held-out prompts that base and tuned models answer side by side."
    )
    max_drop: Share = Field(
        0.05, description="Relative drop on a forgetting task that is flagged, if beyond noise."
    )
    on_forgetting: Literal["warn", "fail"] = Field(
        "warn", description="Whether a flagged task stops the pipeline."
    )
    jobs: int = Field(
        1, ge=1, description="Jobs that share the tasks of one model. Never changes a score."
    )
    threads: int = Field(2, ge=1, description="CPU threads. Never causes a rerun.")
    mem_mb: int = Field(8_000, ge=1, description="Memory asked for. Never causes a rerun.")
    minutes: int = Field(240, ge=1, description="Time asked for. Never causes a rerun.")
