"""One Optuna study in one journal file, shared by several workers.

A worker that was killed leaves a running trial behind; the worker of the same number finds it,
fails it, and puts its values at the head of the queue.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import TrialState

from anneal.search.settings import values_of

optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
TAKEN = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)


def open_study(folder: Path, settings: dict) -> optuna.Study:
    """The study in `folder`/journal.log, created if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    _mend(folder / "journal.log")
    median = optuna.pruners.MedianPruner()
    return optuna.create_study(
        storage=_storage(folder),
        study_name=folder.name,
        load_if_exists=True,
        pruner=median if settings["pruner"] == "median" else optuna.pruners.NopPruner(),
    )


def load_study(folder: Path) -> optuna.Study:
    """The study in `folder`/journal.log, to be read."""
    return optuna.load_study(study_name=folder.name, storage=_storage(folder))


def take_trial(
    study: optuna.Study, folder: Path, settings: dict, worker: int, workers: int
) -> optuna.Trial | None:
    """The next trial for a worker; None if the study has all its trials, or they are under way.

    What a trial tries depends on the study's seed, on how many trials were taken before, and on
    the results that are there: with one worker a study is reproducible, also after a kill.
    """
    with _locked(folder / "take"):
        _revive(study, worker, workers)
        taken = study.get_trials(deepcopy=False, states=TAKEN)
        if len(taken) >= settings["trials"]:
            return None
        if not study.get_trials(deepcopy=False):
            study.enqueue_trial(_own_values(settings))
        study.sampler = optuna.samplers.TPESampler(seed=settings["seed"] + len(taken))
        trial = study.ask(distributions(settings["space"]))
        trial.set_user_attr("worker", worker)
        return trial


def ended_trials(study: optuna.Study, count: int) -> list[optuna.trial.FrozenTrial]:
    """The first `count` trials that came to an end, pruned or not, in the order they were taken."""
    return study.get_trials(deepcopy=False, states=ENDED)[:count]


def distributions(space: dict) -> dict[str, optuna.distributions.BaseDistribution]:
    """Optuna's form of a space: name to low, high and log."""
    kinds = {int: IntDistribution, float: FloatDistribution}
    return {name: kinds[type(r["low"])](r["low"], r["high"], r["log"]) for name, r in space.items()}


def _revive(study: optuna.Study, worker: int, workers: int) -> None:
    """Trials that run under this worker's number, or under none, have lost their process."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        owner = trial.user_attrs.get("worker")
        if owner is None or owner % workers == worker:
            study.tell(trial.number, state=TrialState.FAIL)
            fixed = trial.system_attrs.get("fixed_params", {})
            study.enqueue_trial(fixed if owner is None else trial.params)


def _own_values(settings: dict) -> dict:
    """The run's own values for the first trial, so that the best is never worse; if they fit."""
    values, space = values_of(settings["run"], settings["space"]), settings["space"]
    fit = all(space[n]["low"] <= value <= space[n]["high"] for n, value in values.items())
    return values if fit else {}


def _storage(folder: Path) -> JournalStorage:
    journal = str(folder / "journal.log")
    return JournalStorage(JournalFileBackend(journal, JournalFileOpenLock(journal)))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; the lock of a killed one is taken from it after 30 seconds."""
    lock = JournalFileOpenLock(str(path))
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _mend(journal: Path) -> None:
    """Cut off a last line that a full disk or a lost node left half-written."""
    with _locked(journal):
        if journal.is_file() and not (data := journal.read_bytes()).endswith(b"\n"):
            os.truncate(journal, data.rfind(b"\n") + 1)
