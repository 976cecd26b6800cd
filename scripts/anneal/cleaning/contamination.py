"""Rows that give away test questions, found by shared word n-grams.

A run of 13 equal words follows Brown et al. 2020 (GPT-3, appendix C), which also leaves out
n-grams of more than ten questions: they are phrases. The share of a question that 8-grams cover
follows Lambert et al. 2024 (Tulu 3, section 3.2).
"""

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anneal.cleaning.normalise import fold
from anneal.cleaning.questions import questions
from anneal.cleaning.texts import full_text
from anneal.records import DROP, IDENTITY, MATCH, fields_among, identity

SHORT, FEWEST, PHRASE = 8, 5, 10
WORD = re.compile(r"\w+")


def contaminated_rows(
    shards: list[Path], skip: np.ndarray, tests: dict[str, list[str]], settings: dict
) -> tuple[pa.Table, pa.Table]:
    """Rows as `records.DROP`, and what each shares with which question as `records.MATCH`.

    Args:
        skip: bool by row number: rows that take no part.
        tests: files with the test questions of each task.
        settings: the `decontaminate` section.
    """
    index = Index(tests, settings["ngram"], settings["coverage"])
    drops, matches, start = [], [], 0
    for shard in shards if index.grams else []:
        columns = [*IDENTITY, *fields_among(pq.read_schema(shard).names)]
        for batch in pq.ParquetFile(shard).iter_batches(columns=columns):
            for n, row in enumerate(batch.to_pylist(), start):
                if not skip[n] and (found := index.match(full_text(row))):
                    at = identity(row)
                    value = found["coverage"]
                    drops.append({"row": n, **at, "rule": "contaminated", "value": value})
                    matches.append({**at, **found})
            start += batch.num_rows
    return pa.Table.from_pylist(drops, DROP), pa.Table.from_pylist(matches, MATCH)


class Index:
    """N-grams of all test questions; a question of fewer than five words tells nothing."""

    def __init__(self, tests: dict[str, list[str]], ngram: int, coverage: float):
        self.ngram, self.coverage = ngram, coverage
        self.texts: list[tuple[str, int, list[str]]] = []
        self.grams: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for task, files in tests.items():
            for file in files:
                for number, texts in questions(file):
                    for text in texts:
                        self._add(task, number, split(text))
        for n, found in self.grams.items():
            self.grams[n] = {gram: at for gram, at in found.items() if len(at) <= PHRASE}

    def match(self, text: str) -> dict | None:
        """The question a text shares most with: `task`, `question`, `coverage` and `span`."""
        row = split(text)
        hits: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for n, known in self.grams.items():
            for at, gram in enumerate(_grams(row, n)):
                for text_number in known.get(gram, ()):
                    hits[text_number].add((at, n))
        found = [self._judge(number, row, spans) for number, spans in sorted(hits.items())]
        return max(filter(None, found), key=lambda match: match["coverage"], default=None)

    def _judge(self, number: int, row: list[str], spans: set) -> dict | None:
        task, question, words = self.texts[number]
        shared = {" ".join(row[at : at + n]) for at, n in spans}
        covered = set()
        for n in {n for _, n in spans}:
            for at, gram in enumerate(_grams(words, n)):
                covered |= set(range(at, at + n)) if gram in shared else set()
        share = len(covered) / len(words)
        longest = max(n for _, n in spans)
        if longest < self.ngram and share < self.coverage:
            return None
        start, stop = min(at for at, _ in spans), max(at + n for at, n in spans)
        span = " ".join(row[start : min(stop, start + len(words))])
        return {"task": task, "question": question, "coverage": round(share, 4), "span": span}

    def _add(self, task: str, question: int, words: list[str]) -> None:
        if len(words) < FEWEST:
            return
        for n in {min(SHORT, len(words)), *([self.ngram] if len(words) >= self.ngram else [])}:
            for gram in set(_grams(words, n)):
                self.grams[n][gram].append(len(self.texts))
        self.texts.append((task, question, words))


def split(text: str) -> list[str]:
    """The words of a text as they are compared: folded, without punctuation."""
    return WORD.findall(fold(text))


def _grams(words: list[str], n: int) -> list[str]:
    return [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
