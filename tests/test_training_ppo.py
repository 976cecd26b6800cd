"""PPO: it starts as its reference, learns as far as its KL allows, and resumes exactly."""

import shutil

import numpy as np
import pytest
import torch
from online import (
    best_share,
    even_share,
    settings,
    stopping_model,
    whole_and_resumed,
    write_prompts,
)
from pydantic import ValidationError
from transformers import set_seed

from anneal.errors import UserError
from anneal.training.curves import WriteCurves, read_curves
from anneal.training.job import Job
from anneal.training.judge import Judge
from anneal.training.models import load_model, load_tokenizer
from anneal.training.ppo import PpoTrainer
from anneal.training.rewards import make_reward, pattern_reward
from anneal.training.rollouts import answer, answer_logprobs, generation

LORA = {"kind": "lora", "r": 4}
SMALL = {"rollout_size": 16, "ppo_epochs": 2}
LONG = {"rollout_size": 40, "max_new_tokens": 64}  # long enough for a few to stop by chance


@pytest.fixture(scope="module")
def base(tiny_model, tmp_path_factory):
    return stopping_model(tiny_model, tmp_path_factory.mktemp("online") / "model")


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    return write_prompts(tmp_path_factory.mktemp("prompts"))


def trained(given, base, prompts, folder) -> list[dict]:
    """Curves of a run that is paid for even tokens."""
    set_seed(given["training"]["seed"])
    trainer = PpoTrainer(Job(given, base, prompts, folder), even_share)
    trainer.add_callback(WriteCurves(folder / "metrics.jsonl", 0))
    trainer.train()
    return [row for row in read_curves(folder / "metrics.jsonl") if "kl" in row]


def mean(curves, name: str) -> float:
    return float(np.mean([row[name] for row in curves]))


def test_answers_end_at_the_stop_token_and_padding_changes_nothing(base, prompts):
    job = Job(settings("ppo", LONG), base, prompts, base)
    stop, asked = job.tokenizer.eos_token_id, job.train_rows["input_ids"]
    config = generation(job.settings["online"], stop, job.tokenizer.pad_token_id, sample=True)
    set_seed(1)
    answers = answer(job.model, asked, config, batch=16)
    assert 0 < answers.stopped.sum() < 40
    for tokens, stopped in zip(answers.lists(), answers.stopped, strict=True):
        assert tokens.count(stop) == stopped == (tokens[-1] == stop)
        assert len(tokens) == 64 or stopped
    together, _ = answer_logprobs(job.model, answers, 0.7)
    for row, (question, tokens) in enumerate(zip(asked, answers.lists(), strict=True)):
        logits = job.model(input_ids=torch.tensor([question + tokens])).logits[0] / 0.7
        alone = logits[len(question) - 1 : -1].log_softmax(-1)
        alone = alone[torch.arange(len(tokens)), tokens]
        assert torch.allclose(together[row, : len(tokens)], alone, atol=1e-4)


def test_sampling_follows_the_model_and_not_its_generation_settings(base, prompts):
    job = Job(settings("ppo", {"max_new_tokens": 1}), base, prompts, base)
    stop = job.tokenizer.eos_token_id
    config = generation(job.settings["online"], stop, stop, sample=True)
    asked = [job.train_rows[0]["input_ids"]] * 400
    drawn = answer(job.model, asked, config, batch=400).tokens
    assert len(drawn.unique()) > 3


@pytest.mark.parametrize("tuning", [LORA, {"kind": "full"}])
def test_before_the_first_step_policy_and_reference_are_equal(base, prompts, tmp_path, tuning):
    given = settings("ppo", SMALL, tuning)
    judge = Judge(Job(given, base, prompts, tmp_path), even_share)
    judged = judge([[5, 6, 7], [8, 9]], sample=True)
    assert judged.kl.abs().max() <= 1e-5
    assert (judge.reference is None) == (tuning["kind"] == "lora")


