"""Compare two results files of lm-eval, from this project or from elsewhere, task by task.

python scripts/compare_results.py BASE/results_DATE.json TUNED/results_DATE.json
"""

from pathlib import Path

from anneal import cli
from anneal.errors import UserError
from anneal.evaluation.compare import compare
from anneal.evaluation.results import read_lm_eval
from anneal.provenance.files import read_json


def main(arguments) -> None:
    base, tuned = map(_read, (arguments.base, arguments.tuned))
    tasks = {name: {"forgetting": False} for name in dict.fromkeys([*base, *tuned])}
    for row in compare(base, tuned, [], [], {"max_drop": 0, "tasks": tasks}):
        print(_line(row))


def _read(path: Path) -> dict:
    try:
        return read_lm_eval(read_json(path))
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(path, "no results file of lm-eval", "name a results_DATE.json") from None


def _line(row: dict) -> str:
    values = [f"{row[side]['value']:.4f}" if row[side] else "-" for side in ("base", "tuned")]
    if "differing" in row:
        said = f"not comparable: {', '.join(row['differing'])}"
    else:
        error = "" if row["stderr"] is None else f" ± {row['stderr']:.4f}"
        said = f"{row['delta']:+.4f}{error}, {row['verdict']}"
    return f"{row['task']}: {values[0]} -> {values[1]}, {said}"


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("base", type=Path)
    arguments.add_argument("tuned", type=Path)
    cli.run(main, arguments.parse_args())
