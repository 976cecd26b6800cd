"""What a request asks: some tasks are shown, and as many more are wanted in the same form.

A request follows from the settings, its number and the tasks so far, so that it can be made again.
"""

import random

from anneal.provenance.digests import digest_value

NOTHING = "(none)"
SHOWN = "Task {number}\nInstruction: {instruction}\nInput: {input}\nOutput: {output}"
ASKED = """\
An assistant that reads and writes text gets tasks like these. A task is an instruction, an input \
that it needs ("{nothing}" if it needs none), and the output that a careful expert would write.

{tasks}

Now write tasks {first} to {last} in exactly this form, each with the lines "Task", "Instruction:", \
"Input:" and "Output:". Make them unlike the ones above and unlike each other: other subjects, \
other verbs, questions as well as orders, short and long. Inputs are realistic and complete. \
Outputs are whole and correct. Write nothing but the tasks."""


def request(settings: dict, seeds: list[dict], kept: list[dict], number: int) -> tuple[dict, list]:
    """Body of a chat completion, and the ids of the tasks it shows.

    Args:
        settings: those of `config.generate.Generate`.
        kept: generated tasks that may be shown.
    """
    tasks = draw(settings, seeds, kept, number)
    body = {
        "model": settings["model"],
        "messages": [{"role": "user", "content": wording(tasks, settings["wanted"])}],
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


def wording(tasks: list[dict], wanted: int) -> str:
    first = len(tasks) + 1
    shown = [
        SHOWN.format_map({**task, "number": n, "input": task["input"] or NOTHING})
        for n, task in enumerate(tasks, 1)
    ]
    place = {"first": first, "last": first + wanted - 1, "nothing": NOTHING}
    return ASKED.format(tasks="\n\n".join(shown), **place)


def key(place: str, body: dict) -> str:
    """What an answer is remembered by: who was asked, and what."""
    return digest_value([place, body])
