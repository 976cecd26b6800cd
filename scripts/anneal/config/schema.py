"""The whole configuration file, and how it is read."""

from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from anneal.config.base import Name, Section
from anneal.config.dataset import Dataset
from anneal.config.evaluate import Evaluate
from anneal.config.explain import explain
from anneal.config.model import Model
from anneal.config.run import Run
from anneal.config.yaml_text import read_yaml
from anneal.errors import UserError


class Config(Section):
    """A project: datasets, base models, runs and the benchmarks that compare them."""

    project: Name = Field(description="Name of the project; results go to `results/<project>`.")
    datasets: dict[Name, Dataset] = Field(min_length=1, description="Datasets by name.")
    models: dict[Name, Model] = Field(min_length=1, description="Base models by name.")
    runs: dict[Name, Run] = Field(default_factory=dict, description="Training runs by name.")
    evaluate: Evaluate = Field(default_factory=Evaluate, description="Benchmarks.")

    @model_validator(mode="after")
    def _names_exist(self):
        for name, run in self.runs.items():
            for section, wanted in (("datasets", run.dataset), ("models", run.model)):
                if wanted not in getattr(self, section):
                    known = ", ".join(getattr(self, section))
                    raise ValueError(f"runs.{name}: no '{wanted}' in {section} (there: {known})")
            kind = self.datasets[run.dataset].kind
            if kind in ("preference", "prompts"):
                raise ValueError(f"runs.{name}: method 'sft' cannot learn from '{kind}' records")
            if self.datasets[run.dataset].stream and (problem := run.cannot_stream()):
                raise ValueError(f"runs.{name}: {problem}")
        if clash := set(self.runs) & set(self.models):
            raise ValueError(f"runs and models share the name '{min(clash)}'")
        return self


def load_config(path: str | Path) -> Config:
    """Read and check a configuration file.

    Raises:
        UserError: with file, line, key and the nearest known name.
    """
    values, lines = read_yaml(path)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        where, what, do = explain(error, Config, lines)
        raise UserError(f"{path}{where}", what, do) from None
