"""Clean one shard of records: repair text, replace personal data, score, sign.

python scripts/clean_shard.py --step JSON --records R.parquet --output C.parquet --manifest M.json
"""

from pathlib import Path

from anneal import cli
from anneal.cleaning.clean import clean_shard
from anneal.provenance.manifests import write_manifest


def main(arguments) -> None:
    counts = clean_shard(arguments.step.settings, arguments.records, arguments.output)
    inputs = {"records": arguments.records}
    write_manifest(arguments.manifest, arguments.step, inputs, [arguments.output], **counts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("records", "output", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
