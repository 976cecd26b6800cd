"""What training needs of a stream: its plan, and the sample's rows as sequences."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anneal.errors import UserError
from anneal.provenance.files import whole_folder, write_json
from anneal.records import TOKENS, place
from anneal.splitting.write import write_split
from anneal.streaming.tokens import row_encoder

FOLDERS = {"train": "first", "eval": "eval", "test": "test"}


def write_stream(plan: dict, sample: Path, model: Path, folder: Path) -> dict:
    """Write `stream.json` and the Arrow datasets `first`, `eval` and `test` below `folder`.

    Args:
        plan: all that `training_sequences` needs; it is what `stream.json` holds.
        sample: as `write_sample` wrote it.

    Returns:
        figures of each dataset, as `write_splits` gives them.
    """
    rows = pq.read_table(sample).to_pylist()
    side = {place(row): row["split"] for row in rows}
    table = pa.Table.from_pylist(row_encoder(plan, model)(rows), TOKENS)
    sides = np.array([side[place(row)] for row in table.to_pylist()])
    settings = {**plan["tokenize"], "kind": plan["kind"], "weights": plan["weights"]}
    report = {}
    with whole_folder(folder) as partial:
        for name, part in FOLDERS.items():
            here = np.flatnonzero(sides == name)
            report[part] = write_split(table, here, settings, name, partial / part)
        write_json(partial / "stream.json", plan)
    if not report["first"]["rows"]:
        why = ", ".join(f"{n} x {reason}" for reason, n in report["first"]["set_aside"].items())
        what = f"none of the first training rows can be learned from ({why})"
        raise UserError("datasets.*", what, "see format, tokenize and the weights")
    return report
