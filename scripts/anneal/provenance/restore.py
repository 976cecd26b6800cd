"""Which artifacts on the disk are those that the present settings, code and raw files would make.

Snakemake says what it would run and from what; the manifests say what was run. Nothing is taken on
trust: settings, code and sources are compared, inputs with the manifests of what made them, and
every byte with its digest.
"""

import os
import re
import shlex
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from anneal import cli
from anneal.provenance.digests import digest_bytes, digest_value
from anneal.provenance.files import read_json, whole_file, write_json
from anneal.provenance.manifests import origin, output_digest, output_paths, step_key

JOB = re.compile(r"^(?:local)?rule (\w+):\n((?:    .*\n)+)Shell command: (python .+)$", re.M)
PARTS = ("settings", "code", "sources")


@dataclass
class Job:
    """One job of the DAG, and what was found of its artifact.

    `state` is `absent`, `good`, `stale` (made for another step, which Snakemake sees by itself) or
    `broken` (only seen here); `reruns` if it will be made again, for its own sake or after what it
    is made from; `origin` is what its manifest should say; `depth` is the longest way to it from
    the raw files.
    """

    step: SimpleNamespace
    manifest: Path
    inputs: list[Path]
    outputs: list[Path]
    before: list["Job"] = field(default_factory=list)
    origin: str = ""
    depth: int = 0
    state: str = "absent"
    reason: str = ""
    reruns: bool = False


def planned_jobs(text: str) -> list[Job]:
    """The jobs that `snakemake -n -F -p` prints, each after those it depends on; the order is the
    same each time, and Snakemake's own is not."""
    jobs = [_job(files, command) for _, files, command in JOB.findall(text)]
    made_by = {path: job for job in jobs for path in job.outputs}
    for job in jobs:
        job.inputs = [path for path in job.inputs if path in made_by]  # raw files are in the key
        job.before = [made_by[path] for path in job.inputs]
        job.depth = 1 + max((earlier.depth for earlier in job.before), default=0)
        job.origin = origin(step_key(job.step), [earlier.origin for earlier in job.before])
    return sorted(jobs, key=lambda job: (job.depth, job.manifest))


def _job(files: str, command: str) -> Job:
    words = shlex.split(command)
    given = {words[n]: words[n + 1] for n in range(len(words) - 1) if words[n].startswith("--")}
    listed = dict(re.findall(r"^    (input|output): (.+)$", files, flags=re.M))
    paths = {k: [Path(name) for name in listed.get(k, "").split(", ")] for k in ("input", "output")}
    return Job(cli.step(given["--step"]), Path(given["--manifest"]), *paths.values())


def judge(jobs: list[Job]) -> None:
    """Set `state`, `reason` and `reruns` of each job, from the manifests and bytes on the disk."""
    for job in jobs:
        job.state, job.reason = _verdict(job)
        job.reruns = bool(job.reason) or any(earlier.reruns for earlier in job.before)


def _verdict(job: Job) -> tuple[str, str]:
    if not any(map(os.path.lexists, _remains(job))):
        return "absent", ""
    try:
        return _compared(job, read_json(job.manifest))
    except FileNotFoundError:
        return "broken", "its manifest is missing"
    except (ValueError, KeyError, TypeError):
        return "stale", "its manifest cannot be read"


def _remains(job: Job) -> list[Path]:
    """The artifact's files; of one that is a folder, all that lies there."""
    folder = job.manifest.parent
    inside = list(folder.iterdir()) if job.outputs == [job.manifest] and folder.is_dir() else []
    return [job.manifest, *job.outputs, *(inside if job.manifest.name == "manifest.json" else [])]


def _compared(job: Job, manifest: dict) -> tuple[str, str]:
    other = [part for part in PARTS if manifest[part] != getattr(job.step, part)]
    if other or manifest["key"] != step_key(job.step):
        return "stale", f"made for other {', '.join(map(_named(job, manifest), other)) or 'work'}"
    problem = _changed_output(job, manifest) or _changed_input(job, manifest)
    return ("broken", problem) if problem else ("good", "")


