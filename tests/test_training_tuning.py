"""Every tuning: what it trains, that it learns, and that what is saved answers the same."""

import json
import shutil

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from pyarrow import RecordBatch
from runs import ROWS, row, sequence, settings, train
from tiny import make_model, make_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from anneal.arrow_dataset import write_arrow_dataset
from anneal.config.tuning import Tuning
from anneal.errors import UserError
from anneal.splitting.write import SEQUENCE
from anneal.training.checkpoints import COMPLETE
from anneal.training.curves import read_curves
from anneal.training.data import Collator
from anneal.training.job import Job
from anneal.training.loss import token_losses
from anneal.training.merge import merge_run
from anneal.training.models import load_model
from anneal.training.train import train as train_job
from anneal.training.tuning import tuned, weights

KINDS = ("lora", "dora", "qlora", "adapter", "prompt", "prefix", "ia3", "full")
IDS = torch.tensor([[5, 9, 40, 41, 42, 7, 8, 350, 351, 12]])


def tuning(kind: str, **more) -> dict:
    return Tuning(kind=kind, r=4, virtual_tokens=5, bottleneck=8, **more).model_dump()


def write_splits(folder):
    for name, count in (("train", 24), ("eval", 3), ("test", 2)):
        rows = [sequence([row(20 + i % 7, 4 + i % 3, 100 + i)]) for i in range(count)]
        write_arrow_dataset(folder / name, SEQUENCE, [RecordBatch.from_pylist(rows, SEQUENCE)])
    return folder


def fresh(folder, kind: str, **more):
    torch.manual_seed(3)
    base = load_model(folder, quantized=kind == "qlora")
    return tuned(base, tuning(kind, **more))


@torch.no_grad()
def logits(model) -> torch.Tensor:
    return model.eval()(input_ids=IDS, use_cache=False).logits[:, -IDS.shape[1] :]


@pytest.fixture(scope="module")
def runs(tiny_model, tmp_path_factory):
    """A short run of each kind on one base; made when it is first asked for."""
    made, root = {}, tmp_path_factory.mktemp("runs")

    def run(kind: str):
        if kind not in made:
            folder = root / kind
            given = settings(max_steps=8, logging_steps=2)
            given["tuning"] = tuning(kind)
            data = write_splits(folder / "splits")
            facts = train(given, tiny_model, data, folder / "checkpoints", folder / "run", "none")
            manifest = {"settings": given, "facts": facts}
            (folder / "run" / "manifest.json").write_text(json.dumps(manifest))
            made[kind] = folder
        return made[kind]

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_falls_and_the_number_of_trained_weights_is_a_fact_of_the_run(runs, kind):
    rows = [r for r in read_curves(runs(kind) / "run" / "metrics.jsonl") if "eval_loss" in r]
    assert rows[-1]["eval_loss"] < rows[0]["eval_loss"]
    facts = json.loads((runs(kind) / "run" / "manifest.json").read_text())["facts"]
    assert 0 < facts["trained_weights"] <= facts["weights"]
    assert (facts["trained_weights"] == facts["weights"]) == (kind == "full")


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_reaches_every_trained_tensor_and_no_other(runs, tiny_model, kind):
    model = fresh(tiny_model, kind)
    for _ in range(2):  # the second step also reaches what the first multiplied by zero
        model.zero_grad()
        losses, *_ = token_losses(model, Collator(0)([sequence([r]) for r in ROWS]))
        losses.sum().backward()
        trained = [p for p in model.parameters() if p.requires_grad]
        torch.optim.SGD(trained, lr=0.1).step()
    assert all(p.grad is not None and p.grad.any() for p in trained)
    assert all(p.grad is None for p in model.parameters() if not p.requires_grad)
    assert weights(model)["trained_weights"] == sum(p.numel() for p in trained)


@pytest.mark.parametrize("kind", ["lora", "dora", "qlora", "adapter", "ia3"])
def test_before_the_first_step_the_model_is_its_base(tiny_model, kind):
    base = load_model(tiny_model, quantized=kind == "qlora")
    assert torch.equal(logits(base), logits(fresh(tiny_model, kind)))


@pytest.mark.parametrize("kind", ["lora", "dora", "adapter", "prompt", "prefix", "ia3"])
def test_the_saved_adapter_loads_with_peft_alone(runs, tiny_model, kind):
    folder = runs(kind) / "run" / "model"
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_model), folder)
    assert torch.equal(logits(loaded), logits(load_model(folder)))
    assert not torch.allclose(logits(loaded), logits(load_model(tiny_model)), atol=1e-3)


@pytest.mark.parametrize("kind", ["lora", "dora", "qlora", "ia3", "full"])
def test_the_merged_model_answers_like_the_run(runs, tmp_path, kind):
    folder = runs(kind) / "run" / "model"
    merge_run(folder, tmp_path)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.allclose(logits(merged), logits(load_model(folder)), atol=1e-3)
    assert not hasattr(merged.config, "quantization_config")
    assert merged.dtype == torch.float32


