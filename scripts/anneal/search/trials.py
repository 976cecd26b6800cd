"""Short trainings of a run with other values: no model is saved, only the loss counts."""

import math
from dataclasses import replace
from pathlib import Path

import optuna
from transformers import TrainerCallback
from transformers.trainer_utils import SaveStrategy

from anneal.cli import log
from anneal.search.settings import with_values
from anneal.search.study import open_study, take_trial
from anneal.training.advice import OutOfMemory, advice
from anneal.training.job import Job


def run_trials(job: Job, settings: dict, folder: Path, worker: int, workers: int) -> list[int]:
    """Run trials until the study has its number.

    Args:
        job: the run's job; its settings are taken from `settings`.
        settings: of the study, with those of its `run`.
        folder: of the study's journal.
        worker: number of this worker, from 0 to `workers` - 1.

    Returns:
        numbers of the trials that this worker ran.
    """
    study, done = open_study(folder, settings), []
    while trial := take_trial(study, folder, settings, worker, workers):
        log.info("trial %d: %s", trial.number, trial.params)
        loss, pruned = run_trial(job, settings, trial)
        state = optuna.trial.TrialState
        study.tell(trial, None if pruned else loss, state.PRUNED if pruned else state.COMPLETE)
        log.info("trial %d: loss %s%s", trial.number, loss, ", pruned" if pruned else "")
        done.append(trial.number)
    return done


def run_trial(job: Job, settings: dict, trial: optuna.Trial) -> tuple[float, bool]:
    """Train with a trial's values; the last evaluation loss, and whether it was pruned.

    Values that need too much memory are pruned too: others may do with less.
    """
    steps = {"max_steps": settings["max_steps"], "eval_steps": settings["eval_steps"]}
    values = with_values(settings["run"], trial.params)
    values["training"] |= steps
    job, rungs = replace(job, settings=values), Rungs(trial)
    try:
        with advice(job, lambda: f"trial {trial.number}"):
            trainer = make_trainer(job)
            trainer.add_callback(rungs)
            trainer.train()
    except OutOfMemory as error:
        log.warning("%s", error)
        return math.nan, True
    return rungs.loss, rungs.pruned


def make_trainer(job: Job):
    """The run's own trainer, seeded as the run is, that saves nothing."""
    trainer = job.make_trainer()
    trainer.args.save_strategy = SaveStrategy.NO
    trainer.args.load_best_model_at_end = False
    return trainer


class Rungs(TrainerCallback):
    """Reports each evaluation to the study, and stops a trial that is worse than the others."""

    def __init__(self, trial: optuna.Trial):
        self.trial, self.loss, self.pruned = trial, math.nan, False

    def on_evaluate(self, args, state, control, metrics, **_):
        self.loss = metrics["eval_loss"]
        self.trial.report(self.loss, state.global_step)
        worse = state.global_step < state.max_steps and self.trial.should_prune()
        if worse or not math.isfinite(self.loss):
            self.pruned = control.should_training_stop = True
