"""How a comparison is taken: each side a process, taking turns, the best of a few rounds.

A side is a command whose last line is JSON: a figure for each of its parts, the higher the better.
This file loads nothing big, so that the peak memory of a child is the child's own.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
OURS, PEER = sys.executable, str(REPOSITORY / ".venv-bench" / "bin" / "python")
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}


@dataclass
class Line:
    """One line of the table; the bar is about `ratio`, which without a peer is our figure."""

    what: str
    ours: float
    peer: float | None = None
    bar: float | None = None
    at_most: bool = False
    unit: str = "rows/s"
    ratio: float = field(init=False)
    met: bool | None = field(init=False, default=None)

    def __post_init__(self):
        self.ratio = self.ours if self.peer is None else self.ours / self.peer
        if self.bar is not None:
            self.met = self.ratio <= self.bar if self.at_most else self.ratio >= self.bar


HEAD = f"{'what':<56}{'ours':>12}{'peer':>12}  {'':<8}{'ratio':>8}  {'bar':<8}met"


def shown(line: Line) -> str:
    """One line of the table."""
    peer = "" if line.peer is None else f"{line.peer:,.4g}"
    bar = "" if line.bar is None else f"{'<=' if line.at_most else '>='} {line.bar:g}"
    met = {True: "yes", False: "NO", None: ""}[line.met]
    ratio = "" if line.peer is None else f"{line.ratio:.3g}"
    figures = f"{line.ours:>12,.4g}{peer:>12}  {line.unit:<8}{ratio:>8}"
    return f"{line.what:<56}{figures}  {bar:<8}{met}"


def alternate(sides: dict[str, list], rounds: int, **environment: str) -> dict[str, dict]:
    """The best figure of each part of each side."""
    best: dict[str, dict] = {side: {} for side in sides}
    for _ in range(rounds):
        for side, command in sides.items():
            for part, value in figures(command, **environment).items():
                best[side][part] = max(value, best[side].get(part, value))
    return best


def figures(command: list, **environment: str) -> dict:
    """The JSON of a command's last line."""
    return json.loads(run(command, **environment).splitlines()[-1])


def run(command: list, folder: Path | None = None, **environment: str) -> str:
    """What a command prints; a command that fails ends the run with its last lines."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"error: {command[1:3]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def processor_seconds(command: list, folder: Path | None = None, **environment: str) -> float:
    """What a command costs in time of any core: the same on a busy machine."""
    before = os.times()
    run(command, folder, **environment)
    after = os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system
    )


PEAK = """
import json, resource, subprocess, sys, time
started = time.time()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"seconds": time.time() - started, "MB": used / 1000}))
"""


def peak(command: list, folder: Path) -> tuple[float, float]:
    """Seconds and peak resident memory in MB of a command; memory-mapped files count."""
    found = json.loads(run([OURS, "-c", PEAK, *command], folder))
    return found["seconds"], found["MB"]
