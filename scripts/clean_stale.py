"""List what no given configuration reaches in its project's results, and disk use per stage.

python scripts/clean_stale.py [--configs A.yaml B.yaml ...] [--yes]

With --yes it is removed. Give every configuration whose results you keep.
"""

from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from anneal import cli
from anneal.config.schema import load_config
from anneal.lock import RunLock
from anneal.provenance.stale import (
    files_below,
    gathered,
    reached,
    remove,
    sizes,
    stage_of,
)
from anneal.provenance.summary import jobs_of


def main(arguments) -> None:
    by_project: dict[Path, list[dict]] = {}
    for config in arguments.configs:
        project = Path("results") / load_config(config).project
        by_project.setdefault(project, []).extend(jobs_of(config))
    for project, jobs in by_project.items():
        with RunLock(project).file if arguments.yes else nullcontext():
            clean(project, jobs, arguments.yes)


def clean(project: Path, jobs: list[dict], yes: bool) -> None:
    found = reached(jobs, project)
    size = sizes(project, files_below(project))
    stale = {path: n for path, n in size.items() if not found.covers(path)}
    Console().print(usage(project, size, stale))
    whole = gathered(stale, size.keys() - stale.keys())
    for path, bytes_ in sorted(whole.items(), key=lambda item: -item[1]):
        print(f"{decimal(bytes_):>10}  {project / path}")
    if yes:
        remove(project, whole)
    freed = decimal(sum(stale.values()))
    todo = "; YES=1 (--yes) removes it" if stale else ""
    print(f"{project}: removed {freed}" if yes else f"{project}: {freed} is stale{todo}")


def usage(project: Path, size: dict[str, int], stale: dict[str, int]) -> Table:
    table = Table("stage", "size", "stale", title=str(project))
    stages: dict[str, list[str]] = {}
    for path in size:
        stages.setdefault(stage_of(path), []).append(path)
    for stage, paths in sorted(stages.items()):
        total, unused = sum(size[p] for p in paths), sum(stale.get(p, 0) for p in paths)
        table.add_row(stage, decimal(total), decimal(unused))
    table.add_row("all", decimal(sum(size.values())), decimal(sum(stale.values())))
    return table


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    default = [Path("config/config.yaml")]
    arguments.add_argument("--configs", type=Path, nargs="+", default=default)
    arguments.add_argument("--yes", action="store_true", help="remove what is listed")
    cli.run(main, arguments.parse_args())
