"""One clear line out of a pydantic error: key path, line, and the nearest known key."""

import difflib
import typing

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, model: type[BaseModel], lines: dict) -> tuple[str, str, str]:
    """(`:line` or nothing, what is wrong, what to do) for the first problem of an error."""
    problems = error.errors(include_url=False)
    first = min(problems, key=lambda p: lines.get(tuple(p["loc"]), 1 << 30))
    location = tuple(first["loc"])
    line = next(
        (lines[location[:n]] for n in range(len(location), 0, -1) if location[:n] in lines), 0
    )
    key = ".".join(str(part) for part in location)
    what, do = _words(first, model, location)
    more = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
    return f":{line}" if line else "", (f"{key}: " if key else "") + what + more, do


def _words(problem: dict, model: type[BaseModel], location: tuple) -> tuple[str, str]:
    if problem["type"] == "extra_forbidden":
        known = _known_keys(model, location[:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        return "unknown key", f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
    if problem["type"] == "missing":
        return "is missing", "add it"
    given = problem["input"]
    shown = f", not {given!r}" if isinstance(given, str | int | float | None) else ""
    return problem["msg"].removeprefix("Value error, ") + shown, ""


def _known_keys(model: type[BaseModel], location: tuple) -> list[str]:
    """Keys of the section that a path leads to; names of a dict's entries are stepped over."""
    kind: object = model
    for part in location:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = _given(kind.model_fields[part].annotation)
        else:
            kind = typing.get_args(kind)[-1]
    return list(kind.model_fields) if isinstance(kind, type) else []


def _given(kind):
    """The section of `Section | None`; any other type as it is."""
    inner = [k for k in typing.get_args(kind) if k is not type(None)]
    return inner[0] if type(None) in typing.get_args(kind) and len(inner) == 1 else kind
