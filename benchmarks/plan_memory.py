"""The plan's memory against what a real pass takes: bytes above the process that is ready to load.

    python benchmarks/plan_memory.py MODEL            the table, for a model folder
    python benchmarks/plan_memory.py MODEL --pass JSON   one pass, measured in a process of its own

The resident memory of a CPU process stands for a device's memory: the same tensors are held.
"""

import json
import os
import sys
from pathlib import Path

from measure import OURS, run

# Freed memory goes back at once, so that what is resident is what is held.
ALLOCATOR = {
    **{"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"},
    **{"MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_TOP_PAD_": "0", "OMP_NUM_THREADS": "1"},
}
CASES = [
    {"tuning": "full", "precision": "fp32"},
    {"tuning": "full", "precision": "bf16"},
    {"tuning": "full", "precision": "fp32", "gradient_checkpointing": True},
    {"tuning": "lora", "precision": "fp32"},
    {"tuning": "lora", "precision": "bf16"},
    {"tuning": "lora", "precision": "fp32", "gradient_checkpointing": True},
    {"tuning": "qlora", "precision": "fp32"},
]
PARTS = ("weights", "gradients", "optimiser", "peak")


def compare(model: Path, case: dict, length: int = 256, rows: int = 2) -> dict:
    """Planned and measured bytes of each part, and the planned share above the measured."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
    case = {"length": length, "rows": rows, "gradient_checkpointing": False} | case
    command = [OURS, __file__, model, "--pass", json.dumps(case)]
    measured = json.loads(run(command, **ALLOCATOR).splitlines()[-1])
    planned = _planned(model, case)
    return {n: (planned[n], measured[n], planned[n] / measured[n] - 1) for n in PARTS}


def _run_of(case: dict):
    from anneal.config.run import Run

    training = {"precision": case["precision"], "per_device_train_batch_size": case["rows"]}
    training["gradient_checkpointing"] = case["gradient_checkpointing"]
    return Run(dataset="d", model="m", tuning={"kind": case["tuning"]}, training=training)


def _planned(folder: Path, case: dict) -> dict:
    from transformers import AutoConfig

    from anneal.planning.memory import memory_of
    from anneal.planning.shape import on_meta, saved_by, shape_of, tuned_on_meta

    job, config = _run_of(case), AutoConfig.from_pretrained(str(folder))
    tuning, precision = job.tuning.model_dump(), case["precision"]
    held = "fp32" if case["tuning"] == "full" else precision
    saved = saved_by(
        tuned_on_meta(on_meta(config, held, "sdpa"), tuning), case["length"], precision
    )
    shape = shape_of(on_meta(config, held, "sdpa"), tuning)
    memory = memory_of(job, shape, saved, case["length"])
    parts = memory.parts()
    passing = parts["activations"] + parts["logits"] + parts["buffers"]
    return {**parts, "peak": parts["weights"] + parts["gradients"] + passing}


def _measured(folder: Path, case: dict) -> dict:
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
    from anneal.training.models import load_model
    from anneal.training.tuning import tuned

    torch.set_num_threads(1)
    job, precision = _run_of(case), case["precision"]
    _warm(case)
    before = _resident("RssAnon")
    quantized = case["tuning"] == "qlora"
    held = "fp32" if case["tuning"] == "full" else precision
    model = tuned(load_model(folder, held, quantized=quantized), job.tuning.model_dump())
    for tensor in model.state_dict().values():
        tensor.add_(0)  # a weight that is mapped from a file becomes our own
    if case["gradient_checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    weights = _resident("RssAnon") - before
    _pass(model.train(), case)
    gradients = _resident("RssAnon") - before - weights
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    _pass(model, case)  # of a second micro-batch, beside the gradients of the first
    peak = _resident("VmHWM") - _resident("RssFile") - before
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], foreach=False)
    optimiser.step()
    state = _resident("RssAnon") - before - weights - gradients
    return {"weights": weights, "gradients": gradients, "optimiser": state, "peak": peak}


def _pass(model, case: dict) -> None:
    """Forward and backward on random rows, as the trainer does it."""
    import torch

    from anneal.training.loss import token_losses
    from anneal.training.models import DTYPES

    precision = case["precision"]
    ids = torch.randint(0, 400, (case["rows"], case["length"]))
    places = torch.arange(case["length"]).expand_as(ids)
    with torch.autocast("cpu", DTYPES[precision], enabled=precision != "fp32"):
        batch = {"input_ids": ids, "labels": ids, "position_ids": places}
        loss = token_losses(model, batch)[0].mean()
    loss.backward()


def _warm(case: dict) -> None:
    """What libraries take at their first call belongs to no model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 512}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=1))
    _pass(model, case)
    torch.optim.AdamW(model.parameters(), foreach=False).step()


def _resident(name: str) -> int:
    """Bytes of this process, by a line of /proc/self/status: now (VmRSS), or at most (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def main(model: Path) -> None:
    print(f"{'MB: planned, measured, error':<44}" + "".join(f"{part:>28}" for part in PARTS))
    for case in CASES:
        found = compare(model, case)
        cells = (f"{p / 1e6:,.0f} {m / 1e6:,.0f} {e:+.0%}" for p, m, e in found.values())
        name = ", ".join(k if v is True else str(v) for k, v in case.items())
        print(f"{name:<44}" + "".join(f"{cell:>28}" for cell in cells), flush=True)


if __name__ == "__main__":
    if "--pass" in sys.argv:
        os.environ["HF_HUB_OFFLINE"] = "1"
        print(json.dumps(_measured(Path(sys.argv[1]), json.loads(sys.argv[3]))))
    else:
        main(Path(sys.argv[1]))
