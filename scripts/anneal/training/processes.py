"""The processes that train one run together: who writes, what they wait for, what they agree on.

In a run of one process all of this does nothing.
"""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

import torch
from torch import distributed
from transformers import TrainerCallback

from anneal.config.strategy import Strategy
from anneal.errors import UserError


def check_processes(strategy: Strategy) -> None:
    """Raises UserError if other processes were started than the strategy asks for."""
    there = int(os.environ.get("WORLD_SIZE", "1"))
    if there != strategy.world_size:
        what = f"{strategy.world_size} processes are asked for, {there} were started"
        raise UserError("runs.*.strategy", what, "start them with scripts/launch.py")


def is_first() -> bool:
    """Whether this process writes what all of them made."""
    return os.environ.get("RANK", "0") == "0"


def wait() -> None:
    """Go on when all processes are here."""
    if distributed.is_initialized():
        distributed.barrier()


@contextmanager
def first_before_others() -> Iterator[None]:
    """The first process does the block, then all others do."""
    if not is_first():
        wait()
    yield
    if is_first():
        wait()


def total(values: list[float]) -> list[float]:
    """Each value summed over all processes, in float64."""
    return _reduced(values, torch.float64, distributed.ReduceOp.SUM)


def highest(value: int) -> int:
    """The highest of what the processes say."""
    return int(_reduced([value], torch.int64, distributed.ReduceOp.MAX)[0])


def own_turns(batches: Iterable, sharing: int = 1) -> Iterator[tuple]:
    """Each process's share of some batches, of which `sharing` processes work on each together.

    Each process gets equally many, as a sharded model needs all of them in each pass: the last
    ones may be repeated.

    Yields:
        a batch, and whether it is this process's own and to be counted.
    """
    processes = distributed.get_world_size() // sharing if distributed.is_initialized() else 1
    mine = distributed.get_rank() // sharing if processes > 1 else 0
    batches = iter(batches)
    while turn := list(islice(batches, processes)):
        yield turn[min(mine, len(turn) - 1)], mine < len(turn)


def places() -> list[str]:
    """Host and device of each process, in the order of their numbers."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    here = f"{socket.gethostname()}: {name}"
    if not distributed.is_initialized():
        return [here]
    found = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, here)
    return found


class OwnNoise(TrainerCallback):
    """Different dropout in processes that see different rows; the first one's is a lone run's."""

    def on_train_begin(self, args, state, control, **_):
        if not is_first():
            torch.manual_seed(args.seed + args.process_index)


def _reduced(values: list, dtype: torch.dtype, how) -> list:
    if not distributed.is_initialized():
        return values
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor(values, dtype=dtype, device=device)
    distributed.all_reduce(tensor, how)
    return tensor.tolist()