def test_a_policy_that_is_not_its_reference_at_the_start_is_refused(base, prompts, tmp_path):
    job = Job(settings("ppo", SMALL, LORA), base, prompts, tmp_path)
    with torch.no_grad():
        for name, weight in job.model.named_parameters():
            if "lora_B" in name:
                weight += 0.1
    with pytest.raises(UserError, match="differs from its reference"):
        PpoTrainer(job, even_share).train()


def test_a_few_steps_raise_the_reward(base, prompts, tmp_path):
    online = {"kl_target": 4, "kl_horizon": 300, "kl_coefficient": 0.05, "missing_eos_penalty": 0}
    given = settings("ppo", online, max_steps=16, per_device_train_batch_size=64)
    curves = trained(given, base, prompts, tmp_path)
    assert mean(curves[:3], "reward") < 0.56
    assert mean(curves[-3:], "reward") > 0.62
    assert mean(curves[-3:], "kl") > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("target", [1.0, 4.0])
def test_the_reward_is_near_its_optimum_and_the_kl_at_its_target(base, prompts, tmp_path, target):
    online = {"kl_target": target, "kl_horizon": 200, "kl_coefficient": 0.05}
    online |= {"missing_eos_penalty": 0}
    given = settings("ppo", online, max_steps=60, per_device_train_batch_size=64)
    late = trained(given, base, prompts, tmp_path)[40:]
    assert 0.5 * target < mean(late, "kl") < 1.5 * target
    assert mean(late, "reward") >= 0.9 * best_share(mean(late, "kl"))
    assert target < 4 or mean(late, "reward") >= 0.9


def test_the_learning_rate_that_is_logged_is_the_one_that_was_used(base, prompts, tmp_path):
    given = settings("ppo", SMALL, LORA, max_steps=4, lr_scheduler_type="linear")
    rates = [row["learning_rate"] for row in trained(given, base, prompts, tmp_path)]
    assert rates == pytest.approx([3e-3, 2.25e-3, 1.5e-3, 0.75e-3])


def test_answers_without_an_end_pay_for_it(base, prompts, tmp_path):
    job = Job(settings("ppo", LONG | {"missing_eos_penalty": 3.0}), base, prompts, tmp_path)
    trainer = PpoTrainer(job, lambda prompts, answers: [0.0] * len(answers))
    trainer.begin(None)
    batch, _ = trainer.roll_out()
    answers = batch["answers"]
    assert 0 < answers.stopped.sum() < len(answers.stopped)
    returns = (batch["returns"] - batch["values"]).abs()
    last = answers.mask.sum(1) - 1
    earned = batch["returns"][torch.arange(len(last)), last]
    assert torch.allclose(earned, torch.where(answers.stopped, 0.0, -3.0), atol=1e-3)
    assert (returns[~answers.mask] == batch["values"][~answers.mask].abs()).all()


@pytest.mark.parametrize("tuning", [LORA, {"kind": "full"}])
def test_a_resumed_run_ends_with_the_bytes_of_an_undisturbed_one(base, prompts, tmp_path, tuning):
    given = settings("ppo", SMALL, tuning)
    name = "adapter_model" if tuning["kind"] == "lora" else "model"
    facts, whole, kept = whole_and_resumed(given, base, prompts, tmp_path)
    assert (facts["resumed_step"], facts["steps"]) == (2, 6)
    for file in (f"model/{name}.safetensors", "metrics.jsonl", "samples.json"):
        assert (kept / file).read_bytes() == (whole / file).read_bytes()


def test_accumulation_changes_nothing(base, prompts, tmp_path):
    found = []
    for micro, steps in ((8, 1), (4, 2), (2, 4)):
        given = settings(
            "ppo",
            {**SMALL, "rollout_size": 8},
            max_steps=1,
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=steps,
        )
        set_seed(5)
        job = Job(given, base, prompts, tmp_path / str(micro))
        trainer = PpoTrainer(job, even_share)
        trainer.begin(None)
        trainer.judge.batch = 8
        set_seed(6)
        batch, _ = trainer.roll_out()
        found.append(trainer.learn(batch))
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=1e-4)


