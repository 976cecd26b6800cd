"""One shard of texts into an Arrow dataset of token ids and labels."""

from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.arrow_dataset import write_arrow_dataset
from anneal.progress import progress
from anneal.provenance.files import whole_folder
from anneal.records import PAIR_TOKENS, TOKENS
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.encode import Encoder
from anneal.tokenizing.pairs import encode_pairs

BATCH = 2_000


def tokenize_shard(settings: dict, texts: Path, model: Path, folder: Path) -> dict:
    """Write the tokenized rows in the order of the texts; what was set aside carries `problem`.

    Returns:
        counts: `rows`, `tokens`, `supervised`, `problems` by reason, `resegmented` rows.
    """
    kind, limits = settings["kind"], (settings["max_length"], settings["truncation"])
    encoder = Encoder(Tokenizer(model), *limits, learns=kind != "prompts")
    encode = partial(encode_pairs, encoder) if kind == "preference" else encoder.encode
    schema = PAIR_TOKENS if kind == "preference" else TOKENS
    problems: Counter[str] = Counter()
    counts = {"tokens": 0, "supervised": 0}

    def batches():
        file = pq.ParquetFile(texts)
        read = file.iter_batches(BATCH)
        for batch in progress(read, f"tokenize {texts.stem}", file.metadata.num_rows):
            rows = encode(batch.to_pylist())
            problems.update(row["problem"] for row in rows if row["problem"])
            counts["tokens"] += sum(row["length"] for row in rows)
            counts["supervised"] += sum(row["supervised"] for row in rows)
            yield pa.RecordBatch.from_pylist(rows, schema)

    with whole_folder(folder) as building:
        counts["rows"] = write_arrow_dataset(building, schema, batches())
    return {
        **counts,
        "problems": dict(sorted(problems.items())),
        "resegmented": encoder.resegmented,
    }
