"""Gather the tokenized rows of train, eval and test, and pack them into sequences.

python scripts/write_splits.py --step JSON --tokens DIR/manifest.json ... --ledger L.parquet \\
    --manifest DIR/manifest.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.manifests import write_manifest
from anneal.splitting.write import write_splits


def main(arguments) -> None:
    folder = arguments.manifest.parent
    shards = [path.parent for path in arguments.tokens]
    report = write_splits(shards, arguments.ledger, arguments.step.settings, folder)
    inputs = {path.parent.name: path for path in arguments.tokens}
    inputs["ledger"] = arguments.ledger
    write_manifest(arguments.manifest, arguments.step, inputs, [folder], **report)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--tokens", type=Path, nargs="+", action=cli.Shards, required=True)
    for name in ("ledger", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
