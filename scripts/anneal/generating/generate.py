"""Tasks from answers, round by round, until there are enough (Self-Instruct, Wang et al. 2023).

A round's requests follow from the seeds and from what the rounds before have kept, and its answers
are read in the order of their requests: which answer came first changes nothing.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from anneal.errors import UserError
from anneal.generating.journal import Journal
from anneal.generating.novelty import Earlier
from anneal.generating.parse import tasks_of
from anneal.generating.quality import fault
from anneal.generating.requests import key, request
from anneal.generating.seeds import read_seeds
from anneal.provenance.files import whole_file


class Tasks:
    """What was kept and what was rejected, and why."""

    def __init__(self, settings: dict, seeds: list[dict]):
        self.settings, self.kept, self.rejected = settings, [], []
        self.earlier = Earlier()
        for seed in seeds:
            self.earlier.add(seed["id"], seed["instruction"])

    @property
    def enough(self) -> bool:
        return len(self.kept) >= self.settings["count"]

    def take(self, task: dict, problem: str | None, origin: dict) -> None:
        """Keep a task, or reject it with a reason."""
        problem = problem or ("not needed" if self.enough else fault(task, self.settings))
        likeness, like = (0.0, None) if problem else self.earlier.nearest(task["instruction"])
        if likeness >= self.settings["max_similarity"]:
            problem = "like an earlier one"
        row = {**origin, **task, "rouge_l": round(likeness, 4), "nearest": like}
        if problem:
            self.rejected.append({**row, "reason": problem})
        else:
            self.earlier.add(row["id"], task["instruction"])
            self.kept.append(row)


def generate(settings: dict, journal: Journal, most: int, output: Path, rejects: Path) -> dict:
    """Write kept and rejected tasks as JSON lines.

    Args:
        settings: those of `config.generate.Generate`.
        most: requests after which to give up.

    Returns:
        counts: `requests`; `asked` of them now; `without_task`; `read` = `kept` + the sum of
            `rejected` (by reason); `prompt_tokens`, `answer_tokens`; `without_usage`.

    Raises:
        UserError: too few tasks came of so many requests; or the asker's own.
    """
    seeds = read_seeds(settings["seeds"])
    tasks, answers, without_task = Tasks(settings, seeds), [], 0
    while not tasks.enough and len(answers) < most:
        numbers = range(len(answers), min(len(answers) + settings["round"], most))
        asked = [request(settings, seeds, tasks.kept, number) for number in numbers]
        new = journal.answers(body for body, _ in asked)
        for number, (body, shown), answer in zip(numbers, asked, new, strict=True):
            found = tasks_of(answer["text"], answer["finish"])
            without_task += not found
            for place, (task, problem) in enumerate(found):
                tasks.take(task, problem, _origin(number, place, journal.place, body, shown))
        answers += new
    counts = _counts(tasks, answers) | {"asked": journal.asked, "without_task": without_task}
    if not tasks.enough:
        raise _too_few(settings, counts)
    _write(output, tasks.kept)
    _write(rejects, tasks.rejected)
    return counts


def _origin(number: int, place: int, asked: str, body: dict, shown: list[str]) -> dict:
    """Where a task comes from: who wrote it, in answer to what, after which tasks."""
    return {
        "id": f"generated-{number}-{place}",
        "generator": body["model"],
        "request": key(asked, body),
        "shown": shown,
    }


def _counts(tasks: Tasks, answers: list[dict]) -> dict:
    reasons = Counter(row["reason"] for row in tasks.rejected)
    usage = {
        name: sum(answer[name] or 0 for answer in answers)
        for name in ("prompt_tokens", "answer_tokens")
    }
    return {
        "requests": len(answers),
        "read": len(tasks.kept) + len(tasks.rejected),
        "kept": len(tasks.kept),
        "rejected": dict(sorted(reasons.items())),
        "without_usage": sum(answer["answer_tokens"] is None for answer in answers),
        **usage,
    }


def _too_few(settings: dict, counts: dict) -> UserError:
    common = sorted(counts["rejected"].items(), key=lambda pair: -pair[1])[:3]
    why = ", ".join(f"{count} {reason}" for reason, count in common)
    what = f"{counts['requests']} requests brought {counts['kept']} of {settings['count']} tasks"
    what += f" ({counts['without_task']} answers held none; rejected: {why or 'none'})"
    do = "raise max_requests, or lower count; answers so far are kept and not asked again"
    return UserError(f"generate from {settings['seeds']}", what, do)


def _write(path: Path, rows: Iterable[dict]) -> None:
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
