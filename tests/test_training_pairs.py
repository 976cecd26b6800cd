"""Learning from pairs: the right reference, the right token, exact resume, nothing of TRL's own."""

import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch
from tiny import REPOSITORY, make_model, make_tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from anneal.arrow_dataset import write_arrow_dataset
from anneal.config.run import Run
from anneal.errors import UserError
from anneal.splitting.write import PAIR
from anneal.training import dpo, kto, orpo, reward
from anneal.training.checkpoints import COMPLETE
from anneal.training.curves import read_curves
from anneal.training.job import Job
from anneal.training.merge import merge_run
from anneal.training.models import load_tokenizer
from anneal.training.reward_model import load_reward_model, scores
from anneal.training.train import train

METHODS = ["dpo", "kto", "orpo", "reward"]
STOP = 375  # <|im_end|> of the tiny tokenizer, which pads too


def pair(seed: int) -> dict:
    """Chosen answers are of other words than rejected ones; both end with the stop token."""
    random = np.random.default_rng(seed)
    prompt = random.integers(3, 370, 5 + seed % 6).tolist()
    chosen = [*random.integers(20, 23, 3 + seed % 4).tolist(), STOP]
    rejected = [*random.integers(200, 203, 2 + seed % 5).tolist(), STOP]
    ids = {"prompt_ids": prompt, "chosen_ids": chosen, "rejected_ids": rejected}
    return {"id": str(seed), **ids, "length": len(prompt) + max(len(chosen), len(rejected))}


def write_pairs(folder):
    for name, count in (("train", 24), ("eval", 5), ("test", 2)):
        rows = [pair(100 * len(name) + i) for i in range(count)]
        write_arrow_dataset(folder / name, PAIR, [pa.RecordBatch.from_pylist(rows, PAIR)])
    return folder


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("splits"))


def settings(method: str, kind: str = "lora", **training) -> dict:
    given = {"precision": "fp32", "max_steps": 6, "save_steps": 2, "eval_steps": 3}
    given |= {"logging_steps": 1, "per_device_train_batch_size": 2, "learning_rate": 1e-2}
    given |= {"gradient_accumulation_steps": 1, "warmup_ratio": 0} | training
    tuning = {"r": 4, "kind": kind}
    return Run(dataset="d", model="m", method=method, training=given, tuning=tuning).settings()


def run(given: dict, base, splits, folder) -> dict:
    return train(Job(given, base, splits, folder / "checkpoints"), folder / "run")


def curves(folder) -> list[dict]:
    return read_curves(folder / "run" / "metrics.jsonl")


@pytest.fixture(scope="module", params=METHODS)
def trained(request, tiny_model, splits, tmp_path_factory):
    """A finished run of each method: its name and folder."""
    folder = tmp_path_factory.mktemp(request.param)
    run(settings(request.param), tiny_model, splits, folder)
    return request.param, folder


def test_pairs_are_learned_and_the_curves_say_so(trained):
    rows = curves(trained[1])
    first, last = (row for row in rows if row["step"] in (0, 6) and "eval_loss" in row)
    assert last["eval_loss"] < first["eval_loss"]
    assert last["eval_reward_margin"] > first["eval_reward_margin"]
    assert 0 <= last["eval_reward_accuracy"] <= 1
    assert any("reward_margin" in row and "loss" in row for row in rows)


