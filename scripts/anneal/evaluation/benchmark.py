"""Benchmarks by lm-eval as a library: the same questions, put the same way, to any model."""

import json
import logging
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import lm_eval
import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from anneal.errors import UserError
from anneal.provenance.digests import digest_text
from anneal.training.models import load_model, load_tokenizer

HELDOUT = "HELDOUT"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
logging.getLogger("lm_eval").setLevel(logging.ERROR)


def benchmark(settings: dict, folder: Path, heldout: Mapping[str, Path]) -> tuple[dict, list[dict]]:
    """Score one model on all tasks.

    Args:
        settings: the `evaluate` section.
        folder: a base model, a tuned model, or an adapter.
        heldout: by task, the JSONL that takes the place of the word HELDOUT in its file.

    Returns:
        results by task: `metric`, `value`, `stderr`, `questions` and all that must be equal for
        two results to be comparable (`asked`); and one sample a question.
    """
    tokenizer = load_tokenizer(folder)
    model = HFLM(
        pretrained=load_model(folder).eval().to(DEVICE),
        tokenizer=tokenizer,
        batch_size=settings["batch_size"],
    )
    results, samples = {}, []
    with tempfile.TemporaryDirectory() as staged:
        stage_tasks(Path(settings["include"]), Path(staged), heldout)
        known = {path.stem for path in Path(staged).glob("*.yaml")}
        manager = TaskManager(
            include_path=staged, include_defaults=not known >= set(settings["tasks"])
        )
        for name, task in settings["tasks"].items():
            outcome = _ask(model, manager, name, task)
            results[name] = _summary(outcome, name, task, tokenizer)
            samples += _samples(outcome, name, task["metric"])
    return results, samples


def stage_tasks(include: Path, folder: Path, heldout: Mapping[str, Path]) -> None:
    """Copy local task files, the held-out file's path put in place of HELDOUT."""
    for file in sorted(include.glob("*")):
        if file.suffix in (".yaml", ".yml"):
            rows = json.dumps(str(heldout[file.stem].resolve()))
            text = file.read_text("utf-8").replace(HELDOUT, rows)
            (folder / file.name).write_text(text, "utf-8")
        elif file.suffix == ".py":
            shutil.copyfile(file, folder / file.name)


def _ask(model, manager: TaskManager, name: str, task: dict) -> dict:
    try:
        return lm_eval.simple_evaluate(
            model,
            tasks=[name],
            task_manager=manager,
            num_fewshot=task["num_fewshot"],
            limit=task["limit"],
            apply_chat_template=task["chat_template"],
            system_instruction=task["system"],
            bootstrap_iters=1000,
        )
    except KeyError as error:
        do = f"add {name}.yaml to the include folder"
        raise UserError(f"evaluate.tasks.{name}", f"no such task ({error})", do) from None


def _summary(outcome: dict, name: str, task: dict, tokenizer) -> dict:
    result = outcome["results"][name]
    found = {key.partition(",")[0]: key for key in result if "," in key}
    if task["metric"] not in found:
        known = ", ".join(sorted(key for key in found if not key.endswith("_stderr")))
        what = f"no metric '{task['metric']}'"
        raise UserError(f"evaluate.tasks.{name}.metric", what, f"this task has: {known}")
    key = found[task["metric"]]
    stderr = result.get(key.replace(",", "_stderr,", 1))
    template = tokenizer.chat_template or "" if task["chat_template"] else ""
    return {
        "metric": task["metric"],
        "value": float(result[key]),
        "stderr": float(stderr) if isinstance(stderr, int | float) else None,
        "questions": len(outcome["samples"][name]),
        "asked": {
            **{k: task[k] for k in ("num_fewshot", "limit", "chat_template", "system")},
            "template": digest_text(template)[:12],
            "version": str(outcome["versions"][name]),
            "filter": key.partition(",")[2],
            "lm_eval": lm_eval.__version__,
        },
    }


def _samples(outcome: dict, name: str, metric: str) -> list[dict]:
    return [
        {
            "task": name,
            "question": sample["doc_id"],
            "score": float(sample[metric]),
            "prompt": str(sample["arguments"][0][0]),
            "target": _target(sample),
            "answer": _answer(sample),
        }
        for sample in outcome["samples"][name]
    ]


def _target(sample: dict) -> str:
    """The right text; of a multiple choice, the right choice."""
    target = sample["target"]
    if isinstance(target, int) and len(sample["arguments"]) > 1:
        return str(sample["arguments"][target][1]).strip()
    return str(target)


def _answer(sample: dict) -> str:
    """The generated text, or the choice with the highest likelihood."""
    answers = sample["filtered_resps"]
    if isinstance(answers[0], str):
        return answers[0]
    scores = [float(answer[0]) for answer in answers]
    return str(sample["arguments"][scores.index(max(scores))][1]).strip()
