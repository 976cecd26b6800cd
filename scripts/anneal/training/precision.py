"""The number format that the device of this job really has."""

import torch

from anneal.cli import log
from anneal.errors import UserError

AMPERE = (8, 0)


def with_usable_precision(settings: dict) -> dict:
    """A run's settings with the number format that it will really have."""
    training = settings["training"]
    return settings | {"training": training | {"precision": usable_precision(training)}}


def usable_precision(training: dict) -> str:
    """The precision asked for, or the stated fallback where the device lacks it.

    Raises:
        UserError: the device lacks it, and there is no fallback.
    """
    wanted, fallback = training["precision"], training["precision_fallback"]
    problem = _problem(wanted)
    if problem is None:
        return wanted
    if fallback is None or _problem(fallback):
        do = "set training.precision to fp32, or name a precision_fallback"
        raise UserError("runs.*.training.precision", f"'{wanted}': {problem}", do)
    log.warning(
        "%s: %s; training in %s instead, as precision_fallback says", wanted, problem, fallback
    )
    return fallback


def _problem(precision: str) -> str | None:
    if not torch.cuda.is_available():
        return "fp16 needs a GPU, and this job sees none" if precision == "fp16" else None
    capability = torch.cuda.get_device_capability()
    if precision == "bf16" and capability < AMPERE:
        name = torch.cuda.get_device_name()
        return f"{name} (compute capability {capability[0]}.{capability[1]}) has no bf16"
    return None
