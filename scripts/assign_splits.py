"""Decide for every row that was read: kept (and in which split), rejected, or dropped and why.

python scripts/assign_splits.py --step JSON --records C.parquet ... --rejects X.parquet ... \\
    --drops D.parquet --ledger L.parquet --gates G.json --manifest M.json
"""

from pathlib import Path

import pyarrow.parquet as pq

from anneal import cli
from anneal.provenance.files import whole_file, write_json
from anneal.provenance.manifests import write_manifest
from anneal.splitting.gates import check_gates, funnel, gates, split_table
from anneal.splitting.ledger import check_reject_share, decide
from anneal.splitting.overlap import cross_split_pairs


def main(arguments) -> None:
    settings = arguments.step.settings
    ledger = decide(arguments.records, arguments.rejects, arguments.drops, settings["split"])
    check_reject_share(ledger, settings["max_reject_share"])
    pairs = cross_split_pairs(arguments.records, ledger, settings["threshold"])
    results = gates(ledger, settings["split"], pairs)
    report = {"funnel": funnel(ledger), "splits": split_table(ledger), "gates": results}
    check_gates(results)
    with whole_file(arguments.ledger) as path:
        pq.write_table(ledger, path, compression="zstd")
    write_json(arguments.gates, {**report, "near_pairs": pairs})
    inputs = {path.stem: path for path in [*arguments.records, *arguments.rejects]}
    inputs["drops"] = arguments.drops
    outputs = [arguments.ledger, arguments.gates]
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, **report["splits"])


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("records", "rejects"):
        arguments.add_argument(f"--{name}", type=Path, nargs="+", required=True)
    for name in ("drops", "ledger", "gates", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
