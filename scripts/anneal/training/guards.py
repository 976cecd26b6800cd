"""What is tried before the first step, so that a run does not fail hours in."""

import random

import datasets
import numpy as np
import torch

from anneal.errors import UserError
from anneal.training.advice import advice
from anneal.training.job import Job


def try_longest_rows(trainer, job: Job) -> dict:
    """One forward and backward pass on the longest rows, after which nothing has changed.

    Returns:
        `longest_row`, in tokens.

    Raises:
        UserError: the memory is too small, the loss is no number, or a trainable tensor gets no
            gradient.
    """
    if job.strategy.kind == "deepspeed":  # its backward pass cannot be undone
        return {}
    rows = longest_rows(job.train_rows, job.training["per_device_train_batch_size"])
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=_devices()), advice(job, lambda: "trying the longest rows"):
        _backward(trainer, [job.train_rows[i] for i in rows], job)
    random.setstate(states[0])
    np.random.set_state(states[1])
    return {"longest_row": int(job.train_rows[rows[0]]["length"])}


def longest_rows(rows: datasets.Dataset, count: int) -> list[int]:
    """Numbers of the longest rows, the longest first."""
    lengths = np.asarray(rows["length"])
    return np.argsort(-lengths, kind="stable")[:count].tolist()


def _backward(trainer, rows: list[dict], job: Job) -> None:
    model = trainer.model
    model.train()
    model.to(trainer.args.device)
    inputs = trainer._prepare_inputs(trainer.data_collator(rows))
    with trainer.compute_loss_context_manager():
        loss = trainer.compute_loss(model, inputs)
    if not loss.isfinite():
        do = "look at the row, or lower the precision's risk with fp32"
        raise UserError(", ".join(row_ids(inputs, job)), f"the loss of a row is {loss.item()}", do)
    loss.backward()
    _check_gradients(model)
    model.zero_grad(set_to_none=True)
    for values in getattr(trainer, "_metrics", {}).values():  # what TRL's trainers noted meanwhile
        values.clear()


def _check_gradients(model) -> None:
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    missing = [name for name, p in trained.items() if p.grad is None]
    if missing or not trained:
        what = f"{len(missing)} of {len(trained)} trained tensors get no gradient"
        first = f", first {missing[0]}" if missing else ""
        raise UserError("runs.*.tuning", what + first, "check target_modules and the tuning's kind")


def watch_loss(trainer, job: Job) -> None:
    """Stop with the rows of the batch at the first loss that is no number."""
    step = trainer.training_step

    def watched(model, inputs, *rest, **more):
        loss = step(model, inputs, *rest, **more)
        if not loss.isfinite():
            where = f"runs.*.training, step {trainer.state.global_step + 1}"
            what = f"the loss is {loss.item()} on rows {', '.join(row_ids(inputs, job))}"
            raise UserError(where, what, "lower the learning rate, or look at these rows")
        return loss

    trainer.training_step = watched


def row_ids(inputs: dict, job: Job) -> list[str]:
    """Ids of the rows in a batch, found again by their tokens."""
    rows = datasets.load_from_disk(str(job.train_folder))
    name = "ids" if "ids" in rows.column_names else "id"
    batch = {tuple(ids) for ids in inputs["input_ids"].tolist()} if "input_ids" in inputs else set()
    found = []
    for row in rows:
        ids = tuple(
            row["input_ids"] if "input_ids" in row else row["prompt_ids"] + row["chosen_ids"]
        )
        if any(other[: len(ids)] == ids for other in batch):
            found += row[name] if name == "ids" else [row[name]]
    return found or ["unknown"]


def _devices() -> list[int]:
    return list(range(torch.cuda.device_count()))
