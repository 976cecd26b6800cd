"""Processor time of a data step's start, and of a dry-run of the demo with nothing to do."""

import shutil

from generated_project import Project, link_code
from measure import OURS, REPOSITORY, Line, processor_seconds

STEPS = (
    *("read_shard", "clean_shard", "select_rows", "format_shard", "tokenize_shard"),
    *("assign_splits", "write_splits", "write_heldout"),
)


def compare(given) -> list[Line]:
    lines = [Line("start of bare Python", _least(given, [OURS, "-c", ""]), unit="s")]
    for step in STEPS:
        started = _least(given, [OURS, f"scripts/{step}.py", "--help"])
        lines.append(Line(f"start of {step}", started, None, 0.5, True, "s"))
    return [*lines, *_demo(given)]


def _least(given, command: list[str]) -> float:
    return min(processor_seconds(command, REPOSITORY) for _ in range(2 * given.rounds))


def _demo(given) -> list[Line]:
    """The demo's data are made; its training is not, and so the whole of it stays to be done."""
    folder = given.folder / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    link_code(folder, "config", "data")
    demo = Project(folder)
    demo.data(2)
    lines = []
    for what, target in (("data, nothing to do", "data"), ("whole, training to do", "all")):
        spent = demo.dry_run(given.rounds, target)
        lines.append(Line(f"dry-run of the demo: {what}", spent, None, 3, True, "s"))
    return lines
