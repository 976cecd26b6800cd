"""Speed and memory while training. They differ from run to run, so they are facts, not curves."""

import resource
import time

import torch
from transformers import TrainerCallback

from anneal.training.job import Job


class MeasureSpeed(TrainerCallback):
    """At each logged step: `step`, `tokens_per_second` since the one before, `memory_mb`.

    Tokens are those of all processes, memory is that of the first.
    """

    def __init__(self, job: Job):
        sequences, self.processes = job.training["global_batch_size"], job.strategy.world_size
        rows = job.train_rows
        most = sequences if job.streamed else len(rows)
        self.tokens = min(sequences, most) * sum(rows["length"]) / len(rows)
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
        rate = steps * self.tokens / max(seconds, 1e-9)
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


def peak_memory_mb() -> int:
    """Of the GPU where there is one, else of the process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
