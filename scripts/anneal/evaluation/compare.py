"""Tuned against base, task by task, with the error of the difference.

Where both models answered the same questions the test is paired: the standard error is that of
the mean of the per-question differences (Miller 2024, arXiv:2411.00640, section 4.2).
"""

import math
from statistics import fmean, stdev

NOISE = 2.0


def compare(base: dict, tuned: dict, base_samples: list, tuned_samples: list, settings: dict):
    """Rows of the comparison, one a task.

    Args:
        base, tuned: results by task, as `benchmark` gives them.
        settings: the `evaluate` section.

    Returns:
        rows with `verdict`: better, worse, same (within 2 standard errors), or not comparable;
        `forgotten` marks a forgetting task that fell by more than the allowed share and noise.
    """
    return [
        _row(name, base, tuned, _scores(base_samples, name), _scores(tuned_samples, name), settings)
        for name in settings["tasks"]
    ]


def _row(name: str, base: dict, tuned: dict, before: dict, after: dict, settings: dict) -> dict:
    forgetting = settings["tasks"][name]["forgetting"]
    row = {"task": name, "forgetting": forgetting, "base": base.get(name), "tuned": tuned.get(name)}
    if differing := _differences(row["base"], row["tuned"]):
        return {**row, "verdict": "not comparable", "differing": differing, "forgotten": False}
    delta = row["tuned"]["value"] - row["base"]["value"]
    error, paired = _error(row, before, after)
    verdict = "same" if abs(delta) <= NOISE * error else "better" if delta > 0 else "worse"
    fell = delta < -settings["max_drop"] * row["base"]["value"]
    return {
        **row,
        "delta": delta,
        "stderr": error,
        "paired": paired,
        "verdict": verdict,
        "forgotten": forgetting and verdict == "worse" and fell,
        "warnings": _warnings(row, before, after),
    }


def _differences(base: dict | None, tuned: dict | None) -> list[str]:
    if base is None or tuned is None:
        return ["missing in " + ("base" if base is None else "tuned")]
    fields = [f for f in ("metric", "questions") if base[f] != tuned[f]]
    asked = sorted(base["asked"].keys() | tuned["asked"].keys())
    return fields + [f for f in asked if base["asked"].get(f) != tuned["asked"].get(f)]


def _error(row: dict, before: dict, after: dict) -> tuple[float, bool]:
    """Standard error of the difference, and whether it is paired."""
    if before.keys() == after.keys() and len(before) > 1:
        differences = [after[q] - before[q] for q in before]
        if math.isclose(
            fmean(differences), row["tuned"]["value"] - row["base"]["value"], abs_tol=1e-6
        ):
            return stdev(differences) / math.sqrt(len(differences)), True
    return math.hypot(row["base"]["stderr"] or 0.0, row["tuned"]["stderr"] or 0.0), False


def _warnings(row: dict, before: dict, after: dict) -> list[str]:
    found = [
        f"{side} scores exactly 0: look at its answers before trusting this"
        for side in ("base", "tuned")
        if row[side]["value"] == 0
    ]
    if before and before == after:
        found.append("every answer scores as the base's does: is the tuned model loaded?")
    return found


def _scores(samples: list[dict], task: str) -> dict[int, float]:
    return {s["question"]: s["score"] for s in samples if s["task"] == task}
