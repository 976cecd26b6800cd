"""Decide which rows of a dataset are dropped: by filters, as contaminated, then as duplicates.

python scripts/select_rows.py --step JSON --records C1.parquet C2.parquet ... \\
    --output D.parquet --contaminated X.parquet --manifest M.json
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anneal import cli
from anneal.cleaning.contamination import contaminated_rows
from anneal.cleaning.duplicates import clusters, find_duplicates
from anneal.cleaning.filters import filtered_rows
from anneal.provenance.files import whole_file
from anneal.provenance.manifests import write_manifest
from anneal.records import counted


def main(arguments) -> None:
    settings, records = arguments.step.settings, arguments.records
    duplicates = dict(settings["deduplicate"])
    warn_share = duplicates.pop("warn_share")
    skip = np.zeros(sum(pq.read_metadata(path).num_rows for path in records), bool)
    filtered = filtered_rows(records, settings["filter"])
    skip[filtered["row"]] = True
    contaminated, matches = contaminated_rows(
        records, skip, settings["tests"], settings["decontaminate"]
    )
    skip[contaminated["row"]] = True
    copies = find_duplicates(records, skip, **duplicates)
    dropped = pa.concat_tables([filtered, contaminated, copies])
    write(dropped, arguments.output)
    write(matches, arguments.contaminated)
    outputs = [arguments.output, arguments.contaminated]
    facts = {
        "rules": counted(dropped["rule"]),
        "clusters": clusters(copies),
        "duplicate_share": duplicate_shares(records, copies, warn_share),
    }
    inputs = {path.stem: path for path in records}
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, **facts)


def write(rows: pa.Table, output: Path) -> None:
    with whole_file(output) as path:
        pq.write_table(rows, path, compression="zstd")


def duplicate_shares(records: list[Path], copies: pa.Table, warn_share: float) -> dict:
    """Share of each source that was removed as duplicates; a warning above the limit."""
    read: dict[str, int] = {}
    for path in records:
        for source, rows in counted(pq.read_table(path, columns=["source"])["source"]).items():
            read[source] = read.get(source, 0) + rows
    gone = counted(copies["source"])
    shares = {source: round(gone.get(source, 0) / read[source], 4) for source in sorted(read)}
    for source, share in shares.items():
        if share > warn_share:
            text = "%.0f%% of source '%s' are duplicates; see the clusters in the manifest"
            cli.log.warning(text, 100 * share, source)
    return shares


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--records", type=Path, nargs="+", action=cli.Shards, required=True)
    for name in ("output", "contaminated", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
