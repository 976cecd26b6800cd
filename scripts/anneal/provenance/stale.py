"""What lies in a project's results that no given configuration reaches, and how large it all is.

Snakemake says what a configuration reaches: the outputs and logs of all its jobs. A folder artifact
is its manifest's folder. Training states belong to a fingerprint; those of other fingerprints are
stale, but only once the run is finished.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from anneal.provenance.files import read_json
from anneal.provenance.summary import CURRENT

# Everything else in results/PROJECT is left alone.
STAGES = (
    *("data", "tokens", "models", "runs", "checkpoints", "trackers", "search", "evaluation"),
    *("report", "logs"),
)
# Written beside the sample of a streamed dataset, and outputs of no rule.
BESIDE_SAMPLE = ("plan.json", "sample.rejects.jsonl")


@dataclass
class Reached:
    """What configurations reach in one project: files, whole folders, all folders above them."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    above: set[str] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)

    def add(self, path: str, folder: bool = False) -> None:
        (self.folders if folder else self.files).add(path)
        self.above.update(map(str, Path(path).parents))

    def covers(self, path: str) -> bool:
        """Whether it is reached, lies in a reached folder, or is (a link to) a folder above."""
        stage, *further = Path(path).parts
        if stage == "logs" and Path(further[0]).stem not in self.rules:
            return True  # of no rule here: a scheduler's, or the user's
        inside = path in self.folders or any(str(p) in self.folders for p in Path(path).parents)
        return inside or path in self.files or path in self.above


def reached(jobs: list[dict], project: Path) -> Reached:
    """What the jobs of one or more configurations reach below a project's folder."""
    found = Reached()
    for job in jobs:
        output = Path(job["output_file"]).relative_to(project)
        found.add(str(output))
        found.rules.add(job["rule"])
        if output.name == "manifest.json":
            found.add(str(output.parent), folder=True)
        if output.name == "sample.manifest.json":
            for name in BESIDE_SAMPLE:
                found.add(str(output.with_name(name)))
        for log in {*job["log-file(s)"].split(",")} - {"", "-"}:
            found.add(str(Path(log).relative_to(project)))
        for state in _states(output, job, project):
            found.add(state, folder=True)
    return found


def _states(output: Path, job: dict, project: Path) -> Iterator[str]:
    """Folders of training states that a job may still need."""
    if job["rule"] == "train_run":
        yield f"trackers/{output.parent.name}"
        folder = Path("checkpoints", output.parent.name)
    elif job["rule"] == "run_trials":
        folder = output.parents[1] / "studies"
    else:
        return
    finished = job["plan"] == CURRENT
    made = read_json(project / output)["facts"]["fingerprint"] if finished else ""
    yield str(folder / made)


def files_below(project: Path) -> Iterator[str]:
    """Files and links of the stages' folders; no link is followed."""
    for stage in STAGES:
        for folder, names, files in os.walk(project / stage):
            links = [name for name in names if Path(folder, name).is_symlink()]
            yield from (str(Path(folder, n).relative_to(project)) for n in [*files, *links])


def stage_of(path: str) -> str:
    """`runs`, or one step further in where a stage has several: `data/clean`, `tokens/ids`."""
    parts = Path(path).parts
    further = {"data": 2, "tokens": 3}.get(parts[0], len(parts))
    return f"{parts[0]}/{parts[further]}" if len(parts) > further + 1 else parts[0]


def sizes(project: Path, paths) -> dict[str, int]:
    """Bytes of files, links counted as links."""
    return {path: (project / path).lstat().st_size for path in paths}


def gathered(stale: dict[str, int], kept) -> dict[str, int]:
    """Stale bytes by the largest folders that hold nothing else, or by file."""
    above = {str(parent) for path in kept for parent in Path(path).parents} | {".", *STAGES}
    found: dict[str, int] = {}
    for path, size in stale.items():
        folders = [str(p) for p in reversed(Path(path).parents) if str(p) not in above]
        whole = folders[0] if folders else path
        found[whole] = found.get(whole, 0) + size
    return found


def remove(project: Path, paths) -> None:
    """Remove files, links and whole folders below a project; links are not followed."""
    for path in (project / path for path in paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
