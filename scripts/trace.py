"""Print where a number of the report, or any artifact, comes from, down to raw bytes and lines.

python scripts/trace.py TASK_OR_PATH --project results/PROJECT [--bytes] [--json]
python scripts/trace.py results/PROJECT/runs/RUN
"""

import json
from dataclasses import asdict
from pathlib import Path

from anneal import cli
from anneal.errors import UserError
from anneal.provenance.lineage import ancestry, artifact, home, manifest_of
from anneal.provenance.tree import tree
from anneal.reporting.origins import find, load_report, origin, value_at


def main(arguments) -> None:
    if Path(arguments.what).exists():
        traced = [{"of": arguments.what, "manifest": manifest_of(Path(arguments.what))}]
    elif arguments.project:
        traced = numbers(arguments.project, arguments.what)
    else:
        do = "give --project results/PROJECT to trace a number of its report"
        raise UserError(arguments.what, "no such artifact", do)
    for item in traced:
        item["artifacts"] = ancestry(item["manifest"], arguments.bytes)
        first = next(iter(item["artifacts"].values()))
        first.breaks += item.pop("breaks", [])
    print("\n".join(as_json(traced) if arguments.json else as_text(traced)))
    broken = [b for item in traced for a in item["artifacts"].values() for b in a.breaks]
    if broken:
        raise UserError(arguments.what, f"the chain is broken: {broken[0]}", "run the workflow")


def numbers(project: Path, wanted: str) -> list[dict]:
    """Each number of the report that is meant: its path, value and the artifact it is from."""
    report, shown = load_report(project), project / "report" / "manifest.json"
    root = home(shown)
    breaks = artifact(root, shown.absolute().relative_to(root).as_posix()).breaks
    return [
        {
            "of": path,
            "value": value_at(report, path),
            "manifest": manifest_of(project / origin(report, path)),
            "breaks": [f"the report was {b}" for b in breaks if origin(report, path) in b],
        }
        for path in find(report, wanted)
    ]


def as_text(traced: list[dict]) -> list[str]:
    lines = []
    for item in traced:
        lines += [in_words(item), *tree(item["artifacts"]), ""]
    return lines[:-1]


def in_words(item: dict) -> str:
    value = item.get("value")
    if isinstance(value, dict) and "tuned" in value:
        figures = {side: figure(value[side]) for side in ("base", "tuned")}
        scores = [f"{side} {found:.4g}" for side, found in figures.items() if found is not None]
        return f"{item['of']}: {', '.join(scores)} ({value['verdict']})"
    short = value is not None and not isinstance(value, dict | list)
    return f"{item['of']}: {value}" if short else item["of"]


def figure(side: dict | None) -> float | None:
    """The score of a benchmark, or the loss on held-out rows; None where there is none."""
    return side and side.get("value", side.get("loss"))


def as_json(traced: list[dict]) -> list[str]:
    shown = [
        {
            **item,
            "manifest": str(item["manifest"]),
            "artifacts": {name: asdict(a) for name, a in item["artifacts"].items()},
        }
        for item in traced
    ]
    return [json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False)]


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("what", metavar="TASK_OR_PATH", help="of report.json, or an artifact")
    arguments.add_argument("--project", type=Path, help="results/PROJECT")
    arguments.add_argument("--bytes", action="store_true", help="read and check every file too")
    arguments.add_argument("--json", action="store_true", help="all of every manifest")
    cli.run(main, arguments.parse_args())
