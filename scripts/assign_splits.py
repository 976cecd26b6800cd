"""Decide for every row that was read: kept (and in which split), rejected, or dropped and why.

python scripts/assign_splits.py --step JSON --records C.parquet ... --rejects X.parquet ... \\
    --drops D.parquet --ledger L.parquet --gates G.json --manifest M.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.files import write_json
from anneal.provenance.manifests import write_manifest
from anneal.splitting.gates import check_gates, check_reject_share, funnel, gates, split_table
from anneal.splitting.ledger import dropped_rows, write_ledger
from anneal.splitting.sides import decide_sides


def main(arguments) -> None:
    settings, records, ledger = arguments.step.settings, arguments.records, arguments.ledger
    dropped = dropped_rows(records, arguments.drops)
    sides, torn = decide_sides(records, dropped, settings["split"], settings["threshold"])
    write_ledger(records, arguments.rejects, arguments.drops, sides, ledger)
    check_reject_share(ledger, settings["max_reject_share"])
    results = gates(ledger, settings["split"], len(torn))
    report = {"funnel": funnel(ledger), "splits": split_table(ledger), "gates": results}
    check_gates(results)
    write_json(arguments.gates, report)
    inputs = {path.stem: path for path in [*records, *arguments.rejects]}
    inputs["drops"] = arguments.drops
    outputs = [ledger, arguments.gates]
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, **report["splits"])


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("records", "rejects"):
        arguments.add_argument(f"--{name}", type=Path, nargs="+", action=cli.Shards, required=True)
    for name in ("drops", "ledger", "gates", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
