"""Write the held-out rows as text, for benchmarks that ask about the dataset's own skill.

python scripts/write_heldout.py --step JSON --records C.parquet ... --ledger L.parquet \\
    --output H.jsonl --manifest M.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.manifests import write_manifest
from anneal.splitting.heldout import write_heldout


def main(arguments) -> None:
    rows = write_heldout(arguments.records, arguments.ledger, arguments.output)
    inputs = {"ledger": arguments.ledger, **{path.stem: path for path in arguments.records}}
    write_manifest(arguments.manifest, arguments.step, inputs, [arguments.output], rows=rows)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--records", type=Path, nargs="+", action=cli.Shards, required=True)
    for name in ("ledger", "output", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
