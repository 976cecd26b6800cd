"""A project in a folder of its own, on generated rows, and the commands a user gives in it."""

import re
import shlex
import shutil
import time
from pathlib import Path

from measure import OURS, REPOSITORY, run

CONFIG = """\
project: bench
datasets:
  rows:
    sources:
      s: {{path: "{pattern}", columns: {{instruction: question, output: answer}}}}
    shard_mb: {shard_mb}
    split: {{min_rows: 0, max_deviation: 1}}
models: {{base: {{path: "{model}"}}}}
runs: {{sft: {{dataset: rows, model: base}}}}
"""
RESULTS = Path("results/bench")
STEP = re.compile(r"^Shell command: (python scripts/.*)$", flags=re.M)


class Project:
    """The folder of a project; `create` makes it."""

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, pattern: str, model: Path, shard_mb: float) -> "Project":
        """An empty folder with the code linked in; `pattern` names the raw files to come."""
        shutil.rmtree(folder, ignore_errors=True)
        link_code(folder)
        (folder / "config").mkdir()
        text = CONFIG.format(pattern=pattern, model=model, shard_mb=shard_mb)
        (folder / "config" / "config.yaml").write_text(text)
        return cls(folder)

    def snakemake(self, *arguments: str) -> str:
        command = [OURS, "-m", "snakemake", "--profile", "profiles/local", *arguments]
        return run(command, self.folder, HF_HUB_OFFLINE="1")

    def seconds(self, *arguments: str) -> float:
        started = time.perf_counter()
        self.snakemake(*arguments)
        return time.perf_counter() - started

    def steps(self) -> list[list[str]]:
        """The command lines of the data steps that have to run, in the order of the DAG."""
        return [shlex.split(line) for line in STEP.findall(self.snakemake("data", "-n", "-p"))]


def link_code(folder: Path, *more: str) -> None:
    folder.mkdir(parents=True)
    for part in ("Snakefile", "rules", "scripts", "profiles", "envs", *more):
        (folder / part).symlink_to(REPOSITORY / part)
