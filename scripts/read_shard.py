"""Read one piece of a source: good rows become records, bad rows are set aside with a reason.

python scripts/read_shard.py --step JSON --records R.parquet --rejects X.parquet --manifest M.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.manifests import write_manifest
from anneal.sources.read import read_shard


def main(arguments) -> None:
    step = arguments.step
    counts = read_shard(step.settings, step.sources, arguments.records, arguments.rejects)
    outputs = [arguments.records, arguments.rejects]
    where = step.sources["file"]
    made = {"generated": where} if step.sources["format"] == "generated" else {}
    write_manifest(arguments.manifest, step, made, outputs, **counts)
    if not counts["read"]:
        cli.log.warning("%s: no rows", where)
    if counts["rejected"]:
        cli.log.warning("%s: set aside %d of %d rows", where, counts["rejected"], counts["read"])


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("records", "rejects", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