@pytest.mark.parametrize("kind", ["adapter", "prompt", "prefix"])
def test_what_is_no_change_of_weights_cannot_be_merged(runs, tmp_path, kind):
    with pytest.raises(UserError, match="cannot be merged"):
        merge_run(runs(kind) / "run" / "model", tmp_path)


@pytest.mark.parametrize("kind", ["dora", "qlora", "adapter", "prompt", "prefix", "ia3"])
def test_a_resumed_run_ends_with_the_same_bytes(runs, tiny_model, tmp_path, kind):
    whole, given = runs(kind), settings(max_steps=8, logging_steps=2)
    given["tuning"] = tuning(kind)
    shutil.copytree(whole / "checkpoints", tmp_path / "checkpoints")
    (tmp_path / "checkpoints" / "checkpoint-8" / COMPLETE).unlink()
    job = Job(given, tiny_model, whole / "splits", tmp_path / "checkpoints")
    assert train_job(job, tmp_path / "run")["resumed_step"] == 6
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        wanted = (whole / "run" / "model" / name).read_bytes()
        assert (tmp_path / "run" / "model" / name).read_bytes() == wanted


@pytest.fixture(scope="module")
def experts(tiny_model, tmp_path_factory) -> tuple:
    """Two random LoRA adapters on one base."""
    folders = [tmp_path_factory.mktemp("expert") for _ in range(2)]
    for seed, folder in enumerate(folders):
        torch.manual_seed(seed)
        config = LoraConfig(
            r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM"
        )
        get_peft_model(load_model(tiny_model), config).save_pretrained(folder)
    return tuple(folders)


def test_a_classifier_learns_to_mix_adapters_resumes_and_reloads(experts, tiny_model, tmp_path):
    given = settings(max_steps=8, logging_steps=2)
    given["tuning"] = tuning("xlora", adapters=["first", "second"])
    data = write_splits(tmp_path / "splits")
    job = Job(given, tiny_model, data, tmp_path / "c", adapters=experts)
    facts = train_job(job, tmp_path / "run")
    trained = {n for n, p in job.model.named_parameters() if p.requires_grad}
    assert trained and all("classifier" in name for name in trained)
    assert facts["trained_weights"] == 32 * 2 + 2
    loaded, live = logits(load_model(tmp_path / "run" / "model")), logits(job.model)
    assert torch.allclose(loaded, live, atol=1e-6)
    rows = [r for r in read_curves(tmp_path / "run" / "metrics.jsonl") if "eval_loss" in r]
    assert rows[-1]["eval_loss"] < rows[0]["eval_loss"]
    (tmp_path / "c" / "checkpoint-8" / COMPLETE).unlink()
    again = Job(given, tiny_model, data, tmp_path / "c", adapters=experts)
    assert train_job(again, tmp_path / "again")["resumed_step"] == 6
    name = "model/adapter_model.safetensors"
    assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


@pytest.mark.parametrize("kind", ["lora", "prompt", "prefix"])
def test_the_loss_behind_virtual_tokens_is_that_of_a_plain_forward_pass(tiny_model, kind):
    model = fresh(tiny_model, kind).eval()
    sequences = [sequence([r]) for r in ROWS]
    with torch.no_grad():
        losses, learned, _ = token_losses(model, Collator(0)(sequences))
        for found, used, given in zip(losses, learned, sequences, strict=True):
            alone = {n: torch.tensor([given[n]]) for n in ("input_ids", "labels")}
            plain = model(**alone, use_cache=False).loss
            assert torch.allclose(found[used].mean(), plain, atol=1e-5)


@pytest.mark.parametrize("kind", ["prompt", "prefix", "lora"])
def test_generation_agrees_with_the_forward_pass_whatever_the_padding(tmp_path, kind):
    model = make_model(make_tokenizer(tmp_path))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(6)  # so that the most likely token depends on all before it
    model.save_pretrained(tmp_path)
    model = fresh(tmp_path, kind).eval()
    ids = torch.tensor([[5, 6, 7, 8, 9, 30, 31], [40, 41, 42, 43, 44, 45, 46]])
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    given = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    found = model.generate(input_ids=ids, attention_mask=mask, **given)[:, 7:]
    assert found.tolist() == [greedy(model, ids[:1], 6), greedy(model, ids[1:, 3:], 6)]


@torch.no_grad()
def greedy(model, ids: torch.Tensor, count: int) -> list[int]:
    for _ in range(count):
        best = model(input_ids=ids, use_cache=False).logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, best], 1)
    return ids[0, -count:].tolist()


def test_an_adapter_on_a_model_without_such_modules_is_refused(tiny_model):
    with pytest.raises(UserError, match="does not fit this model"):
        fresh(tiny_model, "adapter", target_modules="no_such_module")


def test_a_tokenizer_with_more_tokens_than_the_model_has_rows_is_refused(tiny_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"<{n}>" for n in range(200)])
    tokenizer.save_pretrained(folder)
    with pytest.raises(UserError, match=r"576 tokens, the model 512 embedding rows"):
        load_model(folder)
