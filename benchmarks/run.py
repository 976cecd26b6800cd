"""All comparisons with the named peers, in one run: a table, and results.json beside this file.

    make bench
    .venv/bin/python benchmarks/run.py [--rows 10000] [--only clean] [--input gsm8k.jsonl]

Every figure is the best of a few rounds in which the sides take turns, on the same rows.
"""

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

import cleaning
import dag
import memory
import near_duplicates
import starting
import tokenizing
import training
from measure import HEAD, HERE, OURS, PEER, REPOSITORY, run, shown
from rows import write_rows

COMPARISONS = {
    "start": starting.compare,
    "tokenize": tokenizing.compare,
    "train": training.compare,
    "clean": cleaning.compare,
    "near-duplicates": near_duplicates.compare,
    "dag": dag.compare,
    "memory": memory.compare,
}
RESULTS = HERE / "results.json"


def main(given) -> None:
    if not Path(PEER).is_file():
        sys.exit(f"error: {PEER}: no such file; run `make bench`, which installs the peers")
    given.folder = given.folder.resolve()
    given.input = given.input or write_rows(given.folder / f"rows-{given.rows}.jsonl", given.rows)
    given.input = given.input.resolve()
    given.model = (given.model or given.folder / "smollm2").resolve()
    run([OURS, HERE / "smollm2.py", given.model])
    lines = []
    for name in given.only or COMPARISONS:
        print(f"\n{name}\n{HEAD}", flush=True)
        for line in COMPARISONS[name](given):
            lines.append({"comparison": name, **asdict(line)})
            print(shown(line), flush=True)
    write(given, lines)


def write(given, lines: list[dict]) -> None:
    machine = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    settings = {name: str(value) for name, value in vars(given).items()}
    found = {"machine": machine, "settings": settings, "lines": lines}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"\nwritten to {RESULTS.relative_to(REPOSITORY)}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000, help="rows to generate")
    parser.add_argument("--input", type=Path, help="JSONL of question and answer instead")
    parser.add_argument("--model", type=Path, help="folder with tokenizer.json; SmolLM2 by default")
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, help="comparisons to take")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    parser.add_argument("--shards", type=int, default=1_000, help="of the large DAG")
    parser.add_argument("--peer-rows", type=int, default=5_000, help="rows that slow peers get")
    parser.add_argument("--size", type=int, nargs="+", default=[100, 400], help="MB, for memory")
    default = REPOSITORY / "results" / "bench"
    parser.add_argument("--folder", type=Path, default=default, help="for all that is made")
    return parser.parse_args()


if __name__ == "__main__":
    main(parsed())
