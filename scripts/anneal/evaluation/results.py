"""Scores in the layout of lm-eval's own result folders, so that its tools and others read them.

`results_DATE.json` has the sections of `lm_eval --output_path`, `samples_TASK_DATE.jsonl` a line a
question. The date is always the same: equal scores are equal bytes, and manifests know the time.
"""

import json
from pathlib import Path

from anneal.provenance.digests import digest_text
from anneal.provenance.files import read_json, whole_folder

DATE = "2000-01-01T00-00-00.000000"
SECTIONS = (
    *("results", "groups", "group_subtasks", "configs", "versions", "n-shot"),
    *("higher_is_better", "n-samples", "task_hashes"),
)


def write_lm_eval(folder: Path, outcomes: list[dict], settings: dict, model: str) -> None:
    """Write what `lm_eval.simple_evaluate` gave back for each task.

    Args:
        settings: the `evaluate` section.
        model: what was scored, by name.
    """
    from lm_eval.utils import handle_non_serializable, sanitize_list

    with whole_folder(folder) as partial:
        for outcome in outcomes:
            for task, samples in outcome["samples"].items():
                hashes = (s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in samples)
                outcome.setdefault("task_hashes", {})[task] = digest_text("".join(hashes))
                lines = [{**s, **_as_lm_eval(s, sanitize_list)} for s in samples]
                text = "".join(
                    json.dumps(line, default=handle_non_serializable, ensure_ascii=False) + "\n"
                    for line in lines
                )
                name = f"samples_{task}_{DATE}.jsonl"
                (partial / name).write_text(_here(text), encoding="utf-8")
        model_config = {"model": "hf", "model_args": f"pretrained={model}"}
        asked = {k: settings[k] for k in ("batch_size", "precision", "tasks")}
        document = {**merged(outcomes), "config": {**model_config, **asked}}
        text = json.dumps(document, default=handle_non_serializable, indent=2, sort_keys=True)
        (partial / f"results_{DATE}.json").write_text(_here(text), encoding="utf-8")


def _as_lm_eval(sample: dict, sanitize) -> dict:
    """Fields as lm-eval writes them: arguments by number, answers as text."""
    arguments = {
        f"gen_args_{i}": {f"arg_{j}": part for j, part in enumerate(call)}
        for i, call in enumerate(sample["arguments"])
    }
    answers = {name: sanitize(sample[name]) for name in ("resps", "filtered_resps")}
    return {**answers, "arguments": arguments, "target": str(sample["target"])}


def _here(text: str) -> str:
    """Paths below the folder of the project, as they are there: the same in every copy of it."""
    return text.replace(json.dumps(f"{Path.cwd()}/")[1:-1], "")


def merged(documents: list[dict]) -> dict:
    """One document of lm-eval's sections out of several, of which each has other tasks."""
    return {
        section: {k: v for document in documents for k, v in document.get(section, {}).items()}
        for section in SECTIONS
    }


def gather_lm_eval(folder: Path, parts: list[Path]) -> None:
    """One lm-eval result folder out of those of several jobs."""
    documents = [json.loads((part / f"results_{DATE}.json").read_bytes()) for part in parts]
    with whole_folder(folder) as partial:
        tasks = {k: v for found in documents for k, v in found["config"]["tasks"].items()}
        config = {**documents[0]["config"], "tasks": tasks}
        document = {**merged(documents), "config": config}
        text = json.dumps(document, indent=2, sort_keys=True)
        (partial / f"results_{DATE}.json").write_text(text, encoding="utf-8")
        for file in (file for part in parts for file in sorted(part.glob("samples_*"))):
            (partial / file.name).write_bytes(file.read_bytes())


def gather(parts: list[Path], tasks: list[str]) -> tuple[dict, list[bytes]]:
    """Results by task, and lines of samples in the order of tasks, out of those of several jobs."""
    results, lines = {}, {name: [] for name in tasks}
    for part in parts:
        results |= read_json(part / "results.json")
        for line in (part / "samples.jsonl").read_bytes().splitlines(keepends=True):
            lines[json.loads(line)["task"]].append(line)
    return results, [line for name in tasks for line in lines[name]]


def read_lm_eval(document: dict) -> dict:
    """Results by task, as `benchmark` gives them, out of a `results_*.json` of any lm-eval.

    Of each task its first metric and filter are taken, and all that the file says of how it was
    asked.
    """
    return {task: _result(task, document) for task in document["results"]}


def _result(task: str, document: dict) -> dict:
    result = document["results"][task]
    key = next(k for k in result if "," in k and "_stderr," not in k)
    metric, _, answer_filter = key.partition(",")
    stderr = result.get(key.replace(",", "_stderr,", 1))
    config, template = document.get("config", {}), document.get("chat_template")
    better = document.get("higher_is_better", {}).get(task, {}).get(metric)
    return {
        "metric": metric,
        "value": float(result[key]),
        "stderr": float(stderr) if isinstance(stderr, int | float) else None,
        "questions": document.get("n-samples", {}).get(task, {}).get("effective"),
        "higher_is_better": better is not False,
        "chance": None,
        "asked": {
            "filter": answer_filter,
            "version": str(document.get("versions", {}).get(task)),
            "num_fewshot": document.get("n-shot", {}).get(task),
            "fewshot_as_multiturn": document.get("fewshot_as_multiturn"),
            "chat_template": bool(template),
            "template": digest_text(template or "")[:12],
            "system": document.get("system_instruction"),
            "limit": config.get("limit"),
            "batch_size": str(config.get("batch_size")),
        },
    }
