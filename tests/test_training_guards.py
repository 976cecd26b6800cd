"""Before and during training: nothing fails late, nothing is lost, and each stop says why."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from runs import ROWS, sequence, settings, train, write_splits
from tiny import REPOSITORY

from anneal.errors import UserError
from anneal.provenance.files import write_json
from anneal.training import advice as advising
from anneal.training.curves import read_curves
from anneal.training.guards import longest_rows, try_longest_rows
from anneal.training.job import Job
from anneal.training.precision import check_kernels, usable_precision
from anneal.training.sft import make_trainer


def test_the_longest_rows_are_tried_first_and_leave_nothing_behind(tiny_model, splits, tmp_path):
    job = Job(settings(), tiny_model, splits, tmp_path / "c")
    trainer = make_trainer(job)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    state = torch.get_rng_state()
    facts = try_longest_rows(trainer, job)
    assert facts == {"longest_row": max(job.train_rows["length"])}
    assert [job.train_rows[i]["length"] for i in longest_rows(job.train_rows, 3)] == [26, 26, 26]
    assert all(
        torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items()
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None for p in trainer.model.parameters())


def test_a_trained_tensor_without_a_gradient_stops_the_run(tiny_model, splits, tmp_path):
    job = Job(settings(), tiny_model, splits, tmp_path / "c")
    trainer = make_trainer(job)
    trainer.model.register_parameter("unused", torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(UserError, match="1 of 29 trained tensors get no gradient, first unused"):
        try_longest_rows(trainer, job)


def test_a_loss_that_is_no_number_names_its_rows(tiny_model, tmp_path):
    base = shutil.copytree(tiny_model, tmp_path / "base")
    from anneal.training.models import load_model

    model = load_model(base)
    with torch.no_grad():
        model.get_input_embeddings().weight[77] = float("nan")
    model.save_pretrained(base)
    rows = [sequence([row]) for row in ROWS]
    for number, row in enumerate(rows):
        row["input_ids"] = [i if i != 77 else 78 for i in row["input_ids"]]
        row["ids"] = [f"row-{number}"]
    rows[2]["input_ids"][1] = 77
    splits = write_splits(tmp_path / "splits", dict.fromkeys(("train", "eval", "test"), rows))
    given = settings(per_device_train_batch_size=1)
    with pytest.raises(UserError, match=r"^row-2: the loss of a row is nan"):
        train(given, base, splits, tmp_path / "c", tmp_path / "run", "none")


@pytest.fixture
def at_odds(tmp_path):
    """Splits whose evaluation asks for other answers than are learned: its loss only rises."""
    rows = [sequence([row]) for row in ROWS]

    def answered(token: int) -> list[dict]:
        return [{**r, "labels": [token if i >= 0 else i for i in r["labels"]]} for r in rows]

    sides = {"train": answered(9), "eval": answered(7), "test": rows}
    return write_splits(tmp_path / "splits", sides)


def test_the_kept_model_has_the_best_evaluation_loss(tiny_model, at_odds, tmp_path):
    given, splits = settings(max_steps=8, eval_steps=2, save_steps=8), at_odds
    given["training"]["lr_scheduler_type"] = "constant"
    given["tuning"]["kind"] = "full"
    facts = train(given, tiny_model, splits, tmp_path / "c", tmp_path / "run", "none")
    curve = {
        r["step"]: r["eval_loss"]
        for r in read_curves(tmp_path / "run/metrics.jsonl")
        if "eval_loss" in r
    }
    best = min((step for step in curve if step), key=curve.get)
    assert facts["kept_step"] == best < 8
    job = Job(given, tmp_path / "run" / "model", splits, tmp_path / "again")
    from anneal.training.data import Collator
    from anneal.training.loss import evaluate_loss
    from anneal.training.models import load_model

    batches = [Collator(0)([row]) for row in job.eval_rows]
    found = evaluate_loss(load_model(tmp_path / "run" / "model"), batches)["loss"]
    assert found == pytest.approx(curve[best], abs=1e-5)
    kept = {p.name for p in (tmp_path / "c").glob("checkpoint-*")}
    assert {f"checkpoint-{best}", "checkpoint-8"} <= kept


def test_training_ends_early_where_evaluation_no_longer_gains(tiny_model, splits, tmp_path):
    given = settings(max_steps=40, eval_steps=1, save_steps=40, early_stopping_patience=2)
    given["training"] |= {"learning_rate": 1.0, "lr_scheduler_type": "constant"}
    facts = train(given, tiny_model, splits, tmp_path / "c", tmp_path / "run", "none")
    assert facts["kept_step"] + 2 == facts["steps"] < 40


def test_bf16_without_the_hardware_is_an_error_or_the_stated_fallback(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "V100")
    asked = {"precision": "bf16", "precision_fallback": None}
    with pytest.raises(UserError, match=r"V100 \(compute capability 7.0\) has no bf16"):
        usable_precision(asked)
    assert usable_precision(asked | {"precision_fallback": "fp16"}) == "fp16"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    assert usable_precision(asked) == "bf16"


def test_fp16_without_a_gpu_is_an_error_or_the_stated_fallback():
    with pytest.raises(UserError, match="fp16 needs a GPU, and this job sees none"):
        usable_precision({"precision": "fp16", "precision_fallback": None})
    assert usable_precision({"precision": "fp16", "precision_fallback": "fp32"}) == "fp32"


@pytest.mark.parametrize(
    ("asked", "package"),
    [({"attention": "flash_attention_2"}, "flash_attn"), ({"liger": True}, "liger_kernel")],
)
def test_kernels_that_are_not_here_are_refused(monkeypatch, asked, package):
    training = {"attention": "sdpa", "liger": False} | asked
    with pytest.raises(UserError, match=f"{package} needs a GPU, and this job sees none"):
        check_kernels(training)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UserError, match=f"package '{package}' is not installed"):
        check_kernels(training)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "step 3: out of memory; halve per_device"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory"),
        (OSError(28, "No space left on device"), "the disk is full at step 3"),
    ],
)
def test_a_full_memory_or_disk_says_what_to_lower(tmp_path, error, words):
    job = Job(settings(), tmp_path, tmp_path, tmp_path / "c")
    with pytest.raises(UserError, match=words), advising.advice(job, lambda: "step 3"):
        raise error


def test_another_error_stays_itself(tmp_path):
    job = Job(settings(), tmp_path, tmp_path, tmp_path / "c")
    with pytest.raises(RuntimeError, match="else"), advising.advice(job, lambda: "step 3"):
        raise RuntimeError("something else")


def command(folder, base, data, given) -> list[str]:
    """The command line of the step, with manifests that name the folders."""
    for name, place in (("base", base), ("splits", data)):
        if not (place / "manifest.json").is_file():
            write_json(place / "manifest.json", {"outputs": {name: name}, "facts": {}})
    return [
        *(sys.executable, str(REPOSITORY / "scripts" / "train_run.py")),
        *("--step", json.dumps({"settings": given, "code": "", "sources": {}})),
        *("--base", str(base / "manifest.json"), "--splits", str(data / "manifest.json")),
        *("--checkpoints", str(folder / "checkpoints"), "--threads", "1"),
        *("--manifest", str(folder / "run" / "manifest.json")),
    ]


def weights(folder) -> bytes:
    return (folder / "run" / "model" / "adapter_model.safetensors").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_in_a_checkpoint_and_the_run_goes_on_from_it(
    tiny_model,
    splits,
    tmp_path,
    number,
):
    base = shutil.copytree(tiny_model, tmp_path / "base")
    given = settings(max_steps=300, save_steps=1000, eval_steps=1000)
    call = command(tmp_path, base, splits, given)
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob("checkpoints/*/metrics.jsonl")):
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(number)
    error = process.communicate(timeout=120)[1]
    assert process.returncode == 128 + number, error
    assert f"stopped by {number.name}: checkpoint saved at step" in error
    assert not (tmp_path / "run").exists()
    done = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "run/manifest.json").read_text())["facts"]
    assert 0 < facts["resumed_step"] < facts["steps"] == 300
    whole = tmp_path / "whole"
    subprocess.run(command(whole, base, splits, given), check=True, capture_output=True)
    assert weights(tmp_path) == weights(whole)
