"""The tasks in an answer, whatever numbers, stars and hashes a model puts around its labels."""

import re
from itertools import zip_longest

# A heading: "Task 9", "## Task 9:", "**Task 9**".
HEADING = re.compile(r"^[\W_]*task\s*#?\d+\b[\W_]*$", re.I | re.M)
LABEL = re.compile(r"^[\W_]*(instruction|input|output)s?[*_ ]*:[*_]*[^\S\n]*", re.I | re.M)
NOTHING = re.compile(r"\W*(none|no input|n/?a|empty)\W*", re.I)
CUT = "length"


def tasks_of(text: str, finish: str) -> list[tuple[dict, str | None]]:
    """Tasks of an answer in order, each with the reason why it is none, if so.

    Args:
        finish: why the answer ended; the last task of one that was cut off is not whole.
    """
    first = LABEL.search(text)
    parts = HEADING.split(text)
    # before the first heading is talk, unless the answer goes on from the request's last line
    begun = first and first[1].lower() == "instruction" and LABEL.search(parts[0])
    found = [_task(part) for part in (parts if begun else parts[1:])]
    if found and finish == CUT:
        found[-1] = (found[-1][0], "cut off")
    return found


def _task(part: str) -> tuple[dict, str | None]:
    labels = list(LABEL.finditer(part))
    fields = {"instruction": "", "input": "", "output": ""}
    for label, after in zip_longest(labels, labels[1:]):
        name, end = label[1].lower(), after.start() if after else len(part)
        if fields[name]:
            return fields, "a label twice"
        fields[name] = part[label.end() : end].strip()
    if NOTHING.fullmatch(fields["input"]):
        fields["input"] = ""
    missing = [name for name in ("instruction", "output") if not fields[name]]
    return fields, f"no {missing[0]}" if missing else None
