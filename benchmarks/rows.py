"""Rows to measure with: question and answer, about 0.7 kB, the same for the same count.

    python benchmarks/rows.py --rows 100000 --output rows.jsonl

Sentences in paragraphs, with numbers in each row and personal data in one of twenty. One row in
ten is a near copy of the row before it: its last two words differ.
"""

import argparse
import json
import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

COMMON = [
    *("the", "of", "and", "to", "in", "is", "it", "that", "was", "for"),
    *("on", "are", "with", "as", "his", "they", "be", "at", "this", "have"),
]
PERSONAL = ("ann.lee@example.com", "+1 202-555-0143", "203.0.113.77", "4111 1111 1111 1111")


def write_rows(path: Path, rows: int) -> Path:
    """Write a JSONL of `question` and `answer`, unless it is there already."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in generated(rows))
        partial.replace(path)
    return path


def read_texts(path: Path, most: int | None = None) -> list[str]:
    """Question and answer of each row in one text."""
    with path.open(encoding="utf-8") as file:
        rows = (json.loads(line) for line, _ in zip(file, range(most or 10**12), strict=False))
        return [f"{row['question']}\n\n{row['answer']}" for row in rows]


def generated(rows: int, seed: int = 1) -> Iterator[dict]:
    chance = random.Random(seed)
    words = [*COMMON, *_vocabulary(chance)]
    weights = list(accumulate([6.0] * len(COMMON) + [0.036] * (len(words) - len(COMMON))))
    made: dict = {}
    for number in range(rows):
        if number % 10 == 9:
            made = {**made, "answer": made["answer"].rsplit(" ", 2)[0] + f" {number} times."}
        else:
            made = _row(chance, chance.choices(words, cum_weights=weights, k=98), number)
        yield made


def _vocabulary(chance: random.Random) -> list[str]:
    return ["".join(chance.choices("aeinrstlmodpcu", k=chance.randint(3, 9))) for _ in range(5000)]


def _row(chance: random.Random, words: list[str], number: int) -> dict:
    lines = [" ".join(words[at : at + 14]).capitalize() + "." for at in range(0, 98, 14)]
    lines[2] += f" It took {chance.randint(2, 90)} days and {chance.random():.2f} hours."
    if number % 20 == 0:
        lines[4] += f" Reach them at {chance.choice(PERSONAL)} today."
    return {"question": " ".join(lines[:3]), "answer": "\n\n".join([lines[3], " ".join(lines[4:])])}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=10_000)
    arguments.add_argument("--output", type=Path, required=True)
    given = arguments.parse_args()
    write_rows(given.output, given.rows)
