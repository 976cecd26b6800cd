"""Read a streamed dataset up to its first rows for evaluation and for benchmarks, and keep those.

python scripts/sample_stream.py --step JSON --plan P.json --rejects X.jsonl \\
    --output S.parquet --heldout H.jsonl --manifest M.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.files import read_json
from anneal.provenance.manifests import write_manifest
from anneal.streaming.sample import write_sample


def main(arguments) -> None:
    plan = {**arguments.step.settings, "shards": read_json(arguments.plan)}
    counts = write_sample(plan, arguments.output, arguments.heldout, arguments.rejects)
    outputs = [arguments.output, arguments.heldout]
    write_manifest(arguments.manifest, arguments.step, {}, outputs, **counts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("plan", "rejects", "output", "heldout", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
