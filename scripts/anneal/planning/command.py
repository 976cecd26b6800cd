"""The exact command that trains a run: what rule train_run has the launcher start."""

import shlex
from pathlib import Path

from anneal.training.launch import launch_command


def command_of(config, name: str, step: str, results: Path) -> str:
    """As one line of shell.

    Args:
        step: canonical JSON of the run's step, as `workflow.Steps` has it.
    """
    run = config.runs[name]
    cpus = run.threads * run.strategy.processes
    script = ["scripts/train_run.py", *_arguments(run, name, step, results, cpus)]
    script += ["--strategy", run.strategy.model_dump_json()]
    return shlex.join(launch_command(run.strategy, script, cpus, python="python"))


def _arguments(run, name: str, step: str, results: Path, cpus: int) -> list[str]:
    """In the order of the rule, and with what Snakemake would put in."""
    base, splits = f"models/{run.model}", f"tokens/{run.dataset}/{run.model}/splits"
    reward, best = run.reward_model(), run.best_of
    return [
        *("--step", step, "--log", f"{results}/logs/train_run/{name}.log"),
        *("--base", f"{results}/{base}/manifest.json"),
        *("--splits", f"{results}/{splits}/manifest.json"),
        *("--checkpoints", f"{results}/checkpoints/{name}"),
        *(("--reward", f"{results}/runs/{reward}/manifest.json") if reward else ()),
        *(("--best", f"{results}/search/{best}/best.json") if best else ()),
        *("--adapters", *(f"{results}/runs/{n}/manifest.json" for n in run.tuning.adapters)),
        *("--tracker", run.tracker, "--trackers", f"{results}/trackers/{name}"),
        *("--threads", str(cpus), "--manifest", f"{results}/runs/{name}/manifest.json"),
    ]
