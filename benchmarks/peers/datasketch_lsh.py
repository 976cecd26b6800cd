"""Rows a processor second of datasketch's MinHash LSH, from texts to copies of earlier rows.

    .venv-bench/bin/python benchmarks/peers/datasketch_lsh.py rows.jsonl

112 permutations in 28 bands of 4, signed in bulk, hashed by xxhash, which is faster than its own
SHA-1. `candidates` stops at rows that share a band with an earlier one; `verified` compares their
real 5-grams. `documented` signs as its first example does, one update for each 5-gram.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import xxhash
from datasketch import MinHash, MinHashLSH

PERMUTATIONS, BANDS, WORDS, THRESHOLD = 112, 28, 5, 0.85
FEW = 1_000


def main(file: Path) -> None:
    texts = list(map(_text, file.open(encoding="utf-8")))
    started = time.process_time()
    sets = [_shingles(text) for text in texts]
    candidates = list(_candidates(_signed_in_bulk(sets)))
    seconds = time.process_time() - started
    found = _verified(candidates, sets)
    verified = time.process_time() - started
    rates = {"candidates": len(texts) / seconds, "verified": len(texts) / verified}
    print(json.dumps({**rates, "documented": _documented(texts[:FEW]), "found": len(found)}))


def _signed_in_bulk(sets: list[set[str]]) -> Iterator[MinHash]:
    tokens = ([s.encode() for s in found] for found in sets)
    return MinHash.generator(tokens, num_perm=PERMUTATIONS, hashfunc=xxhash.xxh32_intdigest)


def _candidates(signed: Iterable[MinHash]) -> Iterator[tuple[int, list[int]]]:
    index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, PERMUTATIONS // BANDS))
    for number, signature in enumerate(signed):
        if near := index.query(signature):
            yield number, near
        index.insert(number, signature, check_duplication=False)


def _verified(candidates: list[tuple[int, list[int]]], sets: list[set[str]]) -> set[int]:
    dropped: set[int] = set()
    for later, near in candidates:
        kept = (earlier for earlier in sorted(near) if earlier not in dropped)
        if any(_jaccard(sets[later], sets[earlier]) >= THRESHOLD for earlier in kept):
            dropped.add(later)
    return dropped


def _documented(texts: list[str]) -> float:
    started = time.process_time()
    list(_candidates(_signed_one_by_one(_shingles(text)) for text in texts))
    return len(texts) / (time.process_time() - started)


def _signed_one_by_one(shingles: set[str]) -> MinHash:
    signature = MinHash(num_perm=PERMUTATIONS)
    for shingle in shingles:
        signature.update(shingle.encode())
    return signature


def _jaccard(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b)


def _shingles(text: str) -> set[str]:
    words = text.lower().split()
    return {" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}


def _text(line: str) -> str:
    row = json.loads(line)
    return f"{row['question']}\n\n{row['answer']}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
