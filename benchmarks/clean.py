"""Rows a second and core of each cleaning step, on generated rows of about 0.5 kB.

python benchmarks/clean.py [--rows 5000]
"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from anneal.cleaning.language import language, script
from anneal.cleaning.normalise import normalise
from anneal.cleaning.pii import FINDERS, PiiRemover
from anneal.cleaning.quality import line_scores, repetition_scores, scores, word_scores
from anneal.cleaning.similarity import signatures

STOPS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "that",
    "was",
    "for",
    "on",
    "are",
    "with",
    "as",
    "his",
    "they",
    "be",
    "at",
    "this",
    "have",
]
VALUES = ("ann.lee@example.com", "+1 202-555-0143", "203.0.113.77", "4111 1111 1111 1111")


def rows(count: int, seed: int = 1) -> list[str]:
    """Sentences in paragraphs; numbers in each row, personal data in one of twenty."""
    chance = random.Random(seed)
    vocabulary = [
        "".join(chance.choices("aeinrstlmodpcu", k=chance.randint(3, 9))) for _ in range(5000)
    ]
    made = []
    for number in range(count):
        lines = []
        for _ in range(6):
            words = [
                chance.choice(STOPS if chance.random() < 0.4 else vocabulary) for _ in range(14)
            ]
            lines.append(" ".join(words).capitalize() + ".")
        lines[2] += f" It took {chance.randint(2, 90)} days and {chance.random():.2f} hours."
        if number % 20 == 0:
            lines[4] += f" Reach them at {chance.choice(VALUES)} today."
        made.append("\n\n".join([" ".join(lines[:3]), " ".join(lines[3:])]))
    return made


def measure(name: str, work, texts: list[str]) -> None:
    started = time.perf_counter()
    for text in texts:
        work(text)
    print(f"{name:24} {len(texts) / (time.perf_counter() - started):>10,.0f} rows/s")


def main(count: int) -> None:
    texts = rows(count)
    print(f"{count} rows, {sum(map(len, texts)) / count:.0f} characters on average")
    parts = {
        text: (text, text.split(), [line for x in text.split("\n") if (line := x.strip())])
        for text in texts
    }
    remover = PiiRemover(list(FINDERS))
    mail_and_ip = PiiRemover(["email", "ip"])
    measure("normalise", normalise, texts)
    measure("pii, all kinds", remover.clean, texts)
    measure("pii, email and ip", mail_and_ip.clean, texts)
    measure("Gopher quality", lambda t: word_scores(*parts[t][:2]), texts)
    measure("line scores", lambda t: line_scores(*parts[t]), texts)
    measure("Gopher repetition", lambda t: repetition_scores(*parts[t]), texts)
    measure("all quality scores", lambda t: scores(t, t), texts)
    measure("script", script, texts)
    language("load the model")
    measure("language", language, texts)
    started = time.perf_counter()
    signatures(texts)
    print(f"{'signatures':24} {count / (time.perf_counter() - started):>10,.0f} rows/s")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=5_000)
    main(arguments.parse_args().rows)
