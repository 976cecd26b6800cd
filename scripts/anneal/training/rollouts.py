"""Answers that a model gives to tokenized prompts, and how likely models find their tokens."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import GenerationConfig

from anneal.training.ppo_terms import token_logprobs

# Whatever else a model's generation_config.json asks for would sample from another distribution
# than the one whose log-probabilities are learned from.
PLAIN = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "num_beams": 1}
WHOLE = {"top_k": 0, "top_p": 1.0, "typical_p": 1.0, "min_p": 0.0}


@dataclass
class Answers:
    """Answers to prompts; prompts are padded on the left, answers on the right.

    `ids` and `attention` are (rows, prompt + length), `mask` (rows, length): the real tokens of an
    answer, its stop token included. `stopped` (rows,): it ended by itself.
    """

    ids: torch.Tensor
    attention: torch.Tensor
    mask: torch.Tensor
    stopped: torch.Tensor

    @property
    def tokens(self) -> torch.Tensor:
        return self.ids[:, -self.mask.shape[1] :]

    def lists(self) -> list[list[int]]:
        """The real tokens of each answer."""
        pairs = zip(self.tokens, self.mask, strict=True)
        return [tokens[real].tolist() for tokens, real in pairs]

    def split(self, size: int) -> list["Answers"]:
        return [self[rows] for rows in torch.arange(len(self.mask)).split(size)]

    def __getitem__(self, rows) -> "Answers":
        return Answers(self.ids[rows], self.attention[rows], self.mask[rows], self.stopped[rows])


@torch.no_grad()
def answer(model, prompts: list[list[int]], config: GenerationConfig, batch: int) -> Answers:
    """Answers to all prompts, `batch` at a time."""
    model.eval()
    width = max(map(len, prompts))
    filler = config.pad_token_id
    ids = torch.tensor([[filler] * (width - len(p)) + p for p in prompts], device=model.device)
    asked = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    asked = asked.to(model.device)
    found = [
        model.generate(input_ids=part, attention_mask=real, generation_config=config)
        for part, real in zip(ids.split(batch), asked.split(batch), strict=True)
    ]
    longest = max(part.shape[1] for part in found)
    ids = torch.cat([pad(part, (0, longest - part.shape[1]), value=filler) for part in found])
    stops = (ids[:, width:] == config.eos_token_id).long()
    mask = stops.cumsum(1) - stops == 0
    return Answers(ids, torch.cat([asked, mask.long()], 1), mask, stops.any(1))


def generation(settings: dict, stop: int, filler: int, sample: bool) -> GenerationConfig:
    """How answers are drawn: from the model's own distribution, or greedily."""
    drawn = {"temperature": settings["temperature"], **WHOLE} if sample else {}
    return GenerationConfig(
        max_new_tokens=settings["max_new_tokens"],
        do_sample=sample,
        eos_token_id=stop,
        pad_token_id=filler,
        **PLAIN,
        **drawn,
    )


def answer_logprobs(
    model, answers: Answers, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the answers' tokens and entropies, (rows, length), under a model."""
    length = answers.mask.shape[1]
    logits = model(**model_inputs(answers), use_cache=False, logits_to_keep=length + 1).logits
    return token_logprobs(logits[:, -length - 1 : -1] / temperature, answers.tokens)


def model_inputs(answers: Answers) -> dict[str, torch.Tensor]:
    """Positions count real tokens, so padding on the left moves nothing."""
    positions = (answers.attention.cumsum(1) - 1).clamp(min=0)
    return {
        "input_ids": answers.ids,
        "attention_mask": answers.attention,
        "position_ids": positions,
    }


def shuffled(rows: int, start: int, count: int, seed: int) -> list[int]:
    """Places `start` to `start + count` of endless passes over the rows, each in its own order.

    A place depends on nothing but the seed, so that a resumed run goes on with the next prompt.
    """
    passes = range(start // rows, (start + count - 1) // rows + 1)
    order = [np.random.default_rng((seed, number)).permutation(rows) for number in passes]
    first = start - passes[0] * rows
    return np.concatenate(order)[first : first + count].tolist()
