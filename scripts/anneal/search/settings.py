"""A run's settings with the values of a trial."""

from copy import deepcopy

from anneal.config.search import PLACES


def with_values(run: dict, values: dict) -> dict:
    """A copy of a run's settings in which the searched values stand in their places."""
    changed = deepcopy(run)
    for name, value in values.items():
        changed[PLACES[name]][name] = value
    return changed


def values_of(run: dict, space: dict) -> dict:
    """The run's own values of what is searched."""
    return {name: run[PLACES[name]][name] for name in space}
