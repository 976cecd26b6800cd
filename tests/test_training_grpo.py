"""GRPO and RLOO: they are given the prompts' own ids, learn a toy reward, and resume exactly."""

import pytest
from online import even_share, settings, stopping_model, whole_and_resumed, write_prompts
from pydantic import ValidationError
from transformers import set_seed

from anneal.errors import UserError
from anneal.training.curves import WriteCurves, read_curves
from anneal.training.grpo import group_trainer
from anneal.training.job import Job

LORA = {"kind": "lora", "r": 4}
METHODS = pytest.mark.parametrize("method", ["grpo", "rloo"])


@pytest.fixture(scope="module")
def base(tiny_model, tmp_path_factory):
    return stopping_model(tiny_model, tmp_path_factory.mktemp("online") / "model")


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    return write_prompts(tmp_path_factory.mktemp("prompts"))


@METHODS
def test_the_reward_rises_and_prompts_are_the_ids_of_the_rows(method, base, prompts, tmp_path):
    given = settings(
        method,
        {"generations": 8, "beta": 0.01},
        max_steps=20,
        per_device_train_batch_size=64,
        learning_rate=1e-2,
    )
    job, seen = Job(given, base, prompts, tmp_path), []

    def reward(asked, answers):
        seen.extend(map(tuple, asked))
        return even_share(asked, answers)

    set_seed(given["training"]["seed"])
    trainer = group_trainer(job, reward)
    trainer.add_callback(WriteCurves(tmp_path / "metrics.jsonl", 0))
    trainer.train()
    rows = read_curves(tmp_path / "metrics.jsonl")
    rewards = [row["reward"] for row in rows if "reward" in row]
    assert sum(rewards[:3]) / 3 < 0.56
    assert sum(rewards[-3:]) / 3 > 0.62
    assert set(seen) <= {tuple(ids) for ids in job.train_rows["input_ids"]} | {
        tuple(ids) for ids in job.eval_rows["input_ids"]
    }
    assert {"kl_per_token", "entropy", "clip_fraction", "answer_length", "unfinished"} <= set(
        rows[-2]
    )


@METHODS
@pytest.mark.parametrize("tuning", [LORA, {"kind": "full"}])
def test_a_resumed_run_ends_with_the_bytes_of_an_undisturbed_one(
    method, base, prompts, tmp_path, tuning
):
    """Two steps are one pass over the prompts, so the third begins another order."""
    online = {"generations": 2}
    given = settings(method, online, tuning, per_device_train_batch_size=16)
    given["training"]["global_batch_size"] *= 2
    name = "adapter_model" if tuning["kind"] == "lora" else "model"
    facts, whole, kept = whole_and_resumed(given, base, prompts, tmp_path)
    assert (facts["resumed_step"], facts["steps"]) == (2, 6)
    for file in (f"model/{name}.safetensors", "metrics.jsonl", "samples.json"):
        assert (kept / file).read_bytes() == (whole / file).read_bytes()
    assert not (whole / "model" / "ref").exists()


def test_groups_that_do_not_fill_a_step_are_refused():
    with pytest.raises(ValidationError, match=r"8 answers a step .* no whole groups of 3"):
        settings("grpo", {"generations": 3})


def test_a_stop_token_that_the_model_does_not_know_is_refused(tiny_model, prompts, tmp_path):
    job = Job(settings("grpo", {}), tiny_model, prompts, tmp_path)
    with pytest.raises(UserError, match="ends answers with token"):
        group_trainer(job, even_share)
