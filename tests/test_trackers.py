"""Trackers: local files that hold what metrics.jsonl holds, also after a kill."""

import importlib.util
import json
import multiprocessing
import os
import signal
import sqlite3
import struct
import subprocess

import pytest
from transformers import TrainerState, TrainingArguments

from anneal.errors import UserError
from anneal.training.trackers import OPEN, Track

SETTINGS = {"method": "sft", "tuning": {"r": 4}, "training": {"learning_rate": 1e-3}}
ROWS = [
    {"step": 0, "eval_loss": 2.5},
    {"step": 1, "loss": 2.25, "learning_rate": 1e-3},
    {"step": 2, "loss": 2.0, "learning_rate": 5e-4},
    {"step": 2, "eval_loss": 1.75},
]
WANTED = {"train/loss": [(1, 2.25), (2, 2.0)], "eval/loss": [(0, 2.5), (2, 1.75)]}
WANTED["train/learning_rate"] = [(1, 1e-3), (2, 5e-4)]


# What would send the curves away, if it were heeded.
ELSEWHERE = {
    "WANDB_MODE": "online",
    "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
    "TRACKIO_SERVER_URL": "http://127.0.0.1:9",
    "DVC_STUDIO_TOKEN": "isat_nobody",
    "DVC_STUDIO_URL": "http://127.0.0.1:9",
}


def installed(tracker: str):
    there = importlib.util.find_spec(tracker) is not None
    return pytest.mark.skipif(not there, reason=f"{tracker} is not installed (envs/trackers.in)")


TRACKERS = [pytest.param(name, marks=installed(name)) for name in OPEN]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Log rows[first:last] into a tracker in a process of its own, as a run that resumes does."""
    monkeypatch.chdir(tmp_path)
    for name, value in ELSEWHERE.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "results" / "tiny" / "trackers" / "lora"

    def train(tracker: str, first: int, last: int, killed: bool = False):
        given = (tracker, folder, tmp_path / "a1b2c3d4" / "metrics.jsonl", first, last, killed)
        process = multiprocessing.get_context("fork").Process(target=log_rows, args=given)
        process.start()
        process.join()
        assert process.exitcode == (-signal.SIGKILL if killed else 0)
        return folder / tracker

    return train


def log_rows(tracker, folder, curves, first, last, killed):
    text = [json.dumps(row) + "\n" for row in ROWS]
    curves.parent.mkdir(exist_ok=True)
    curves.write_text("".join(text[:first]))
    track = Track(tracker, folder, SETTINGS, curves)
    args = TrainingArguments(output_dir="unused", use_cpu=True, report_to="none")
    for line in text[first:last]:
        with curves.open("a") as stream:
            stream.write(line)
        track.on_log(args, TrainerState(), None)
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    track.on_train_end(args, TrainerState(), None)


def read_dvclive(folder):
    files = (folder / "plots" / "metrics").rglob("*.tsv")
    found = {}
    for path in files:
        name = path.relative_to(folder / "plots" / "metrics").with_suffix("").as_posix()
        rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
        found[name] = [(int(step), float(value)) for step, value in rows]
    return found, (folder / "params.yaml").read_text()


def read_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    tags = events.Tags()["scalars"]
    settings = events.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    return {
        t: [(e.step, pytest.approx(e.value)) for e in events.Scalars(t)] for t in tags
    }, settings


def read_mlflow(folder):
    with sqlite3.connect(folder / "mlflow.db") as db:
        rows = db.execute("select key, step, value from metrics order by key, step").fetchall()
        settings = db.execute("select key, value from params").fetchall()
        assert db.execute("select count(*) from runs").fetchone() == (1,)
    return grouped(rows), str(settings)


def read_wandb(folder):
    from wandb.proto import wandb_internal_pb2

    [path] = folder.glob("wandb/offline-run-*/*.wandb")
    rows, settings = [], ""
    for data in leveldb_records(path.read_bytes()[7:]):
        record = wandb_internal_pb2.Record.FromString(data)
        if record.HasField("run"):
            settings = str(record.run.config)
        values = {i.key or i.nested_key[0]: i.value_json for i in record.history.item}
        step = record.history.step.num
        rows += [(k, step, float(v)) for k, v in values.items() if not k.startswith("_")]
    return grouped(rows), settings


def leveldb_records(data: bytes):
    """Records of a log of one block: checksum, length and kind before each."""
    while data:
        _, length, kind = struct.unpack("<IHB", data[:7])
        assert kind == 1
        yield data[7 : 7 + length]
        data = data[7 + length :]


def read_trackio(folder):
    [path] = folder.glob("*.db")
    with sqlite3.connect(path) as db:
        logged = db.execute("select step, metrics from metrics order by id").fetchall()
        settings = str(db.execute("select * from configs").fetchall())
    rows = [(k, step, v) for step, text in logged for k, v in json.loads(text).items()]
    return grouped(rows), settings


READ = {
    "dvclive": read_dvclive,
    "tensorboard": read_tensorboard,
    "mlflow": read_mlflow,
    "wandb": read_wandb,
    "trackio": read_trackio,
}


def grouped(rows) -> dict[str, list]:
    return {
        name: sorted((step, value) for key, step, value in rows if key == name)
        for name in {key for key, _, _ in rows}
    }


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker_holds_the_curves_and_the_settings_here_and_nowhere_else(run, tracker):
    found, settings = READ[tracker](run(tracker, 0, 4))
    assert found == WANTED
    assert "learning_rate" in settings
    assert "0.001" in settings


@pytest.mark.parametrize("tracker", TRACKERS)
def test_after_a_kill_a_tracker_holds_each_point_once(run, tracker):
    run(tracker, 0, 3, killed=True)
    found, _ = READ[tracker](run(tracker, 2, 4))
    assert found == WANTED


def git(folder, *arguments) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_dvclive_leaves_the_git_repository_around_it_alone(run, tmp_path):
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    run("dvclive", 0, 4)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".git", "a1b2c3d4", "results"]
    assert git(tmp_path, "diff", "--cached", "--name-only") == ""
    assert len(git(tmp_path, "for-each-ref").splitlines()) == 1


def test_a_tracker_that_is_not_installed_is_named_before_the_training(tmp_path):
    missing = [name for name in OPEN if importlib.util.find_spec(name) is None]
    if not missing:
        pytest.skip("all trackers are installed")
    with pytest.raises(UserError, match=rf"package '{missing[0]}' is not installed; pip install"):
        Track(missing[0], tmp_path, {}, tmp_path / "metrics.jsonl")
