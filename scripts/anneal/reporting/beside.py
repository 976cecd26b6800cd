"""Runs side by side: the settings in which they differ, and what came of it."""

from collections.abc import Callable

from anneal.provenance.flat import flat
from anneal.reporting.wording import duration, memory, number, score, setting

NONE = "–"
SET = ("dataset", "model", "method", "tuning", "training")


def side_by_side(runs: dict[str, dict]) -> list[dict]:
    """Groups of rows with one cell a run; none for fewer than two runs.

    Args:
        runs: those of the report's document.

    Returns:
        `title` and `rows` of each group that has any; a row is its name and its cells.
    """
    if len(runs) < 2:
        return []
    shown = list(runs.values())
    groups = {
        "Settings that differ": _unlike(shown),
        "Score of the tuned model ± standard error": _scores(shown),
        "Loss and reward": _measured(shown, LOSSES),
        "Cost": _measured(shown, COSTS),
    }
    return [{"title": title, "rows": rows} for title, rows in groups.items() if rows]


def _unlike(runs: list[dict]) -> list[tuple[str, list[str]]]:
    settings = [flat({part: run[part] for part in SET}) for run in runs]
    names = dict.fromkeys(name for found in settings for name in found)
    rows = [
        (name, [setting(found[name]) if name in found else NONE for found in settings])
        for name in names
    ]
    return [(name, cells) for name, cells in rows if len(set(cells)) > 1]


def _scores(runs: list[dict]) -> list[tuple[str, list[str]]]:
    results = [{row["task"]: row["tuned"] for row in run["comparison"]} for run in runs]
    names = dict.fromkeys(name for found in results for name in found)
    return [(name, [score(found.get(name)) for found in results]) for name in names]


def _measured(runs: list[dict], figures: dict[str, Callable]) -> list[tuple[str, list[str]]]:
    rows = [(name, [figure(run) for run in runs]) for name, figure in figures.items()]
    return [(name, cells) for name, cells in rows if set(cells) != {NONE}]


def _last(key: str) -> Callable[[dict], str]:
    def figure(run: dict) -> str:
        values = [row[key] for row in run["curves"] if key in row]
        return f"{values[-1]:.4f}" if values else NONE

    return figure


def _heldout(run: dict) -> str:
    found = run["heldout"]
    return NONE if not found or found["tuned"]["loss"] is None else f"{found['tuned']['loss']:.4f}"


def _fact(key: str, write: Callable) -> Callable[[dict], str]:
    def figure(run: dict) -> str:
        value = run["manifest"]["facts"].get(key)
        return write(value) if value else NONE

    return figure


LOSSES = {
    "Evaluation loss, last": _last("eval_loss"),
    "Evaluation reward, last": _last("eval_reward"),
    "Loss on held-out rows": _heldout,
}
COSTS = {
    "Steps": _fact("steps", number),
    "Training time": _fact("train_seconds", duration),
    "Tokens a second": _fact("tokens_per_second", number),
    "Peak memory": _fact("peak_memory_mb", memory),
    "Trained weights": _fact("trained_weights", number),
}
