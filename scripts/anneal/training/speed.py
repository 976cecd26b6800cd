"""Speed and memory while training. They differ from run to run, so they are facts, not curves."""

import resource
import time

import pyarrow.compute as pc
import torch
from datasets import Dataset
from transformers import TrainerCallback

from anneal.config.run import ONLINE
from anneal.training.job import Job

PAIR = {"prompt": 2, "chosen": 1, "rejected": 1}


class MeasureSpeed(TrainerCallback):
    """At each logged step: `step`, `tokens_per_second` since the one before, `memory_mb`.

    Tokens are those that the trained model reads in all processes: of a pair the prompt twice and
    both answers, of an online method the prompts and the answers that it drew. Memory is that of
    the first process.
    """

    def __init__(self, job: Job):
        self.rows, self.prompt = rows_a_step(job), mean_tokens(job.train_rows)
        self.online = job.settings["method"] in ONLINE
        self.processes = job.strategy.world_size
        self.points: list[dict] = []
        self.seconds = 0.0

    def on_train_begin(self, args, state, control, **_):
        self.began = time.monotonic()
        self.last = state.global_step, self.began

    def on_train_end(self, args, state, control, **_):
        self.seconds = time.monotonic() - self.began

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" not in (logs or {}) or state.global_step == self.last[0]:
            return
        now = state.global_step, time.monotonic()
        steps, seconds = now[0] - self.last[0], now[1] - self.last[1]
        answer = logs["answer_length"] if self.online else 0
        rate = steps * self.rows * (self.prompt + answer) / max(seconds, 1e-9)
        point = {"tokens_per_second": round(rate, 1), "memory_mb": peak_memory_mb()}
        self.points.append({"step": state.global_step, **point})
        self.last = now

    def facts(self, weights: int, trained_weights: int) -> dict:
        """Seconds of training, the mean rate, and at most a hundred of the points.

        `teraflops_per_process` is 2 operations a weight forward, 2 backward, and 2 more for each
        trained one (Chowdhery 2022, arXiv:2204.02311, appendix B, attention left out); over the
        device's peak it is the model FLOPs utilisation.
        """
        every = max(1, len(self.points) // 100)
        times = sum(1 / point["tokens_per_second"] for point in self.points if point["step"])
        mean = round(len(self.points) / times, 1) if times else 0.0
        operations = mean * (4 * weights + 2 * trained_weights) / self.processes
        rates = {"tokens_per_second": mean, "speed": self.points[::every]}
        rates["teraflops_per_process"] = round(operations / 1e12, 6)
        return {"train_seconds": round(self.seconds, 1), **rates}


def rows_a_step(job: Job) -> int:
    """Sequences, pairs or answers that one step learns from."""
    size, rows = job.training["global_batch_size"], len(job.train_rows)
    if job.settings["method"] == "ppo":
        return job.settings["online"]["rollout_size"]
    return size if job.streamed or job.settings["method"] in ONLINE else min(size, rows)


def mean_tokens(rows: Dataset) -> float:
    """Tokens that a model reads of one row, on average; of a row of prompts, the prompt's."""
    table = rows.with_format("arrow")[:]
    if "chosen_ids" not in table.column_names:
        return pc.mean(table["length"]).as_py()
    of = {n: pc.sum(pc.list_value_length(table[f"{n}_ids"])).as_py() for n in PAIR}
    return sum(times * of[name] for name, times in PAIR.items()) / len(table)


def peak_memory_mb() -> int:
    """Of the GPU where there is one, else of the process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
