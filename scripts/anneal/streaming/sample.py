"""The first rows of each side of a stream: what training is watched and judged by."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.errors import UserError
from anneal.provenance.files import whole_file
from anneal.records import FIELDS, IDENTITY, PLACE
from anneal.splitting.assign import SPLITS
from anneal.splitting.heldout import as_line
from anneal.streaming.counts import RowCounts
from anneal.streaming.rows import kept_rows

# Training rows are only looked at: the report shows their masks, the saved model is tried on them.
FIRST_ROWS = 200


def write_sample(plan: dict, output: Path, heldout: Path, rejects: Path) -> dict:
    """Write the cleaned rows of the sample, and its test rows as JSONL text.

    Reading stops where every side has its rows; a side without a share gets none.

    Args:
        plan: as for `kept_rows`, with the section `stream`.
        output: Parquet of `split`, place, category and fields, in the order of the stream.

    Returns:
        counts of what was read, as `RowCounts.facts`.
    """
    wanted = _wanted(plan)
    schema = sample_schema(plan["kind"])
    with rejects.open("wb") as refused:  # whatever the end of this step, they tell why
        counts = RowCounts(plan["max_reject_share"], refused)
        rows = pa.Table.from_pylist(list(_first(plan, counts, wanted)), schema)
    _check(rows["split"].to_pylist(), wanted, plan)
    with whole_file(output) as path:
        pq.write_table(rows, path, compression="zstd")
    test = [row for row in rows.to_pylist() if row["split"] == "test"]
    with whole_file(heldout) as path:
        path.write_bytes(b"".join(as_line(row, list(FIELDS[plan["kind"]])) for row in test))
    return counts.facts()


def sample_schema(kind: str) -> pa.Schema:
    columns = [("id", pa.string()), *PLACE, ("category", pa.string()), *FIELDS[kind].items()]
    return pa.schema([*columns, ("split", pa.string())])


def _wanted(plan: dict) -> dict[str, int]:
    stream, split = plan["stream"], plan["split"]
    most = {"train": FIRST_ROWS, "eval": stream["eval_rows"], "test": stream["test_rows"]}
    return {side: most[side] if split[side] else 0 for side in SPLITS}


def _first(plan: dict, counts: RowCounts, wanted: dict[str, int]):
    names = (*IDENTITY, "category", *FIELDS[plan["kind"]], "split")
    missing = dict(wanted)
    for batch in kept_rows(plan, counts):
        for row in batch:
            if missing[row["split"]]:
                missing[row["split"]] -= 1
                yield {name: row[name] for name in names}
        if not any(missing.values()):
            return


def _check(sides: list[str], wanted: dict[str, int], plan: dict) -> None:
    """Raises UserError for a side that has too few rows in the whole stream."""
    fewest = plan["split"]["min_rows"]
    for side in SPLITS:
        there, least = sides.count(side), min(fewest, wanted[side])
        if there < least:
            what = f"the whole stream has {there} rows for {side}, fewer than {least}"
            raise UserError("datasets.*.split", what, "see filter, and the shares and min_rows")
