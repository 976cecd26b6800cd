"""Rows a processor second of rensa alone, from texts to rows that share a band with another.

    .venv-bench/bin/python benchmarks/peers/rensa_lsh.py rows.jsonl

112 permutations in 28 bands, by its fastest way for many rows: matrices of signatures.
"""

import json
import sys
import time
from pathlib import Path

from rensa import RMinHash, RMinHashLSH

PERMUTATIONS, BANDS, WORDS, SEED, BATCH = 112, 28, 5, 42, 10_000


def main(file: Path) -> None:
    texts = list(map(_text, file.open(encoding="utf-8")))
    started = time.process_time()
    matrices = []
    for at in range(0, len(texts), BATCH):
        sets = [_shingles(text) for text in texts[at : at + BATCH]]
        matrices.append(RMinHash.digest_matrix_from_token_sets(sets, PERMUTATIONS, SEED))
    signed = time.process_time() - started
    index = RMinHashLSH(0.85, PERMUTATIONS, BANDS)
    for number, matrix in enumerate(matrices):
        index.insert_matrix(matrix, number * BATCH)
    flags = [flag for matrix in matrices for flag in index.query_duplicate_flags_matrix(matrix)]
    whole = time.process_time() - started
    rates = {"candidates": len(texts) / whole, "signatures": len(texts) / signed}
    print(json.dumps({**rates, "flagged": sum(flags)}))


def _shingles(text: str) -> list[str]:
    words = text.lower().split()
    return [" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)]


def _text(line: str) -> str:
    row = json.loads(line)
    return f"{row['question']}\n\n{row['answer']}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
