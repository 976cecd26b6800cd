"""Print the end of a run as a table: data, training, scores, and where the report is.

python scripts/summarise.py --report results/PROJECT/report/report.json
"""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from anneal import cli
from anneal.provenance.files import read_json


def main(arguments) -> None:
    document = read_json(arguments.report)
    console = Console(highlight=False)
    for name, dataset in document["datasets"].items():
        console.print(_data_line(name, dataset))
    for name, run in document["runs"].items():
        facts = run["manifest"]["facts"]
        spent = f"{facts['steps']} steps in {facts['train_seconds']:.0f} s"
        console.print(_scores(f"{name}: {spent}", run["comparison"]))
    for name, model in document["models"].items():
        console.print(_scores(f"{name}: made of {', '.join(model['runs'])}", model["comparison"]))
    console.print(f"Report: {arguments.report.with_suffix('.html')}")


def _data_line(name: str, dataset: dict) -> str:
    total = {
        key: sum(source[key] for source in dataset["funnel"].values())
        for key in ("read", "kept", "rejected", "dropped")
    }
    rows = ", ".join(f"{n} {split}" for split, n in dataset["splits"]["rows"].items())
    counts = ", ".join(f"{number} {key}" for key, number in total.items())
    return f"Data {name}: {counts}; {rows}"


def _scores(title: str, rows: list[dict]) -> Table | str:
    """A table of benchmarks; one line where there are none."""
    if not rows:
        return title
    table = Table(title=title, title_justify="left")
    for heading in ("benchmark", "base", "tuned", "difference", "verdict"):
        table.add_column(heading, justify="left" if heading == "benchmark" else "right")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: dict) -> list[str]:
    values = [f"{row[side]['value']:.3f}" if row[side] else "-" for side in ("base", "tuned")]
    difference = f"{row['delta']:+.3f}" if "delta" in row else "-"
    if row.get("stderr") is not None:
        difference += f" ± {row['stderr']:.3f}"
    verdict = "FORGOTTEN" if row["forgotten"] else row["verdict"]
    return [row["task"], *values, difference, verdict]


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--report", type=Path, required=True)
    cli.run(main, arguments.parse_args())
