"""Turn one shard of cleaned records into text, with the spans that are to be learned.

python scripts/format_shard.py --step JSON --records C.parquet --model DIR/manifest.json \\
    --output T.parquet --manifest M.json
"""

from pathlib import Path

from anneal import cli
from anneal.formatting.format import format_shard
from anneal.provenance.manifests import write_manifest


def main(arguments) -> None:
    settings, model = arguments.step.settings, arguments.model.parent
    counts = format_shard(settings, arguments.records, model, arguments.output)
    inputs = {"records": arguments.records, "model": arguments.model}
    write_manifest(arguments.manifest, arguments.step, inputs, [arguments.output], **counts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("records", "model", "output", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
