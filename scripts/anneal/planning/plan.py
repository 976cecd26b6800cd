"""The plan of one run: what is recommended, what it needs, what it costs, how it is started."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

from anneal.cluster import training_request
from anneal.config.hardware import CPU
from anneal.errors import UserError
from anneal.planning.data import data_of
from anneal.planning.decide import decide, differences
from anneal.planning.fit import check_fit, verdict
from anneal.planning.memory import Memory, memory_of
from anneal.planning.shape import model_config, on_meta, saved_by, shape_of, tuned_on_meta
from anneal.planning.work import disk_of, network_of, work_of

RAM_GB, CORES = (64, 128), (8, 16)  # of the machine, for each GPU


class Planner:
    """Plans of the runs of one configuration.

    Args:
        shards: pieces of each dataset, by its name.
        devices: the catalogue.
        site: a `config.site.Site`.
    """

    def __init__(self, config, results: Path, shards: dict[str, list], devices: dict, site):
        self.config, self.results, self.shards = config, results, shards
        self.devices, self.site = devices, site

    def plan(self, name: str) -> dict:
        """Everything about one run, as JSON; sizes in bytes."""
        run, device, data = self.config.runs[name], self.device(name), self.data(name)
        shape, memory = self.shape(name, run.tuning), self.memory(name, run)
        chosen, branches = decide(self.config, name, shape, data.rows, device)
        work = work_of(run, shape, data, device)
        return {
            "run": name,
            "hardware": run.hardware,
            "device": device.model_dump(),
            "shape": asdict(shape),
            "data": asdict(data),
            "recommended": chosen,
            "branches": [asdict(branch) for branch in branches],
            "differences": differences(run, chosen),
            "memory": memory.parts() | {"total": memory.total(), "host": memory.host},
            "verdict": verdict(run, memory, device),
            "refusal": self.refusal(name),
            "batch": run.batch(),
            "work": asdict(work),
            "disk": disk_of(run, shape),
            "network": network_of(run, shape, work),
            "slurm": slurm_of(self.site, run, memory, work),
        }

    def check(self, name: str) -> None:
        """Raises UserError if the run cannot fit its device."""
        run, device = self.config.runs[name], self.device(name)
        memory = self.memory(name, run)
        check_fit(name, run, memory, device, lambda changed: self.memory(name, changed))

    def refusal(self, name: str) -> str | None:
        """Why a run cannot fit, and what would; None if it does."""
        try:
            self.check(name)
        except UserError as error:
            return str(error)

    def device(self, name: str):
        """The device of a run."""
        return self.devices[self.config.runs[name].hardware]

    @cache  # noqa: B019  a planner lives as long as its process
    def data(self, name: str):
        """What a run learns from."""
        run = self.config.runs[name]
        dataset = self.config.datasets[run.dataset]
        return data_of(run, dataset, self.results, self.shards[run.dataset])

    def shape(self, name: str, tuning):
        """The run's model under a tuning."""
        return self._counted(self.config.runs[name].model, tuning.model_dump_json())

    def memory(self, name: str, run) -> Memory:
        """Of the run `name` with the settings of `run`."""
        length = self.data(name).longest
        shape, model = self.shape(name, run.tuning), self.config.runs[name].model
        training, tuning = run.training, run.tuning.model_dump_json()
        saved = self._saved(model, tuning, training.precision, training.attention, length)
        return memory_of(run, shape, saved, length, bool(run.reward_model()))

    @cache  # noqa: B019
    def _counted(self, model: str, tuning: str):
        meta = on_meta(self._config(model), "fp32", "eager")  # which every model has
        return shape_of(meta, json.loads(tuning))

    @cache  # noqa: B019
    def _saved(self, model: str, tuning: str, precision: str, attention: str, length: int):
        settings = json.loads(tuning)
        held = "fp32" if settings["kind"] == "full" else precision
        meta = on_meta(self._config(model), held, attention)
        return saved_by(tuned_on_meta(meta, settings), length, precision)

    @cache  # noqa: B019
    def _config(self, model: str):
        return model_config(self.config, model, self.results)


def slurm_of(site, run, memory: Memory, work) -> dict:
    """What the run asks Slurm for, and where the estimate says otherwise."""
    request = training_request(site, run)
    return {"request": request, "advice": list(_slurm_advice(run, memory, work))}


def _slurm_advice(run, memory: Memory, work) -> Iterator[str]:
    held = (memory.total() if run.hardware == CPU else 0) + memory.host
    needed = held * run.strategy.processes / 1e6
    if needed > run.mem_mb:
        yield f"mem_mb {run.mem_mb:,} is less than the {needed:,.0f} estimated for a node"
    if run.hardware != CPU and run.threads < CORES[0]:
        usual = f"{CORES[0]}-{CORES[1]} cores and {RAM_GB[0]}-{RAM_GB[1]} GB"
        yield f"threads {run.threads} a GPU; usual are {usual} of the machine's memory"
    if work.hours and work.hours * 60 > run.minutes:
        jobs = math.ceil(work.hours * 60 / run.minutes)
        yield f"{work.hours:,.3g} h are more than minutes: about {jobs} jobs, each goes on"
