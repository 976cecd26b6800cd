"""The exact command that trains a run: what rule train_run starts, by the launcher of the run."""

import shlex
from pathlib import Path

from anneal.config.run import Run
from anneal.training.launch import launch_command


def command_of(config, name: str, step: str, results: Path) -> str:
    """As one line of shell.

    Args:
        step: canonical JSON of the run's step, as `workflow.Steps` has it.
    """
    run: Run = config.runs[name]
    script = ["scripts/train_run.py", *_arguments(run, name, step, results)]
    script += ["--strategy", run.strategy.model_dump_json()]
    cpus = run.threads * run.strategy.processes
    return shlex.join(launch_command(run.strategy, script, cpus, python="python"))


def _arguments(run: Run, name: str, step: str, results: Path) -> list[str]:
    options = {
        "step": step,
        "log": f"{results}/logs/train_run/{name}.log",
        "base": _manifest(results, "models", run.model),
        "splits": _manifest(results, "tokens", f"{run.dataset}/{run.model}/splits"),
        "checkpoints": f"{results}/checkpoints/{name}",
        "tracker": run.tracker,
        "trackers": f"{results}/trackers/{name}",
        "threads": str(run.threads),
        "manifest": _manifest(results, "runs", name),
    }
    if run.reward_model():
        options["reward"] = _manifest(results, "runs", run.reward_model())
    if run.best_of:
        options["best"] = f"{results}/search/{run.best_of}/best.json"
    plain = [part for key, value in options.items() for part in (f"--{key}", value)]
    adapters = [_manifest(results, "runs", other) for other in run.tuning.adapters]
    return plain + (["--adapters", *adapters] if adapters else [])


def _manifest(results: Path, kind: str, name: str) -> str:
    return f"{results}/{kind}/{name}/manifest.json"
