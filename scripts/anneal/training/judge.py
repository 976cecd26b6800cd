"""Answers of a policy and all that is said about them: a score, and what the reference thinks."""

from contextlib import nullcontext
from dataclasses import dataclass

import torch

from anneal.errors import UserError
from anneal.training.job import Job
from anneal.training.rewards import Reward
from anneal.training.rollouts import Answers, answer, answer_logprobs, generation


@dataclass
class Judged:
    """Answers with their scores (rows,) and, of each token (rows, length), its log-probability
    under the policy, the entropy of its choice and the log-ratio of policy and reference, whose
    mean is their KL."""

    answers: Answers
    scores: torch.Tensor
    logprobs: torch.Tensor
    entropies: torch.Tensor
    kl: torch.Tensor

    def curves(self) -> dict[str, torch.Tensor]:
        """Means over answers; the KL is that of a whole answer, in nats."""
        values = {
            "reward": self.scores,
            "kl": self.kl.sum(1),
            "stopped": self.answers.stopped,
            "answer_length": self.answers.mask.sum(1),
        }
        means = {name: value.float().mean() for name, value in values.items()}
        mask = self.answers.mask
        return means | {"entropy": (self.entropies * mask).sum() / mask.sum()}


class Judge:
    """Has the policy of a job answer, and judges it.

    The reference is the start model: the policy without its adapter, or a frozen second copy.
    """

    def __init__(self, job: Job, reward: Reward):
        self.policy, self.reward = job.model, reward
        self.settings = job.settings["online"]
        self.batch = job.training["per_device_train_batch_size"]
        self.stop, self.filler = stop_token(job), job.tokenizer.pad_token_id
        adapted = hasattr(job.model, "disable_adapter")
        self.reference = None if adapted else job.load_base().requires_grad_(False).eval()

    def to(self, device) -> "Judge":
        self.reference = self.reference and self.reference.to(device)
        return self

    @torch.no_grad()
    def __call__(self, prompts: list[list[int]], sample: bool) -> Judged:
        config = generation(self.settings, self.stop, self.filler, sample)
        answers = answer(self.policy, prompts, config, self.batch)
        logprobs, entropies = self._under(self.policy, answers)
        with nullcontext() if self.reference else self.policy.disable_adapter():
            references, _ = self._under(self.reference or self.policy, answers)
        scores = torch.tensor(self.reward(prompts, answers.lists()), device=logprobs.device)
        return Judged(answers, scores, logprobs, entropies, (logprobs - references) * answers.mask)

    def _under(self, model, answers: Answers) -> tuple[torch.Tensor, torch.Tensor]:
        temperature = self.settings["temperature"]
        found = [answer_logprobs(model, part, temperature) for part in answers.split(self.batch)]
        return tuple(torch.cat(side) for side in zip(*found, strict=True))


def stop_token(job: Job) -> int:
    """The token that ends an answer.

    Raises:
        UserError: the tokenizer and the model's generation settings name different ones.
    """
    stop, named = job.tokenizer.eos_token_id, job.model.generation_config.eos_token_id
    known = named if isinstance(named, list) else [named]
    if named is not None and stop not in known:
        what = f"the tokenizer ends answers with token {stop}, generation_config.json with {named}"
        do = "set special_tokens.eos_token, or start from an sft run, which aligns them"
        raise UserError("models.*", what, do)
    return stop
