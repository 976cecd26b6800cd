"""Errors of the machine in the middle of training, as one line that says what to change."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from anneal.errors import UserError

MEMORY = ("can't allocate memory", "out of memory", "not enough memory")
DISK = ("No space left on device", "Disk quota exceeded", "file write failed")


class OutOfMemory(UserError):
    """The settings need more memory than the device has."""


@contextmanager
def advice(job, at) -> Iterator[None]:
    """Turn a full memory into `OutOfMemory` and a full disk into a `UserError`.

    Args:
        at: called for where it happened, e.g. `step 12`.
    """
    try:
        yield
    except (RuntimeError, OSError, MemoryError) as error:
        text = str(error)
        if isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
            m in text for m in MEMORY
        ):
            where = f"runs.*.training, {at()}"
            raise OutOfMemory(where, "out of memory", _smaller(job)) from None
        if any(m in text for m in DISK):
            do = "free space and run again: it goes on from the last complete checkpoint"
            raise UserError(str(job.checkpoints), f"the disk is full at {at()}", do) from None
        raise


def _smaller(job) -> str:
    """The settings that save most memory, in the order in which they cost least."""
    training = job.training
    do = []
    if training["per_device_train_batch_size"] > 1:
        batch = training["per_device_train_batch_size"]
        do.append(
            f"halve per_device_train_batch_size ({batch}), double gradient_accumulation_steps"
        )
    if not training["gradient_checkpointing"]:
        do.append("set gradient_checkpointing: true")
    if job.settings["tuning"]["kind"] != "qlora":
        do.append("use tuning.kind qlora")
    return ", or ".join([*do, "lower tokenize.max_length"])
