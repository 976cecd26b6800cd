"""Cleaning against datatrove with the same filters, on one core.

    python benchmarks/cleaning.py rows.jsonl

Rows a second of processor time, of our side: each filter from the bare text to its verdict, the
parts of the step, and the whole step on a shard. datatrove cuts English words by spaCy's rules, we
cut at white space.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from measure import HERE, ONE_THREAD, OURS, PEER, Line, alternate
from rows import read_texts

sys.path.insert(0, str(HERE.parent / "scripts"))

FILTERS = ("Gopher quality", "Gopher repetition", "e-mail and IP")
BAR = 10.0


def compare(given) -> list[Line]:
    """Each filter, all of them in one go, and our whole step against their three filters."""
    rows = min(given.rows, given.peer_rows)
    peer = HERE / "peers" / "datatrove_filters.py"
    sides = {"ours": [OURS, __file__, given.input, "--rows", rows]}
    sides["peer"] = [PEER, peer, given.input, rows]
    best = alternate(sides, given.rounds, **ONE_THREAD)
    ours, peer = best["ours"], best["peer"]
    lines = [Line(f"{name} / datatrove", ours[name], peer[name], BAR) for name in FILTERS]
    lines.append(Line("the three / datatrove", _together(ours), _together(peer), BAR))
    what = "the three / datatrove, words cut at white space"
    lines.append(Line(what, _together(ours), peer["plain"]))
    lines.append(Line("the whole clean step / their three", ours["clean step"], _together(peer)))
    parts = [name for name in ours if name not in (*FILTERS, "clean step")]
    return lines + [Line(f"part of the clean step: {name}", ours[name]) for name in parts]


def _together(rates: dict) -> float:
    return 1 / sum(1 / rates[name] for name in FILTERS)


def main(given) -> None:
    texts = read_texts(given.input, given.rows)
    rates = {name: _rate(work, texts) for name, work in {**_filters(), **_parts()}.items()}
    print(json.dumps({**rates, "clean step": _step(texts)}))


def _rate(work, texts: list[str]) -> float:
    work(texts[0])
    started = time.process_time()
    for text in texts:
        work(text)
    return len(texts) / (time.process_time() - started)


def _filters() -> dict:
    """From a text to a verdict, as `clean_shard` and `select_rows` decide together."""
    from anneal.cleaning.filters import limits
    from anneal.cleaning.pii import PiiRemover
    from anneal.cleaning.quality import line_scores, repetition_scores, word_scores

    quality = limits({"rules": ["gopher_quality"], "limits": {}})
    repetition = limits({"rules": ["gopher_repetition"], "limits": {}})

    def is_good(text: str) -> bool:
        words, lines = _cut(text)
        return _inside({**word_scores(text, words), **line_scores(text, words, lines)}, quality)

    def is_varied(text: str) -> bool:
        return _inside(repetition_scores(text, *_cut(text)), repetition)

    return dict(zip(FILTERS, (is_good, is_varied, PiiRemover(["email", "ip"]).clean), strict=True))


def _cut(text: str) -> tuple[list[str], list[str]]:
    return text.split(), [line for x in text.split("\n") if (line := x.strip())]


def _inside(scores: dict, bounds: dict) -> bool:
    low, high = float("-inf"), float("inf")
    return all(
        (low if b["min"] is None else b["min"]) <= scores[n]
        and scores[n] <= (high if b["max"] is None else b["max"])
        for n, b in bounds.items()
    )


def _parts() -> dict:
    from anneal.cleaning.language import language
    from anneal.cleaning.normalise import normalise
    from anneal.cleaning.pii import FINDERS, PiiRemover
    from anneal.cleaning.quality import scores
    from anneal.cleaning.similarity import signatures

    return {
        "normalise": normalise,
        "personal data, all kinds": PiiRemover(list(FINDERS)).clean,
        "all scores": lambda text: scores(text, text),
        "signature": lambda text: signatures([text]),
        "language (off by default)": language,
    }


def _step(texts: list[str]) -> float:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from anneal.cleaning.clean import clean_shard
    from anneal.config.clean import Clean
    from anneal.records import record_schema

    blank = {"id": "", "source": "s", "file": "f", "line": 1, "offset": 0, "extra": "{}"}
    rows = [{**blank, "instruction": "", "input": "", "output": text} for text in texts]
    settings = {"kind": "instruction", "clean": Clean().model_dump()}
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.parquet"
        pq.write_table(pa.Table.from_pylist(rows, record_schema("instruction")), records)
        started = time.process_time()
        clean_shard(settings, records, Path(folder) / "clean.parquet")
        return len(texts) / (time.process_time() - started)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("input", type=Path)
    arguments.add_argument("--rows", type=int)
    main(arguments.parse_args())
