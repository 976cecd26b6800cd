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
        training = job.training
        form = training["precision"], training["attention"]
        model = load_reward_model(job.reward, job.tokenizer, *form).to(PartialState().device)
        return model_reward(model, training["per_device_train_batch_size"])
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

    @torch.no_grad()
    def reward(prompts: list[list[int]], answers: list[list[int]]) -> list[float]:
        rows = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
        parts = (_padded(rows[at : at + size], model.device) for at in range(0, len(rows), size))
        return [score for part in parts for score in scores(model, *part).tolist()]

    return reward


def _padded(rows: list[list[int]], device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, (rows, longest); which id fills up makes no difference behind the mask."""
    longest = max(map(len, rows))
    ids = [row + [0] * (longest - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)
