"""Weight diffs: base and diff give back the tuned model's very bytes, or say why they cannot."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import REPOSITORY, make_model, make_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from anneal.errors import UserError
from anneal.training.weight_diff import NOTE, make, recover


def saved(folder: Path, tied: bool = True, dtype=torch.float32, shard: str = "5GB") -> Path:
    """A tiny model of a type, in one file or several, with its tokenizer."""
    make_tokenizer(folder)
    model = make_model(folder, tied).to(dtype)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size=shard)
    return folder


def tuned_from(base: Path, folder: Path, tokens: int = 0, shard: str = "5GB") -> Path:
    """The model with slightly other weights and some new tokens."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens([f"<new {n}>" for n in range(tokens)])
    if tokens:
        model.resize_token_embeddings(512 + tokens)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1e-3 * torch.randn_like(weight)
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


@pytest.fixture
def pair(tmp_path) -> tuple[Path, Path]:
    """A base and the diff of a model tuned from it."""
    base = saved(tmp_path / "base")
    make(base, tuned_from(base, tmp_path / "tuned"), tmp_path / "diff")
    return base, tmp_path / "diff"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("tokens", "shard"), [(0, "5GB"), (3, "60KB")])
def test_the_recovered_model_has_the_bytes_of_the_tuned_one(tmp_path, tied, dtype, tokens, shard):
    base = saved(tmp_path / "base", tied, dtype)
    tuned = tuned_from(base, tmp_path / "tuned", tokens, shard)
    assert (len(list(tuned.glob("*.safetensors"))) == 1) == (shard == "5GB")
    made = make(base, tuned, tmp_path / "diff")
    assert made["alone"] == []
    recover(base, tmp_path / "diff", tmp_path / "again")
    assert files(tmp_path / "again") == files(tuned)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    assert model.get_input_embeddings().num_embeddings == 512 + tokens
    assert len(AutoTokenizer.from_pretrained(tmp_path / "again")) == len(
        AutoTokenizer.from_pretrained(tuned)
    )


def test_a_base_cut_into_files_in_another_way_is_the_same_base(tmp_path, pair):
    base, diff = pair
    model = AutoModelForCausalLM.from_pretrained(base)
    model.save_pretrained(tmp_path / "parts", max_shard_size="60KB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    recover(tmp_path / "parts", diff, tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "tuned")


def test_a_tuned_model_of_another_type_and_with_a_head_of_its_own_is_recovered(tmp_path):
    base = saved(tmp_path / "base", tied=True, dtype=torch.float32)
    tuned = saved(tmp_path / "tuned", tied=False, dtype=torch.bfloat16)
    made = make(base, tuned, tmp_path / "diff")
    assert made["alone"] == ["lm_head.weight"]
    recover(base, tmp_path / "diff", tmp_path / "again")
    assert files(tmp_path / "again") == files(tuned)


def test_bits_that_subtraction_loses_are_kept(tmp_path):
    base = torch.tensor([1e8, 0.1, float("inf"), -0.0, float("nan"), 3e-45])
    tuned = torch.tensor([0.3, 1e8, 1.0, 0.0, 2.0, float("-inf")])
    assert not torch.equal(base + (tuned - base), tuned)
    counts = {"steps": torch.tensor(3), "none": torch.zeros(0, 4), "mask": torch.tensor([True])}
    for name, weights in {"base": base, "tuned": tuned}.items():
        (tmp_path / name).mkdir()
        save_file({"w": weights, **counts}, tmp_path / name / "model.safetensors")
    make(tmp_path / "base", tmp_path / "tuned", tmp_path / "diff")
    recover(tmp_path / "base", tmp_path / "diff", tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "tuned")


def test_a_model_that_moved_little_makes_a_small_diff(tmp_path):
    base = saved(tmp_path / "base")
    same = make(base, base, tmp_path / "nothing")
    assert same["diff_bytes"] < 0.05 * same["tuned_bytes"]
    moved = make(base, tuned_from(base, tmp_path / "tuned"), tmp_path / "diff")
    assert moved["diff_bytes"] < 0.85 * moved["tuned_bytes"]


def changed(base: Path, how) -> None:
    path = base / "model.safetensors"
    weights = load_file(path)
    how(weights)
    save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (lambda w: w["model.norm.weight"].add_(1), r"1 of \d+ tensors have other values.*norm"),
        (lambda w: w.update({"model.norm.weight": torch.ones(3)}), r"norm.weight is .*\[3\]"),
        (lambda w: w.pop("model.norm.weight"), "lacks model.norm.weight"),
        (lambda w: w.update(more=torch.ones(3)), "has also more"),
    ],
)
def test_a_wrong_base_is_refused_with_the_reason_and_nothing_is_written(tmp_path, pair, how, why):
    base, diff = pair
    changed(base, how)
    with pytest.raises(UserError, match=f"is not the base of this diff: .*{why}"):
        recover(base, diff, tmp_path / "again")
    assert not any(tmp_path.glob("*again*"))


