"""A reward model (Ouyang 2022, arxiv.org/abs/2203.02155): one number for an answer, from pairs."""

import torch
from trl import RewardConfig, RewardTrainer
from trl.trainer.reward_trainer import DataCollatorForPreference

from anneal.errors import UserError
from anneal.training.job import Job
from anneal.training.preference import PairTrainer, adapter_as_it_was, trl_arguments


class PairRewardTrainer(PairTrainer, RewardTrainer):
    """TRL's trainer on tokenized pairs."""


class Answered:
    """Pairs into a batch of prompts with the chosen, then with the rejected answers."""

    def __init__(self, pad_token_id: int):
        self.collate = DataCollatorForPreference(pad_token_id)

    def __call__(self, pairs: list[dict]) -> dict[str, torch.Tensor]:
        sides = ("chosen_ids", "rejected_ids")
        return self.collate([{s: p["prompt_ids"] + p[s] for s in sides} for p in pairs])


def make_trainer(job: Job) -> PairRewardTrainer:
    """The trainer of one run."""
    job.tokenizer.pad_token = pad_token(job.tokenizer, job.train_rows[0]["chosen_ids"][-1])
    with adapter_as_it_was(job.model):
        return PairRewardTrainer(
            model=job.model,
            args=RewardConfig(**trl_arguments(job)),
            data_collator=Answered(job.tokenizer.pad_token_id),
            train_dataset=job.train_rows,
            eval_dataset=job.eval_rows,
            processing_class=job.tokenizer,
        )


def pad_token(tokenizer, stop: int) -> str:
    """A token that no answer ends with.

    A classifier of transformers scores the last token that is no padding, which it tells by the
    id: were the end token the padding too, it would score the token before the end.
    """
    tokens = (tokenizer.pad_token, tokenizer.unk_token, tokenizer.bos_token)
    for token in filter(None, tokens):
        if tokenizer.convert_tokens_to_ids(token) != stop:
            return token
    what = "the pad token also ends each answer, and a reward model could not tell them apart"
    raise UserError("models.*.special_tokens", what, "give pad_token a token of its own")
