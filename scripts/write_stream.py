"""Write what training needs of a streamed dataset: its plan, and the sample as sequences.

python scripts/write_stream.py --step JSON --plan P.json --sample S.parquet \\
    --model DIR/manifest.json --manifest DIR/manifest.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.files import read_json
from anneal.provenance.manifests import write_manifest
from anneal.streaming.write import write_stream


def main(arguments) -> None:
    step, folder = arguments.step, arguments.manifest.parent
    # with the digests of its sources: other sources make another fingerprint of training
    plan = {**step.settings, "shards": read_json(arguments.plan), "sources": step.sources}
    report = write_stream(plan, arguments.sample, arguments.model.parent, folder)
    inputs = {"sample": arguments.sample, "model": arguments.model}
    write_manifest(arguments.manifest, step, inputs, [folder], **report)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("plan", "sample", "model", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