@pytest.mark.parametrize("name", ["model.safetensors.xor.zst", "tokenizer.json", NOTE])
def test_a_diff_that_is_cut_off_is_refused(tmp_path, pair, name):
    base, diff = pair
    path = diff / name
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=rf"{name}: is (not as it was made|missing or damaged)"):
        recover(base, diff, tmp_path / "again")
    path.unlink()
    with pytest.raises(UserError, match=f"{name}: is missing"):
        recover(base, diff, tmp_path / "again")


def test_a_base_that_is_cut_off_is_refused(tmp_path, pair):
    base, diff = pair
    path = base / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"model.safetensors: is cut off"):
        recover(base, diff, tmp_path / "again")


def test_what_lies_elsewhere_is_never_written(tmp_path, pair):
    base, diff = pair
    note = json.loads((diff / NOTE).read_text())
    note["diff"]["../outside"] = note["tuned"]["../outside"] = note["diff"]["tokenizer.json"]
    (diff / NOTE).write_text(json.dumps(note))
    shutil.copy(diff / "tokenizer.json", tmp_path / "outside")
    with pytest.raises(UserError, match="is missing"):
        recover(base, diff, tmp_path / "again")


def test_folders_that_are_no_models_or_are_there_already_are_refused(tmp_path, pair):
    base, diff = pair
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no safetensors"):
        make(tmp_path / "empty", base, tmp_path / "new")
    with pytest.raises(UserError, match="is there already"):
        make(base, base, diff)
    (base / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="is an adapter"):
        make(base, base, tmp_path / "new")


def weight_diff(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(REPOSITORY / "scripts/weight_diff.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_line_makes_and_recovers(tmp_path):
    base = saved(tmp_path / "base")
    tuned, diff = tuned_from(base, tmp_path / "tuned"), tmp_path / "diff"
    made = weight_diff("make", "--base", base, "--tuned", tuned, "--diff", diff)
    assert "of the tuned model's bytes" in made.stdout, made.stderr
    wrong = weight_diff("recover", "--base", tuned, "--diff", diff, "--output", tmp_path / "no")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: ")
    assert len(wrong.stderr.splitlines()) == 1
    weight_diff("recover", "--base", base, "--diff", diff, "--output", tmp_path / "again")
    assert files(tmp_path / "again") == files(tuned)


MEMORY = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {scripts!r})
from anneal.training.weight_diff import make, recover
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
base, tuned, diff, again = map(Path, sys.argv[1:])
before = peak()
make(base, tuned, diff)
recover(base, diff, again)
print(peak() - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_model(tmp_path):
    chance = np.random.default_rng(0)
    weights = torch.from_numpy(chance.standard_normal((30_000, 4_096), np.float32))  # 492 MB
    for name, moved in {"base": 0.0, "tuned": 1e-3}.items():
        (tmp_path / name).mkdir()
        save_file({"w": weights + moved}, tmp_path / name / "model.safetensors")
    del weights
    code = MEMORY.format(scripts=str(REPOSITORY / "scripts"))
    folders = [str(tmp_path / name) for name in ("base", "tuned", "diff", "again")]
    done = subprocess.run([sys.executable, "-c", code, *folders], capture_output=True, text=True)
    assert float(done.stdout) < 150, done.stderr  # megabytes
