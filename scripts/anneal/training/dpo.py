"""Direct preference optimisation (Rafailov 2023, arxiv.org/abs/2305.18290), by TRL's trainer."""

import math

from trl import DPOConfig, DPOTrainer

from anneal.errors import UserError
from anneal.training.job import Job
from anneal.training.preference import PairTrainer, adapter_as_it_was, trl_arguments

TOLERANCE = 1e-4


class DpoTrainer(PairTrainer, DPOTrainer):
    """TRL's trainer on tokenized pairs; its reference is the model that the run starts from."""

    def evaluate(self, *_, **__) -> dict[str, float]:
        metrics = super().evaluate()
        if self.state.global_step == 0:
            check_reference(metrics)
        return metrics


def check_reference(metrics: dict[str, float]) -> None:
    """Before the first step the policy is its reference: the loss is ln 2, all rewards are 0.

    Raises:
        UserError: there is a gap.
    """
    rewards = (metrics["eval_chosen_reward"], metrics["eval_rejected_reward"])
    gap = max(map(abs, (metrics["eval_loss"] - math.log(2), *rewards)))
    if not gap <= TOLERANCE:
        what = f"at step 0 the model is not its own reference: they differ by {gap:.3g}"
        raise UserError("runs.*.model", what, "start from a whole model, or from models.NAME.run")


def make_trainer(job: Job) -> DpoTrainer:
    """The trainer of one run."""
    reference = frozen_copy(job)
    with adapter_as_it_was(job.model):
        trainer = DpoTrainer(
            model=job.model,
            ref_model=reference,
            args=DPOConfig(**trl_arguments(job), beta=job.settings["preference"]["beta"]),
            train_dataset=job.train_rows,
            eval_dataset=job.eval_rows,
            processing_class=job.tokenizer,
        )
    trainer.facts = reference_facts(job, reference)
    return trainer


def frozen_copy(job: Job):
    """The reference where all weights are trained; else None: it is the model less its adapter."""
    whole = job.settings["tuning"]["kind"] == "full"
    return job.load_base().requires_grad_(False) if whole else None


def reference_facts(job: Job, copy) -> dict:
    """What the manifest says of the reference; the input `base` has the digest of its files."""
    held_as = "the model without its adapter" if copy is None else "a frozen copy"
    return {"reference": {"model": job.base.name, "held_as": held_as}}
