"""What every method is given: the run's settings, its folders, the model and the tokenizer."""

from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path

import datasets
from transformers import set_seed

from anneal.config.batch import solve_batch
from anneal.config.run import method_module
from anneal.config.strategy import Strategy
from anneal.provenance.files import read_json
from anneal.training.data import load_split, load_stream
from anneal.training.models import load_model, load_tokenizer
from anneal.training.tuning import tuned


@dataclass
class Job:
    """One training run.

    `base` and `splits` are the folders of the model it starts from and of the tokenized splits;
    `checkpoints` keeps the training state between attempts; `reward` is the folder of the reward
    model, for methods that have one; `adapters` are those that tuning `xlora` mixes; `trackers` is
    the folder of the run's trackers; `strategy` says how many processes share the work, and how.
    """

    settings: dict
    base: Path
    splits: Path
    checkpoints: Path
    tracker: str = "none"
    reward: Path | None = None
    adapters: tuple[Path, ...] = ()
    trackers: Path | None = None
    strategy: Strategy = field(default_factory=Strategy)

    def make_trainer(self):
        """The trainer of the run's method, its seed set."""
        set_seed(self.training["seed"])
        return import_module(method_module(self.settings["method"])).make_trainer(self)

    @cached_property
    def training(self) -> dict:
        """Hyperparameters, with the accumulation that this many processes need."""
        training, processes = self.settings["training"], self.strategy.data_processes
        size, micro = training["global_batch_size"], training["per_device_train_batch_size"]
        solved = solve_batch(size, micro, processes=processes)
        return {**training, "gradient_accumulation_steps": solved["accumulation"]}

    @cached_property
    def tokenizer(self):
        return load_tokenizer(self.base)

    def load_base(self, head: str = "causal"):
        """The base model, quantised where the tuning wants that; not yet tuned.

        Weights that are trained themselves stay in float32, or small updates would be lost.
        """
        tuning = self.settings["tuning"]["kind"]
        return load_model(
            self.base,
            "fp32" if tuning == "full" else self.training["precision"],
            self.training["attention"],
            head=head,
            quantized=tuning == "qlora",
            split=self.strategy.kind == "tensor_parallel",
        )

    @cached_property
    def model(self):
        """The model that is trained: a causal one, or one that scores for method `reward`."""
        head = "score" if self.settings["method"] == "reward" else "causal"
        given = (self.settings["tuning"], head, self.new_tokens, self.adapters)
        return tuned(self.load_base(head), *given)

    @cached_property
    def new_tokens(self) -> tuple[int, ...]:
        """Ids that were added to the base's vocabulary, as its manifest says."""
        manifest = self.base / "manifest.json"
        facts = read_json(manifest)["facts"] if manifest.is_file() else {}
        return tuple(facts.get("added_tokens", ()))

    @cached_property
    def streamed(self) -> bool:
        return (self.splits / "stream.json").is_file()

    @cached_property
    def notes(self) -> Path:
        """Where a streamed run keeps its counts and rejects."""
        return self.checkpoints / "stream"

    @cached_property
    def train_data(self) -> datasets.Dataset | datasets.IterableDataset:
        """What is trained on."""
        if not self.streamed:
            return self.train_rows
        return load_stream(self.splits, self.base, self.training["seed"], self.notes)

    @cached_property
    def train_folder(self) -> Path:
        """Training rows to look at: all of them, or the first ones of a stream."""
        return self.splits / ("first" if self.streamed else "train")

    @cached_property
    def train_rows(self) -> datasets.Dataset:
        return load_split(self.train_folder)

    @cached_property
    def eval_rows(self) -> datasets.Dataset:
        return load_split(self.splits / "eval", self.training["eval_rows"])

    @cached_property
    def test_rows(self) -> datasets.Dataset:
        return load_split(self.splits / "test")
