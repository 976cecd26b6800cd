"""Tuned against base on held-out rows: the loss, and the answers to the same prompts."""

import math

from anneal.evaluation.compare import AGAIN, LEVEL, normal


def compare_heldout(base: dict, tuned: dict, kind: str) -> dict:
    """What `measure` found of both, side by side.

    Args:
        kind: that of the records; raw text has no end that a model should stop at.

    Returns:
        `base` and `tuned` with `loss`, `perplexity`, `token_accuracy`, `tokens` and `stopped`;
        `delta` of the losses with `stderr`, `p_value` and `verdict`, unless they are not
        comparable; `samples` with both answers; `same_as_base`; `warnings`.
    """
    sides = {"base": base, "tuned": tuned}
    figures = ("loss", "perplexity", "token_accuracy", "tokens", "stopped")
    found = {side: {k: made[k] for k in figures} for side, made in sides.items()}
    differing = [name for name in ("asked", "tokens") if base[name] != tuned[name]]
    same = not differing and base["rows"] == tuned["rows"] and base["samples"] == tuned["samples"]
    return {
        **found,
        **_difference(base, tuned, differing),
        "samples": [] if differing else _side_by_side(base["samples"], tuned["samples"]),
        "same_as_base": same,
        "warnings": _warnings(tuned, same, kind),
    }


def _difference(base: dict, tuned: dict, differing: list[str]) -> dict:
    if differing:
        return {"verdict": "not comparable", "differing": differing, "do": AGAIN}
    if not tuned["tokens"]:
        return {"verdict": "none"}
    delta = tuned["loss"] - base["loss"]
    error = ratio_error(base["rows"], tuned["rows"], delta)
    p = normal(delta, error)
    verdict = "same" if p >= LEVEL else "better" if delta < 0 else "worse"
    return {"delta": delta, "stderr": error, "p_value": p, "verdict": verdict}


def ratio_error(base: list[dict], tuned: list[dict], delta: float) -> float:
    """Standard error of a difference of losses per token, rows being drawn, not tokens.

    The linearised variance of a ratio estimator (Cochran 1977, Sampling Techniques, section 2.11).
    """
    rest = [a["loss"] - b["loss"] - delta * b["tokens"] for b, a in zip(base, tuned, strict=True)]
    rows, tokens = len(rest), sum(b["tokens"] for b in base)
    if rows < 2:
        return math.inf
    return math.sqrt(rows / (rows - 1) * sum(r * r for r in rest)) / tokens


def _side_by_side(base: list[dict], tuned: list[dict]) -> list[dict]:
    shared = ("prompt", "expected")
    return [
        {
            **{k: after[k] for k in shared},
            **{f"base_{k}": before[k] for k in ("answer", "stopped")},
            **{k: after[k] for k in ("answer", "stopped")},
        }
        for before, after in zip(base, tuned, strict=True)
    ]


def _warnings(tuned: dict, same: bool, kind: str) -> list[str]:
    found = []
    if same:
        found.append("losses and answers are the base's: is the tuned model loaded?")
    if tuned["stopped"] == 0 and kind != "text":
        count = len(tuned["samples"])
        found.append(f"none of {count} answers stopped by itself: was the end token learned?")
    return found
