"""Learning-rate range test: the rate rises exponentially until the loss runs away.

Smith 2017 (Cyclical Learning Rates, section 3.3); stopping at 4 times the best loss and both
suggestions as in fast.ai's `lr_find`.
"""

import math
from dataclasses import replace

import numpy as np
from transformers import TrainerCallback
from transformers.trainer_utils import IntervalStrategy

from anneal.search.settings import with_values
from anneal.search.trials import make_trainer
from anneal.training.job import Job

RUNAWAY = 4.0


def range_test(job: Job, low: float, high: float, steps: int) -> dict:
    """Train the run with a rising rate.

    Returns:
        `rates` and `losses` of the steps, and what `suggestions` says of them.
    """
    settings = with_values(job.settings, {"learning_rate": low, "warmup_ratio": 0.0})
    settings["training"] |= {
        "max_steps": steps,
        "logging_steps": 1,
        "lr_scheduler_type": "constant",
    }
    trainer = make_trainer(replace(job, settings=settings))
    trainer.args.eval_strategy = IntervalStrategy.NO
    rising = RisingRate(low, high, steps)
    trainer.add_callback(rising)
    trainer.train()
    return {
        "rates": rising.rates,
        "losses": rising.losses,
        **suggestions(rising.rates, rising.losses),
    }


class RisingRate(TrainerCallback):
    """Sets the rate of each step, keeps its loss, and stops when the loss has run away."""

    def __init__(self, low: float, high: float, steps: int):
        self.grid = np.geomspace(low, high, steps).tolist()
        self.rates, self.losses = [], []

    def on_step_begin(self, args, state, control, optimizer=None, **_):
        for group in optimizer.param_groups:
            group["lr"] = self.grid[state.global_step]

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" not in logs:
            return
        loss = logs["loss"]
        if not math.isfinite(loss) or loss > RUNAWAY * min(self.losses, default=loss):
            control.should_training_stop = True
        if math.isfinite(loss):
            self.rates.append(self.grid[state.global_step - 1])
            self.losses.append(loss)


def suggestions(rates: list[float], losses: list[float]) -> dict:
    """Learning rates that a range test speaks for.

    Returns:
        `smoothed` losses; `steepest`, the rate at which the loss falls fastest; `tenth_of_lowest`,
        a tenth of the rate at the lowest loss; `suggestion`, the smaller of the two; each None
        where the loss does not fall.
    """
    smoothed = smooth(losses)
    lowest = int(np.argmin(smoothed))
    found = {"smoothed": smoothed, "steepest": None, "tenth_of_lowest": None, "suggestion": None}
    if lowest == 0:
        return found
    slopes = np.gradient(smoothed, np.log(rates))[: lowest + 1]
    found["steepest"] = rates[int(np.argmin(slopes))]
    found["tenth_of_lowest"] = rates[lowest] / 10
    found["suggestion"] = min(found["steepest"], found["tenth_of_lowest"])
    return found


def smooth(losses: list[float], width: int = 5) -> list[float]:
    """Mean over a centred window; at the ends over what is there of it."""
    window = np.ones(width)
    sums = np.convolve(losses, window, "same")
    return (sums / np.convolve(np.ones(len(losses)), window, "same")).tolist()
