"""Rows a second of the bare `encode_batch_fast`, with all cores and without reading or writing.

.venv-bench/bin/python benchmarks/peers/bare_tokenizer.py texts.jsonl MODEL
"""

import json
import sys
import time
from pathlib import Path

from tokenizers import Tokenizer

BATCH = 2_000


def main(file: Path, model: Path) -> None:
    texts = [json.loads(line) for line in file.open(encoding="utf-8")]
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    started = time.perf_counter()
    for at in range(0, len(texts), BATCH):
        tokenizer.encode_batch_fast(texts[at : at + BATCH], add_special_tokens=False)
    print(json.dumps({"encode": len(texts) / (time.perf_counter() - started)}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
