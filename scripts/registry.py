"""Runs, what is kept of them, their scores and stages; a run is promoted to a stage by a git tag.

python scripts/registry.py [--config C.yaml] list [--json]
python scripts/registry.py [--config C.yaml] promote RUN STAGE [--because REASON]

Stages are GTO's, such as candidate and released: `gto show` and `dvc artifacts get` know them too.
"""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from anneal import cli
from anneal.config.schema import load_config
from anneal.errors import UserError
from anneal.provenance.summary import jobs_of
from anneal.reporting.standing import standings
from anneal.reporting.tags import promote, versions

HEADS = ("run", "fingerprint", "kept step", "checkpoints", "scores against base", "forgot", "stage")


def main(arguments) -> None:
    found = standings(load_config(arguments.config), jobs_of(arguments.config))
    if arguments.command == "promote":
        if arguments.run not in found:
            there = ", ".join(found) or "none"
            raise UserError(arguments.config, f"no run '{arguments.run}'", f"there: {there}")
        version = promote(arguments.run, arguments.stage, found[arguments.run], arguments.because)
        print(f"{arguments.run} {version} is {arguments.stage}; `git push --tags` shares it")
        return
    for name, standing in found.items():
        standing["versions"] = versions(name)
    print(json.dumps(found, indent=1)) if arguments.json else Console().print(table(found))


def table(found: dict) -> Table:
    shown = Table(*HEADS)
    for name, run in found.items():
        scores = [f"{task} {number(a)} -> {number(b)}" for task, (a, b) in run["scores"].items()]
        staged = [in_words(version, run["fingerprint"]) for version in run["versions"]]
        shown.add_row(
            name,
            run["fingerprint"] or "not trained",
            str(run["kept_step"] or ""),
            " ".join(map(str, run["checkpoints"])),
            "\n".join(scores),
            ", ".join(run["forgotten"]) or ("no" if scores else "unknown"),
            "\n".join(staged + [f"! {problem}" for problem in run["problems"]]),
        )
    return shown


def in_words(version: dict, present: str | None) -> str:
    stages = ", ".join(version["stages"])
    other = "" if version["fingerprint"] == present else " (not what is here now)"
    return f"{version['version']} {stages}".strip() + other


def number(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--config", type=Path, default=Path("config/config.yaml"))
    commands = arguments.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="all runs of the configuration")
    listed.add_argument("--json", action="store_true")
    promoted = commands.add_parser("promote", help="register a run and assign it to a stage")
    promoted.add_argument("run", metavar="RUN")
    promoted.add_argument("stage", metavar="STAGE", help="such as candidate or released")
    promoted.add_argument("--because", metavar="REASON", help="promote in spite of problems")
    cli.run(main, arguments.parse_args())
