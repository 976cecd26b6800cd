"""A small whole project, and the commands a user gives in it."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from tiny import REPOSITORY

PARTS = ("Snakefile", "rules", "scripts", "profiles", "envs")

CONFIG = """\
project: tiny
datasets:
  facts:
    sources:
      first: {path: raw/first.jsonl}
      second:
        path: raw/second.db
        query: select q, a, kind from facts order by rowid
        columns: {instruction: q, output: a, category: kind}
    shard_mb: 0.004
    max_reject_share: 0.2
    split: {max_deviation: 0.2}
    format: {style: chat}
    tokenize: {max_length: 96}
models:
  base: {path: models/base}
runs:
  lora:
    dataset: facts
    model: base
    tracker: none
    threads: 1
    tuning: {r: 4}
    training:
      precision: fp32
      learning_rate: 1e-3
      max_steps: 12
      per_device_train_batch_size: 1
      gradient_accumulation_steps: 1
      logging_steps: 1
      eval_steps: 6
      save_steps: 3
evaluate:
  include: tasks
  batch_size: 4
  threads: 1
  tasks:
    kind: {metric: acc, chat_template: true, limit: 6}
    general: {metric: acc, forgetting: true, limit: 6}
"""

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{text}"
doc_to_choice: [even, odd]
doc_to_target: category
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
"""


def fact(i: int) -> dict:
    kind = "even" if i % 2 == 0 else "odd"
    words = ("river", "metal", "bird", "town", "tree", "gem", "fish")
    return {
        "instruction": f"Say the kind of {words[i % 7]} number {i}.",
        "output": f"The {words[i % 7]} number {i} is {kind}.",
        "category": kind,
    }


def write_project(folder: Path, tiny_model: Path) -> None:
    """Code, configuration, raw data and model of a small project."""
    folder.mkdir(parents=True)
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    (folder / "slurm").symlink_to("profiles/slurm")
    (folder / "config").mkdir()
    (folder / "config" / "config.yaml").write_text(CONFIG)
    shutil.copy(REPOSITORY / "config" / "hardware.yaml", folder / "config")
    shutil.copytree(tiny_model, folder / "models" / "base")
    (folder / "raw").mkdir()
    rows = [json.dumps(fact(i)) for i in range(90)]
    rows[5] = rows[5][:-4]
    rows.append(rows[0])
    (folder / "raw" / "first.jsonl").write_text("\n".join(rows) + "\n")
    with sqlite3.connect(folder / "raw" / "second.db") as db:
        db.execute("create table facts (q text, a text, kind text)")
        facts = [fact(i) for i in range(200, 230)]
        values = [(f["instruction"], f["output"], f["category"]) for f in facts]
        db.executemany("insert into facts values (?, ?, ?)", values)
    (folder / "tasks").mkdir()
    (folder / "tasks" / "kind.yaml").write_text(
        TASK.format(name="kind", data="HELDOUT", text="{{instruction}}")
    )
    general = [json.dumps({"q": f"Is {i} even or odd?", "category": "odd"}) for i in (1, 3, 5, 7)]
    (folder / "tasks" / "general.jsonl").write_text("\n".join(general) + "\n")
    (folder / "tasks" / "general.yaml").write_text(
        TASK.format(name="general", data="tasks/general.jsonl", text="{{q}}")
    )


class Project:
    """A project folder and the commands a user gives in it."""

    command = (sys.executable, "-m", "snakemake", "--profile", "profiles/local")

    def __init__(self, folder: Path):
        self.folder = folder

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*self.command, *arguments],
            cwd=self.folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=500,
        )

    def finish(self) -> "Project":
        """Run to the end, which must be reached; `output` keeps what was printed."""
        done = self.run()
        self.output = done.stdout + done.stderr
        assert done.returncode == 0, self.output
        return self

    @contextmanager
    def started(self, *arguments: str, **environment: str):
        """A run in the background, in a group of its own; what is left of it is killed."""
        with (self.folder / "started.log").open("w") as log:
            process = subprocess.Popen(
                [*self.command, *arguments],
                cwd=self.folder,
                env=os.environ | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_hear_ctrl_c,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def printed(self) -> str:
        """What the run in the background has printed."""
        return (self.folder / "started.log").read_text()

    def slow_down(self) -> None:
        """Let training steps take SLOW seconds more where that is in the environment."""
        line = "    def on_step_end(self, args, state, control, **_):\n"
        slow = "__import__('time').sleep(float(__import__('os').environ.get('SLOW', 0)))"
        self.edit("scripts/anneal/training/stopping.py", line, f"{line}        {slow}\n")

    def planned(self, *arguments: str) -> Counter:
        """Jobs that a dry-run names, counted by rule."""
        done = self.run("-n", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        text = done.stdout + done.stderr
        return Counter(re.findall(r"^(?:local)?rule (\w+):", text, flags=re.M))

    def kill_during(self, scripts: set[str], after: float = 0.0) -> str | None:
        """Run, and kill -9 the whole process group once one of the scripts is at work.

        Returns:
            the script that was killed; None if the run came to its end first.
        """
        log = (self.folder / "killed.log").open("w")
        process = subprocess.Popen(
            self.command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
        )
        seen = None
        while process.poll() is None and not seen:
            seen = _at_work(process.pid, scripts)
            time.sleep(0.005)
        time.sleep(after if seen else 0)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return seen

    def copy(self, folder: Path) -> "Project":
        shutil.copytree(self.folder, folder, copy_function=shutil.copy2, symlinks=True)
        return type(self)(folder)

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def artifacts(self) -> dict[str, bytes]:
        """Bytes of every data artifact and trained model; manifests, logs and reports aside."""
        root = self.folder / "results" / "tiny"
        folders = ("data", "tokens", "runs", "models", "evaluation")
        files = [p for f in folders for p in (root / f).rglob("*") if p.is_file()]
        kept = [p for p in files if not p.name.endswith("manifest.json")]
        return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(kept)}


def _at_work(group: int, scripts: set[str]) -> str | None:
    """Which of the scripts a process of this group is running."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        names = {Path(part.decode()).stem for part in command if part.endswith(b".py")}
        if int(fields[2]) == group and names & scripts:
            return min(names & scripts)
    return None


def _hear_ctrl_c() -> None:
    """Tests that a shell started in the background would hand on that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
