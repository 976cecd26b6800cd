"""One shard of records cleaned: text repaired, personal data replaced, scores and keys added."""

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.cleaning.language import language, script
from anneal.cleaning.normalise import fold, normalise
from anneal.cleaning.pii import PiiRemover
from anneal.cleaning.quality import scores
from anneal.cleaning.similarity import signatures
from anneal.cleaning.texts import full_text, prompt_and_response, repaired
from anneal.errors import UserError
from anneal.progress import progress
from anneal.provenance.digests import digest_text
from anneal.provenance.files import whole_file
from anneal.records import clean_schema

BATCH = 5_000


def clean_shard(settings: dict, records: Path, output: Path) -> tuple[dict, dict]:
    """Write the cleaned records, one for each record read, in the same order.

    Returns:
        counts: `records`, and `pii` replacements by kind; and a few masked contexts of each kind
        for a person to review.
    """
    kind, clean = settings["kind"], settings["clean"]
    remover = pii_remover(clean)
    found: Counter[str] = Counter()
    rows = 0
    with whole_file(output) as path, pq.ParquetWriter(path, schema := clean_schema(kind)) as writer:
        file = pq.ParquetFile(records)
        batches = file.iter_batches(BATCH)
        for batch in progress(batches, f"clean {records.stem}", file.metadata.num_rows):
            cleaned = clean_rows(batch.to_pylist(), kind, remover, clean)
            signed = signatures([full_text(row) for row in cleaned])
            for row, signature in zip(cleaned, signed, strict=True):
                row["signature"] = signature
                found.update(row["pii"])
            writer.write_batch(pa.RecordBatch.from_pylist(cleaned, schema))
            rows += len(cleaned)
    return {"records": rows, "pii": dict(sorted(found.items()))}, remover.review


def pii_remover(clean: dict) -> PiiRemover:
    """What replaces personal data; `clean` is the section of that name."""
    return PiiRemover(clean["pii"], _key(clean["pii_key_env"]), clean["phone_region"])


def clean_rows(rows: list[dict], kind: str, remover: PiiRemover, clean: dict) -> list[dict]:
    """Cleaned records with keys, scores and PII counts, and without signatures."""
    return [_clean(row, kind, remover, clean) for row in rows]


def _clean(row: dict, kind: str, remover: PiiRemover, settings: dict) -> dict:
    found: Counter[str] = Counter()

    def repair(text: str) -> str:
        text, counts = remover.clean(normalise(text, settings["unescape_html"]))
        found.update(counts)
        return text

    row = repaired(row, kind, repair)
    prompt, response = prompt_and_response(row)
    text = full_text(row)
    return {
        **row,
        "content_key": digest_text(fold(text)),
        "prompt_key": digest_text(fold(prompt)),
        "scores": {**scores(text, response), **_tongue(text, settings["language"])},
        "pii": dict(sorted(found.items())),
    }


def _tongue(text: str, wanted: bool) -> dict:
    code, score = language(text) if wanted and text else (None, None)
    return {"script": script(text), "language": code, "language_score": score}


def _key(variable: str | None) -> bytes:
    if variable is None:
        return b""
    if not os.environ.get(variable):
        raise UserError(f"${variable}", "is not set", "export it: it keys the PII placeholders")
    return os.environ[variable].encode()
