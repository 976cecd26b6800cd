"""The test questions of evaluation tasks that have local data files."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import yaml

from anneal.errors import UserError

HELDOUT = "HELDOUT"
JSON = (".json", ".jsonl")


class _TaskLoader(yaml.SafeLoader):
    """Task files hold tags such as `!function`; nothing behind them is loaded."""


_TaskLoader.add_multi_constructor("!", lambda loader, suffix, node: None)


def test_files(include: Path, task: str) -> list[str]:
    """JSON files of a task's test split, as its YAML file names them.

    The held-out rows of the dataset itself, and tasks without a local file, have none.
    """
    settings = read_task(include, task)
    files = (settings.get("dataset_kwargs") or {}).get("data_files") or []
    if isinstance(files, dict):
        files = files.get(settings.get("test_split") or settings.get("validation_split")) or []
    files = [files] if isinstance(files, str) else files
    return [f for f in files if f != HELDOUT and Path(f).suffix in JSON and "://" not in f]


def read_task(include: Path, task: str) -> dict:
    """What the file of a task says; nothing where it has none."""
    path = include / f"{task}.yaml"
    if not path.is_file():
        return {}
    try:
        return yaml.load(path.read_text("utf-8"), _TaskLoader) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UserError(where, "no YAML that can be read", "mend the task file") from None


def questions(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Number (line, or place in an array) and all texts of each question of a JSON file."""
    data = Path(path).read_bytes()
    try:
        if data.lstrip()[:1] == b"[":
            rows = list(enumerate(orjson.loads(data), 1))
        else:
            rows = [(n, orjson.loads(x)) for n, x in enumerate(data.splitlines(), 1) if x.strip()]
    except orjson.JSONDecodeError as error:
        raise UserError(path, f"not JSON ({error})", "mend the test data of the task") from None
    for number, row in rows:
        yield number, list(_texts(row))


def _texts(value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
