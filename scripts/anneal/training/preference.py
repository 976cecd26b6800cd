"""What learning from preference pairs has in common: rows as they are, curves, and evaluation."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from peft import PeftModel
from torch.utils.data import DataLoader

from anneal.training.arguments import arguments
from anneal.training.job import Job
from anneal.training.processes import total

# What is logged, by the names that TRL's trainers note it under.
CURVES = {
    **{"rewards/accuracies": "reward_accuracy", "accuracy": "reward_accuracy"},
    **{"rewards/margins": "reward_margin", "margin": "reward_margin"},
    **{"rewards/chosen": "chosen_reward", "rewards/rejected": "rejected_reward"},
    **{"mean_reward": "reward", "kl": "kl"},
}


class PairTrainer:
    """Goes before a trainer whose batches hold chosen rows, then rejected ones, of the same pairs.

    Its loss notes means over the pairs of a batch in `_metrics["train"]` or `_metrics["eval"]`.
    """

    _tag_names: tuple = ()

    def _prepare_dataset(self, dataset, *_):
        """Rows come tokenized."""
        return dataset

    def create_model_card(self, *_, **__):
        """A checkpoint holds training state alone."""

    def evaluate(self, *_, **__) -> dict[str, float]:
        """Means over all pairs, whatever the batch size; no logits are kept."""
        training = self.model.training
        self.model.eval()
        noted, pairs = self._metrics["eval"], []
        for batch in DataLoader(
            self.eval_dataset, self.args.eval_batch_size, collate_fn=self.data_collator
        ):
            with torch.no_grad(), self.compute_loss_context_manager():
                loss = self.compute_loss(self.model, self._prepare_inputs(batch))
            noted["loss"].append(loss.item())
            pairs.append(len(batch["input_ids"]) // 2)
        means = {
            f"eval_{CURVES.get(name, name)}": float(np.average(values, weights=pairs))
            for name, values in noted.items()
            if name in CURVES or name == "loss"
        }
        noted.clear()
        self.log(means)
        self.model.train(training)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, means)
        return means

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds to a logged loss what all processes noted since the last one."""
        if "loss" in logs:
            noted = self._metrics["train"]
            means = {new: float(np.mean(noted[old])) for old, new in CURVES.items() if old in noted}
            sums = total([*means.values()])
            processes = self.accelerator.num_processes
            logs |= {name: value / processes for name, value in zip(means, sums, strict=True)}
            noted.clear()
        super().log(logs, start_time)


def notes() -> dict[str, defaultdict]:
    """Empty `_metrics` of a trainer."""
    return {"train": defaultdict(list), "eval": defaultdict(list)}


def trl_arguments(job: Job) -> dict:
    """Arguments of a TRL config: nothing is cut, and dropout is as the run says."""
    dropout = job.settings["tuning"]["dropout"]
    return {**arguments(job), "max_length": None, "disable_dropout": dropout == 0}


@contextmanager
def adapter_as_it_was(model) -> Iterator[None]:
    """Undo what TRL does to a PEFT model while it makes a trainer; other models stay as they are.

    It casts the adapter of a 4-bit model to bf16, and adds a copy of the adapter as reference. But
    a fresh adapter changes nothing: the reference is the model without it.
    """
    if not isinstance(model, PeftModel):
        yield
        return
    before = {name: p.data for name, p in model.named_parameters() if p.requires_grad}
    yield
    if "ref" in model.peft_config:
        model.delete_adapter("ref")
    for name, parameter in model.named_parameters():
        if name in before:
            parameter.data = before[name].to(parameter.device)
