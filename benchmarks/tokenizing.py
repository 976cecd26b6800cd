"""Formatting and tokenizing with masks, against the bare tokenizer and TRL's SFT preparation.

    python benchmarks/tokenizing.py [--rows 7473] [--input gsm8k.jsonl] [--json out.json]

Each figure is the best of three runs in this process, in rows a second. The input is a JSONL of
question and answer, or generated rows of about the same size.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import pyarrow as pa
import pyarrow.parquet as pq

from anneal.config.prepare import Format
from anneal.formatting.format import format_shard
from anneal.records import clean_schema
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.tokenize import tokenize_shard

TEXT = "there are seven boxes with twelve pencils each and she gives 48 of them to 3 friends"


def main() -> None:
    arguments = parse()
    rows = read(arguments)
    folder = Path(tempfile.mkdtemp())
    records, texts = folder / "records.parquet", folder / "texts.parquet"
    pq.write_table(pa.Table.from_pylist(rows, clean_schema("instruction")), records)
    settings = {**Format(system="").model_dump(), "kind": "instruction"}
    limits = {"kind": "instruction", "max_length": 4096, "truncation": "drop"}
    model = arguments.model
    times = {
        "format": best(lambda: format_shard(settings, records, model, texts)),
        "tokenize": best(lambda: tokenize_shard(limits, texts, model, folder / "ids")),
        "bare": best(lambda: bare(model, pq.read_table(texts)["text"].to_pylist())),
    }
    times |= {f"trl, {n} process": best(lambda n=n: trl(model, rows, n), 1) for n in (1, 2)}
    ours = times["format"] + times["tokenize"]
    found = {name: round(len(rows) / seconds, 1) for name, seconds in times.items()}
    found |= {"rows": len(rows), "format + tokenize": round(len(rows) / ours, 1)}
    found["of bare"] = round(times["bare"] / times["tokenize"], 2)
    found["over trl, 1 process"] = round(times["trl, 1 process"] / ours, 2)
    found["over trl, 2 process"] = round(times["trl, 2 process"] / ours, 2)
    for name, value in found.items():
        print(f"{name:24} {value:>12}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder with a tokenizer")
    parser.add_argument("--input", type=Path, help="JSONL of question and answer")
    parser.add_argument("--rows", type=int, default=7473)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def read(arguments) -> list[dict]:
    if arguments.input:
        lines = arguments.input.read_text("utf-8").splitlines()[: arguments.rows]
        pairs = [(row["question"], row["answer"]) for row in map(json.loads, lines)]
    else:
        pick = random.Random(7)
        text = lambda n: " ".join(pick.choices(TEXT.split(), k=n))  # noqa: E731
        pairs = [(text(45), text(55)) for _ in range(arguments.rows)]
    place = {"source": "s", "file": "f", "category": "none", "extra": "{}"}
    return [
        {**place, "id": str(i), "line": i, "instruction": q, "input": "", "output": a}
        for i, (q, a) in enumerate(pairs)
    ]


def bare(model: Path, texts: list[str]) -> None:
    Tokenizer(model).backend.encode_batch_fast(texts, add_special_tokens=False)


def trl(model: Path, rows: list[dict], processes: int) -> None:
    """TRL's own preparation of a prompt-completion dataset, as its trainer does it."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    data = Dataset.from_list(
        [
            {
                "prompt": [{"role": "user", "content": row["instruction"]}],
                "completion": [{"role": "assistant", "content": row["output"]}],
            }
            for row in rows
        ]
    )
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder,
            max_length=4096,
            dataset_num_proc=processes if processes > 1 else None,
            report_to="none",
            use_cpu=True,
            bf16=False,
        )
        loaded = AutoModelForCausalLM.from_pretrained(model)
        loading = time.perf_counter() - started
        tokenizer = AutoTokenizer.from_pretrained(model)
        SFTTrainer(model=loaded, args=config, train_dataset=data, processing_class=tokenizer)
    trl.loading = loading


def best(work, times: int = 3) -> float:
    """Seconds of the fastest of some runs; what only loads a model is taken off."""
    found = []
    for _ in range(times):
        trl.loading = 0.0
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started - trl.loading)
    return min(found)


if __name__ == "__main__":
    main()
