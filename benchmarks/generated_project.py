"""A project in a folder of its own, on generated rows, and the commands a user gives in it."""

import re
import shlex
import shutil
import time
from pathlib import Path

from measure import OURS, REPOSITORY, processor_seconds, run

CONFIG = """\
project: bench
datasets:
  rows:
    sources:
      s: {{path: "{pattern}", columns: {{instruction: question, output: answer}}}}
    shard_mb: {shard_mb}
    split: {{min_rows: 0, max_deviation: 1}}
models: {{base: {{path: "{model}"}}}}
runs:
"""
RUN = "  sft-{}: {{dataset: rows, model: base, training: {{seed: {}}}}}\n"
SNAKEMAKE = (OURS, "-m", "snakemake", "--profile", "profiles/local")
RESULTS = Path("results/bench")
STEP = re.compile(r"^Shell command: (python scripts/.*)$", flags=re.M)


class Project:
    """The folder of a project; `create` makes it."""

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def create(
        cls, folder: Path, pattern: str, model: Path, shard_mb: float, runs: int = 1
    ) -> "Project":
        """An empty folder with the code linked in; `pattern` names the raw files to come."""
        shutil.rmtree(folder, ignore_errors=True)
        link_code(folder)
        (folder / "config").mkdir()
        text = CONFIG.format(pattern=pattern, model=model, shard_mb=shard_mb)
        text += "".join(RUN.format(n, n) for n in range(runs))
        (folder / "config" / "config.yaml").write_text(text)
        return cls(folder)

    def data(self, cores: int) -> float:
        """Make the data; the seconds it took."""
        started = time.perf_counter()
        run([*SNAKEMAKE, "data", "--cores", cores], self.folder, HF_HUB_OFFLINE="1")
        return time.perf_counter() - started

    def dry_run(self, rounds: int, target: str = "data") -> float:
        """Processor seconds of the cheapest of some dry-runs."""
        command = [*SNAKEMAKE, target, "-n"]
        return min(processor_seconds(command, self.folder) for _ in range(rounds))

    def steps(self) -> list[list[str]]:
        """The command lines of the data steps that have to run, in the order of the DAG."""
        shown = run([*SNAKEMAKE, "data", "-n", "-p"], self.folder)
        return [shlex.split(line) for line in STEP.findall(shown)]


def link_code(folder: Path, *more: str) -> None:
    folder.mkdir(parents=True)
    for part in ("Snakefile", "rules", "scripts", "profiles", "envs", *more):
        (folder / part).symlink_to(REPOSITORY / part)
