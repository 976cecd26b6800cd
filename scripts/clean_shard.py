"""Clean one shard of records: repair text, replace personal data, score, sign.

python scripts/clean_shard.py --step JSON --records R.parquet --output C.parquet \\
    --review C.review.json --manifest M.json
"""

from pathlib import Path

from anneal import cli
from anneal.cleaning.clean import clean_shard
from anneal.provenance.files import write_json
from anneal.provenance.manifests import write_manifest


def main(arguments) -> None:
    counts, review = clean_shard(arguments.step.settings, arguments.records, arguments.output)
    write_json(arguments.review, review)
    inputs, outputs = {"records": arguments.records}, [arguments.output, arguments.review]
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, **counts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("records", "output", "review", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