def test_the_pattern_is_matched_against_the_whole_decoded_answer(base):
    tokenizer = load_tokenizer(base)
    reward = pattern_reward("(even|odd)", tokenizer)
    answers = ["odd", " even\n", "oddly", "not odd", ""]
    ids = [[*tokenizer(text).input_ids, tokenizer.eos_token_id] for text in answers]
    assert reward([[]] * len(ids), ids) == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_a_broken_pattern_is_refused():
    with pytest.raises(ValidationError, match="no regular expression"):
        settings("ppo", {"reward_pattern": "(even"})


@pytest.fixture
def judge_model(base, tmp_path):
    """A model that scores, with the policy's tokenizer."""
    folder = tmp_path / "reward"
    shutil.copytree(base, folder)
    torch.manual_seed(3)
    model = load_model(base, head="score")
    model.score.weight.data *= 20
    model.save_pretrained(folder)
    return folder


def test_a_reward_model_scores_each_answer_as_it_would_alone(base, prompts, tmp_path, judge_model):
    job = Job(settings("ppo", SMALL), base, prompts, tmp_path, reward=judge_model)
    questions, answers = [[5, 6, 7], [8, 9]], [[10], [11, 12, 13, 14]]
    together = make_reward(job)(questions, answers)
    model = load_model(judge_model, head="score").eval()
    for question, given, score in zip(questions, answers, together, strict=True):
        alone = model(input_ids=torch.tensor([question + given])).logits.item()
        assert score == pytest.approx(alone, abs=1e-4)


@pytest.mark.parametrize("tuning", [LORA, {"kind": "full"}])
def test_the_critic_starts_as_the_reward_model(base, prompts, tmp_path, judge_model, tuning):
    given = settings("ppo", SMALL, tuning)
    job = Job(given, base, prompts, tmp_path, reward=judge_model)
    trainer = PpoTrainer(job, make_reward(job))
    trainer.begin(None)
    judged = trainer.judge([[5, 6, 7], [8, 9]], sample=True)
    with torch.no_grad():
        values = trainer.critic(judged.answers)
    model = load_model(judge_model, head="score").eval()
    ids = judged.answers.ids[0, : judged.answers.ids.shape[1] - 1]
    assert values[0, -1].item() == pytest.approx(model(input_ids=ids[None]).logits.item(), abs=1e-4)
    heads = [n for n, w in trainer.critic.named_parameters() if "score" in n and w.requires_grad]
    assert len(heads) == 1


def test_a_reward_model_with_two_outputs_is_refused(base, prompts, tmp_path):
    from transformers import AutoModelForSequenceClassification

    folder = tmp_path / "reward"
    shutil.copytree(base, folder)
    AutoModelForSequenceClassification.from_pretrained(base, num_labels=2).save_pretrained(folder)
    job = Job(settings("ppo", SMALL), base, prompts, tmp_path, reward=folder)
    with pytest.raises(UserError, match="one"):
        make_reward(job)


def test_a_reward_model_with_another_tokenizer_is_refused(base, prompts, tmp_path, judge_model):
    from tiny import make_tokenizer

    make_tokenizer(judge_model, eos_token="<|other|>")
    job = Job(settings("ppo", SMALL), base, prompts, tmp_path, reward=judge_model)
    with pytest.raises(UserError, match="tokenizer"):
        make_reward(job)


def test_a_stop_token_that_the_model_does_not_know_is_refused(tiny_model, prompts, tmp_path):
    job = Job(settings("ppo", SMALL), tiny_model, prompts, tmp_path)
    with pytest.raises(UserError, match="ends answers with token"):
        PpoTrainer(job, even_share)
