"""Formatting and tokenizing with masks, against the bare tokenizer and TRL's SFT preparation.

    python benchmarks/tokenizing.py rows.jsonl MODEL FOLDER --processes 1

Rows a second of our side; reading and writing of the shards is part of it. With two processes each
takes half of the rows, as two jobs of the DAG do. `texts.jsonl` in FOLDER is what the bare
tokenizer gets: the same texts, already formatted.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from measure import HERE, OURS, PEER, Line, alternate

sys.path.insert(0, str(HERE.parent / "scripts"))


def compare(given) -> list[Line]:
    """Against the bare tokenizer on all rows, and against TRL on the first `given.peer_rows`."""
    return [line for n in (1, 2) for line in _with_processes(given, n)]


def _with_processes(given, n: int) -> Iterator[Line]:
    folder, peers = given.folder / "tokenizing", HERE / "peers"
    sides = {
        "ours": [OURS, __file__, given.input, given.model, folder, "--processes", n],
        "trl": [PEER, peers / "trl_preparation.py", given.input, given.model, n, given.peer_rows],
    }
    if n == 1:
        sides["bare"] = [PEER, peers / "bare_tokenizer.py", folder / "texts.jsonl", given.model]
    best = alternate(sides, given.rounds)
    ours, trl = best["ours"], best["trl"]["prepare"]
    if n == 1:
        bare = best["bare"]["encode"]
        yield Line("tokenize / bare encode_batch_fast", ours["tokenize"], bare, 0.7)
    bar = {1: 4.0, 2: 2.4}[n]
    yield Line(f"format + tokenize / TRL, processes: {n}", ours["format and tokenize"], trl, bar)


def main(given) -> None:
    import anneal.formatting.format
    import anneal.tokenizing.tokenize  # noqa: F401  the processes begin with it: they are forked
    from anneal.config.prepare import Format, Tokenize

    shards = _shards(given.rows, given.folder, given.processes)
    settings = {"kind": "instruction", **Tokenize(max_length=4096).model_dump()}
    work = [(Format().model_dump(), settings, shard, given.model) for shard in shards]
    with ProcessPoolExecutor(given.processes) as pool:
        started = time.perf_counter()
        counts = list(pool.map(_format, work))
        formatted = time.perf_counter()
        list(pool.map(_tokenize, work))
        ended = time.perf_counter()
    _write_texts(given.folder, shards)
    rows = sum(count["rows"] for count in counts)
    seconds = {"format": formatted - started, "tokenize": ended - formatted}
    seconds["format and tokenize"] = ended - started
    print(json.dumps({name: rows / spent for name, spent in seconds.items()}))


def _shards(rows: Path, folder: Path, count: int) -> list[Path]:
    """The rows as records, in as many shards as there are processes."""
    from anneal.config.sources import Source
    from anneal.sources.read import read_shard
    from anneal.sources.shards import DigestCache, plan_shards

    folder.mkdir(parents=True, exist_ok=True)
    source = Source(path=str(rows), columns={"instruction": "question", "output": "answer"})
    size = rows.stat().st_size / count / 1e6
    pieces = plan_shards("s", source, "instruction", size + 1e-5, DigestCache(folder / "none"))
    made = [folder / f"records-{count}-{n}.parquet" for n in range(len(pieces))]
    for piece, path in zip(pieces, made, strict=True):
        settings = {"kind": "instruction", **source.reading()}
        read_shard(settings, piece.as_source(), path, folder / "rejects.parquet")
    return made


def _format(work: tuple) -> dict:
    from anneal.formatting.format import format_shard

    settings, _, shard, model = work
    return format_shard(settings, shard, model, _texts(shard))


def _tokenize(work: tuple) -> dict:
    from anneal.tokenizing.tokenize import tokenize_shard

    _, settings, shard, model = work
    return tokenize_shard(settings, _texts(shard), model, shard.with_suffix(".ids"))


def _texts(shard: Path) -> Path:
    return shard.with_suffix(".texts")


def _write_texts(folder: Path, shards: list[Path]) -> None:
    import pyarrow.parquet as pq

    with (folder / "texts.jsonl").open("w", encoding="utf-8") as file:
        files = (pq.ParquetFile(_texts(shard)) for shard in shards)
        batches = itertools.chain.from_iterable(f.iter_batches(columns=["text"]) for f in files)
        for batch in batches:
            file.writelines(json.dumps(text) + "\n" for text in batch.column(0).to_pylist())


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("rows", "model", "folder"):
        arguments.add_argument(name, type=Path)
    arguments.add_argument("--processes", type=int, default=1)
    main(arguments.parse_args())
