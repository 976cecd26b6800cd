"""One shard of records cleaned: text repaired, personal data replaced, scores and keys added."""

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.cleaning.normalise import fold, normalise
from anneal.cleaning.pii import PiiRemover
from anneal.cleaning.quality import scores
from anneal.cleaning.similarity import signatures
from anneal.errors import UserError
from anneal.progress import progress
from anneal.provenance.digests import digest_text
from anneal.provenance.files import whole_file
from anneal.records import FIELDS, clean_schema

BATCH = 5_000


def clean_shard(settings: dict, records: Path, output: Path) -> dict:
    """Write the cleaned records, one for each record read, in the same order.

    Returns:
        counts: `records`, and `pii` replacements by kind.
    """
    kind, clean = settings["kind"], settings["clean"]
    remover = PiiRemover(clean["pii"], _key(clean["pii_key_env"]), clean["phone_region"])
    found: Counter[str] = Counter()
    rows = 0
    with whole_file(output) as path, pq.ParquetWriter(path, schema := clean_schema(kind)) as writer:
        file = pq.ParquetFile(records)
        batches = file.iter_batches(BATCH)
        for batch in progress(batches, f"clean {records.stem}", file.metadata.num_rows):
            cleaned = [_clean(row, kind, remover, clean) for row in batch.to_pylist()]
            signed = signatures([full_text(row) for row in cleaned])
            for row, signature in zip(cleaned, signed, strict=True):
                row["signature"] = signature
                found.update(row["pii"])
            writer.write_batch(pa.RecordBatch.from_pylist(cleaned, schema))
            rows += len(cleaned)
    return {"records": rows, "pii": dict(sorted(found.items()))}


def full_text(row: dict) -> str:
    """All text of a record, field after field."""
    return "\n".join(text for _, text in _parts(row))


def prompt_and_response(row: dict) -> tuple[str, str]:
    """What is given and what is to be learned: the last assistant turn answers all before it."""
    if "messages" not in row:
        return f"{row['instruction']}\n{row['input']}", row["output"]
    turns = row["messages"]
    last = max((i for i, t in enumerate(turns) if t["role"] == "assistant"), default=len(turns))
    answer = turns[last]["content"] if last < len(turns) else ""
    return "\n".join(f"{t['role']}: {t['content']}" for t in turns[:last]), answer


def _clean(row: dict, kind: str, remover: PiiRemover, settings: dict) -> dict:
    found: Counter[str] = Counter()

    def repair(text: str) -> str:
        text, counts = remover.clean(normalise(text, settings["unescape_html"]))
        found.update(counts)
        return text

    for name in FIELDS[kind]:
        value = row[name]
        if name == "messages":
            row[name] = [{**turn, "content": repair(turn["content"])} for turn in value]
        else:
            row[name] = repair(value)
    prompt, response = prompt_and_response(row)
    text = full_text(row)
    return {
        **row,
        "content_key": digest_text(fold(text)),
        "prompt_key": digest_text(fold(prompt)),
        "scores": scores(text, response),
        "pii": dict(sorted(found.items())),
    }


def _parts(row: dict) -> list[tuple[str, str]]:
    if "messages" in row:
        return [(turn["role"], turn["content"]) for turn in row["messages"]]
    return [(name, row[name]) for name in FIELDS["instruction"]]


def _key(variable: str | None) -> bytes:
    if variable is None:
        return b""
    if not os.environ.get(variable):
        raise UserError(f"${variable}", "is not set", "export it: it keys the PII placeholders")
    return os.environ[variable].encode()
