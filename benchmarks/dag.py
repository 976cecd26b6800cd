"""Snakemake's own share: a DAG of 1,000 shards and 20 runs, an appended row in a hundred, one and
two workers.

    python benchmarks/dag.py PROJECT < commands

As a command it runs the steps that a dry-run printed, all in this process: 4,000 jobs would need
half an hour to start. Snakemake then notes them as its own by `--touch`.
"""

import contextlib
import json
import logging
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from generated_project import RESULTS, SNAKEMAKE, Project
from measure import OURS, Line, peak, run
from rows import generated

WORKERS_SHARDS, RUNS = 40, 20


def compare(given) -> list[Line]:
    return [*_many_shards(given), *_many_runs(given), *_appended(given)]


def _many_runs(given) -> list[Line]:
    """The driver alone: nothing is made yet, and all targets are asked for."""
    project = Project.create(given.folder / "runs", "raw/*.jsonl", given.model, 64, RUNS)
    _deal(project.folder / "raw", given.shards)
    planned = project.dry_run(given.rounds, "all")
    _, used = peak([*SNAKEMAKE, "all", "-n", "-q"], project.folder)
    what = f"dry-run, {given.shards} shards, {RUNS} runs"
    return [Line(f"{what}, all to do", planned, unit="s"), Line(f"{what}, peak", used, unit="MB")]


def _many_shards(given) -> list[Line]:
    project = Project.create(given.folder / "dag", "raw/*.jsonl", given.model, 64)
    _deal(project.folder / "raw", given.shards)
    planned = project.dry_run(given.rounds)
    finish(project)
    assert not project.steps()
    nothing = project.dry_run(given.rounds)
    return [
        Line(f"dry-run, {given.shards} shards, all to do", planned, unit="s"),
        Line(f"dry-run, {given.shards} shards, nothing to do", nothing, None, 10, True, "s"),
    ]


def _deal(folder: Path, shards: int) -> None:
    folder.mkdir()
    rows = [json.dumps(row) + "\n" for row in generated(shards * 10)]
    for n in range(shards):
        (folder / f"{n:05}.jsonl").write_text("".join(rows[n * 10 : n * 10 + 10]))


def finish(project: Project) -> None:
    """Bring the target `data` to its end without starting a job for each step."""
    commands = "\n".join(map(shlex.join, project.steps()))
    subprocess.run([OURS, __file__, project.folder], input=commands, text=True, check=True)
    code = (
        "import snakemake.executors.touch as t; t.Executor.SLEEPING_TIME = 0;"
        "from snakemake.cli import main; main()"
    )
    touch = ["data", "--touch", "--forceall", "--quiet", "all"]
    run([OURS, "-c", code, "--profile", "profiles/local", *touch], project.folder)


def _appended(given) -> list[Line]:
    folder = given.folder / "appended"
    size = given.input.stat().st_size / 1e6
    project = Project.create(folder, "raw.jsonl", given.model, size / WORKERS_SHARDS)
    shutil.copy(given.input, folder / "raw.jsonl")
    two = project.data(2)
    full = _work(folder, set())
    before = _manifests(folder)
    with given.input.open() as lines, (folder / "raw.jsonl").open("a") as file:
        rows = sum(1 for _ in lines)
        file.writelines(json.dumps(row) + "\n" for row in generated(max(1, rows // 100), seed=2))
    again = project.data(2)
    part = _work(folder, before)
    shutil.rmtree(folder / "results")
    one = project.data(1)
    return [
        Line("append 1 %: work of the steps / all of it", part, full, 0.05, True, "s"),
        Line("append 1 %: time at two workers / all of it", again, two, None, unit="s"),
        Line("data, one worker / two workers", one, two, None, unit="s"),
    ]


def _manifests(folder: Path) -> set[tuple[Path, int]]:
    return {(p, p.stat().st_mtime_ns) for p in (folder / RESULTS).rglob("*manifest.json")}


def _work(folder: Path, before: set) -> float:
    """Seconds of the steps that ran since, as their manifests tell."""
    return sum(json.loads(p.read_text())["seconds"] for p, _ in _manifests(folder) - before)


def main(folder: Path) -> None:
    os.chdir(folder)
    sys.path.insert(0, "scripts")
    for line in sys.stdin:
        _, script, *arguments = shlex.split(line)
        sys.argv = [script, *arguments]
        with contextlib.suppress(SystemExit):
            runpy.run_path(script, run_name="__main__")
        _close_logs()


def _close_logs() -> None:
    log = logging.getLogger("anneal")
    for handler in list(log.handlers):
        handler.close()
        log.removeHandler(handler)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
