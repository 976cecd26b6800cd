"""Decide which rows of a dataset are dropped: by the filters first, then as duplicates.

python scripts/select_rows.py --step JSON --records C1.parquet C2.parquet ... \\
    --output D.parquet --manifest M.json
"""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal import cli
from anneal.cleaning.duplicates import find_duplicates
from anneal.cleaning.filters import filtered_rows
from anneal.provenance.files import whole_file
from anneal.provenance.manifests import write_manifest
from anneal.records import DROP


def main(arguments) -> None:
    settings = arguments.step.settings
    filtered = filtered_rows(arguments.records, settings["filter"])
    skip = {(row["file"], row["line"]) for row in filtered}
    dropped = filtered + find_duplicates(arguments.records, skip, **settings["deduplicate"])
    with whole_file(arguments.output) as path:
        pq.write_table(pa.Table.from_pylist(dropped, DROP), path, compression="zstd")
    inputs = {path.stem: path for path in arguments.records}
    rules = dict(sorted(Counter(row["rule"] for row in dropped).items()))
    write_manifest(arguments.manifest, arguments.step, inputs, [arguments.output], **rules)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--records", type=Path, nargs="+", required=True)
    for name in ("output", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
