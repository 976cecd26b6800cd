"""Write what DVC compares between versions: scores and counts, and the loss of each run.

python scripts/write_metrics.py results/PROJECT/report/report.json
"""

import csv
from pathlib import Path

from anneal import cli
from anneal.provenance.files import read_json, whole_folder, write_json


def main(arguments) -> None:
    for path in arguments.reports:
        report = read_json(path)
        write_json(path.with_name("metrics.json"), metrics(report))
        with whole_folder(path.with_name("curves")) as folder:
            for name, run in report["runs"].items():
                write_curve(run["curves"], folder / f"{name}.csv")


def metrics(report: dict) -> dict:
    """Rows of each split by dataset; scores, losses on held-out rows and the last evaluation loss
    of each run; the same but the last of models made of runs."""
    rows = {name: dataset["splits"]["rows"] for name, dataset in report["datasets"].items()}
    runs = {n: scores(r) | heldout(r) | last_loss(r) for n, r in report["runs"].items()}
    models = {name: scores(model) | heldout(model) for name, model in report["models"].items()}
    return {"rows": rows, "runs": runs, "models": models}


def scores(tuned: dict) -> dict[str, float]:
    return {row["task"]: row["tuned"]["value"] for row in tuned["comparison"] if row["tuned"]}


def heldout(tuned: dict) -> dict[str, float]:
    found = tuned["heldout"]
    if not found or found["tuned"]["loss"] is None:
        return {}
    return {f"heldout_{name}": found["tuned"][name] for name in ("loss", "perplexity")}


def last_loss(run: dict) -> dict[str, float]:
    losses = [point["eval_loss"] for point in run["curves"] if "eval_loss" in point]
    return {"eval_loss": losses[-1]} if losses else {}


def write_curve(points: list[dict], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["step", "loss"])
        table.writerows([p["step"], p["loss"]] for p in points if "loss" in p)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("reports", type=Path, nargs="+", metavar="REPORT.json")
    cli.run(main, arguments.parse_args())
