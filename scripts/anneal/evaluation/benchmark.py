"""Benchmarks by lm-eval as a library: the same questions, put the same way, to any model."""

import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from statistics import fmean

import lm_eval
from datasets.exceptions import DatasetNotFoundError
from lm_eval.tasks import TaskManager

from anneal.errors import UserError
from anneal.evaluation.harness import Harness, load_harness
from anneal.evaluation.tasks import stage_tasks
from anneal.provenance.digests import digest_text

ASKED = ("fewshot_as_multiturn", "limit", "chat_template", "system")
logging.getLogger("lm_eval").setLevel(logging.ERROR)


def benchmark(
    settings: dict, folder: Path, heldout: Mapping[str, Path]
) -> tuple[dict, list[dict], list[dict]]:
    """Score one model on all tasks.

    Args:
        settings: the `evaluate` section.
        folder: a base model, a tuned model, or an adapter.
        heldout: by task, the JSONL that takes the place of the word HELDOUT in its file.

    Returns:
        results by task: `metric`, `value`, `stderr`, `questions`, `chance` (the score of a guess,
        of multiple choices), `higher_is_better`, a digest of all `responses`, and all that must be
        equal for two results to be comparable (`asked`); one sample a question; and what lm-eval
        gave back for each task.
    """
    model = load_harness(folder, settings)
    results, samples, outcomes = {}, [], []
    with tempfile.TemporaryDirectory() as staged:
        stage_tasks(Path(settings["include"]), Path(staged), heldout)
        known = {path.stem for path in Path(staged).glob("*.yaml")}
        manager = TaskManager(
            include_path=staged, include_defaults=not known >= set(settings["tasks"])
        )
        for name, task in settings["tasks"].items():
            outcome = _ask(model, _load(manager, name, task), task)
            key = _metric_key(outcome, name, task)
            asked = _asked(outcome, name, key, task, model.tokenizer)
            shared = {k: settings[k] for k in ("batch_size", "precision")}
            results[name] = {**_summary(outcome, name, key), "asked": {**asked, **shared}}
            samples += [_sample(name, part, s, key) for part, s in _answered(outcome, key)]
            outcomes.append(_without_place(outcome, staged, settings["include"]))
    return results, samples, outcomes


def _load(manager: TaskManager, name: str, task: dict):
    """The task or group of a name, with its data.

    Raises:
        UserError: there is none, its data cannot be had, or it fixes other settings.
    """
    where = f"evaluate.tasks.{name}"
    if name not in manager.all_tasks:
        near = get_close_matches(name, manager.all_tasks, 1)
        what = "lm-eval has no such task" + (f" (is it {near[0]}?)" if near else "")
        raise UserError(where, what, f"add {name}.yaml to the include folder")
    try:
        loaded = manager.load([name])
    except (ConnectionError, DatasetNotFoundError, FileNotFoundError) as error:
        do = "check the data files of its YAML; to fetch data from the Hub, set evaluate.download"
        raise UserError(where, f"its data cannot be had ({_first_line(error)})", do) from None
    if name in manager.all_tags:
        what = "it is a tag, which has no score of its own"
        raise UserError(where, what, f"name its tasks: {', '.join(loaded['tasks'])}")
    for found in loaded["tasks"].values():
        if task["num_fewshot"] and found.get_config("num_fewshot") == 0:
            what = f"the file of {found.task_name} fixes it to 0"
            raise UserError(f"{where}.num_fewshot", what, "take num_fewshot out of that file")
    return loaded.get("groups", {}).get(name) or loaded["tasks"][name]


