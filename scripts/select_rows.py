"""Decide which rows of a dataset are dropped: by filters, as contaminated, then as duplicates.

python scripts/select_rows.py --step JSON --records C1.parquet C2.parquet ... \\
    --output D.parquet --contaminated X.parquet --manifest M.json
"""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal import cli
from anneal.cleaning.contamination import contaminated_rows
from anneal.cleaning.duplicates import clusters, find_duplicates
from anneal.cleaning.filters import filtered_rows
from anneal.provenance.files import whole_file
from anneal.provenance.manifests import write_manifest
from anneal.records import DROP, MATCH, place


def main(arguments) -> None:
    settings = arguments.step.settings
    duplicates = dict(settings["deduplicate"])
    warn_share = duplicates.pop("warn_share")
    dropped = filtered_rows(arguments.records, settings["filter"])
    contaminated, matches = contaminated_rows(
        arguments.records, places(dropped), settings["tests"], settings["decontaminate"]
    )
    dropped += contaminated
    dropped += find_duplicates(arguments.records, places(dropped), **duplicates)
    write(dropped, DROP, arguments.output)
    write(matches, MATCH, arguments.contaminated)
    inputs = {path.stem: path for path in arguments.records}
    outputs = [arguments.output, arguments.contaminated]
    facts = {
        "rules": dict(sorted(Counter(row["rule"] for row in dropped).items())),
        "clusters": clusters(dropped),
        "duplicate_share": duplicate_shares(arguments.records, dropped, warn_share),
    }
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, **facts)


def places(rows: list[dict]) -> set[tuple[str, str, int]]:
    return {place(row) for row in rows}


def write(rows: list[dict], schema: pa.Schema, output: Path) -> None:
    with whole_file(output) as path:
        pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="zstd")


def duplicate_shares(records: list[Path], dropped: list[dict], warn_share: float) -> dict:
    """Share of each source that was removed as duplicates; a warning above the limit."""
    read: Counter[str] = Counter()
    for path in records:
        read.update(pq.read_table(path, columns=["source"])["source"].to_pylist())
    gone = Counter(row["source"] for row in dropped if row["rule"].endswith("_duplicate"))
    shares = {source: round(gone[source] / read[source], 4) for source in sorted(read)}
    for source, share in shares.items():
        if share > warn_share:
            text = "%.0f%% of source '%s' are duplicates; see the clusters in the manifest"
            cli.log.warning(text, 100 * share, source)
    return shares


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--records", type=Path, nargs="+", required=True)
    for name in ("output", "contaminated", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
