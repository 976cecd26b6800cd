"""Does a run fit its device, and if not, which change of settings is the smallest that does?"""

from collections.abc import Callable, Iterator
from itertools import product

from pydantic import ValidationError

from anneal.config.hardware import CPU
from anneal.errors import UserError
from anneal.planning.memory import Memory

# The estimate's error: a run is refused only if it exceeds the memory by more than this share.
MARGIN = 0.15
TIGHT = 0.9
MOST = 64  # processes that are tried

Estimate = Callable[[object], Memory]


def verdict(run, memory: Memory, device) -> str:
    """`fits`, `tight` (it may not), or `too large`; nothing is refused on a CPU."""
    used = memory.total() / (device.memory_gb * 1e9)
    if run.hardware == CPU:
        return "fits" if used <= 1 else "tight"
    return "fits" if used <= TIGHT else "tight" if used <= 1 + MARGIN else "too large"


def check_fit(name: str, run, memory: Memory, device, estimate: Estimate) -> None:
    """Raises UserError, with the nearest setting that fits, if the run is too large."""
    if verdict(run, memory, device) != "too large":
        return
    largest = max(memory.parts(), key=memory.parts().get)
    what = (
        f"needs about {memory.total() / 1e9:,.3g} GB on a device of {device.memory_gb:g} GB "
        f"({largest.replace('_', ' ')} {memory.parts()[largest] / 1e9:,.3g} GB)"
    )
    found = nearest(run, device, estimate)
    none = "no setting fits: take a smaller model, or lower tokenize.max_length"
    raise UserError(f"runs.{name}", what, f"it fits with {found}" if found else none)


def nearest(run, device, estimate: Estimate) -> str | None:
    """The first change that fits, in the order of what it costs: settings that change no result,
    then an adapter, then more devices; None if nothing does."""
    for words, changed in _changes(run):
        if estimate(changed).total() <= TIGHT * device.memory_gb * 1e9:
            return ", ".join(words)
    return None


def _changes(run) -> Iterator[tuple[list[str], object]]:
    """Sets of changes that make a valid run, in words and applied."""
    for more, tuning in _far(run):
        for offload, checkpointing, micro in product((False, True), (False, True), _micro(run)):
            edits = [more, tuning]
            edits += [{"strategy.offload": True}] if offload else []
            edits += [{"training.gradient_checkpointing": True}] if checkpointing else []
            edits += [micro] if micro else []
            edit = {key: value for part in edits for key, value in part.items()}
            changed = _applied(run, edit) if edit else None
            if changed and changed != run:
                yield [f"{key} {_shown(value)}" for key, value in edit.items()], changed


def _far(run) -> list[tuple[dict, dict]]:
    """Processes and tuning, the nearest first."""
    adapters = ("lora", "qlora") if run.tuning.kind == "full" else ("qlora",)
    near = [({}, {})] + [({}, {"tuning.kind": kind}) for kind in adapters]
    count = run.strategy.world_size * 2
    while count <= MOST:
        each = {"strategy.kind": "fsdp", "strategy.processes": count // run.strategy.nodes}
        near += [(each, {}), (each, {"tuning.kind": "lora"})]
        count *= 2
    return near


def _micro(run) -> list[dict]:
    """Smaller micro-batches, the global batch kept."""
    size = run.training.per_device_train_batch_size
    smaller = [{}]
    while size > 1:
        size //= 2
        smaller.append({"training.per_device_train_batch_size": size})
    return smaller


def _applied(run, edit: dict):
    """The run with these settings and the same global batch; None if they do not go together."""
    given = run.model_dump(exclude_unset=True)
    for key, value in edit.items():
        section, _, name = key.partition(".")
        given[section] = {**given.get(section, {}), name: value}
    training = given["training"] = dict(given.get("training", {}))
    training["global_batch_size"] = run.batch()["global_batch"]
    training.pop("gradient_accumulation_steps", None)
    try:
        return type(run).model_validate(given)
    except ValidationError:
        return None


def _shown(value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
