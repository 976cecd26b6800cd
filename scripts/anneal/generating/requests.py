"""What a request asks: tasks are shown as turns of a conversation, and more are wanted.

Small models go on with what they seem to have written; a list in one message they repeat. A request
follows from the settings, its number and the tasks so far, so that it can be made again.
"""

import random

from anneal.provenance.digests import digest_value

NOTHING = "(none)"
TASK = "Task {number}\nInstruction: {instruction}\nInput: {input}\nOutput: {output}"
RULES = """\
Write tasks for an assistant that reads and writes text. A task is an instruction, an input that \
it needs ("{nothing}" if it needs none), and the output that a careful expert would write. The \
input is realistic and complete, the output whole and correct. Write nothing but the tasks. \
Begin with one.\
"""
NEXT = "Write another one, unlike those before: another subject, another verb, another length."
MORE = "Write tasks {first} to {last} in the same form, unlike those before and unlike each other."


def request(settings: dict, seeds: list[dict], kept: list[dict], number: int) -> tuple[dict, list]:
    """Body of a chat completion, and the ids of the tasks it shows.

    Args:
        settings: those of `config.generate.Generate`.
        kept: generated tasks that may be shown.
    """
    tasks = draw(settings, seeds, kept, number)
    body = {
        "model": settings["model"],
        "messages": conversation(tasks, settings["wanted"]),
        "temperature": settings["temperature"],
        "top_p": settings["top_p"],
        "max_tokens": settings["max_tokens"],
        "seed": settings["seed"] + number,
    }
    return body, [task["id"] for task in tasks]


def draw(settings: dict, seeds: list[dict], kept: list[dict], number: int) -> list[dict]:
    """The tasks that request `number` shows, in their order."""
    chance = random.Random(f"{settings['seed']}/{number}")
    new = chance.sample(kept, min(settings["shown_new"], settings["shown"], len(kept)))
    old = chance.sample(seeds, min(settings["shown"] - len(new), len(seeds)))
    return chance.sample(old + new, len(old + new))


def conversation(tasks: list[dict], wanted: int) -> list[dict]:
    """Messages in which an assistant has written these tasks and is asked for `wanted` more."""
    messages, asked = [], RULES.format(nothing=NOTHING)
    for number, task in enumerate(tasks, 1):
        text = TASK.format_map({**task, "number": number, "input": task["input"] or NOTHING})
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": text}]
        asked = NEXT
    first = len(tasks) + 1
    last = NEXT if wanted == 1 else MORE.format(first=first, last=first + wanted - 1)
    return [*messages, {"role": "user", "content": last}]


def key(place: str, body: dict) -> str:
    """What an answer is remembered by: who was asked, and what."""
    return digest_value([place, body])
