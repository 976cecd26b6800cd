"""What came out of a study: its best values, all its trials, and which values mattered."""

import math

import optuna

from anneal.errors import UserError
from anneal.search.study import ended_trials

ENOUGH_FOR_IMPORTANCE = 10


def best_trial(study: optuna.Study, count: int) -> dict:
    """The result of a study's first `count` trials.

    Returns:
        `values` and `loss` of the best trial; `trials`, one row each, with the loss at each rung;
        `importance` of each value (PED-ANOVA, Watanabe 2023), where there are trials enough.

    Raises:
        UserError: trials are missing, or none of them came to its end.
    """
    ended = ended_trials(study, count)
    complete = [t for t in ended if t.state == optuna.trial.TrialState.COMPLETE]
    if len(ended) < count or not complete:
        what = f"{len(ended)} of {count} trials ended, {len(complete)} of them not pruned"
        raise UserError("search", what, "look into the logs of run_trials, and run it again")
    best = min(complete, key=lambda trial: (trial.value, trial.number))
    return {
        "values": best.params,
        "loss": best.value,
        "trials": [_row(number, trial) for number, trial in enumerate(ended)],
        "importance": _importance(ended, complete),
    }


def _row(number: int, trial: optuna.trial.FrozenTrial) -> dict:
    rungs = sorted(trial.intermediate_values.items())
    return {
        "trial": number,
        "state": trial.state.name.lower(),
        "values": trial.params,
        "loss": trial.value,
        "rungs": {str(step): loss if math.isfinite(loss) else None for step, loss in rungs},
    }


def _importance(ended: list, complete: list) -> dict[str, float]:
    if len(complete) < ENOUGH_FOR_IMPORTANCE:
        return {}
    study = optuna.create_study()
    study.add_trials(ended)
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    return optuna.importance.get_param_importances(study, evaluator=evaluator)
