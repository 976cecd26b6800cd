"""A model of ours as lm-eval wants it, with a check that no text begins with two BOS tokens."""

from pathlib import Path

import torch
from lm_eval.models.huggingface import HFLM

from anneal.errors import UserError
from anneal.training.models import load_model, load_tokenizer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Harness(HFLM):
    """An HFLM over a base model, a tuned model, or an adapter on its base.

    A chat template may print BOS and the tokenizer add one more; a model asked so is not the model
    that was trained. Both ways in which lm-eval makes ids are looked at.
    """

    def ask_as_chat(self, chat: bool) -> None:
        """As in training: a chat template's text gets no BOS but the one it prints; plain text
        gets the one that the tokenizer adds."""
        self.add_bos_token = False if chat else None

    def tok_encode(self, string: str, *arguments, **named) -> list[int]:
        ids = super().tok_encode(string, *arguments, **named)
        check_start(ids, self.tokenizer)
        return ids

    def tok_batch_encode(self, strings: list[str], *arguments, **named):
        ids, mask = super().tok_batch_encode(strings, *arguments, **named)
        for row, seen in zip(ids, mask, strict=True):
            check_start(row[seen.bool()].tolist(), self.tokenizer)
        return ids, mask


def load_harness(folder: Path, settings: dict) -> Harness:
    """The model of a folder.

    Args:
        settings: with `batch_size` and `precision`.
    """
    model = load_model(folder, settings["precision"]).eval().to(DEVICE)
    # lm-eval ties again, and would not find rows that an adapter trains under their old name
    model.tie_weights = lambda *_, **__: None
    tokenizer = load_tokenizer(folder)
    return Harness(pretrained=model, tokenizer=tokenizer, batch_size=settings["batch_size"])


def check_start(ids: list[int], tokenizer) -> None:
    """Raises UserError if the first two ids are both BOS."""
    if tokenizer.bos_token_id is not None and ids[:2] == [tokenizer.bos_token_id] * 2:
        what = f"questions begin with {tokenizer.bos_token} twice"
        do = "take it out of the chat template or of the task's doc_to_text"
        raise UserError("evaluate.tasks", what, do)
