"""Task files, and how jobs share the tasks of one model. Loads neither torch nor lm-eval."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from anneal.cleaning.questions import read_task, test_files
from anneal.errors import UserError

HELDOUT = "HELDOUT"
QUESTIONS, WRITING = 1000, 5


def check_local(include: Path, name: str) -> None:
    """Raises UserError: a task without a file of its own needs data of the Hub."""
    if not (include / f"{name}.yaml").is_file():
        what = f"there is no {include / name}.yaml, and data of the Hub's tasks are not here"
        do = "write that file, or set evaluate.download to let lm-eval fetch them"
        raise UserError(f"evaluate.tasks.{name}", what, do)


def stage_tasks(include: Path, folder: Path, heldout: Mapping[str, Path]) -> None:
    """Copy local task files, the held-out file's path put in place of HELDOUT."""
    for file in sorted(include.glob("*")):
        if file.suffix in (".yaml", ".yml"):
            rows = json.dumps(str(heldout[file.stem].resolve()))
            text = file.read_text("utf-8").replace(HELDOUT, rows)
            (folder / file.name).write_text(text, "utf-8")
        elif file.suffix == ".py":
            shutil.copyfile(file, folder / file.name)


def shares(include: Path, tasks: dict[str, dict], jobs: int) -> list[list[str]]:
    """Names of the tasks of each job: the costliest first, each to the job that has least to do.

    There are no more jobs than tasks, and one without tasks where there are none.
    """
    costs = {name: cost(include, name, task) for name, task in tasks.items()}
    found: list[list[str]] = [[] for _ in range(max(1, min(jobs, len(tasks))))]
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        min(found, key=lambda names: sum(costs[n] for n in names)).append(name)
    return [[name for name in tasks if name in names] for names in found]


def cost(include: Path, name: str, task: dict) -> int:
    """Work of a task, roughly: questions, the longer with solved examples and written answers."""
    files = [Path(file) for file in test_files(include, name)]
    lines = sum(len(file.read_bytes().splitlines()) for file in files if file.is_file())
    questions = min(lines or QUESTIONS, task["limit"] or lines or QUESTIONS)
    writes = read_task(include, name).get("output_type") == "generate_until"
    return questions * (1 + (task["num_fewshot"] or 0)) * (WRITING if writes else 1)
