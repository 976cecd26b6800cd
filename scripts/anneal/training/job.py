"""What every method is given: the run's settings, its folders, the model and the tokenizer."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import datasets

from anneal.training.data import load_split
from anneal.training.models import load_model, load_tokenizer
from anneal.training.tuning import tuned


@dataclass
class Job:
    """One training run.

    `base` and `splits` are the folders of the model it starts from and of the tokenized splits;
    `checkpoints` keeps the training state between attempts; `reward` is the folder of the reward
    model, for methods that have one; `trackers` that of the run's trackers.
    """

    settings: dict
    base: Path
    splits: Path
    checkpoints: Path
    tracker: str = "none"
    reward: Path | None = None
    trackers: Path | None = None

    @cached_property
    def training(self) -> dict:
        return self.settings["training"]

    @cached_property
    def tokenizer(self):
        return load_tokenizer(self.base)

    def load_base(self, head: str = "causal"):
        """The base model, quantised where the tuning wants that; not yet tuned."""
        return load_model(
            self.base,
            self.training["precision"],
            self.training["attention"],
            head=head,
            quantized=self.settings["tuning"]["kind"] == "qlora",
        )

    @cached_property
    def model(self):
        """The model that is trained: a causal one, or one that scores for method `reward`."""
        head = "score" if self.settings["method"] == "reward" else "causal"
        return tuned(self.load_base(head), self.settings["tuning"], head)

    @cached_property
    def train_rows(self) -> datasets.Dataset:
        return load_split(self.splits / "train")

    @cached_property
    def eval_rows(self) -> datasets.Dataset:
        return load_split(self.splits / "eval", self.training["eval_rows"])

    @cached_property
    def test_rows(self) -> datasets.Dataset:
        return load_split(self.splits / "test")
