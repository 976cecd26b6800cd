"""The tokenized rows of each split gathered, and packed into sequences where that is asked for."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import dataset

from anneal.arrow_dataset import read_arrow_dataset, write_arrow_dataset
from anneal.duck import connect
from anneal.errors import UserError
from anneal.provenance.files import whole_folder
from anneal.records import PAIR_TOKENS, PLACE, counted
from anneal.splitting.assign import SPLITS
from anneal.splitting.mixture import copies
from anneal.tokenizing.packing import pack, position_ids

PAIR_COLUMNS = ("id", "prompt_ids", "chosen_ids", "rejected_ids", "length")
SEQUENCE = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int32())),
        ("position_ids", pa.list_(pa.int32())),
        ("length", pa.int32()),
        ("ids", pa.list_(pa.string())),
    ]
)
PAIR = pa.schema([PAIR_TOKENS.field(n) for n in PAIR_COLUMNS])
BATCH = 500
WINDOW = 100_000
BUCKETS = 40


def write_splits(tokens: list[Path], ledger: Path, settings: dict, folder: Path) -> dict:
    """Write `train`, `eval` and `test` below `folder`, each an Arrow dataset of sequences.

    Args:
        tokens: token folders of all shards, in order.
        settings: `kind`, `packing`, `max_length`, and the `weights` of the sources.

    Returns:
        per split: rows (counted as often as they are taken), sequences, tokens, supervised
        tokens, set-aside rows by reason, and a histogram of row lengths.
    """
    table = pa.concat_tables([read_arrow_dataset(path) for path in tokens])
    split = _split_of(table, ledger)
    report = {}
    with whole_folder(folder) as partial:
        for name in SPLITS:
            here = np.flatnonzero(split == name)
            report[name] = write_split(table, here, settings, name, partial / name)
    if not report["train"]["rows"]:
        why = ", ".join(f"{n} x {reason}" for reason, n in report["train"]["set_aside"].items())
        raise UserError("datasets.*", f"no training row is left ({why})", "see format, tokenize")
    return report


def write_split(table: pa.Table, here: np.ndarray, settings: dict, name: str, folder: Path) -> dict:
    """Write the rows at the places `here` as a dataset of sequences; returns its figures."""
    usable = here[pc.is_null(table["problem"]).to_numpy()[here]]
    taken = _weighted(table, usable, settings["weights"]) if name == "train" else usable
    report = _write(table, taken, settings, name, folder)
    return {**report, "set_aside": counted(table["problem"].take(here).drop_null())}


def _split_of(table: pa.Table, ledger: Path) -> np.ndarray:
    """Split of each tokenized row; empty for rows that were dropped."""
    places = table.select([name for name, _ in PLACE])
    places = places.append_column("n", pa.array(np.arange(table.num_rows)))
    split = np.full(table.num_rows, "", "U5")
    with connect() as db:
        db.register("places", places)
        db.register("ledger", dataset(str(ledger)))
        sql = "SELECT n, split FROM places JOIN ledger USING (source, file, line) WHERE split != ''"
        for batch in db.sql(sql).to_arrow_reader():
            split[batch["n"].to_numpy()] = batch["split"].to_numpy(zero_copy_only=False)
    return split


def _weighted(table: pa.Table, rows: np.ndarray, weights: dict[str, float]) -> np.ndarray:
    """Training rows, each as often as the weight of its source says."""
    if set(weights.values()) == {1.0}:
        return rows
    times = [
        copies(row["id"], weights[row["source"]])
        for start in range(0, len(rows), WINDOW)
        for row in table.select(["id", "source"]).take(rows[start : start + WINDOW]).to_pylist()
    ]
    return np.repeat(rows, times)


def _write(table: pa.Table, rows: np.ndarray, settings: dict, name: str, folder: Path) -> dict:
    lengths = table["length"].to_numpy()[rows]
    if settings["kind"] == "preference":
        count = write_arrow_dataset(folder, PAIR, _pairs(table, rows))
    else:
        sequences = row_numbers(lengths, settings, name)
        count = write_arrow_dataset(folder, SEQUENCE, _batches(table, rows, sequences))
    supervised = table["supervised"].to_numpy()[rows]
    counts, edges = np.histogram(lengths, bins=BUCKETS, range=(0, settings["max_length"]))
    return {
        "rows": len(rows),
        "sequences": count,
        "tokens": int(lengths.sum()),
        "supervised": int(supervised.sum()),
        "learned_share": _shares(supervised, lengths),
        "lengths": {"counts": counts.tolist(), "edges": np.round(edges, 2).tolist()},
    }


def _shares(supervised: np.ndarray, lengths: np.ndarray) -> dict:
    """Share of learned tokens in a row: smallest, median, and how many rows learn nothing."""
    if not len(lengths):
        return {"min": 0.0, "median": 0.0, "rows_at_zero": 0}
    shares = supervised / lengths
    low, middle = float(shares.min()), float(np.median(shares))
    return {"min": low, "median": middle, "rows_at_zero": int((supervised == 0).sum())}


def row_numbers(lengths: np.ndarray, settings: dict, name: str) -> Iterator[list[int]]:
    """Rows of each sequence. Test rows stay alone, and so do bare prompts.

    Rows are packed a window at a time: best-fit gains nothing beyond, and memory stays flat.
    """
    if not settings["packing"] or settings["kind"] == "prompts" or name == "test":
        yield from ([row] for row in range(len(lengths)))
        return
    for start in range(0, len(lengths), WINDOW):
        for sequence in pack(lengths[start : start + WINDOW], settings["max_length"]):
            yield [start + row for row in sequence]


def _pairs(table: pa.Table, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    yield from table.select(PAIR.names).take(rows).combine_chunks().to_batches(BATCH)


def _batches(table: pa.Table, rows: np.ndarray, sequences) -> Iterator[pa.RecordBatch]:
    while part := list(islice(sequences, BATCH)):
        picked = table.take(rows[[i for sequence in part for i in sequence]])
        yield pa.RecordBatch.from_pylist(list(_joined(picked, part)), SEQUENCE)


def _joined(picked: pa.Table, sequences: list) -> Iterator[dict]:
    at = 0
    ids, tokens, labels = picked["id"], picked["input_ids"], picked["labels"]
    for sequence in sequences:
        here = range(at, at := at + len(sequence))
        yield joined(
            [ids[i].as_py() for i in here],
            [tokens[i].values.to_numpy() for i in here],
            [labels[i].values.to_numpy() for i in here],
        )


def joined(ids: list[str], tokens: list[np.ndarray], labels: list[np.ndarray]) -> dict:
    """Rows as one row of `SEQUENCE`."""
    lengths = [len(piece) for piece in tokens]
    return {
        "input_ids": np.concatenate(tokens),
        "labels": np.concatenate(labels),
        "position_ids": position_ids(lengths),
        "length": sum(lengths),
        "ids": ids,
    }
