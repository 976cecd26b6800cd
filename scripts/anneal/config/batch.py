"""Batch identity: global batch = micro-batch x accumulation x processes."""

from math import prod

NAMES = ("global_batch", "micro_batch", "accumulation", "processes")


def solve_batch(
    global_batch: int | None = None,
    micro_batch: int | None = None,
    accumulation: int | None = None,
    processes: int | None = None,
) -> dict[str, int]:
    """All four numbers, the one left out solved from the other three.

    Args:
        global_batch: sequences in one optimiser step.
        micro_batch: sequences that one process passes through the model at once.
        accumulation: micro-batches of one process in one optimiser step.
        processes: those that get different sequences.

    Raises:
        ValueError: more than one is left out, or no whole number fits.
    """
    given = dict(zip(NAMES, (global_batch, micro_batch, accumulation, processes), strict=True))
    unknown = [name for name, value in given.items() if value is None]
    if len(unknown) > 1:
        raise ValueError(f"{' and '.join(unknown)} are not given: one can be solved, not two")
    factors = prod(given[name] or 1 for name in NAMES[1:])
    text = " x ".join(f"{name} {given[name]}" for name in NAMES[1:] if given[name])
    if unknown == ["global_batch"]:
        return {**given, "global_batch": factors}
    if unknown and global_batch % factors:
        raise ValueError(f"global_batch {global_batch} is no multiple of {text} = {factors}")
    if not unknown and global_batch != factors:
        raise ValueError(f"global_batch {global_batch} is not {text} = {factors}")
    return {name: value or global_batch // factors for name, value in given.items()}
