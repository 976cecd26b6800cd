"""Tokenize one shard of texts; everything that is not to be learned is masked with -100.

python scripts/tokenize_shard.py --step JSON --texts T.parquet --model DIR/manifest.json \\
    --manifest DIR/manifest.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.manifests import write_manifest
from anneal.tokenizing.tokenize import tokenize_shard


def main(arguments) -> None:
    folder = arguments.manifest.parent
    settings, model = arguments.step.settings, arguments.model.parent
    counts = tokenize_shard(settings, arguments.texts, model, folder)
    inputs = {"texts": arguments.texts, "model": arguments.model}
    write_manifest(arguments.manifest, arguments.step, inputs, [folder], **counts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("texts", "model", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
