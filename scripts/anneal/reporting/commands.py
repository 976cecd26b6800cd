"""Commands that say where the numbers of a section come from, to be copied from the page."""

import shlex


def traces(project: str, *paths: str) -> list[str]:
    """One command of `scripts/trace.py` for each path in report.json."""
    folder = f"results/{project}"
    return [shlex.join(["python", "scripts/trace.py", p, "--project", folder]) for p in paths]


def of_dataset(project: str, name: str, data: dict) -> list[str]:
    """Also what became of one row, where a ledger knows it; a row with copies is the example."""
    parts = ("funnel", "splits") if data["counted_by"] else ("funnel", "splits", "gates")
    commands = traces(project, *(f"datasets.{name}.{part}" for part in parts))
    if data["counted_by"]:
        return commands
    folder = f"results/{project}/data/{name}"
    row = data["clusters"][0]["kept"] if data["clusters"] else "FILE:LINE"
    why = ["python", "scripts/why.py", row, "--ledger", f"{folder}/ledger.parquet"]
    return [*commands, shlex.join([*why, "--shards", f"{folder}/clean"])]


def of_scores(project: str, kind: str, name: str, tuned: dict) -> list[str]:
    """One for each benchmark of a run or model, and one for its loss on held-out rows."""
    tasks = [f"{kind}.{name}.comparison.{row['task']}" for row in tuned["comparison"]]
    return traces(project, *tasks, *([f"{kind}.{name}.heldout"] if tuned["heldout"] else []))


def of_learning(project: str, name: str) -> list[str]:
    return traces(project, f"runs.{name}.curves")


def of_tokens(project: str, name: str) -> list[str]:
    return traces(project, f"runs.{name}.tokens.train")


def of_cost(project: str, runs: dict) -> list[str]:
    return traces(project, *(f"runs.{name}.manifest.facts" for name in runs))
