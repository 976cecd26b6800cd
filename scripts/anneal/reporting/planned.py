"""What was planned for a run, beside what was measured."""

from pathlib import Path

from anneal.provenance.files import read_json
from anneal.reporting.wording import duration, memory, number

PARTS = ("hardware", "device", "data", "memory", "batch", "work")
MIB, HOUR = 2**20, 3600


def plan_of(run: str, key: str, project: Path) -> dict | None:
    """What the target `plan` last wrote of a run.

    None where no plan was made, or one of other settings or code than the run's, whose key its
    manifest holds: nothing is planned for the sake of the report, and no plan causes a rerun.
    """
    path = project / "plan" / "plan.json"
    plans = read_json(path) if path.is_file() else []
    found = [plan for plan in plans if plan["run"] == run and plan.get("key") == key]
    return {part: found[0][part] for part in PARTS} if found else None


def against_plan(run: dict) -> list[tuple[str, str, str, str]]:
    """Of each figure its name, what was planned, what was measured, and their ratio.

    A run that went on from a checkpoint has measured only what came after it, so its time is
    left out.
    """
    plan, facts = run["plan"], run["manifest"]["facts"]
    if plan is None:
        return []
    work, whole = plan["work"], not facts["resumed_step"]
    hours = work["hours"] if whole else None
    figures = [
        ("Optimiser steps", work["steps"], facts["steps"], number),
        ("Tokens of the training split", plan["data"]["tokens"], _tokens(run), number),
        ("Peak memory", plan["memory"]["total"] / MIB, facts["peak_memory_mb"], memory),
        ("Training time", hours and hours * HOUR, facts["train_seconds"], duration),
    ]
    if price := plan["device"]["price_per_hour"]:
        spent = facts["train_seconds"] / HOUR * price * plan["batch"]["processes"]
        figures.append(("Cost", work["cost"] if whole else None, spent, "{:,.2f}".format))
    return [_row(*figure) for figure in figures]


def _tokens(run: dict) -> int:
    return run["tokens"]["train"]["tokens"]


def _row(name: str, planned: float | None, measured: float, write) -> tuple[str, str, str, str]:
    if planned is None:
        return name, "–", write(measured), "–"
    ratio = f"{measured / planned:.2f} ×" if planned else "–"
    return name, write(planned), write(measured), ratio