def _named(job: Job, manifest: dict):
    """How a part that differs is called: of settings and sources, which ones."""

    def name(part: str) -> str:
        was, now = manifest[part], getattr(job.step, part)
        if part == "code":
            return part
        return f"{part} ({', '.join(differing(was, now)) or 'of another kind'})"

    return name


def differing(was, now, at: str = "") -> list[str]:
    """Dotted names of the settings in which two sections differ."""
    if not (isinstance(was, dict) and isinstance(now, dict)):
        return [] if was == now else [at]
    keys = sorted(was.keys() | now.keys())
    return [
        name
        for key in keys
        for name in differing(was.get(key), now.get(key), f"{at}.{key}" if at else key)
    ]


def _changed_output(job: Job, manifest: dict) -> str | None:
    for name, path in output_paths(job.manifest, manifest).items():
        if not path.exists():
            return f"{path} is missing"
        if output_digest(path) != manifest["outputs"][name]:
            return f"the bytes of {path} are not those of its manifest"
    gone = [path for path in job.outputs if not path.exists()]
    return f"{gone[0]} is missing" if gone else None


def _changed_input(job: Job, manifest: dict) -> str | None:
    recorded = {path: manifest["inputs"][name] for name, path in manifest["paths"].items()}
    now = {path.as_posix() for path in job.inputs}
    if recorded.keys() != now:
        return f"made from other files ({', '.join(sorted(recorded.keys() ^ now)[:3])})"
    for path, earlier in zip(job.inputs, job.before, strict=True):
        if earlier.state == "good" and _digest(path, earlier) != recorded[path.as_posix()]:
            return f"made from another {path}"
    if manifest["origin"] != job.origin and any(e.state == "absent" for e in job.before):
        return "what it was made from is not here, and would be another now"
    return None


def _digest(path: Path, made_by: Job) -> str:
    """Digest of an artifact's file, as its manifest has it."""
    outputs = read_json(made_by.manifest)["outputs"]
    if path == made_by.manifest:
        return digest_value(outputs) if path.name == "manifest.json" else digest_bytes(path)
    return outputs[path.name]


def mark_broken(job: Job) -> None:
    """Have the artifact's job run again, with the reason where it will be looked for."""
    manifest = read_json(job.manifest) if job.manifest.is_file() else {"outputs": {}}
    write_json(job.manifest, {**manifest, "key": "", "broken": job.reason})


def make_own(results: Path) -> None:
    """Copies in place of hard links to DVC's cache, of the files that Snakemake knows by name: it
    takes what is read-only for protected, and sets times."""
    workers = results.glob("*/search/*/workers/*.json")
    for manifest in sorted([*results.rglob("*manifest.json"), *workers]):
        for path in (manifest, *map(manifest.with_name, _named_outputs(manifest))):
            if path.is_file() and not path.is_symlink() and _is_shared(path):
                with whole_file(path) as copied:
                    shutil.copyfile(path, copied)


def _named_outputs(manifest: Path) -> list[str]:
    try:
        return list(read_json(manifest)["outputs"])
    except (OSError, ValueError, KeyError, TypeError):
        return []  # it is judged later


def _is_shared(path: Path) -> bool:
    return path.stat().st_nlink > 1 or not path.stat().st_mode & 0o200


def summary(jobs: list[Job]) -> list[str]:
    """A line for each artifact that does not hold, and the counts."""
    lines = [f"{job.manifest}: {job.reason}" for job in jobs if job.reason]
    states = Counter("follow" if job.reruns and not job.reason else job.state for job in jobs)
    wrong = states["stale"] + states["broken"]
    counts = f"{states['good']} of {len(jobs)} artifacts hold"
    counts += f"; {wrong} do not, and {states['follow']} follow from them" if wrong else ""
    return [*lines, counts + (f"; {states['absent']} are not here" if states["absent"] else "")]
