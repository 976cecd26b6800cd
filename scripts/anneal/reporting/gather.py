"""Everything the report shows, collected from the artifacts into one JSON document."""

import json
from pathlib import Path

import orjson

from anneal.arrow_dataset import read_arrow_dataset
from anneal.provenance.files import read_json
from anneal.records import IGNORED
from anneal.search.settings import with_values
from anneal.tokenizer import Tokenizer

MASKS = 3
CHANGED = 6
REVIEWED = 3


def gather(settings: dict, results: Path) -> dict:
    """The report's document.

    Args:
        settings: `project` and the resolved `config`.
        results: folder of the project's artifacts.

    Returns:
        `project`, `config`, `datasets` by name, `runs` by name.
    """
    config = settings["config"]
    return {
        "project": settings["project"],
        "config": config,
        "datasets": {name: _dataset(results / "data" / name) for name in config["datasets"]},
        "runs": {name: _run(name, run, results) for name, run in config["runs"].items()},
    }


def _dataset(folder: Path) -> dict:
    """Funnel, splits, gates, and what reading and cleaning counted."""
    read = _facts(folder / "records")
    clean = _facts(folder / "clean")
    return {
        **read_json(folder / "gates.json"),
        "converted": _added(fact["converted"] for fact in read),
        "pii": _added(fact["pii"] for fact in clean),
        "clusters": read_json(folder / "drops.manifest.json")["facts"]["clusters"],
        "review": _review(folder / "clean"),
        "manifest": read_json(folder / "ledger.manifest.json"),
    }


def _review(folder: Path) -> dict[str, list[str]]:
    """A few places of each kind where personal data was replaced; never the values."""
    shown: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.review.json")):
        for kind, contexts in read_json(path).items():
            shown[kind] = [*shown.get(kind, []), *contexts][:REVIEWED]
    return dict(sorted(shown.items()))


def _run(name: str, run: dict, results: Path) -> dict:
    tokens = results / "tokens" / run["dataset"] / run["model"]
    folder = results / "runs" / name
    base = results / "models" / run["model"]
    comparison = results / "evaluation" / "comparisons" / f"{name}.json"
    asked = run["method"] != "reward"
    manifest = read_json(folder / "manifest.json")
    run = with_values(run, manifest["facts"].get("searched", {}))
    scores = results / "evaluation" / run["dataset"]
    return {
        "dataset": run["dataset"],
        "model": run["model"],
        "method": run["method"],
        "tuning": run["tuning"],
        "training": run["training"],
        "tokens": read_json(tokens / "splits" / "manifest.json")["facts"],
        "masks": mask_samples(tokens / "splits" / "train", base),
        "curves": _lines(folder / "metrics.jsonl"),
        "samples": read_json(folder / "samples.json"),
        "comparison": read_json(comparison) if asked else [],
        "answers": _changed_answers(scores, run["model"], name) if asked else [],
        "manifest": manifest,
    }


def mask_samples(folder: Path, base: Path) -> list[list[dict]]:
    """The first training sequences as runs of text: `text`, and whether it is `learned`.

    At most 200 tokens each, so that a person reads them.
    """
    decode = Tokenizer(base).backend.decode
    rows = read_arrow_dataset(folder).slice(0, MASKS).to_pylist()
    return [_pieces(*(part[:200] for part in _ids_and_labels(row)), decode) for row in rows]


def _ids_and_labels(row: dict) -> tuple[list[int], list[int]]:
    """Of a pair, the prompt and the chosen answer."""
    if "chosen_ids" not in row:
        return row["input_ids"], row["labels"]
    prompt, chosen = row["prompt_ids"], row["chosen_ids"]
    return prompt + chosen, [IGNORED] * len(prompt) + chosen


def _pieces(ids: list[int], labels: list[int], decode) -> list[dict]:
    pieces, start = [], 0
    for end in range(1, len(ids) + 1):
        learned = labels[start] != IGNORED
        if end == len(ids) or (labels[end] != IGNORED) != learned:
            text = decode(ids[start:end], skip_special_tokens=False)
            pieces.append({"text": text, "learned": learned})
            start = end
    return pieces


def _changed_answers(folder: Path, base: str, run: str) -> list[dict]:
    """Questions whose score changed, base against tuned, a few of each task."""
    before = {(s["task"], s["question"]): s for s in _lines(folder / base / "samples.jsonl")}
    shown: dict[str, list[dict]] = {}
    for sample in _lines(folder / run / "samples.jsonl"):
        old = before.get((sample["task"], sample["question"]))
        found = shown.setdefault(sample["task"], [])
        if old and old["score"] != sample["score"] and len(found) < CHANGED:
            found.append({**sample, "base_answer": old["answer"], "base_score": old["score"]})
    return [sample for found in shown.values() for sample in found]


def _facts(folder: Path) -> list[dict]:
    return [read_json(path)["facts"] for path in sorted(folder.glob("*.manifest.json"))]


def _added(counts) -> dict[str, int]:
    total: dict[str, int] = {}
    for count in counts:
        for name, number in count.items():
            total[name] = total.get(name, 0) + number
    return dict(sorted(total.items()))


def _lines(path: Path) -> list[dict]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def as_text(document: dict) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
