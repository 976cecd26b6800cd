"""The value function of PPO: a model of its own that says what an answer still promises."""

import torch
from torch import nn

from anneal.training.job import Job
from anneal.training.reward_model import load_reward_model
from anneal.training.rollouts import Answers, model_inputs
from anneal.training.tuning import tuned


class Critic(nn.Module):
    """A model with one output, read at every token instead of the last."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, answers: Answers) -> torch.Tensor:
        """Values (rows, length): what is expected before each token of the answer is taken."""
        whole = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        states = whole.base_model(**model_inputs(answers), use_cache=False)[0]
        length = answers.mask.shape[1]
        return whole.score(states[:, -length - 1 : -1]).squeeze(-1).float()


def make_critic(job: Job) -> Critic:
    """Starts as the reward model with its head, or as the base with a new one; tuned as the policy.

    An adapter of the reward model is merged first, so that either start is trained alike.
    """
    if not job.reward:
        start = job.load_base("score")
    else:
        form = job.training["precision"], job.training["attention"]
        start = load_reward_model(job.reward, job.tokenizer, *form)
        start = start.merge_and_unload() if hasattr(start, "merge_and_unload") else start
        start.requires_grad_(True)
    return Critic(tuned(start, job.settings["tuning"], "score"))
