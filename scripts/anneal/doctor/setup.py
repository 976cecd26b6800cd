"""The profile and the configuration."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import yaml

from anneal.config.schema import load_config
from anneal.doctor.finding import Finding
from anneal.doctor.machine import installed
from anneal.errors import UserError


def look_at_config(path: Path) -> tuple[object | None, Finding]:
    """The configuration, or None if it cannot be read, and what to say of it."""
    try:
        config = load_config(path)
    except UserError as error:
        return None, Finding("wrong", str(error))
    runs = f"{len(config.runs)} run{'' if len(config.runs) == 1 else 's'}"
    return config, Finding("ok", f"{path}: project '{config.project}', {runs}")


def look_at_profile(profile: Path) -> Iterator[Finding]:
    """A profile as `--profile` takes it, and what Snakemake would lay over it."""
    if Path("profiles/default").exists():
        what = "profiles/default: Snakemake lays it over every profile, and replaces whole keys"
        yield Finding("wrong", what, "remove it")
    settings = _settings(profile)
    if isinstance(settings, Finding):
        yield settings
        return
    if not settings.get("rerun-incomplete"):
        what = f"{profile}: without rerun-incomplete a run that was killed does not go on"
        yield Finding("wrong", what, "set it to true")
    executor = settings.get("executor")
    plugin = f"snakemake-executor-plugin-{executor}"
    if executor and not installed(plugin):
        yield Finding("wrong", f"{profile}: {plugin} is not installed", "install it with pip")
    elif executor == "slurm" and not shutil.which("sbatch"):
        yield Finding("wrong", f"{profile}: sbatch is not here", "start on a login node")
    else:
        yield Finding("ok", f"{profile}: {executor or 'this machine'}")


def _settings(profile: Path) -> dict | Finding:
    """A profile's settings, or what is wrong with it."""
    files = sorted(profile.glob("config*.yaml"))
    if not files:
        known = ", ".join(sorted(p.as_posix() for p in Path("profiles").glob("*") if p.is_dir()))
        return Finding("wrong", f"{profile}: no such profile", f"there: {known}")
    try:
        return yaml.safe_load(files[0].read_text()) or {}
    except yaml.YAMLError as error:
        return Finding("wrong", f"{files[0]}: not valid YAML: {str(error).splitlines()[0]}")
