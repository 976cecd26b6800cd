"""Say why two runs, two artifacts or two whole projects differ, and what came of it.

python scripts/diff.py results/PROJECT/runs/A results/PROJECT/runs/B [--json]
python scripts/diff.py results/PROJECT ../other-checkout/results/PROJECT
"""

import json
from pathlib import Path

from anneal import cli
from anneal.provenance.tree import few
from anneal.reporting.changes import changes
from anneal.splitting.row_changes import in_words


def main(arguments) -> None:
    found = changes(arguments.a, arguments.b)
    if arguments.json:
        print(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False))
    elif not any(found.values()):
        print(f"no difference: {arguments.a} and {arguments.b} were made from the same alike")
    else:
        print("\n".join([*why(found), *effects(found)]))


def why(found: dict) -> list[str]:
    lines = [f"only in {s}: {', '.join(few(found[f'only_in_{s.lower()}']))}" for s in "AB"]
    lines = [line for line in lines if not line.endswith(": ")]
    for difference in found["why"]:
        more = difference["artifacts"] - 1
        also = f" (and {more} like it)" if more else ""
        lines.append(f"{difference['rule']} {difference['place']}{also}")
        lines += [f"  {what}: {a} -> {b}" for what, a, b in difference["changes"]]
    return lines


def effects(found: dict) -> list[str]:
    lines = []
    for dataset, rows in found["rows"].items():
        lines += [f"rows of {dataset}", *(f"  {in_words(change)}" for change in rows)]
    for kind in ("metrics", "scores"):
        for what, values in found[kind].items():
            lines += [f"{kind} of {what}" + ("" if values else ": the same")]
            lines += [f"  {name}: {short(a)} -> {short(b)}" for name, (a, b) in values.items()]
    told = ", ".join(f"{count} x {rule}" for rule, count in sorted(found["bytes"].items()))
    return [*lines, f"other bytes in: {told or 'no artifact'}"]


def short(value) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("a", type=Path, metavar="A", help="run, artifact or results/PROJECT")
    arguments.add_argument("b", type=Path, metavar="B")
    arguments.add_argument("--json", action="store_true", help="the same for machines")
    cli.run(main, arguments.parse_args())
