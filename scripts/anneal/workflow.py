"""What the Snakefile needs to know of each step: settings, code, sources."""

import json
import math
import os
import sys
from collections import Counter
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

from anneal.config.run import method_module
from anneal.config.schema import Config
from anneal.errors import UserError
from anneal.evaluation.tasks import HELDOUT, check_local, shares
from anneal.provenance.code import code_digest
from anneal.provenance.digests import canonical, digest_bytes, digest_folder, digest_value
from anneal.provenance.files import write_json
from anneal.provenance.manifests import is_current, step_key
from anneal.sources.shards import ELSEWHERE, DigestCache, plan_shards, without_text

REPORTING = Path(__file__).resolve().parent / "reporting"
ANSWERS = "ANNEAL_ANSWERS"
VOLATILE = {"tracker", "threads", "mem_mb", "strategy", "hardware", "minutes", "download", "jobs"}
# Steps that import the method's module by its name.
METHODICAL = ("train_run", "range_test", "run_trials")


class Steps:
    """Settings, code digest and source digests of every step of one configuration.

    Only what can change a step's output is in here: threads, memory and trackers are not.

    Args:
        main: whether databases are asked for changes. A job's own process inherits the answers,
            so that it does what was planned.
    """

    def __init__(self, config: Config, main: bool = True):
        self.config, self.steps = config, {}
        self.cache = DigestCache(Path("results") / config.project / ".digests.json")
        self.answers = {} if main else json.loads(os.environ.get(ANSWERS, "{}"))
        self.shards = {name: self._plan(name) for name in config.datasets}
        self.task_files = self._task_files()
        self.by_name = {d: {s.name: s for s in shards} for d, shards in self.shards.items()}
        os.environ[ANSWERS] = canonical(self.answers)
        self._check()

    def text(self, name: str, wildcards) -> str:
        """Canonical JSON of a step; equal text means that nothing has to run again."""
        return self._known(name, wildcards)[0]

    def is_current(self, name: str, wildcards, manifest: str) -> bool:
        return is_current(manifest, self._known(name, wildcards)[1])

    def step(self, name: str, wildcards: dict) -> dict:
        """Settings, code digest and source digests of one step."""
        settings, sources = getattr(self, f"_{name}")(**wildcards)
        run = settings.get("run", settings)
        modules = [method_module(run["method"])] if name in METHODICAL else []
        modules += [settings["maker"]] if settings.get("maker") else []
        return {"settings": settings, "code": code_digest(name, *modules), "sources": sources}

    def _known(self, name: str, wildcards) -> tuple[str, str]:
        """Text and key of a step. All shards share them, but where they are read."""
        wanted = dict(wildcards)
        named = tuple(v for k, v in sorted(wanted.items()) if k != "shard" or name == "read_shard")
        if (name, named) not in self.steps:
            step = self.step(name, wanted)
            self.steps[name, named] = canonical(step), step_key(SimpleNamespace(**step))
        return self.steps[name, named]

    def shard_counts(self, dataset: str) -> list[str]:
        """`SOURCE:COUNT` of each source, in order: the names of all shards in short."""
        counts = Counter(shard.source for shard in self.shards[dataset])
        return [f"{source}:{count}" for source, count in counts.items()]

    def raw_file(self, wildcards) -> list[str]:
        """The file a shard is read from; what lies elsewhere is no file."""
        piece = self.by_name[wildcards.dataset][wildcards.shard]
        return [] if piece.format in ELSEWHERE else [piece.file]

    def raw_files(self, wildcards) -> list[str]:
        """All files that a streamed dataset is read from."""
        pieces = self.shards[wildcards.dataset]
        return sorted({s.file for s in pieces if s.format not in ELSEWHERE})

    def remember_digests(self) -> None:
        self.cache.save()

    def write_plans(self) -> None:
        """The shards of streamed datasets, in files: they may be too many for a command line."""
        for name, section in self.config.datasets.items():
            if section.stream:
                path = Path("results") / self.config.project / "data" / name / "plan.json"
                write_json(path, [shard.as_source() for shard in self.shards[name]])

    def _check(self) -> None:
        """Raise here, as one line, what a step of a run would raise while the DAG is built."""
        for run in self.config.runs.values():
            self._fetch_model(run.model)
            self._format_shard(run.dataset, run.model, "")
            self._benchmark(run.dataset, run.model)
        for name in self.config.evaluate.tasks if not self.config.evaluate.download else ():
            check_local(Path(self.config.evaluate.include), name)
        for name in sorted(self.config.compared().keys() & self.config.models.keys()):
            self._fetch_model(name)

    def _plan(self, name: str) -> list:
        dataset = self.config.datasets[name]
        sources = dataset.sources.items()
        size = math.inf if dataset.stream else dataset.shard_mb  # a stream has one reader
        try:
            plans = [
                plan_shards(n, s, dataset.kind, size, self.cache, self.answers) for n, s in sources
            ]
        except UserError as error:
            inside = f"datasets.{name}." if error.where.startswith("sources.") else ""
            raise UserError(f"{inside}{error.where}", error.what, error.do) from None
        shards = [shard for plan in plans for shard in plan]
        if without_text(shards):
            raise UserError(f"datasets.{name}.sources", "every file is empty", "check their paths")
        return shards

    def _fetch_model(self, model: str):
        section = self.config.models[model]
        settings = {**section.model_dump(), "made_of": self._made_of(section)}
        users = [run.dataset for run in self.config.runs.values() if run.model == model]
        styles = sorted({self._style(name) for name in users})
        found = {"model": settings, "styles": styles, "maker": section.maker()}
        return found, self._model_sources(settings)

    def _made_of(self, model) -> dict[str, dict]:
        """Dataset and base of each run that a model is made of."""
        runs = {name: self.config.runs[name] for name in model.runs()}
        return {
            name: {"dataset": run.dataset, "base": self.config.models[run.model].hub or run.model}
            for name, run in runs.items()
        }

    def _model_sources(self, model: dict) -> dict:
        from anneal.training.fetch import source_folder

        files = {"chat_template": model["chat_template"]} if model["chat_template"] else {}
        if model["path"] or model["package"]:
            folder = source_folder(model)
            files |= {p.name: p for p in sorted(folder.glob(model["gguf"] or "*")) if p.is_file()}
        return {name: self._digest(Path(path)) for name, path in files.items()}

    def _digest(self, path: Path) -> str:
        if not path.is_file():
            raise UserError(str(path), "no such file", "check the path in the configuration")
        return self.cache.lookup(path, 0, path.stat().st_size)[0]

    def _read_shard(self, dataset: str, shard: str):
        piece = self.by_name[dataset][shard]
        section = self.config.datasets[dataset]
        source = section.sources[piece.source]
        return {"kind": section.kind, **source.reading()}, piece.as_source()

    def _clean_shard(self, dataset: str, shard: str):
        section = self.config.datasets[dataset]
        clean = section.clean.model_dump()
        clean["language"] |= bool(section.filter.languages)
        return {"kind": section.kind, "clean": clean}, {}

    def _select_rows(self, dataset: str):
        section = self.config.datasets[dataset]
        settings = section.model_dump(include={"filter", "decontaminate", "deduplicate"})
        tests = self._test_files() if section.decontaminate.enabled else {}
        files = sorted({file for found in tests.values() for file in found})
        digests = {file: self._digest(Path(file)) for file in files}
        return {**settings, **self._shards_of(dataset), "tests": tests}, digests

    def _shards_of(self, dataset: str) -> dict[str, str]:
        """Which shards a global step is made from; a shard that is gone leaves no newer file."""
        return {"shards": digest_value([shard.name for shard in self.shards[dataset]])}

    def _test_files(self) -> dict[str, list[str]]:
        from anneal.cleaning.questions import test_files

        include = Path(self.config.evaluate.include)
        found = {name: test_files(include, name) for name in self.config.evaluate.tasks}
        return {name: files for name, files in found.items() if files}

    def _assign_splits(self, dataset: str):
        section = self.config.datasets[dataset]
        settings = section.model_dump(include={"split", "max_reject_share"})
        settings |= self._shards_of(dataset)
        return {**settings, "threshold": section.deduplicate.threshold}, {}

    def _write_heldout(self, dataset: str):
        return self._shards_of(dataset), {}

    def _format_shard(self, dataset: str, model: str, shard: str):
        settings = self.config.datasets[dataset].format.model_dump()
        settings["style"] = self._style(dataset)
        file = settings["template_file"]
        return settings, {"template_file": self._digest(Path(file))} if file else {}

    def _style(self, dataset: str) -> str:
        """How rows become text; raw text is one already, and asks no template of the model."""
        section = self.config.datasets[dataset]
        return "completion" if section.kind == "text" else section.format.style

    def _tokenize_shard(self, dataset: str, model: str, shard: str):
        section = self.config.datasets[dataset]
        settings = section.tokenize.model_dump(include={"max_length", "truncation"})
        return {"kind": section.kind, **settings}, {}

    def _write_splits(self, dataset: str, model: str):
        section = self.config.datasets[dataset]
        settings = section.tokenize.model_dump(include={"max_length", "packing"})
        weights = {name: source.weight for name, source in section.sources.items()}
        settings |= {"kind": section.kind, "weights": weights}
        return {**settings, **self._shards_of(dataset)}, {}

    def _sample_stream(self, dataset: str):
        section = self.config.datasets[dataset]
        clean, _ = self._clean_shard(dataset, "")
        selection, tests = self._select_rows(dataset)
        reading = {name: source.reading() for name, source in section.sources.items()}
        settings = section.model_dump(include={"split", "max_reject_share"})
        rows = section.stream.model_dump(include={"eval_rows", "test_rows"})
        plan = digest_value([shard.as_source() for shard in self.shards[dataset]])
        settings |= {**clean, **selection, "reading": reading, "stream": rows}
        return settings, {"plan": plan, **tests}

    def _write_stream(self, dataset: str, model: str):
        section = self.config.datasets[dataset]
        settings, sources = self._sample_stream(dataset)
        form, template = self._format_shard(dataset, model, "")
        weights = {name: source.weight for name, source in section.sources.items()}
        settings |= {"format": form, "weights": weights, "tokenize": section.tokenize.model_dump()}
        return {**settings, "stream": section.stream.model_dump()}, {**sources, **template}

    def _train_run(self, run: str):
        section = self.config.runs[run]
        made_of = section.model_dump(include={"dataset", "model"})
        return {**section.settings(), "made_of": {**made_of, "reward": section.reward_model()}}, {}

    def _range_test(self, study: str):
        section = self.config.search[study]
        return {"run": self._searched(study), **section.range_test.model_dump()}, {}

    def _run_trials(self, study: str, worker: str):
        return self.config.search[study].settings(self._searched(study)), {}

    def _best_trial(self, study: str):
        settings = self.config.search[study].settings(self._searched(study))
        return {name: settings[name] for name in ("trials", "space")}, {}

    def _searched(self, study: str) -> dict:
        settings = self.config.runs[self.config.search[study].run].settings()
        return {name: value for name, value in settings.items() if name != "best_of"}

    def _benchmark(self, dataset: str, scored: str):
        section = self.config.evaluate
        tasks = {
            n: t.model_dump(exclude={"forgetting", "heldout"}) for n, t in section.tasks.items()
        }
        for name, task in tasks.items():
            if task["chat_template"] and task["system"] is None:
                task["system"] = self._trained_system(dataset, name)
        settings = section.model_dump(include={"include", "batch_size", "precision"})
        return {**settings, "tasks": tasks}, self.task_files

    def _benchmark_part(self, dataset: str, scored: str, part: str):
        settings, sources = self._benchmark(dataset, scored)
        tasks = {name: settings["tasks"][name] for name in self.task_shares[int(part)]}
        return {**settings, "tasks": tasks}, sources

    @cached_property
    def task_shares(self) -> list[list[str]]:
        """Names of the tasks that each job of one model scores."""
        section = self.config.evaluate
        tasks = {name: task.model_dump() for name, task in section.tasks.items()}
        return shares(Path(section.include), tasks, section.jobs)

    def _measure_heldout(self, dataset: str, scored: str):
        form, template = self._format_shard(dataset, "", "")
        limits, _ = self._tokenize_shard(dataset, "", "")
        section = self.config.evaluate
        settings = section.model_dump(include={"samples", "batch_size", "precision"})
        settings |= {"rows": section.heldout_rows, "kind": limits.pop("kind")}
        return {**settings, "format": form, "tokenize": limits}, template

    def _trained_system(self, dataset: str, task: str) -> str | None:
        system = self.config.datasets[dataset].format.system
        if system == "":
            what = "lm-eval leaves out an empty system message, so models would be asked otherwise"
            do = f"set evaluate.tasks.{task}.system, or a text (or nothing) here"
            raise UserError(f"datasets.{dataset}.format.system", what, do)
        return system

    def _task_files(self) -> dict:
        folder = Path(self.config.evaluate.include)
        return {folder.as_posix(): digest_folder(folder)} if folder.is_dir() else {}

    def _compare_run(self, tuned: str):
        section = self.config.evaluate
        dataset = self.config.datasets[self.config.compared()[tuned].dataset]
        known = self._test_files() if dataset.decontaminate.enabled else {}
        tasks = {
            name: {
                "forgetting": task.forgetting,
                "contamination": {"checked": name in known or self._asks_heldout(name)},
            }
            for name, task in section.tasks.items()
        }
        settings = section.model_dump(include={"max_drop", "on_forgetting"})
        return {**settings, "tasks": tasks, "kind": dataset.kind}, {}

    def _asks_heldout(self, task: str) -> bool:
        """Whether a task asks about held-out rows, which the split has kept from training."""
        path = Path(self.config.evaluate.include) / f"{task}.yaml"
        return path.is_file() and HELDOUT in path.read_text("utf-8")

    def _write_report(self):
        config = self.config.model_dump(
            exclude={"runs": {"__all__": VOLATILE}, "evaluate": VOLATILE, "search": True}
        )
        template = REPORTING / "report.html.j2"
        sources = {template.name: digest_bytes(template)}
        made = [n for n in self.config.compared() if n in self.config.models]
        made = {name: self.config.models[name].runs() for name in made}
        return {"project": self.config.project, "config": config, "made": made}, sources


def use_this_python() -> None:
    """Let the steps' `python` be the one that runs the workflow, activated or not."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def failures(logs: Path, since: float) -> list[str]:
    """The last error line of each step log written since a time, each with its log."""
    found = []
    for path in sorted(logs.rglob("*.log")):
        if path.stat().st_mtime >= since:
            lines = [x for x in path.read_text("utf-8", "replace").splitlines() if "error: " in x]
            found += [f"{lines[-1][lines[-1].index('error: ') :]}\n  log: {path}"] if lines else []
    return found