def _ask(model: Harness, loaded, task: dict) -> dict:
    try:
        return lm_eval.simple_evaluate(
            model,
            tasks=[loaded],
            num_fewshot=task["num_fewshot"],
            fewshot_as_multiturn=task["fewshot_as_multiturn"],
            limit=task["limit"],
            apply_chat_template=task["chat_template"],
            system_instruction=task["system"],
            bootstrap_iters=1000,
        )
    except ValueError as error:
        if "unsafe" not in str(error) and "multimodal" not in str(error):
            raise
        what = f"lm-eval refuses it ({_first_line(error)})"
        raise UserError("evaluate.tasks", what, "choose another task") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _metric_key(outcome: dict, name: str, task: dict) -> str:
    """`METRIC,FILTER` of the metric that is compared."""
    result = outcome["results"][name]
    found = [key for key in result if "," in key and not key.partition(",")[0].endswith("_stderr")]
    where = f"evaluate.tasks.{name}"
    if not found:
        parts = ", ".join(outcome["group_subtasks"].get(name, []))
        raise UserError(where, "lm-eval gives this group no score of its own", f"name {parts}")
    metrics = [key for key in found if key.partition(",")[0] == task["metric"]]
    if not metrics:
        known = ", ".join(dict.fromkeys(key.partition(",")[0] for key in found))
        what = f"no metric '{task['metric']}'"
        raise UserError(f"{where}.metric", what, f"this task has: {known}")
    filters = [key.partition(",")[2] for key in metrics]
    if task["filter"] not in (None, *filters):
        what = f"no filter '{task['filter']}'"
        raise UserError(f"{where}.filter", what, f"this task has: {', '.join(filters)}")
    return f"{task['metric']},{task['filter'] or filters[0]}"


def _summary(outcome: dict, name: str, key: str) -> dict:
    result, metric = outcome["results"][name], key.partition(",")[0]
    stderr = result.get(key.replace(",", "_stderr,", 1))
    answered = [sample for _, sample in _answered(outcome, key)]
    better = outcome["higher_is_better"].get(name, {}).get(metric)
    return {
        "metric": metric,
        "value": float(result[key]),
        "stderr": float(stderr) if isinstance(stderr, int | float) else None,
        "questions": len(answered),
        "higher_is_better": better is not False,
        "chance": _chance(answered),
        "responses": _digest(sample["resps"] for sample in answered),
    }


def _asked(outcome: dict, name: str, key: str, task: dict, tokenizer) -> dict:
    template = tokenizer.chat_template or "" if task["chat_template"] else ""
    hashes = (f"{s['prompt_hash']}{s['target_hash']}" for _, s in _answered(outcome, key))
    return {
        **{k: task[k] for k in ASKED},
        "num_fewshot": outcome["n-shot"].get(name),
        "template": digest_text(template)[:12],
        "version": str(outcome["versions"][name]),
        "filter": key.partition(",")[2],
        "prompts": _digest(hashes),
        "lm_eval": lm_eval.__version__,
    }


def _answered(outcome: dict, key: str) -> Iterator[tuple[str, dict]]:
    """Task and sample of each question, behind the filter of the metric, in order."""
    for part in sorted(outcome["samples"]):
        for sample in sorted(outcome["samples"][part], key=lambda sample: sample["doc_id"]):
            if sample["filter"] == key.partition(",")[2]:
                yield part, sample


def _chance(answered: list[dict]) -> float | None:
    """What a guess would score: the mean of one in so many choices."""
    choices = [len(sample["arguments"]) for sample in answered]
    return fmean(1 / n for n in choices) if min(choices, default=1) > 1 else None


def _digest(values) -> str:
    return digest_text(json.dumps(list(values)))[:12]


def _without_place(outcome: dict, staged: str, include: str) -> dict:
    """What lm-eval gave back, with the include folder in place of the one it has read."""
    for config in outcome["configs"].values():
        source = config.get("metadata", {}).get("config_source", "")
        config["metadata"]["config_source"] = source.replace(staged, include)
    return outcome


def _sample(name: str, part: str, sample: dict, key: str) -> dict:
    score = sample.get(key.partition(",")[0])
    return {
        "task": name,
        "question": sample["doc_id"],
        "score": float(score) if isinstance(score, int | float) else None,
        "prompt": str(sample["arguments"][0][0]),
        "target": _target(sample),
        "answer": _answer(sample),
        **({"part": part} if part != name else {}),
    }


def _target(sample: dict) -> str:
    """The right text; of a multiple choice, the right choice."""
    target = sample["target"]
    if isinstance(target, int) and len(sample["arguments"]) > 1:
        return str(sample["arguments"][target][1]).strip()
    return str(target)


def _answer(sample: dict) -> str:
    """The generated text, or the choice with the highest likelihood."""
    answers = sample["filtered_resps"]
    if len(answers) < 2 or isinstance(answers[0], str):
        return str(answers[0])
    scores = [float(answer[0]) for answer in answers]
    return str(sample["arguments"][scores.index(max(scores))][1]).strip()
