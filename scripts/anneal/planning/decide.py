"""Which method, tuning and strategy fit hardware and aim, with the reason of each branch."""

from dataclasses import dataclass

from anneal.config.hardware import CPU
from anneal.config.run import ONLINE, PAIRED

# Devices of one node, or of all, in GB: where the field draws the lines.
SMALL, LARGE = 40, 160
MANY_ROWS = 100_000
HUGE = 70e9  # weights, minus 5 % for models that are called 70B


@dataclass(frozen=True)
class Branch:
    """One question of the decision tree, the answer for a run, and what follows."""

    question: str
    answer: str
    choose: str
    why: str


def decide(config, name: str, shape, rows: int | None, device) -> tuple[dict, list[Branch]]:
    """The recommended `method`, `tuning` and `strategy` of a run, and the branches taken.

    Args:
        shape: a `shape.Shape`.
        rows: training rows; None if not known.
        device: the run's `config.hardware.Device`.
    """
    run = config.runs[name]
    compute, aim = _compute(run, device), _aim(config, run, rows)
    branches = [compute, aim]
    if config.datasets[run.dataset].kind in ("preference", "prompts"):
        branches.append(_alignment(config, run))
    method = branches[-1].choose if len(branches) > 2 else _method(aim, run)
    tuning = _tuning(compute, aim)
    strategy = _strategy(run, shape, tuning)
    tasks = _tasks(config, run)
    branches += [strategy, *tasks]
    chosen = {"method": method, "tuning": tuning, "strategy": strategy.choose}
    return chosen, branches


def _compute(run, device) -> Branch:
    """QLoRA, LoRA or all weights, by the memory of all devices."""
    nodes, count = run.strategy.nodes, run.strategy.world_size
    total = device.memory_gb * count
    answer = f"{count} x {run.hardware}, {total:g} GB on {nodes} node{'s' if nodes > 1 else ''}"
    if run.hardware == CPU:
        why = "a processor trains small models; adapters spare most of the optimiser's memory"
        return Branch("compute", answer, "lora", why)
    if nodes > 1 or total >= LARGE:
        why = f"several nodes, or {LARGE} GB and more, hold weights, gradients and optimiser"
        return Branch("compute", answer, "full", why)
    if device.memory_gb >= SMALL:
        why = "one device of 40 to 80 GB holds a 16-bit base, not the optimiser of all its weights"
        return Branch("compute", answer, "lora", why)
    why = "up to 24 GB hold a base of 7B in 4 bits and an adapter, not in 16 bits"
    return Branch("compute", answer, "qlora", why)


def _aim(config, run, rows: int | None) -> Branch:
    kind = config.datasets[run.dataset].kind
    if config.models[run.model].scratch:
        return Branch("aim", "there is no base model", "pretrain", "all weights start at random")
    if kind == "text":
        why = "new knowledge is learned from raw text, by all weights where they fit"
        return Branch("aim", "new knowledge from raw text", "continue", why)
    if kind in ("preference", "prompts"):
        return Branch("aim", "behaviour", "alignment", "answers are compared, not copied")
    if rows is None:
        why = "an adapter is the cheaper first try; the rows are not counted yet"
        return Branch("aim", "a task, of unknown size", "adapter", why)
    if rows < MANY_ROWS:
        why = f"below {MANY_ROWS:,} examples an adapter learns as much and forgets less"
        return Branch("aim", f"a task with {rows:,} examples", "adapter", why)
    why = f"from {MANY_ROWS:,} examples all weights learn more; 1-2 epochs are enough"
    return Branch("aim", f"a task with {rows:,} examples", "full, 1-2 epochs", why)


def _alignment(config, run) -> Branch:
    kind = config.datasets[run.dataset].kind
    if run.method == "ppo":
        why = "a controller holds the KL; three stages: sft, a reward model from pairs, ppo"
        return Branch("alignment", "strict KL control is wanted", "ppo", why)
    if run.method in ONLINE:
        why = "answers to prompts are scored while training; no pairs are needed"
        return Branch("alignment", "prompts and a reward", run.method, why)
    if kind == "preference" and run.method == "reward":
        why = "it is the second stage of ppo"
        return Branch("alignment", "pairs, for a reward model", "reward", why)
    if kind == "preference":
        why = "pairs are learned from directly, without reward model and sampling"
        return Branch("alignment", "pairs, no strict KL control", "dpo", why)
    return Branch("alignment", "no pairs", "sft", "good answers are all there is to learn from")


def _method(aim: Branch, run) -> str:
    return aim.choose if aim.choose in ("pretrain", "continue") else "sft"


def _tuning(compute: Branch, aim: Branch) -> str:
    """All weights only where both the hardware and the aim say so; `pretrain` has no choice."""
    if aim.choose == "pretrain":
        return "full"
    wanted = aim.choose.startswith("full") or aim.choose == "continue"
    if compute.choose == "full":
        return "full" if wanted else "lora"
    return compute.choose


def _strategy(run, shape, tuning: str) -> Branch:
    processes, nodes = run.strategy.world_size, run.strategy.nodes
    billions = f"{shape.weights / 1e9:,.3g} billion weights on {processes} processes"
    if processes == 1:
        return Branch("strategy", billions, "single", "one process has nobody to share with")
    if run.method in (*PAIRED, *ONLINE):
        why = "methods that compare or sample answers hold whole models"
        return Branch("strategy", billions, "ddp", why)
    if shape.weights >= 0.95 * HUGE and nodes == 1:
        why = "from 70B each matrix is split, so that a layer's work is shared too"
        return Branch("strategy", billions, "tensor_parallel", why)
    if tuning == "full" or shape.weights >= 0.95 * HUGE:
        why = "weights, gradients and optimiser in shards (deepspeed ZeRO-3 does the same)"
        return Branch("strategy", billions, "fsdp", why)
    why = "the frozen base fits each device, and only the adapter's gradients are exchanged"
    return Branch("strategy", billions, "ddp", why)


def _tasks(config, run) -> list[Branch]:
    """Several datasets learned from one base."""
    shared = sorted({r.dataset for r in config.runs.values() if r.model == run.model})
    if len(shared) < 2:
        return []
    why = "one adapter a task on a shared base: small, exchangeable, and they can be combined"
    return [Branch("several tasks", ", ".join(shared), "one adapter each", why)]


def differences(run, chosen: dict) -> list[str]:
    """Where a run is set otherwise than recommended."""
    own = {"method": run.method, "tuning": run.tuning.kind, "strategy": run.strategy.kind}
    same = {"fsdp": ("fsdp", "deepspeed"), "lora": ("lora", "dora"), "dpo": ("dpo", "kto", "orpo")}
    return [
        f"{key}: {own[key]} is set, {wanted} is recommended"
        for key, wanted in chosen.items()
        if own[key] not in same.get(wanted, (wanted,))
    ]
