"""What an answer is worth: the score of a reward model, or whether it matches a pattern."""

import re
from collections.abc import Callable

import torch
from accelerate import PartialState

from anneal.training.job import Job
from anneal.training.reward_model import load_reward_model, scores

Reward = Callable[[list[list[int]], list[list[int]]], list[float]]


def make_reward(job: Job) -> Reward:
    """A function of token ids, prompts and their answers, that gives one number for each pair."""
    if job.reward:
        size = job.training["per_device_train_batch_size"]
        return model_reward(load_reward_model(job.reward, job.tokenizer), size)
    return pattern_reward(job.settings["online"]["reward_pattern"], job.tokenizer)


def pattern_reward(pattern: str, tokenizer) -> Reward:
    """1 for an answer that matches as a whole, blanks around it aside; else 0."""
    wanted = re.compile(pattern)

    def reward(prompts: list[list[int]], answers: list[list[int]]) -> list[float]:
        texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
        return [float(wanted.fullmatch(text.strip()) is not None) for text in texts]

    return reward


def model_reward(model, size: int) -> Reward:
    """The score that a reward model gives, `size` answers at a time."""
    model = model.eval().requires_grad_(False).to(PartialState().device)

    @torch.no_grad()
    def reward(prompts: list[list[int]], answers: list[list[int]]) -> list[float]:
        rows = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
        parts = (rows[at : at + size] for at in range(0, len(rows), size))
        return [score for part in parts for score in scores(model, *_padded(part)).tolist()]

    return reward


def _padded(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
