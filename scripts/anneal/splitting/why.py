"""What became of one row: the ledger's answer, in words."""

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import dataset, field

from anneal.cleaning.texts import full_text
from anneal.errors import UserError
from anneal.records import PLACE, fields_among


def find_rows(ledger: Path, wanted: str) -> list[dict]:
    """Rows of the ledger by `id`, or by `file:line`; equal content has an equal id.

    Raises:
        UserError: the ledger has no such row.
    """
    rows = dataset(str(ledger))
    file, _, line = wanted.rpartition(":")
    if file and line.isdigit():
        whole, ending = field("file") == file, pc.ends_with(field("file"), f"/{file}")
        found = rows.to_table(filter=(whole | ending) & (field("line") == int(line)))
    else:
        found = rows.to_table(filter=field("id") == wanted)
    if not found.num_rows:
        do = "give an id of the ledger, or FILE:LINE as it stands there"
        raise UserError(ledger, f"no row '{wanted}'", do)
    return found.to_pylist()


def kept_place(ledger: Path, kept_id: str) -> str:
    """file:line of the row that was kept in the place of a duplicate."""
    rows = dataset(str(ledger)).to_table(filter=field("id") == kept_id).to_pylist()
    kept = [row for row in rows if row["status"] == "kept"]
    return "{file}:{line}".format(**(kept or rows)[0]) if rows else "a row not in this ledger"


def explain(row: dict, ledger: Path) -> str:
    """One sentence, such as `a.jsonl:3: dropped by near_duplicate (0.91), as a copy of ...`."""
    where = f"{row['file']}:{row['line']} (source {row['source']}, id {row['id']})"
    if row["status"] == "kept":
        return f"{where}: kept, in the split {row['split']}"
    value = "" if row["value"] is None else f" with the value {row['value']:g}"
    copy = f", as a copy of {kept_place(ledger, row['kept_id'])}" if row["kept_id"] else ""
    return f"{where}: {row['status']} by {row['rule']}{value}{copy}"


def cleaned_text(row: dict, shards: list[Path]) -> str | None:
    """The text of a row after cleaning, placeholders in it; None for a row that was rejected."""
    for shard in shards:
        fields = fields_among(pq.read_schema(shard).names)
        at = [(name, "==", row[name]) for name, _ in PLACE]
        for found in pq.read_table(shard, columns=fields, filters=at).to_pylist():
            return full_text(found)
    return None
