"""Which artifact a number of the report comes from."""

import re
from pathlib import Path

from anneal.errors import UserError
from anneal.provenance.files import read_json

# By the beginning of a path in report.json: the file of the project's folder it was taken from.
ORIGINS = (
    (r"(?:runs|models)\.(?P<name>[^.]+)\.heldout", "evaluation/comparisons/{name}.heldout.json"),
    (
        r"(?:runs|models)\.(?P<name>[^.]+)\.(?:comparison|answers)",
        "evaluation/comparisons/{name}.json",
    ),
    (r"runs\.(?P<name>[^.]+)\.(?:tokens|masks)", "tokens/{dataset}/{model}/splits/manifest.json"),
    (r"runs\.(?P<name>[^.]+)(?!\.plan|[^.])", "runs/{name}/manifest.json"),
    (r"models\.(?P<name>[^.]+)", "models/{name}/manifest.json"),
    (r"datasets\.(?P<name>[^.]+)\.clusters", "data/{name}/drops.parquet"),
    (r"datasets\.(?P<name>[^.]+)", "data/{name}/gates.json"),
)
STREAMED = "data/{name}/sample.parquet"


def find(report: dict, wanted: str) -> list[str]:
    """Paths in the report that are meant by a path, or by the name of a task.

    Raises:
        UserError: there is none.
    """
    made = {"runs": report["runs"], "models": report["models"]}
    scores = [
        f"{kind}.{name}.comparison.{wanted}"
        for kind, entries in made.items()
        for name, entry in entries.items()
        if any(row["task"] == wanted for row in entry["comparison"])
    ]
    if scores:
        return scores
    value_at(report, wanted)
    return [wanted]


def value_at(value, path: str):
    """What stands in a document at a dotted path; a list is entered by number or `task`.

    Raises:
        UserError: nothing stands there.
    """
    if not path:
        return value
    for key, item in _items(value):
        if path == key or path.startswith(f"{key}."):
            return value_at(item, path[len(key) + 1 :])
    there = ", ".join(key for key, _ in _items(value)) or "nothing"
    do = "name a task, or a path in report.json such as runs.NAME.comparison.TASK"
    raise UserError(path, f"not in the report (there: {there})", do)


def _items(value) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        named = [
            x.get("task", str(n)) if isinstance(x, dict) else str(n) for n, x in enumerate(value)
        ]
        return list(zip(named, value, strict=True))
    return []


def origin(report: dict, path: str) -> str:
    """The file below results/PROJECT from which a path of the report was taken.

    Raises:
        UserError: it was configured or planned, which no step made.
    """
    for pattern, file in ORIGINS:
        if found := re.match(pattern, path):
            name = found["name"]
            run = report["runs"].get(name, {})
            streamed = report["config"]["datasets"].get(name, {}).get("stream")
            file = STREAMED if streamed and path.startswith("datasets.") else file
            return file.format(name=name, dataset=run.get("dataset"), model=run.get("model"))
    raise UserError(path, "was configured or planned; no step made it", "name a result")


def load_report(project: Path) -> dict:
    """report.json of a project.

    Raises:
        UserError: it has none yet.
    """
    path = project / "report" / "report.json"
    if not path.is_file():
        raise UserError(path, "no such report", "run the workflow to its report first")
    return read_json(path)
