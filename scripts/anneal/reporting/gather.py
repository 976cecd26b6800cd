"""Everything the report shows, collected from the artifacts into one JSON document."""

import json
from pathlib import Path

import orjson

from anneal.arrow_dataset import read_arrow_dataset
from anneal.provenance.files import read_json
from anneal.records import IGNORED
from anneal.reporting.planned import plan_of
from anneal.search.settings import with_values
from anneal.tokenizer import Tokenizer

MASKS = 3
SHOWN = 200
CHANGED = 6
REVIEWED = 3
UNJUDGED = {"comparison": [], "answers": [], "heldout": None}


def gather(settings: dict, results: Path) -> dict:
    """The report's document.

    Args:
        settings: `project`, the resolved `config`, and `made`: the runs of the models that are
            made of runs and benchmarked.
        results: folder of the project's artifacts.

    Returns:
        `project`, `config`, `datasets` by name, `runs` by name, and by name the `models`
        made of runs.
    """
    config = settings["config"]
    return {
        "project": settings["project"],
        "config": config,
        "datasets": {name: _dataset(name, config, results) for name in config["datasets"]},
        "runs": {name: _run(name, run, results, config) for name, run in config["runs"].items()},
        "models": {
            name: _model(name, {run: config["runs"][run] for run in of}, results)
            for name, of in settings["made"].items()
        },
    }


def _dataset(name: str, config: dict, results: Path) -> dict:
    """Funnel, splits, gates, and what reading and cleaning counted."""
    folder = results / "data" / name
    if config["datasets"][name]["stream"]:
        return _streamed(name, config, results)
    read = _facts(folder / "records")
    clean = _facts(folder / "clean")
    return {
        "counted_by": None,
        **read_json(folder / "gates.json"),
        "converted": _added(fact["converted"] for fact in read),
        "pii": _added(fact["pii"] for fact in clean),
        "clusters": read_json(folder / "drops.manifest.json")["facts"]["clusters"],
        "review": _review(folder / "clean"),
        "manifest": read_json(folder / "ledger.manifest.json"),
    }


def _streamed(name: str, config: dict, results: Path) -> dict:
    """What the first run that learned from a streamed dataset counted, or else its sample.

    Nothing was decided about the whole dataset: there are no strata, gates or clusters.
    """
    sample = read_json(results / "data" / name / "sample.manifest.json")
    run = next((n for n, run in config["runs"].items() if run["dataset"] == name), None)
    counts = sample["facts"] if run is None else _run_facts(results, run)["stream"]
    return {
        **{key: counts[key] for key in ("funnel", "pii", "converted", "review")},
        "counted_by": run or "sample",
        "splits": {**counts["splits"], "strata": {}},
        "gates": [],
        "clusters": [],
        "manifest": sample,
    }


def _run_facts(results: Path, run: str) -> dict:
    return read_json(results / "runs" / run / "manifest.json")["facts"]


def _review(folder: Path) -> dict[str, list[str]]:
    """A few places of each kind where personal data was replaced; never the values."""
    shown: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.review.json")):
        for kind, contexts in read_json(path).items():
            shown[kind] = [*shown.get(kind, []), *contexts][:REVIEWED]
    return dict(sorted(shown.items()))


def _run(name: str, run: dict, results: Path, config: dict) -> dict:
    tokens = results / "tokens" / run["dataset"] / run["model"]
    folder = results / "runs" / name
    base = results / "models" / run["model"]
    judged = run["method"] != "reward"
    manifest = read_json(folder / "manifest.json")
    run = with_values(run, manifest["facts"].get("searched", {}))
    streamed = manifest["facts"].get("stream")
    facts = read_json(tokens / "splits" / "manifest.json")["facts"]
    return {
        "dataset": run["dataset"],
        "model": run["model"],
        "method": run["method"],
        "tuning": run["tuning"],
        "training": run["training"],
        "tokens": {**facts, "train": streamed["train"]} if streamed else facts,
        "masks": mask_samples(tokens / "splits" / ("first" if streamed else "train"), base),
        "curves": _lines(folder / "metrics.jsonl"),
        "samples": read_json(folder / "samples.json"),
        **(_compared(name, run, results) if judged else UNJUDGED),
        "plan": plan_of(name, manifest["key"], results),
        "manifest": manifest,
    }


def _model(name: str, runs: dict[str, dict], results: Path) -> dict:
    first = next(iter(runs.values()))
    return {
        "dataset": first["dataset"],
        "model": first["model"],
        "runs": list(runs),
        **_compared(name, first, results),
        "manifest": read_json(results / "models" / name / "manifest.json"),
    }


def _compared(name: str, run: dict, results: Path) -> dict:
    """What is asked of a run or model is decided by dataset and base of a run.

    `heldout` is the loss on held-out rows of base and tuned, with answers to the same prompts.
    """
    folder = results / "evaluation"
    comparison = read_json(folder / "comparisons" / f"{name}.json")
    changed = _changed_answers(folder / run["dataset"], run["model"], name) if comparison else []
    heldout = read_json(folder / "comparisons" / f"{name}.heldout.json")
    return {"comparison": comparison, "answers": changed, "heldout": heldout}


def mask_samples(folder: Path, base: Path) -> list[list[dict]]:
    """The first training sequences as runs of text: `text`, and whether it is `learned`.

    At most 200 tokens each, so that a person reads them. A pair ends with its rejected answer.
    """
    decode = Tokenizer(base).backend.decode
    rows = read_arrow_dataset(folder).slice(0, MASKS).to_pylist()
    return [_mask_sample(row, decode) for row in rows]


def _mask_sample(row: dict, decode) -> list[dict]:
    sample = _pieces(*(part[:SHOWN] for part in _ids_and_labels(row)), decode)
    if "rejected_ids" in row:
        text = decode(row["rejected_ids"][:SHOWN], skip_special_tokens=False)
        sample.append({"text": text, "learned": False, "rejected": True})
    return sample


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
    before = {_question(s): s for s in _lines(folder / base / "samples.jsonl")}
    shown: dict[str, list[dict]] = {}
    for sample in _lines(folder / run / "samples.jsonl"):
        old = before.get(_question(sample))
        found = shown.setdefault(sample["task"], [])
        scores = (old or {}).get("score"), sample["score"]
        if None not in scores and scores[0] != scores[1] and len(found) < CHANGED:
            found.append({**sample, "base_answer": old["answer"], "base_score": old["score"]})
    return [sample for found in shown.values() for sample in found]


def _question(sample: dict) -> tuple:
    """What names a question; of a group of tasks, its part too."""
    return sample["task"], sample.get("part"), sample["question"]


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
