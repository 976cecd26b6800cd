"""Kahneman-Tversky optimisation (Ethayarajh 2024, arxiv.org/abs/2402.01306), by TRL's trainer."""

import torch
from trl import KTOConfig, KTOTrainer
from trl.trainer.kto_trainer import DataCollatorForUnpairedPreference

from anneal.records import IGNORED
from anneal.training.dpo import frozen_copy, reference_facts
from anneal.training.job import Job
from anneal.training.preference import PairTrainer, adapter_as_it_was, trl_arguments


class KtoTrainer(PairTrainer, KTOTrainer):
    """TRL's trainer, with the accuracy over pairs that it cannot know from unpaired rows."""

    def compute_loss(self, model, inputs, *rest, **more):
        if not model.training:
            self._metrics["eval"]["rewards/accuracies"].append(self._accuracy(inputs))
        return super().compute_loss(model, inputs, *rest, **more)

    def _accuracy(self, inputs: dict) -> float:
        """Share of the pairs whose chosen answer has the higher reward."""
        labels = inputs["input_ids"].masked_fill(inputs["completion_mask"] == 0, IGNORED)
        asked = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        policy = self.model(**asked, labels=labels, fused_lm_head=True).log_probs.sum(-1)
        reference, _ = self.compute_ref_log_probs(self.ref_model or self.model, inputs)
        chosen, rejected = (policy - reference).chunk(2)
        return (chosen > rejected).float().mean().item()


class Unpair:
    """Pairs into a batch of their chosen answers, which are desirable, and their rejected ones.

    The KL is estimated from prompts with an answer to another: the one before it in the batch.
    """

    def __init__(self, pad_token_id: int):
        self.collate = DataCollatorForUnpairedPreference(pad_token_id)

    def __call__(self, pairs: list[dict]) -> dict[str, torch.Tensor]:
        rows = [
            {"prompt_ids": pair["prompt_ids"], "completion_ids": pair[side], "label": label}
            for side, label in (("chosen_ids", True), ("rejected_ids", False))
            for pair in pairs
        ]
        others = [rows[-1], *rows[:-1]]
        pieces = zip(rows, others, strict=True)
        return self.collate([{**r, "KL_completion_ids": o["completion_ids"]} for r, o in pieces])


def make_trainer(job: Job) -> KtoTrainer:
    """The trainer of one run."""
    reference = frozen_copy(job)
    # TRL wants a fixed order, as it pairs prompts with other answers beforehand; Unpair does later
    given = {**trl_arguments(job), "train_sampling_strategy": "sequential"}
    with adapter_as_it_was(job.model):
        trainer = KtoTrainer(
            model=job.model,
            ref_model=reference,
            args=KTOConfig(**given, **job.settings["preference"]),
            data_collator=Unpair(job.tokenizer.pad_token_id),
            train_dataset=job.train_rows,
            eval_dataset=job.eval_rows,
            processing_class=job.tokenizer,
        )
    trainer.args.train_sampling_strategy = job.training["train_sampling_strategy"]
    trainer.facts = reference_facts(job, reference)
    return trainer
