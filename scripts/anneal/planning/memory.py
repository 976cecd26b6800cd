"""Memory of one process of a run, by part, in bytes.

Bytes a weight (mixed precision with Adam, Rajbhandari 2020, arXiv:1910.02054, section 3.1): weights
that are trained are held in float32 (4), with a gradient (4) and Adam's two moments (8; 2 in 8
bits, Dettmers 2022, arXiv:2110.02861). Frozen weights have the run's precision, or NF4 with doubly
quantised constants: 4.127 bits (Dettmers 2023, arXiv:2305.14314). FSDP and ZeRO-3 divide all of
this by the number of processes, ZeRO-2 all but the weights.
"""

from dataclasses import dataclass, replace

from anneal.config.hardware import CPU
from anneal.config.run import ONLINE, PAIRED
from anneal.planning.shape import Saved, Shape

WIDTH = {"fp32": 4, "bf16": 2, "fp16": 2}
FLOAT = 4
NF4 = 4.127 / 8
MOMENTS = {"adamw_torch": 8, "adamw_torch_fused": 8, "adamw_bnb_8bit": 2, "paged_adamw_8bit": 2}
# The logits in float32, their log-softmax, and the gradients of both: four times, three at once;
# the head's own output besides where it is narrower. Checked in benchmarks/plan_memory.py.
LOGITS = 3 * FLOAT
# Assumed: the driver's context and library workspaces; what the allocator cannot use, of what
# comes and goes with each pass.
CONTEXT = 1.0e9
FRAGMENTS = 0.05
# Assumed: an interpreter with torch, transformers and a CUDA library of its own.
PROCESS = 4.0e9


