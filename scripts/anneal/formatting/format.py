"""One shard of cleaned records into text with supervised spans."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.formatting.pairs import Formatted, format_pair
from anneal.formatting.styles import Formatter, Problem
from anneal.progress import progress
from anneal.provenance.files import whole_file
from anneal.records import IDENTITY, TEXT, fields_among, identity
from anneal.tokenizer import Tokenizer

BATCH = 5_000


def format_shard(settings: dict, records: Path, model: Path, output: Path) -> dict:
    """Write one text for each record, in the same order; a record without one carries `problem`.

    Returns:
        counts: `rows`, `problems` by reason, and `folded` conversations.
    """
    formatter = Formatter(settings, Tokenizer(model))
    fields = fields_among(pq.read_schema(records).names)
    columns = [*IDENTITY, "category", *fields]
    problems: Counter[str] = Counter()
    rows = 0
    with whole_file(output) as path, pq.ParquetWriter(path, TEXT, compression="zstd") as writer:
        file = pq.ParquetFile(records)
        batches = file.iter_batches(BATCH, columns=columns)
        for batch in progress(batches, f"format {records.stem}", file.metadata.num_rows):
            texts = format_rows(formatter, batch.to_pylist())
            problems.update(t["problem"] for t in texts if t["problem"])
            writer.write_batch(pa.RecordBatch.from_pylist(texts, TEXT))
            rows += len(texts)
    return {
        "rows": rows,
        "problems": dict(sorted(problems.items())),
        "folded": formatter.folded,
    }


def format_rows(formatter: Formatter, rows: list[dict]) -> list[dict]:
    """Rows of `records.TEXT`, one for each cleaned record."""
    return [dict.fromkeys(TEXT.names) | _format(formatter, row) for row in rows]


def _format(formatter: Formatter, row: dict) -> dict:
    try:
        if "chosen" not in row:
            return {**identity(row), **_text(formatter.format(row))}
        chosen, rejected = format_pair(formatter, row)
        return {**identity(row), **_text(chosen), "rejected": _text(rejected)}
    except Problem as problem:
        return {**identity(row), "problem": str(problem)}


def _text(formatted: Formatted) -> dict:
    text, spans, literals = formatted
    return {"text": text, "spans": _places(spans), "literals": _places(literals)}


def _places(spans: list[tuple[int, int]]) -> list[dict]:
    return [{"start": start, "end": end} for start, end in spans]
