"""Compare a tuned model with its base, and look for forgetting.

python scripts/compare_run.py --step JSON --base B.json --tuned T.json \\
    --base-samples BS.jsonl --tuned-samples TS.jsonl --output C.json --manifest M.json
"""

from pathlib import Path

import orjson

from anneal import cli
from anneal.errors import UserError
from anneal.evaluation.compare import compare
from anneal.provenance.files import read_json, write_json
from anneal.provenance.manifests import write_manifest


def main(arguments) -> None:
    base, tuned = read_json(arguments.base), read_json(arguments.tuned)
    samples = [_lines(arguments.base_samples), _lines(arguments.tuned_samples)]
    rows = compare(base, tuned, *samples, arguments.step.settings)
    forgotten = [row["task"] for row in rows if row["forgotten"]]
    if forgotten and arguments.step.settings["on_forgetting"] == "fail":
        do = "train less or on mixed data, or set evaluate.on_forgetting to warn"
        raise UserError("evaluate", f"the tuned model forgot: {', '.join(forgotten)}", do)
    write_json(arguments.output, rows)
    names = ("base", "tuned", "base_samples", "tuned_samples")
    inputs = {name: getattr(arguments, name) for name in names}
    write_manifest(
        arguments.manifest, arguments.step, inputs, [arguments.output], forgotten=forgotten
    )


def _lines(path: Path) -> list[dict]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("base", "tuned", "base-samples", "tuned-samples", "output", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
