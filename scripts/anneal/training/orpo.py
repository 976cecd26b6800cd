"""Odds-ratio preference optimisation (Hong 2024, arxiv.org/abs/2403.07691): no reference model.

TRL's trainer tokenizes texts itself, so the loss is here.
"""

import torch
from torch.nn import functional
from transformers import Trainer, TrainingArguments
from trl.trainer.utils import disable_dropout_in_model

from anneal.records import IGNORED
from anneal.training.arguments import arguments
from anneal.training.data import Collator
from anneal.training.job import Job
from anneal.training.loss import token_losses
from anneal.training.preference import PairTrainer, notes


class OrpoTrainer(PairTrainer, Trainer):
    """The Trainer with the loss of ORPO, a mean over pairs."""

    loss_is_scaled_for_ga = False

    def __init__(self, beta: float, **given):
        super().__init__(**given)
        self.beta, self._metrics = beta, notes()

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        losses, learned, _ = token_losses(model, inputs)
        chosen, rejected = (-losses.sum(1) / learned.sum(1)).chunk(2)
        odds = log_odds_ratio(chosen, rejected)
        noted = self._metrics["train" if model.training else "eval"]
        rewards = {"chosen": self.beta * chosen, "rejected": self.beta * rejected}
        for side, values in rewards.items():
            noted[f"rewards/{side}"].append(values.mean().item())
        noted["rewards/margins"].append(self.beta * (chosen - rejected).mean().item())
        noted["rewards/accuracies"].append((chosen > rejected).float().mean().item())
        return (self.beta * -functional.logsigmoid(odds) - chosen).mean()


def log_odds_ratio(chosen: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
    """Log of the odds of `chosen` over those of `rejected`.

    Both are mean log-probabilities of a token of the answer, below 0, of shape (pairs,).
    """
    return chosen - rejected - (_log1mexp(chosen) - _log1mexp(rejected))


def _log1mexp(x: torch.Tensor) -> torch.Tensor:
    """log(1 - exp(x)) for x below 0."""
    return torch.log(-torch.expm1(x.clamp(max=-1e-6)))


class Sides:
    """Pairs into a batch of their chosen, then their rejected rows; only answers are learned."""

    def __init__(self, pad_token_id: int):
        self.collate = Collator(pad_token_id)

    def __call__(self, pairs: list[dict]) -> dict[str, torch.Tensor]:
        sides = ("chosen_ids", "rejected_ids")
        return self.collate([_row(p["prompt_ids"], p[side]) for side in sides for p in pairs])


def _row(prompt: list[int], answer: list[int]) -> dict[str, list[int]]:
    return {
        "input_ids": prompt + answer,
        "labels": [IGNORED] * len(prompt) + answer,
        "position_ids": list(range(len(prompt) + len(answer))),
    }


def make_trainer(job: Job) -> OrpoTrainer:
    """The trainer of one run."""
    if job.settings["tuning"]["dropout"] == 0:
        disable_dropout_in_model(job.model)
    return OrpoTrainer(
        job.settings["preference"]["beta"],
        model=job.model,
        args=TrainingArguments(**arguments(job)),
        data_collator=Sides(job.tokenizer.pad_token_id),
        train_dataset=job.train_rows,
        eval_dataset=job.eval_rows,
    )
