"""The whole configuration file, and how it is read."""

from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from anneal.config.base import Name, Section
from anneal.config.dataset import Dataset
from anneal.config.evaluate import Evaluate
from anneal.config.explain import explain
from anneal.config.fit import check_model, check_tuning
from anneal.config.hardware import check_hardware
from anneal.config.model import Model
from anneal.config.run import KINDS, ONLINE, Run
from anneal.config.search import Study
from anneal.config.yaml_text import read_yaml
from anneal.errors import UserError


class Config(Section):
    """A project: datasets, base models, runs and the benchmarks that compare them."""

    project: Name = Field(description="Name of the project; results go to `results/<project>`.")
    datasets: dict[Name, Dataset] = Field(min_length=1, description="Datasets by name.")
    models: dict[Name, Model] = Field(min_length=1, description="Base models by name.")
    runs: dict[Name, Run] = Field(default_factory=dict, description="Training runs by name.")
    search: dict[Name, Study] = Field(
        default_factory=dict,
        description="Searches for hyperparameters by name. They run when the target `search` asks "
        "for them, or a run takes their result by `best_of`.",
    )
    evaluate: Evaluate = Field(default_factory=Evaluate, description="Benchmarks.")

    @model_validator(mode="after")
    def _names_exist(self):
        check_hardware({name: run.hardware for name, run in self.runs.items()})
        for name, run in self.runs.items():
            self._known(f"runs.{name}", "datasets", run.dataset)
            self._known(f"runs.{name}", "models", run.model)
            kind = self.datasets[run.dataset].kind
            if kind not in KINDS[run.method]:
                what = f"method '{run.method}' cannot learn from '{kind}' records"
                raise ValueError(f"runs.{name}: {what}")
            if self.datasets[run.dataset].stream and (problem := run.cannot_stream()):
                raise ValueError(f"runs.{name}: {problem}")
            if run.method in ONLINE and run.online.reward_model:
                self._known(f"runs.{name}.online", "runs", run.online.reward_model)
                if self.runs[run.online.reward_model].method != "reward":
                    raise ValueError(f"runs.{name}: reward_model must name a run of method reward")
            for adapter in run.tuning.adapters:
                self._known(f"runs.{name}.tuning.adapters", "runs", adapter)
            check_tuning(self, name)
        self._check_searches()
        for name, model in self.models.items():
            for run in model.runs():
                self._known(f"models.{name}", "runs", run)
                if self.runs[run].method == "reward":
                    raise ValueError(f"models.{name}: '{run}' scores answers and writes none")
            if model.scratch:
                self._known(f"models.{name}.scratch", "datasets", model.scratch.dataset)
            check_model(self, name)
        for name, task in self.evaluate.tasks.items():
            if task.heldout:
                self._known(f"evaluate.tasks.{name}.heldout", "datasets", task.heldout)
        if clash := set(self.runs) & set(self.models):
            raise ValueError(f"runs and models share the name '{min(clash)}'")
        for name in self.models:
            self._no_circle(name, ())
        return self

    def compared(self) -> dict[str, Run]:
        """What is judged against a base, each with a run that says against which, and on what.

        Runs, except for reward models, which give no answers; and models made of runs that no
        run starts from. A combined model is asked as the first of its runs is.
        """
        runs = {name: run for name, run in self.runs.items() if run.method != "reward"}
        bases = {run.model for run in self.runs.values()}
        made = {name: model.runs() for name, model in self.models.items() if name not in bases}
        models = {name: runs[of[0]] for name, of in made.items() if of and of[0] in runs}
        return runs | models

    def _check_searches(self) -> None:
        for name, study in self.search.items():
            self._known(f"search.{name}", "runs", study.run)
            if self.runs[study.run].method in ONLINE:
                what = f"method '{self.runs[study.run].method}' has no evaluation loss to search by"
                raise ValueError(f"search.{name}: {what}")
        for name, run in self.runs.items():
            if run.best_of:
                self._known(f"runs.{name}.best_of", "search", run.best_of)
                other = self.runs[self.search[run.best_of].run]
                if (run.method, run.tuning.kind) != (other.method, other.tuning.kind):
                    what = f"'{run.best_of}' searched {other.method} with {other.tuning.kind}"
                    raise ValueError(f"runs.{name}.best_of: {what}, not what this run does")

    def _known(self, where: str, section: str, wanted: str) -> None:
        if wanted not in getattr(self, section):
            known = ", ".join(getattr(self, section))
            raise ValueError(f"{where}: no '{wanted}' in {section} (there: {known})")

    def _no_circle(self, model: str, seen: tuple[str, ...]) -> None:
        if model in seen:
            raise ValueError(f"models.{model}: it is made of itself ({' <- '.join(seen)})")
        for run in self.models[model].runs():
            self._no_circle(self.runs[run].model, (*seen, model))


def load_config(path: str | Path, model: type[Section] = Config):
    """Read and check a configuration file, or another file that `model` describes.

    Raises:
        UserError: with file, line, key and the nearest known name.
    """
    values, lines = read_yaml(path)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        where, what, do = explain(error, model, lines)
        raise UserError(f"{path}{where}", what, do) from None
