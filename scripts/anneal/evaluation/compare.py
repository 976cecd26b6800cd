"""Tuned against base, task by task, with the error of the difference.

Where both models answered the same questions the test is paired: the standard error is that of
the mean of the per-question differences (Miller 2024, arXiv:2411.00640, section 4.2). Where each
answer is right or wrong, the p-value is that of McNemar's exact test; otherwise it is the normal
one of the difference over its standard error.
"""

import math
from statistics import fmean, stdev

LEVEL = 0.05
NOISE = 2.0
SHOWN = 3
AGAIN = "score both again: snakemake --profile ... --forcerun benchmark -- evaluate"


def compare(base: dict, tuned: dict, base_samples: list, tuned_samples: list, settings: dict):
    """Rows of the comparison, one a task.

    Args:
        base, tuned: results by task, as `benchmark` gives them.
        settings: `max_drop`, and `tasks` with `forgetting` and perhaps `contamination`.

    Returns:
        rows with `verdict`: better, worse, same (p of 0.05 or more), or not comparable, with the
        fields that differ; `forgotten` marks a forgetting task that fell by more than the allowed
        share and noise; `same_as_base` one whose every answer and likelihood is the base's.
    """
    return [
        _row(name, base, tuned, _of(base_samples, name), _of(tuned_samples, name), settings)
        for name in settings["tasks"]
    ]


def _of(samples: list[dict], task: str) -> dict[tuple, dict]:
    return {(s.get("part"), s["question"]): s for s in samples if s["task"] == task}


def _row(name: str, base: dict, tuned: dict, before: dict, after: dict, settings: dict) -> dict:
    task = settings["tasks"][name]
    sides = {"base": base.get(name), "tuned": tuned.get(name)}
    row = {"task": name, **task, **sides}
    if differing := differences(*sides.values()):
        verdict = {"verdict": "not comparable", "differing": differing, "do": AGAIN}
        return {**row, **verdict, "forgotten": False, "same_as_base": False}
    delta = row["tuned"]["value"] - row["base"]["value"]
    found = _test(row, delta, _scores(before), _scores(after))
    gain = delta if row["base"].get("higher_is_better", True) else -delta
    noise = found["p_value"] is None or found["p_value"] >= LEVEL
    verdict = "same" if noise or not delta else "better" if gain > 0 else "worse"
    fell = gain < -settings["max_drop"] * abs(row["base"]["value"])
    row |= {"delta": delta, **found, "verdict": verdict, "same_as_base": _same(row)}
    forgotten = task["forgetting"] and verdict == "worse" and fell
    return {**row, "forgotten": forgotten, "warnings": _warnings(row, before, after)}


def differences(base: dict | None, tuned: dict | None) -> list[str]:
    """Names of what keeps two results from being compared; none if they can be."""
    if base is None or tuned is None:
        return ["missing in " + ("base" if base is None else "tuned")]
    fields = [f for f in ("metric", "questions") if base[f] != tuned[f]]
    asked = sorted(base["asked"].keys() | tuned["asked"].keys())
    return fields + [f for f in asked if base["asked"].get(f) != tuned["asked"].get(f)]


def _scores(samples: dict) -> dict[tuple, float]:
    return {k: s["score"] for k, s in samples.items() if s["score"] is not None}


def _test(row: dict, delta: float, before: dict, after: dict) -> dict:
    """`stderr` and `p_value` of the difference, `paired`, and the name of the `test`.

    The scores of questions are paired only where their means are the values that are compared.
    """
    if before.keys() == after.keys() and len(before) > 1:
        differences = [after[q] - before[q] for q in before]
        if math.isclose(fmean(differences), delta, abs_tol=1e-6):
            error = stdev(differences) / math.sqrt(len(differences))
            if {*before.values(), *after.values()} <= {0.0, 1.0}:
                p, test = mcnemar(differences.count(1), differences.count(-1)), "McNemar, exact"
            else:
                p, test = normal(delta, error), "paired difference"
            return {"stderr": error, "p_value": p, "paired": True, "test": test}
    errors = [row[side]["stderr"] for side in ("base", "tuned")]
    if None in errors:
        return {"stderr": None, "p_value": None, "paired": False, "test": "none: no error is known"}
    error = math.hypot(*errors)
    p = normal(delta, error)
    return {"stderr": error, "p_value": p, "paired": False, "test": "difference of two means"}


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided p-value of McNemar's exact test: is a changed answer as often gained as lost?

    The binomial test of `gained` out of all changed answers at a half (McNemar 1947).
    """
    changed = gained + lost
    tail = sum(math.comb(changed, k) for k in range(min(gained, lost) + 1))
    return (
        float(min(1.0, 2 * tail / 2**changed))
        if changed < 1000
        else normal(gained - lost, math.sqrt(changed))
    )


def normal(delta: float, error: float) -> float:
    """Two-sided p-value of a difference with a normal error."""
    if error == 0:
        return float(delta == 0)
    return math.erfc(abs(delta) / error / math.sqrt(2))


def _same(row: dict) -> bool:
    digests = [row[side].get("responses") for side in ("base", "tuned")]
    return digests[0] is not None and digests[0] == digests[1]


def _warnings(row: dict, before: dict, after: dict) -> list[str]:
    found = []
    for side, samples in (("base", before), ("tuned", after)):
        result = row[side]
        shown = "; ".join(f"{s['answer'][:60]!r} for {s['target'][:60]!r}" for s in _first(samples))
        shown = f" (answers: {shown})" if shown else ""
        if result["value"] == 0:
            found.append(f"{side} scores exactly 0: look at its answers{shown}")
        elif _is_chance(result):
            found.append(f"{side} scores as a guess would, {result['chance']:.3f}{shown}")
    if row["stderr"] is None:
        found.append("no standard error is known, so no difference can be told from noise")
    if row["same_as_base"]:
        found.append("every answer and likelihood is the base's: is the tuned model loaded?")
    elif before and _scores(before) == _scores(after):
        found.append("every answer scores as the base's does")
    if row.get("contamination", {}).get("checked") is False:
        found.append("training rows were not compared with its questions: they may give it away")
    return found


def _first(samples: dict) -> list[dict]:
    return [s for s in list(samples.values())[:SHOWN] if "answer" in s]


def _is_chance(result: dict) -> bool:
    chance, error = result.get("chance"), result["stderr"]
    return chance is not None and abs(result["value"] - chance) <= NOISE * (error or 0.0)
