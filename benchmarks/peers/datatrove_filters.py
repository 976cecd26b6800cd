"""Rows a processor second of datatrove's Gopher filters and its removal of e-mail and IP addresses.

    .venv-bench/bin/python benchmarks/peers/datatrove_filters.py rows.jsonl ROWS

Its English word tokenizer is spaCy's blank one, which needs no download. `plain` is all three with
words cut at white space instead, as we cut them.
"""

import json
import sys
import time
from itertools import islice
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters import (
    GopherQualityFilter,
    GopherRepetitionFilter,
    gopher_quality_filter,
    gopher_repetition_filter,
)
from datatrove.pipeline.formatters import PIIFormatter


def main(file: Path, rows: int) -> None:
    texts = list(map(_text, islice(file.open(encoding="utf-8"), rows)))
    quality, repetition = GopherQualityFilter(), GopherRepetitionFilter()
    works = {
        "Gopher quality": lambda text: quality.filter(Document(text=text, id="")),
        "Gopher repetition": lambda text: repetition.filter(Document(text=text, id="")),
        "e-mail and IP": PIIFormatter().format,
    }
    rates = {name: _rate(work, texts) for name, work in works.items()}
    for module in (gopher_quality_filter, gopher_repetition_filter):
        module.split_into_words = lambda text, _: text.split()
    plain = 1 / sum(1 / _rate(work, texts) for work in works.values())
    print(json.dumps({**rates, "plain": plain}))


def _text(line: str) -> str:
    row = json.loads(line)
    return f"{row['question']}\n\n{row['answer']}"


def _rate(work, texts: list[str]) -> float:
    work(texts[0])
    started = time.process_time()
    for text in texts:
        work(text)
    return len(texts) / (time.process_time() - started)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