def test_a_killed_run_ends_with_the_bytes_of_an_undisturbed_one(
    trained, tiny_model, splits, tmp_path
):
    method, whole = trained
    shutil.copytree(whole / "checkpoints", tmp_path / "checkpoints")
    shutil.rmtree(tmp_path / "checkpoints" / "checkpoint-6")
    (tmp_path / "checkpoints" / "checkpoint-4" / COMPLETE).unlink()
    facts = run(settings(method), tiny_model, splits, tmp_path)
    assert facts["resumed_step"] == 3
    for name in ("model/adapter_model.safetensors", "model/adapter_config.json", "metrics.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (whole / "run" / name).read_bytes()


def test_nothing_of_trls_own_is_left_in_checkpoints_or_model(trained):
    method, folder = trained
    names = {p.name for p in folder.rglob("*")}
    assert "ref" not in names
    assert not list((folder / "checkpoints").glob("README.md"))
    card = (folder / "run" / "model" / "README.md").read_text()
    assert f"- {method}" not in card
    assert "- trl" not in card


def test_dropout_is_off_unless_it_is_set():
    assert settings("dpo")["tuning"]["dropout"] == 0
    given = Run(dataset="d", model="m", method="dpo", tuning={"dropout": 0.05}).settings()
    assert given["tuning"]["dropout"] == 0.05


def sft_model(tiny_model, folder):
    """The tiny model with other weights, as training would leave them."""
    shutil.copytree(tiny_model, folder)
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_pretrained(folder)
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def starts(tiny_model, splits, tmp_path_factory):
    """A model tuned as a whole, and one whose adapter was merged."""
    folder = tmp_path_factory.mktemp("starts")
    run(settings("orpo"), tiny_model, splits, folder / "adapter")
    merge_run(folder / "adapter" / "run" / "model", folder / "merged")
    return {"full": sft_model(tiny_model, folder / "full"), "merged": folder / "merged"}


@pytest.mark.parametrize("start", ["full", "merged"])
@pytest.mark.parametrize("kind", ["full", "lora", "qlora"])
@pytest.mark.parametrize("method", ["dpo", "kto"])
def test_at_step_0_the_reference_is_the_model_the_run_starts_from(
    starts, splits, tmp_path, method, start, kind
):
    job = Job(settings(method, kind), starts[start], splits, tmp_path)
    trainer = {"dpo": dpo, "kto": kto}[method].make_trainer(job)
    metrics = trainer.evaluate()
    assert metrics["eval_loss"] == pytest.approx({"dpo": math.log(2), "kto": 0.5}[method], abs=1e-4)
    for name in ("margin", "accuracy"):
        assert metrics[f"eval_reward_{name}"] == pytest.approx(0, abs=1e-4)
    held_as = "a frozen copy" if kind == "full" else "the model without its adapter"
    assert trainer.facts["reference"] == {"model": starts[start].name, "held_as": held_as}


def test_another_reference_stops_the_run_with_one_line(starts, tiny_model, splits, tmp_path):
    job = Job(settings("dpo", "full"), starts["full"], splits, tmp_path)
    trainer = dpo.make_trainer(job)
    trainer.ref_model.load_state_dict(AutoModelForCausalLM.from_pretrained(tiny_model).state_dict())
    with pytest.raises(UserError, match=r"runs\.\*\.model: at step 0 the model is not its own ref"):
        trainer.evaluate()


def test_full_tuning_moves_the_model_and_not_its_reference(starts, splits, tmp_path):
    job = Job(settings("dpo", "full", max_steps=2), starts["full"], splits, tmp_path)
    trainer = dpo.make_trainer(job)
    trainer.train()
    start = AutoModelForCausalLM.from_pretrained(starts["full"]).state_dict()
    assert all(torch.equal(p, start[n]) for n, p in trainer.ref_model.state_dict().items())
    assert not torch.equal(job.model.lm_head.weight, start["lm_head.weight"])


def test_the_adapter_of_a_4_bit_model_stays_in_float32(tiny_model, splits, tmp_path):
    given = settings("dpo", "qlora", max_steps=2)
    facts = run(given, tiny_model, splits, tmp_path)
    job = Job(given, tiny_model, splits, tmp_path)
    dpo.make_trainer(job)
    trained = [p for p in job.model.parameters() if p.requires_grad]
    assert {p.dtype for p in trained} == {torch.float32}
    assert facts["steps"] == 2


def logps(model, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """Log-probabilities of the answer's tokens, the row alone and without padding."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1)[range(len(answer)), answer]


def test_the_end_token_is_part_of_the_answers_though_it_pads(tiny_model, splits, tmp_path):
    job = Job(settings("dpo", "full"), tiny_model, splits, tmp_path)
    trainer = dpo.make_trainer(job)
    assert job.tokenizer.pad_token_id == STOP
    batch = trainer.data_collator([pair(1), pair(8)])
    answers = [pair(1)["chosen_ids"], pair(8)["chosen_ids"]]
    answers += [pair(1)["rejected_ids"], pair(8)["rejected_ids"]]
    learned = [ids[kept.bool()].tolist() for ids, kept in zip(*_learned(batch), strict=True)]
    assert learned == answers
    found = trainer.compute_ref_log_probs(trainer.ref_model, batch)
    wanted = [logps(job.model, pair(i)["prompt_ids"], pair(i)["chosen_ids"]) for i in (1, 8)]
    assert torch.allclose(found[0], torch.stack([w.sum() for w in wanted]), atol=1e-4)


def _learned(batch: dict) -> tuple:
    return batch["input_ids"], batch["completion_mask"]


def test_the_loss_of_orpo_is_that_of_the_paper(tiny_model, splits, tmp_path):
    given = settings("orpo", "full")
    job = Job(given, tiny_model, splits, tmp_path)
    trainer = orpo.make_trainer(job)
    rows = [pair(i) for i in range(3)]
    loss = trainer.compute_loss(job.model.eval(), trainer.data_collator(rows))
    wanted = []
    for row in rows:
        chosen, rejected = (
            logps(job.model, row["prompt_ids"], row[side]).mean().double()
            for side in ("chosen_ids", "rejected_ids")
        )
        odds = [p.exp() / (1 - p.exp()) for p in (chosen, rejected)]
        ratio = torch.sigmoid(torch.log(odds[0] / odds[1]))
        wanted.append(-chosen - 0.1 * torch.log(ratio))
    assert loss.item() == pytest.approx(torch.stack(wanted).mean().item(), abs=1e-5)


def test_kto_pairs_each_prompt_with_an_answer_to_another():
    batch = kto.Unpair(0)([pair(1), pair(2), pair(3)])
    assert batch["label"].tolist() == [True] * 3 + [False] * 3
    answers = [ids[m.bool()].tolist() for ids, m in zip(*_learned(batch), strict=True)]
    others = zip(batch["KL_input_ids"], batch["KL_completion_mask"], strict=True)
    assert [ids[m.bool()].tolist() for ids, m in others] == [answers[-1], *answers[:-1]]


def test_kto_needs_two_pairs_in_a_micro_batch():
    with pytest.raises(ValueError, match="needs per_device_train_batch_size of 2"):
        settings("kto", per_device_train_batch_size=1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1, 2])
def test_evaluation_is_a_mean_over_pairs_whatever_the_batch(
    tiny_model, splits, tmp_path, method, size
):
    """For kto only the reward is: its loss knows a KL of the batch."""
    module = {"dpo": dpo, "kto": kto, "orpo": orpo, "reward": reward}[method]
    trainer = module.make_trainer(Job(settings(method), tiny_model, splits, tmp_path))
    for parameter in trainer.model.parameters():
        parameter.data += 0.01 if parameter.requires_grad else 0
    trainer.state.global_step = 1
    trainer.args.per_device_eval_batch_size = 5
    whole = trainer.evaluate()
    trainer.args.per_device_eval_batch_size = size
    found = trainer.evaluate()
    for name in ("eval_reward_accuracy", "eval_reward_margin", "eval_loss"):
        if (method, name) != ("kto", "eval_loss"):
            assert found[name] == pytest.approx(whole[name], abs=1e-5)


@pytest.mark.parametrize("method", ["dpo", "orpo", "reward"])
def test_accumulation_changes_neither_loss_nor_gradient(tiny_model, splits, tmp_path, method):
    found = []
    for micro in (1, 4):
        sizes = {"per_device_train_batch_size": micro, "gradient_accumulation_steps": 4 // micro}
        run(settings(method, max_steps=2, **sizes), tiny_model, splits, tmp_path / str(micro))
        rows = [row for row in curves(tmp_path / str(micro)) if "grad_norm" in row]
        found.append([(row["loss"], row["grad_norm"], row["reward_margin"]) for row in rows])
    assert np.allclose(*found, atol=2e-4)


def test_in_bf16_too_the_model_is_its_own_reference(starts, splits, tmp_path):
    for kind in ("full", "lora"):
        given = settings("dpo", kind, precision="bf16")
        trainer = dpo.make_trainer(Job(given, starts["merged"], splits, tmp_path))
        assert trainer.evaluate()["eval_loss"] == pytest.approx(math.log(2), abs=1e-4)


def test_the_pairs_of_the_recipes_are_what_their_script_writes(tmp_path):
    command = [sys.executable, "data/make_preferences.py", "--output", tmp_path / "pairs.jsonl"]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    shipped = REPOSITORY / "data" / "raw" / "preferences.jsonl"
    assert (tmp_path / "pairs.jsonl").read_bytes() == shipped.read_bytes()


# --- the reward model ---


@pytest.fixture(scope="module", params=["lora", "full", "qlora"])
def reward_run(request, tiny_model, splits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reward")
    run(settings("reward", request.param), tiny_model, splits, folder)
    return folder / "run" / "model"


def padded(pairs: list[dict], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [torch.tensor(p["prompt_ids"] + p["chosen_ids"]) for p in pairs]
    ids = torch.nn.utils.rnn.pad_sequence(rows, True, pad)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], True)
    return ids, mask


@pytest.mark.parametrize("pad", [STOP, 7])
def test_the_reward_stands_at_the_last_real_token_whatever_pads(reward_run, tiny_model, pad):
    model = load_reward_model(reward_run, load_tokenizer(tiny_model))
    pairs = [pair(i) for i in range(4)]
    with torch.no_grad():
        found = scores(model, *padded(pairs, pad))
        alone = [scores(model, *padded([p], pad)) for p in pairs]
        own = load_tokenizer(reward_run).pad_token_id
        ids, mask = padded(pairs, own)
        direct = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.squeeze(-1)
    assert own != STOP
    assert found.shape == (4,)
    assert torch.allclose(found, torch.cat(alone), atol=1e-5)
    assert torch.allclose(found, direct, atol=1e-5)


def test_a_whole_reward_model_opens_with_transformers_alone(tiny_model, splits, tmp_path):
    run(settings("reward", "full", max_steps=1), tiny_model, splits, tmp_path)
    folder = tmp_path / "run" / "model"
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert model.config.num_labels == 1
    assert model.config.pad_token_id == load_tokenizer(folder).pad_token_id
    ids, mask = padded([pair(1), pair(2)], model.config.pad_token_id)
    with torch.no_grad():
        direct = model(input_ids=ids, attention_mask=mask).logits.squeeze(-1)
        ours = scores(load_reward_model(folder, load_tokenizer(tiny_model)), ids, mask)
    assert torch.allclose(direct, ours, atol=1e-5)


def test_an_adapter_of_a_reward_model_opens_with_peft(tiny_model, splits, tmp_path):
    from peft import PeftModel

    run(settings("reward", max_steps=1), tiny_model, splits, tmp_path)
    folder = tmp_path / "run" / "model"
    pad = load_tokenizer(folder).pad_token_id
    base = AutoModelForSequenceClassification.from_pretrained(
        tiny_model, num_labels=1, pad_token_id=pad
    )
    model = PeftModel.from_pretrained(base, folder).eval()
    ids, mask = padded([pair(1), pair(2)], pad)
    with torch.no_grad():
        direct = model(input_ids=ids, attention_mask=mask).logits.squeeze(-1)
        ours = scores(load_reward_model(folder, load_tokenizer(tiny_model)), ids, mask)
    assert torch.allclose(direct, ours, atol=1e-5)


def test_a_model_of_two_labels_is_no_reward_model(tiny_model, tmp_path):
    folder = make_tokenizer(tmp_path / "two")
    two = AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=2)
    two.save_pretrained(folder)
    with pytest.raises(UserError, match="gives 2 numbers for a sequence, a reward model gives one"):
        load_reward_model(folder, load_tokenizer(tiny_model))


def test_an_adapter_without_a_head_is_no_reward_model(tiny_model, splits, tmp_path):
    run(settings("orpo", max_steps=1), tiny_model, splits, tmp_path)
    with pytest.raises(UserError, match="gives 0 numbers"):
        load_reward_model(tmp_path / "run" / "model", load_tokenizer(tiny_model))


def test_a_reward_model_of_another_tokenizer_is_refused(reward_run, tmp_path):
    other = make_tokenizer(tmp_path / "other", unk_token="<other>")
    with pytest.raises(UserError, match="another tokenizer than the model that is trained"):
        load_reward_model(reward_run, load_tokenizer(other))


def test_an_end_that_nothing_else_can_pad_is_refused(tmp_path, splits):
    folder = make_tokenizer(tmp_path / "model")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["bos_token"] = config["eos_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    make_model(folder)
    with pytest.raises(UserError, match="give pad_token a token of its own"):
        reward.make_trainer(Job(settings("reward"), folder, splits, tmp_path))
