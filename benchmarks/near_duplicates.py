"""Near duplicates against datasketch and rensa, each from texts to the rows that are copies.

    python benchmarks/near_duplicates.py rows.jsonl FOLDER

Rows a second of processor time, of all threads. Our side signs the texts as the clean step does,
writes shards, and then decides over all of them: candidates by 28 bands of 4 rows, each verified by
real Jaccard similarity of word 5-grams. The peers get the same 5-grams, permutations and bands, all
in memory, and stop at candidates; datasketch is also measured with the same verification, and
signing as its first example does.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from measure import HERE, OURS, PEER, Line, alternate
from rows import read_texts

sys.path.insert(0, str(HERE.parent / "scripts"))

SHARD = 50_000


def compare(given) -> list[Line]:
    """All rows go to every side: the work grows faster than the rows."""
    folder = given.folder / "near_duplicates"
    sides = {"ours": [OURS, __file__, given.input, folder]}
    for peer in ("datasketch_lsh", "rensa_lsh"):
        sides[peer] = [PEER, HERE / "peers" / f"{peer}.py", given.input]
    best = alternate(sides, given.rounds)
    ours, sketch, rensa = (best[side] for side in sides)
    whole = ours["whole"]
    return [
        Line("near duplicates / datasketch, one update a 5-gram", whole, sketch["documented"], 10),
        Line("near duplicates / datasketch in bulk", whole, sketch["candidates"], 10),
        Line("near duplicates / datasketch in bulk, verified", whole, sketch["verified"]),
        Line("near duplicates / rensa", whole, rensa["candidates"], 0.7),
        Line("signatures / rensa's", ours["signatures"], rensa["signatures"]),
        Line("copies found", ours["found"], unit="rows"),
        Line("copies found by datasketch, verified", sketch["found"], unit="rows"),
    ]


def main(given) -> None:
    from anneal.cleaning.duplicates import find_duplicates

    texts = read_texts(given.input)
    shards, seconds = _signed(texts, given.folder)
    started = time.process_time()
    found = find_duplicates(shards, np.zeros(len(texts), bool)).num_rows
    whole = seconds + time.process_time() - started
    rates = {"whole": len(texts) / whole, "signatures": len(texts) / seconds}
    print(json.dumps({**rates, "found": found}))


def _signed(texts: list[str], folder: Path) -> tuple[list[Path], float]:
    """Shards with signatures, and the seconds that the signatures took."""
    from anneal.cleaning.similarity import signatures

    folder.mkdir(parents=True, exist_ok=True)
    seconds, shards = 0.0, []
    for start in range(0, len(texts), SHARD):
        part, signed = texts[start : start + SHARD], []
        began = time.process_time()
        for at in range(0, len(part), 5_000):
            signed += signatures(part[at : at + 5_000])
        seconds += time.process_time() - began
        shards.append(_write(folder / f"{start:09}.parquet", start, part, signed))
    return shards, seconds


def _write(path: Path, start: int, texts: list[str], signed: list) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    size, lines = len(texts), range(start + 1, start + 1 + len(texts))
    columns = {
        "id": [str(line) for line in lines],
        **{"source": ["s"] * size, "file": ["f.jsonl"] * size, "line": list(lines)},
        **{"instruction": [""] * size, "input": [""] * size, "output": texts},
        "content_key": texts,
        "signature": pa.array(signed, pa.list_(pa.uint32())),
    }
    pq.write_table(pa.table(columns), path)
    return path


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("input", type=Path)
    arguments.add_argument("folder", type=Path)
    main(arguments.parse_args())
