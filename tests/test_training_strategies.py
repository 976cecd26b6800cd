"""Several processes train as one does: equal losses, equal folders, one writer, exact resume."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest
import runs
import test_training_pairs as pairs
from tiny import REPOSITORY

from anneal.config.batch import solve_batch
from anneal.config.run import Run
from anneal.config.strategy import Strategy
from anneal.provenance.files import write_json
from anneal.training.launch import launch_command, surroundings

TWO = {
    "ddp": {"kind": "ddp", "processes": 2},
    "fsdp 2": {"kind": "fsdp", "processes": 2},
    "fsdp 2, offload": {"kind": "fsdp", "processes": 2, "offload": True},
    "fsdp 1": {"kind": "fsdp", "processes": 2, "fsdp_version": 1},
    "zero 2": {"kind": "deepspeed", "processes": 2, "zero_stage": 2},
    "zero 2, offload": {"kind": "deepspeed", "processes": 2, "zero_stage": 2, "offload": True},
    "zero 3": {"kind": "deepspeed", "processes": 2},
    "zero 3, offload": {"kind": "deepspeed", "processes": 2, "offload": True},
    "tensor parallel": {"kind": "tensor_parallel", "processes": 2},
}
QUICK = ("ddp", "fsdp 2")
CASES = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in TWO]


@pytest.fixture(scope="module")
def place(tiny_model, tmp_path_factory):
    """A folder with splits, and with a base that has a manifest, for all tests of this file."""
    folder = tmp_path_factory.mktemp("strategies")
    runs.write_splits(folder / "splits")
    write_json(folder / "splits" / "manifest.json", {"outputs": {"splits": "s"}})
    (folder / "base").symlink_to(tiny_model)
    write_json(tiny_model / "manifest.json", {"outputs": {"base": "b"}, "facts": {}})
    yield folder
    (tiny_model / "manifest.json").unlink()


def settings(tuning: str = "full", **training) -> dict:
    """Six steps of eight sequences, whatever the number of processes."""
    given = runs.settings(**{"global_batch_size": 8, "gradient_accumulation_steps": 4, **training})
    given["tuning"] |= {"kind": tuning, "dropout": 0.0}
    return given


def command(place, name: str, given: dict, strategy: dict, *options: str) -> list[str]:
    folder = place / name
    return [
        *(sys.executable, str(REPOSITORY / "scripts" / "launch.py")),
        *("--strategy", json.dumps(strategy), *options),
        str(REPOSITORY / "scripts" / "train_run.py"),
        *("--step", json.dumps({"settings": given, "code": "", "sources": {}})),
        *("--base", str(place / "base/manifest.json")),
        *("--splits", str(place / "splits/manifest.json"), "--threads", "2"),
        *("--checkpoints", str(folder / "checkpoints"), "--log", str(folder / "run.log")),
        *("--manifest", str(folder / "run" / "manifest.json")),
    ]


def trained(place, name: str, given: dict, strategy: dict):
    """The run's folder."""
    done = subprocess.run(command(place, name, given, strategy), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return place / name / "run"


def curves(run) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = ("loss", "grad_norm", "eval_loss")
    return [row[name] for row in rows for name in names if name in row]


def logits(run, base):
    """Of what the folder holds, opened as a user would."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    if (run / "model" / "adapter_config.json").is_file():
        model = AutoModelForCausalLM.from_pretrained(base)
        model = PeftModel.from_pretrained(model, run / "model")
    else:
        model = AutoModelForCausalLM.from_pretrained(run / "model")
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor([[5, 6, 7, 8]])).logits


@pytest.fixture(scope="module")
def alone(place):
    """Runs of one process, by tuning."""
    found = {}

    def run(tuning: str):
        if tuning not in found:
            found[tuning] = trained(place, f"single {tuning}", settings(tuning), {})
        return found[tuning]

    return run


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tuning", ["full", "lora"])
@pytest.mark.parametrize("name", CASES)
def test_two_processes_learn_as_one(place, alone, name, tuning):
    if (name, tuning) == ("tensor parallel", "lora"):
        pytest.skip("refused by the configuration")
    import torch

    single = alone(tuning)
    run = trained(place, f"{name} {tuning}", settings(tuning), TWO[name])
    assert curves(run) == pytest.approx(curves(single), rel=2e-5)
    base = place / "base"
    assert torch.allclose(logits(run, base), logits(single, base), atol=2e-4)
    facts = json.loads((run / "manifest.json").read_text())["facts"]
    assert (facts["processes"], facts["backend"], len(facts["devices"])) == (2, "gloo", 2)
    assert facts["strategy"] == Strategy(**TWO[name]).model_dump()


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("method", ["dpo", "reward", "orpo"])
def test_two_processes_learn_from_pairs_as_one(place, method, tuning):
    if not (place / "pairs").exists():
        pairs.write_pairs(place / "pairs")
        write_json(place / "pairs" / "manifest.json", {"outputs": {"splits": "p"}})
    sizes = {"global_batch_size": 8, "gradient_accumulation_steps": 4, "max_steps": 4}
    given = pairs.settings(method, tuning, **sizes)
    found = []
    for name, strategy in (("one", {}), ("two", TWO["ddp"])):
        call = command(place, f"{method} {tuning} {name}", given, strategy)
        call = [part.replace("/splits/", "/pairs/") for part in call]
        done = subprocess.run(call, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        lines = (place / f"{method} {tuning} {name}" / "run/metrics.jsonl").read_text()
        found.append([json.loads(line) for line in lines.splitlines()])
    for one, two in zip(*found, strict=True):
        assert two == pytest.approx(one, rel=1e-3, abs=1e-5)


@pytest.mark.slow
def test_two_nodes_learn_as_one_process(place, alone):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    strategy = {"kind": "ddp", "nodes": 2}
    call = command(place, "nodes", settings(), strategy, "--endpoint", endpoint)
    nodes = [subprocess.Popen(call, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [node.communicate(timeout=300)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], errors
    assert curves(place / "nodes/run") == pytest.approx(curves(alone("full")), rel=2e-5)


def weights(place, name: str) -> dict[str, bytes]:
    run = place / name / "run"
    files = [*(run / "model").glob("*.safetensors"), run / "metrics.jsonl"]
    return {file.name: file.read_bytes() for file in files}


def ranks(launcher: int) -> list[int]:
    """Process ids of the ranks below a launcher."""
    found = subprocess.run(["pgrep", "-P", str(launcher)], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", ["ddp", *(pytest.param(n, marks=pytest.mark.slow) for n in ("fsdp 2", "zero 3"))]
)
def test_a_killed_rank_changes_no_byte_and_another_strategy_is_refused(place, name):
    given, strategy = settings(max_steps=40, save_steps=10, eval_steps=20), TWO[name]
    trained(place, f"{name} whole", given, strategy)
    call = command(place, f"{name} killed", given, strategy)
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True)
    saved = place / f"{name} killed" / "checkpoints"
    while process.poll() is None and not list(saved.glob("*/checkpoint-10/complete.json")):
        time.sleep(0.02)
    os.kill(ranks(process.pid)[-1], signal.SIGKILL)
    assert process.communicate(timeout=120) and process.returncode != 0
    assert not (place / f"{name} killed" / "run").exists()

    alone = subprocess.run(
        command(place, f"{name} killed", given, {}), capture_output=True, text=True
    )
    assert alone.returncode == 1
    words = "on 2 process(es) saved this checkpoint, and the run's strategy is now single"
    assert words in alone.stderr

    run = trained(place, f"{name} killed", given, strategy)
    assert json.loads((run / "manifest.json").read_text())["facts"]["resumed_step"] >= 10
    assert weights(place, f"{name} killed") == weights(place, f"{name} whole")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_launcher_ends_in_a_checkpoint_of_all_ranks(place, number):
    name, strategy = f"signal {number}", TWO["fsdp 2"]
    given = settings(max_steps=400, save_steps=1000, eval_steps=1000)
    process = subprocess.Popen(
        command(place, name, given, strategy), stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not list((place / name).glob("checkpoints/*/metrics.jsonl")):
        time.sleep(0.02)
    time.sleep(4)
    process.send_signal(number)
    error = process.communicate(timeout=120)[1]
    assert f"stopped by {number.name}: checkpoint saved at step" in error
    assert process.returncode != 0
    assert len(list((place / name).glob("checkpoints/*/checkpoint-*/complete.json"))) == 1


def test_the_command_says_how_processes_are_started():
    script = ["scripts/train_run.py", "--log", "a b"]

    def of(**given):
        return shlex.join(launch_command(Strategy(**given), script, cpus=8, python="python"))

    assert of() == "python scripts/train_run.py --log 'a b'"
    torchrun = "python -m torch.distributed.run --nproc-per-node=4"
    assert of(kind="ddp", processes=4).startswith(torchrun)
    assert of(kind="ddp", processes=4).endswith("--standalone -- scripts/train_run.py --log 'a b'")
    many = of(kind="fsdp", processes=4, nodes=2)
    assert many.startswith(
        "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=8 --cpu-bind=none "
    )
    inside = shlex.split(many)[-1]
    assert inside.startswith(f"exec {torchrun}")
    host, port = (
        "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
        "SLURM_JOB_ID % 10000",
    )
    assert f"--rdzv-endpoint={host}:$((20000 + {port}))" in inside


def test_what_the_site_has_set_stays():
    found = surroundings({"TRITON_CACHE_DIR": "/local", "TMPDIR": "/scratch", "HOME": "/h"})
    assert found["TRITON_CACHE_DIR"] == "/local"
    assert found["TORCH_EXTENSIONS_DIR"].startswith("/scratch/anneal-")
    assert found["HOME"] == "/h" and "NCCL_SOCKET_IFNAME" not in found


def test_several_nodes_without_slurm_are_refused_in_one_line(place):
    call = command(place, "none", settings(), {"kind": "ddp", "nodes": 2})
    outside = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"}
    done = subprocess.run(call, capture_output=True, text=True, env=outside)
    assert done.returncode == 1
    assert done.stderr.startswith("error: runs.*.strategy.nodes: 2 nodes, and this is no job of")


@pytest.mark.parametrize("left_out", ["global_batch", "micro_batch", "accumulation", "processes"])
def test_any_of_the_four_follows_from_the_other_three(left_out):
    whole = {"global_batch": 128, "micro_batch": 4, "accumulation": 8, "processes": 4}
    assert solve_batch(**whole | {left_out: None}) == whole


def test_batches_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="100 is no multiple of micro_batch 8 x processes 4 = 32"):
        solve_batch(global_batch=100, micro_batch=8, processes=4)
    with pytest.raises(ValueError, match="is not micro_batch 4 x accumulation 8 x processes 2"):
        solve_batch(128, 4, 8, 2)
    with pytest.raises(ValueError, match="one can be solved, not two"):
        solve_batch(global_batch=100, micro_batch=8)


def run_of(strategy: dict, training: dict | None = None, **more) -> Run:
    return Run(dataset="d", model="m", strategy=strategy, training=training or {}, **more)


def test_more_processes_with_the_same_global_batch_rerun_nothing():
    training = {"global_batch_size": 64}
    alone, four = run_of({}, training), run_of({"kind": "fsdp", "processes": 4}, training)
    assert alone.batch()["accumulation"] == 16
    assert four.batch()["accumulation"] == 4
    assert alone.settings() == four.settings()
    assert (
        run_of({"kind": "ddp", "processes": 4}).settings()["training"]["global_batch_size"] == 128
    )


@pytest.mark.parametrize(
    ("strategy", "more", "words"),
    [
        ({"kind": "fsdp"}, {"tuning": {"kind": "qlora"}}, "tuning 'qlora' is not shared so"),
        ({"kind": "fsdp"}, {"method": "dpo"}, "method 'dpo' is not shared so; use 'ddp'"),
        (
            {"kind": "fsdp"},
            {"method": "ppo", "online": {"reward_pattern": "a"}},
            "method 'ppo' is not shared so",
        ),
        ({"kind": "ddp"}, {"method": "kto"}, "method 'kto' trains in one process"),
        ({"kind": "tensor_parallel"}, {}, "tuning 'lora' is not split so"),
        (
            {"kind": "tensor_parallel"},
            {"tuning": {"kind": "full"}},
            "it keeps no checkpoints; set training.load_best to false",
        ),
        ({"kind": "deepspeed"}, {"training": {"optim": "adamw_bnb_8bit"}}, "use adamw_torch"),
    ],
)
def test_what_was_not_seen_working_is_refused(strategy, more, words):
    with pytest.raises(ValueError, match=words):
        run_of({**strategy, "processes": 2}, **more)
