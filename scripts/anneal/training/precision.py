"""The number format and the kernels that the device of this job really has."""

import importlib.util

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


def has_tf32() -> bool:
    """Whether float32 products may be rounded to 10 bits, which is much faster."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= AMPERE


def check_kernels(training: dict) -> None:
    """Raises UserError if the kernels asked for need a GPU or a package that is not here."""
    flash = training["attention"] == "flash_attention_2"
    wanted = {"attention": "flash_attn"} if flash else {}
    wanted |= {"liger": "liger_kernel"} if training["liger"] else {}
    for key, package in wanted.items():
        if not torch.cuda.is_available():
            what, do = f"{package} needs a GPU, and this job sees none", "use the default"
            raise UserError(f"runs.*.training.{key}", what, do)
        if importlib.util.find_spec(package) is None:
            what, do = f"package '{package}' is not installed", "install it, or use the default"
            raise UserError(f"runs.*.training.{key}", what, do)


def _problem(precision: str) -> str | None:
    if not torch.cuda.is_available():
        return "fp16 needs a GPU, and this job sees none" if precision == "fp16" else None
    capability = torch.cuda.get_device_capability()
    if precision == "bf16" and capability < AMPERE:
        name = torch.cuda.get_device_name()
        return f"{name} (compute capability {capability[0]}.{capability[1]}) has no bf16"
    return None
