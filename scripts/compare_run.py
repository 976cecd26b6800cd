"""Compare a tuned model with its base, and look for forgetting.

python scripts/compare_run.py --step JSON --base-heldout BH.json --tuned-heldout TH.json \\
    [--base B.json --tuned T.json --base-samples BS.jsonl --tuned-samples TS.jsonl] \\
    [--contaminated C.parquet] --output C.json --heldout H.json --manifest M.json
"""

from pathlib import Path

import orjson
import pyarrow.parquet as pq

from anneal import cli
from anneal.errors import UserError
from anneal.evaluation.compare import compare
from anneal.evaluation.compare_heldout import compare_heldout
from anneal.provenance.files import read_json, write_json
from anneal.provenance.manifests import write_manifest
from anneal.records import counted

NAMES = ("base_heldout", "tuned_heldout", "base", "tuned", "base_samples", "tuned_samples")


def main(arguments) -> None:
    settings = arguments.step.settings
    inputs = {n: getattr(arguments, n) for n in NAMES if getattr(arguments, n)}
    inputs |= {path.stem: path for path in arguments.contaminated}
    heldout = compare_heldout(*map(read_json, list(inputs.values())[:2]), settings["kind"])
    rows = _benchmarks(arguments, settings) if settings["tasks"] else []
    forgotten = [row["task"] for row in rows if row["forgotten"]]
    if forgotten and settings["on_forgetting"] == "fail":
        do = "train less or on mixed data, or set evaluate.on_forgetting to warn"
        raise UserError("evaluate", f"the tuned model forgot: {', '.join(forgotten)}", do)
    write_json(arguments.output, rows)
    write_json(arguments.heldout, heldout)
    same = heldout["same_as_base"] and all(row["same_as_base"] for row in rows)
    outputs, facts = [arguments.output, arguments.heldout], {"forgotten": forgotten}
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, **facts, same_as_base=same)


def _benchmarks(arguments, settings: dict) -> list[dict]:
    for path in arguments.contaminated:
        removed = counted(pq.read_table(path, columns=["task"])["task"])
        for name, task in settings["tasks"].items():
            task["contamination"]["removed"] = removed.get(name, 0)
    samples = [_lines(arguments.base_samples), _lines(arguments.tuned_samples)]
    return compare(read_json(arguments.base), read_json(arguments.tuned), *samples, settings)


def _lines(path: Path) -> list[dict]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in NAMES:
        needed = name.endswith("heldout")
        arguments.add_argument(f"--{name.replace('_', '-')}", type=Path, required=needed)
    arguments.add_argument("--contaminated", type=Path, nargs="*", default=[])
    for name in ("output", "heldout", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
