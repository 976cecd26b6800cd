"""Steps, time, cost, disk and network of a run.

Arithmetic of training: 2 operations a weight and token forward, 2 back to the inputs, 2 to the
weights (Kaplan 2020, arXiv:2001.08361, section 2.1), so 6 for weights that are trained and 4 for
frozen ones below an adapter; recomputing activations adds a forward pass. Attention adds 12 x
layers x hidden x length a token (Chowdhery 2022, arXiv:2204.02311, appendix B).
"""

import math
from dataclasses import dataclass

from anneal.config.hardware import CPU
from anneal.config.run import ONLINE
from anneal.planning.data import Data
from anneal.planning.memory import MOMENTS, NF4, WIDTH
from anneal.planning.shape import Shape

# Assumed share of the device's peak that a tuned run reaches. Published: 40-46 % for 7B to 70B on
# H100 (LLM Foundry's table), 44 % packed and without compile on A100 (torchtune's README).
UTILISATION = 0.35
TAKEN_APART = 0.25  # where 4-bit weights are unpacked in each pass
# Share of its speed that a device keeps beside those of other nodes.
FAST, SLOW = 0.85, 0.35  # 200-400 Gb/s InfiniBand 80-90 %; 25 Gb/s Ethernet 30-40 %
LINKS = {"25 Gb/s Ethernet": 25e9, "200 Gb/s InfiniBand": 200e9, "400 Gb/s InfiniBand": 400e9}
HOUR = 3600


@dataclass(frozen=True)
class Work:
    """`tokens` are those of all passes; None where the length of the data is not known."""

    global_batch: int
    steps: int | None
    epochs: float | None
    tokens: int | None
    operations: float | None
    hours: float | None
    device_hours: float | None
    cost: float | None
    utilisation: float


def work_of(run, shape: Shape, data: Data, device) -> Work:
    """Steps and time of a run on so many devices.

    Args:
        device: a `config.hardware.Device`.
    """
    batch = run.batch()["global_batch"]
    steps, epochs = steps_of(run, data)
    tokens = _tokens(run, data, steps, epochs)
    used = TAKEN_APART if run.tuning.kind == "qlora" else UTILISATION
    if tokens is None or run.method in ONLINE:
        return Work(batch, steps, epochs, tokens, None, None, None, None, used)
    operations = tokens * operations_a_token(run, shape, data.longest)
    spread = FAST if run.strategy.nodes > 1 else 1.0
    devices = 1 if run.hardware == CPU else run.strategy.world_size
    hours = operations / (devices * device.bf16_tflops * 1e12 * used * spread) / HOUR
    cost = hours * devices * device.price_per_hour
    return Work(batch, steps, epochs, tokens, operations, hours, hours * devices, cost, used)


def steps_of(run, data: Data) -> tuple[int | None, float | None]:
    """Optimiser steps as the Trainer counts them, and passes over the data."""
    training, batch = run.training, run.batch()["global_batch"]
    if not data.sequences:
        return (training.max_steps if training.max_steps > 0 else None), None
    each = max(1, math.ceil(data.sequences / batch))
    if training.max_steps > 0:
        return training.max_steps, training.max_steps / each
    return math.ceil(training.num_train_epochs * each), training.num_train_epochs


def _tokens(run, data: Data, steps: int | None, epochs: float | None) -> int | None:
    if data.tokens and epochs is not None:
        return math.ceil(data.tokens * epochs)
    return steps * run.batch()["global_batch"] * data.longest if steps else None


def operations_a_token(run, shape: Shape, length: int) -> float:
    """Floating point operations for each token that is trained on."""
    weights = shape.weights - (0 if shape.tied else shape.embedding)
    again = 2 * weights if run.training.gradient_checkpointing else 0
    attention = 12 * shape.layers * shape.hidden * length
    trained = 6 * weights if run.tuning.kind == "full" else 4 * weights + 6 * shape.trained
    reference = 2 * weights if run.method in ("dpo", "kto") else 0
    return trained + again + attention + reference


def checkpoint_bytes(run, shape: Shape) -> float:
    """What is trained, in float32, with the optimiser's moments."""
    return shape.trained * (4 + MOMENTS[run.training.optim])


def disk_of(run, shape: Shape) -> dict[str, float]:
    """Bytes of checkpoints (one more while it is written), of the result, and of the base."""
    kept = run.training.save_total_limit + run.training.keep_best + 1
    one = checkpoint_bytes(run, shape)
    return {
        "checkpoint": one,
        "checkpoints": kept * one,
        "result": 4 * shape.trained,
        "base": 2 * shape.weights,
    }


def network_of(run, shape: Shape, work: Work) -> list[str]:
    """Advice on how the nodes are joined; empty for one node."""
    nodes = run.strategy.nodes
    if nodes == 1:
        return []
    sent = traffic(run, shape)
    seconds = {name: sent * 8 / rate for name, rate in LINKS.items()}
    lines = [f"each process sends and gets about {sent / 1e9:,.3g} GB a step"]
    lines += [f"{name}: {time:,.3g} s of it a step" for name, time in seconds.items()]
    if work.hours and work.steps:
        step = work.hours * HOUR / work.steps
        slow = step * FAST / SLOW
        lines.append(
            f"a step takes about {step:,.3g} s at {FAST:.0%} (InfiniBand) and {slow:,.3g} s at "
            f"{SLOW:.0%} (25 Gb/s Ethernet)"
        )
    return lines


def traffic(run, shape: Shape) -> float:
    """Bytes that a process moves over the network in one optimiser step: a ring's all-reduce of
    the gradients (2 x); shards are gathered for each forward and backward pass of each micro-batch
    and their gradients scattered (ZeRO-3: 3 x the weights, Rajbhandari 2020, section 7)."""
    if run.strategy.kind == "ddp":
        return 2 * 4 * shape.trained
    width = NF4 if run.tuning.kind == "qlora" else WIDTH[run.training.precision]
    passes = run.batch()["accumulation"]
    return passes * (2 * width * shape.weights + width * shape.trained)
