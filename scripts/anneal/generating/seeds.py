"""Tasks written by hand, from which all others come."""

import json
from pathlib import Path

from anneal.errors import UserError

FIELDS = ("instruction", "input", "output")


def read_seeds(path: str) -> list[dict]:
    """The seed tasks, each with `id`, `instruction`, `input` and `output`.

    Raises:
        UserError: a line is no task, or two have one id.
    """
    tasks = []
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        if line.strip():
            tasks.append(_task(line, number, f"{path}:{number}"))
    ids = {task["id"] for task in tasks}
    if not tasks or len(ids) < len(tasks):
        what = "two tasks have one id" if tasks else "holds no task"
        raise UserError(path, what, "write some JSON lines of instruction, input and output")
    return tasks


def _task(line: str, number: int, where: str) -> dict:
    try:
        row = json.loads(line)
        given = {**row, **row["instances"][0]} if "instances" in row else row
        task = {name: given.get(name, "" if name == "input" else None) for name in FIELDS}
    except (ValueError, TypeError, AttributeError, LookupError):
        raise UserError(where, "is no JSON of a task", "see docs/generate.md") from None
    missing = [name for name, text in task.items() if not isinstance(text, str)]
    missing += [name for name in ("instruction", "output") if not (task[name] or "").strip()]
    if missing:
        raise UserError(where, f"has no text '{missing[0]}'", "write it, or remove the line")
    return {"id": str(row.get("id", f"seed-{number}")), **{n: t.strip() for n, t in task.items()}}