@dataclass(frozen=True)
class Memory:
    """Bytes on the device of one process, and in the memory of its machine (`host`)."""

    weights: float
    other_models: float
    gradients: float
    optimiser: float
    activations: float
    logits: float
    buffers: float
    overhead: float
    host: float

    def total(self) -> float:
        """Bytes on the device."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """Bytes on the device by part."""
        return {name: size for name, size in vars(self).items() if name != "host"}


def memory_of(run, shape: Shape, saved: Saved, length: int, online_models: int = 0) -> Memory:
    """What one process of a run needs.

    Args:
        run: a `config.run.Run`.
        saved: what one sequence of `length` tokens keeps.
        online_models: reward models that an online method holds.
    """
    held = _states(run, shape)
    sequences = run.training.per_device_train_batch_size * (2 if run.method in PAIRED else 1)
    kept = saved.inputs + saved.block if run.training.gradient_checkpointing else saved.layers
    held = replace(
        held,
        other_models=_others(run, shape, online_models),
        activations=sequences * (kept + saved.rest) / _split_activations(run.strategy),
        logits=_logits(run, shape, sequences * length),
    )
    gathered = _gathered(run, shape, saved)
    waits = max(0.0, _step_copy(run, shape) - held.activations - held.logits - gathered)
    held = replace(held, buffers=gathered + waits)
    held = _offloaded(held, run)
    # of a CPU the device's memory is the machine's: nothing is held twice
    return replace(held, host=PROCESS) if run.hardware == CPU else _with_overhead(held)


def _states(run, shape: Shape) -> Memory:
    """Weights, gradients and optimiser: what stays from step to step."""
    share, trained, width = _share(run.strategy), shape.trained, WIDTH[run.training.precision]
    moments = MOMENTS[run.training.optim]
    whole = run.strategy.kind == "deepspeed" and run.strategy.zero_stage == 2
    weights = share if not whole else 1.0
    if run.tuning.kind != "full":
        base = base_bytes(run, shape) + FLOAT * trained
        parts = (base * weights, FLOAT * trained * share, moments * trained * share)
    elif run.strategy.kind == "deepspeed" and width < FLOAT:
        # the float32 weights belong to the optimiser, what computes is narrow
        adam = (moments + FLOAT) * trained * share
        parts = (width * shape.weights * weights, width * trained * share, adam)
    else:
        held = FLOAT * shape.weights * weights
        parts = (held, FLOAT * trained * share, moments * trained * share)
    return Memory(parts[0], 0, parts[1], parts[2], 0, 0, 0, 0, PROCESS + _loading(run, shape))


def _loading(run, shape: Shape) -> float:
    """What a process holds in the machine's memory until its shard is cut: the whole model. Only
    ZeRO-3 and tensor parallelism load shards; 4-bit weights go to the device one by one."""
    if run.tuning.kind == "qlora":
        return 0.0
    shards = run.strategy.kind == "tensor_parallel" or (
        run.strategy.kind == "deepspeed" and run.strategy.zero_stage == 3
    )
    width = FLOAT if run.tuning.kind == "full" else WIDTH[run.training.precision]
    return width * shape.weights * (_share(run.strategy) if shards else 1)


def base_bytes(run, shape: Shape) -> float:
    """A base whose weights are not trained; of NF4 only the linear layers of the blocks are, and
    what is left is kept in float32, as PEFT prepares it."""
    if run.tuning.kind == "qlora":
        return NF4 * shape.linear + FLOAT * (shape.weights - shape.linear)
    return WIDTH[run.training.precision] * shape.weights


def _others(run, shape: Shape, reward_models: int) -> float:
    """Reference, critic and reward model, where the method has them.

    With an adapter the reference is the base without it; the critic of ppo is tuned as the policy.
    """
    full = run.tuning.kind == "full"
    model = FLOAT * shape.weights if full else base_bytes(run, shape)
    reference = full and run.method in ("dpo", "kto", *ONLINE)
    moments = MOMENTS[run.training.optim]
    critic = model + (FLOAT + moments) * shape.trained if run.method == "ppo" else 0.0
    return (reference + reward_models) * model + critic


def _logits(run, shape: Shape, tokens: int) -> float:
    if run.method == "reward":
        return 0.0
    width = WIDTH[run.training.precision]
    each = LOGITS + (width if width < FLOAT else 0)
    return tokens * shape.vocabulary * each


def _step_copy(run, shape: Shape) -> float:
    """At a step torch's AdamW on a GPU takes the root of all second moments at once (its foreach
    form); by then what belongs to a pass is free again."""
    plain = run.training.optim == "adamw_torch" and run.hardware != CPU
    return FLOAT * shape.trained * _share(run.strategy) if plain else 0.0


def _gathered(run, shape: Shape, saved: Saved) -> float:
    """Weights in a second form: casts of autocast; buckets of ddp's gradients; blocks that shards
    are gathered into, the one at work and the next; a block of 4-bit weights taken apart."""
    width, kind = WIDTH[run.training.precision], run.strategy.kind
    if kind == "fsdp" or (kind == "deepspeed" and run.strategy.zero_stage == 3):
        return 2 * max(shape.block, shape.embedding) * width
    if kind == "deepspeed":
        return 0.0
    apart = shape.block * width if run.tuning.kind == "qlora" else 0.0
    casts = saved.casts * (_share(run.strategy) if kind == "tensor_parallel" else 1)
    return casts + apart + (FLOAT * shape.trained if kind == "ddp" else 0.0)


def _share(strategy) -> float:
    """The part of weights, gradients and optimiser that one process holds."""
    return 1 / strategy.world_size if strategy.kind not in ("single", "ddp") else 1.0


def _split_activations(strategy) -> float:
    """Tensor parallelism splits what lies inside attention and MLP, 24 of 34 parts of a block
    (Korthikanti 2022, arXiv:2205.05198, equation 2); other strategies split nothing."""
    if strategy.kind != "tensor_parallel":
        return 1.0
    return 34 / (10 + 24 / strategy.processes)


def _offloaded(held: Memory, run) -> Memory:
    """With shards of weights and optimiser moved to the machine's memory, where that is asked."""
    strategy = run.strategy
    if not strategy.offload:
        return held
    two = strategy.kind == "deepspeed" and strategy.zero_stage == 2
    weights = 0.0 if two else held.weights
    moved = weights + held.gradients + held.optimiser
    return replace(
        held,
        weights=held.weights - weights,
        gradients=0.0,
        optimiser=0.0,
        host=max(held.host, PROCESS + moved),
    )


def _with_overhead(held: Memory) -> Memory:
    passing = held.gradients + held.activations + held.logits
    return replace(held, overhead=CONTEXT + FRAGMENTS * passing)
