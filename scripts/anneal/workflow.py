"""What the Snakefile needs to know of each step: settings, code, sources, and the run's lock."""

import fcntl
import os
import sys
from pathlib import Path
from types import SimpleNamespace

from anneal.config.run import method_module
from anneal.config.schema import Config
from anneal.errors import UserError
from anneal.provenance.code import code_digest
from anneal.provenance.digests import canonical, digest_bytes, digest_folder
from anneal.provenance.manifests import is_current
from anneal.sources.shards import DigestCache, plan_shards

REPORTING = Path(__file__).resolve().parent / "reporting"
VOLATILE = {"tracker", "threads", "mem_mb"}


class Steps:
    """Settings, code digest and source digests of every step of one configuration.

    Only what can change a step's output is in here: threads, memory and trackers are not.
    """

    def __init__(self, config: Config):
        self.config = config
        self.cache = DigestCache(Path("results") / config.project / ".digests.json")
        self.shards = {name: self._plan(name) for name in config.datasets}
        self.task_files = self._task_files()
        self.by_name = {d: {s.name: s for s in shards} for d, shards in self.shards.items()}
        self._check()

    def text(self, name: str, wildcards) -> str:
        """Canonical JSON of a step; equal text means that nothing has to run again."""
        return canonical(self.step(name, dict(wildcards)))

    def step(self, name: str, wildcards: dict) -> dict:
        """Settings, code digest and source digests of one step."""
        settings, sources = getattr(self, f"_{name}")(**wildcards)
        modules = [method_module(settings["method"])] if name == "train_run" else []
        modules += [settings["maker"]] if settings.get("maker") else []
        return {"settings": settings, "code": code_digest(name, *modules), "sources": sources}

    def is_current(self, name: str, wildcards, manifest: str) -> bool:
        return is_current(manifest, SimpleNamespace(**self.step(name, dict(wildcards))))

    def raw_file(self, wildcards) -> list[str]:
        """The file a shard is read from; a database or a Hub dataset elsewhere is no file."""
        piece = self.by_name[wildcards.dataset][wildcards.shard]
        return [] if piece.format in ("sql", "hub") else [piece.file]

    def remember_digests(self) -> None:
        self.cache.save()

    def _check(self) -> None:
        """Raise here, as one line, what a step of a run would raise while the DAG is built."""
        for run in self.config.runs.values():
            self._fetch_model(run.model)
            self._format_shard(run.dataset, run.model, "")
            self._benchmark(run.dataset, run.model)
        for name in sorted(self.config.compared().keys() & self.config.models.keys()):
            self._fetch_model(name)

    def _plan(self, name: str) -> list:
        dataset = self.config.datasets[name]
        sources = dataset.sources.items()
        try:
            plans = [
                plan_shards(n, s, dataset.kind, dataset.shard_mb, self.cache) for n, s in sources
            ]
        except UserError as error:
            inside = f"datasets.{name}." if error.where.startswith("sources.") else ""
            raise UserError(f"{inside}{error.where}", error.what, error.do) from None
        return [shard for plan in plans for shard in plan]

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
        return {**settings, "tests": tests}, {file: self._digest(Path(file)) for file in files}

    def _test_files(self) -> dict[str, list[str]]:
        from anneal.cleaning.questions import test_files

        include = Path(self.config.evaluate.include)
        found = {name: test_files(include, name) for name in self.config.evaluate.tasks}
        return {name: files for name, files in found.items() if files}

    def _assign_splits(self, dataset: str):
        section = self.config.datasets[dataset]
        settings = section.model_dump(include={"split", "max_reject_share"})
        return {**settings, "threshold": section.deduplicate.threshold}, {}

    def _write_heldout(self, dataset: str):
        return {}, {}

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
        return {"kind": section.kind, "weights": weights, **settings}, {}

    def _train_run(self, run: str):
        return self.config.runs[run].settings(), {}

    def _benchmark(self, dataset: str, scored: str):
        section = self.config.evaluate
        tasks = {
            n: t.model_dump(exclude={"forgetting", "heldout"}) for n, t in section.tasks.items()
        }
        for name, task in tasks.items():
            if task["chat_template"] and task["system"] is None:
                task["system"] = self._trained_system(dataset, name)
        settings = section.model_dump(include={"include", "batch_size"})
        return {**settings, "tasks": tasks}, self.task_files

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
        tasks = {name: {"forgetting": task.forgetting} for name, task in section.tasks.items()}
        return {**section.model_dump(include={"max_drop", "on_forgetting"}), "tasks": tasks}, {}

    def _write_report(self):
        config = self.config.model_dump(
            exclude={"runs": {"__all__": VOLATILE}, "evaluate": VOLATILE}
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


class RunLock:
    """One run at a time in a results folder; the kernel frees the lock of a killed run.

    Raises:
        UserError: another run holds it.
    """

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("w")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            do = "wait for it to end, or stop it"
            raise UserError(str(path.parent), "another run is at work here", do) from None
