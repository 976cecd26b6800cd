"""Rows from an endpoint: a real server on the loopback that is busy, breaks off, or errs."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from answering import answering, completion
from tenacity import wait_none
from tiny import REPOSITORY

from anneal.config.generate import Generate
from anneal.errors import UserError
from anneal.generating import endpoint
from anneal.generating.endpoint import Endpoint
from anneal.generating.generate import generate
from anneal.generating.journal import Journal

KEY = "sk-s3cr3t"
BODY = {"model": "m", "messages": [], "seed": 5}


@pytest.fixture
def server():
    with answering() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(endpoint, "WAIT", wait_none())


def status(code: int, data: bytes = b"{}", **headers: str):
    return lambda handler: handler.give(data, code, **headers)


def text(data: bytes):
    return lambda handler: handler.give(data)


def cut(handler):
    handler.give(b'{"choices": [', length=1000)


def slow(handler):
    time.sleep(0.6)


def ask(server, **given) -> dict:
    return Endpoint(server.url, given.get("key_env"), given.get("timeout", 5))(BODY)


@pytest.mark.parametrize(
    "fault",
    [
        *(status(code) for code in (408, 429, 500, 502, 503, 529)),
        *map(text, (b"", b"<html>", b"[]", b'{"choices": []}', b'{"choices": [{"message": 3}]}')),
        *(cut, slow),
    ],
)
def test_what_passes_is_tried_again(server, fault):
    server.faults = [fault, fault]
    answer = ask(server, timeout=0.3 if fault is slow else 5)
    assert answer["text"] == completion(5)["choices"][0]["message"]["content"]
    assert (answer["finish"], answer["prompt_tokens"], answer["answer_tokens"]) == ("stop", 100, 40)
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (status(400), "answers 400 Bad Request; check the settings"),
        (status(401, KEY.encode()), "answers 401 Unauthorized; export a valid key"),
        (status(404), "answers 404 Not Found; check 'url' and 'model'"),
        (status(302, Location="http://127.0.0.1:9/"), "answers 302 Found"),
        (status(429, Retry_After="3600"), "429 Too Many Requests and asks to wait 3600 s"),
    ],
)
def test_what_does_not_pass_is_told_at_once_and_without_the_key(server, fault, what, monkeypatch):
    monkeypatch.setenv("THE_KEY", KEY)
    server.faults = [fault]
    with pytest.raises(UserError, match=what) as told:
        ask(server, key_env="THE_KEY")
    assert KEY not in str(told.value)
    assert len(server.asked) == 1
    assert server.asked[0][2]["Authorization"] == f"Bearer {KEY}"


def test_a_server_that_stays_down_is_given_up(server):
    server.faults = [status(500)] * 99
    with pytest.raises(UserError, match=r"answers 500 .*run again later: answers so far are kept"):
        ask(server)
    assert len(server.asked) == endpoint.TRIES


def test_nobody_at_an_address_is_told():
    with pytest.raises(UserError, match="cannot be reached"):
        Endpoint("http://127.0.0.1:9/v1", None, 1)(BODY)


@pytest.mark.parametrize("value", ["", "two\nlines"])
def test_a_key_that_is_none_is_refused_before_anything_is_asked(monkeypatch, value):
    monkeypatch.setenv("THE_KEY", value)
    with pytest.raises(UserError, match=r"\$THE_KEY: (is not set|holds no key)"):
        Endpoint("http://127.0.0.1:9/v1", "THE_KEY", 1)


def test_a_rate_limit_holds_all_requests_back_for_as_long_as_the_server_asks(server, tmp_path):
    server.faults = [status(429, Retry_After="1")]
    journal = Journal(tmp_path / "journal", Endpoint(server.url, None, 5), server.url, 1)
    journal.answers([BODY, {**BODY, "seed": 6}])
    first, second, third = (moment for moment, *_ in server.asked)
    assert 0.95 < second - first < 3
    assert third >= second


def settings(server, **change) -> Generate:
    seeds = str(REPOSITORY / "data/raw/seed_tasks.jsonl")
    given = {"seeds": seeds, "count": 25, "model": "m", "url": server.url, "round": 6}
    return Generate(**(given | change))


def generated(section: Generate, folder, at_once: int = 4) -> tuple[dict, bytes]:
    """Counts of one go in a folder, and the bytes it wrote."""
    folder.mkdir(exist_ok=True)
    ask = Endpoint(section.url, None, 5)
    journal = Journal(folder / "journal.jsonl", ask, section.url, at_once)
    paths = folder / "tasks.jsonl", folder / "rejects.jsonl"
    counts = generate(section.settings(), journal, section.max_requests, *paths)
    return counts, b"".join(path.read_bytes() for path in paths)


def test_counts_add_up_and_every_row_says_where_it_comes_from(server, tmp_path):
    counts, _ = generated(settings(server), tmp_path)
    kept = [json.loads(line) for line in (tmp_path / "tasks.jsonl").open()]
    rejected = [json.loads(line) for line in (tmp_path / "rejects.jsonl").open()]
    assert (counts["kept"], counts["requests"], counts["asked"]) == (25, 18, 18)
    assert counts["rejected"] == {"instruction too short": 12, "not needed": 17}
    assert counts["read"] == len(kept) + len(rejected) == 3 * counts["requests"]
    assert (counts["prompt_tokens"], counts["answer_tokens"]) == (1800, 720)
    answered = [json.loads(line)["request"] for line in (tmp_path / "journal.jsonl").open()]
    assert {row["request"] for row in kept + rejected} == set(answered)
    assert len({row["id"] for row in kept + rejected}) == counts["read"]
    assert all(len(row["shown"]) == 8 and row["rouge_l"] < 0.7 for row in kept)
    earlier = {row["id"] for row in kept}
    assert any(set(row["shown"]) & earlier for row in kept)


def test_the_order_of_answers_changes_nothing(server, tmp_path):
    _, one = generated(settings(server), tmp_path / "one", at_once=1)
    assert server.busiest == 1
    server.seconds = 0.02
    _, many = generated(settings(server), tmp_path / "many", at_once=6)
    assert server.busiest > 1
    assert one == many


def test_a_second_go_asks_nothing_and_writes_the_same(server, tmp_path):
    _, first = generated(settings(server), tmp_path)
    before = len(server.asked)
    counts, second = generated(settings(server), tmp_path)
    assert (counts["asked"], len(server.asked), first) == (0, before, second)


def test_more_tasks_ask_only_for_what_is_missing(server, tmp_path):
    few, _ = generated(settings(server), tmp_path)
    more, _ = generated(settings(server, count=60), tmp_path)
    assert more["asked"] == more["requests"] - few["requests"]
    assert set(server.answered.values()) == {1}


def test_too_few_tasks_are_told_with_reasons_and_what_was_got_is_kept(server, tmp_path):
    told = "6 requests brought 12 of 25 tasks .*6 instruction too short.*raise max_requests"
    with pytest.raises(UserError, match=told):
        generated(settings(server, max_requests=6), tmp_path)
    assert not (tmp_path / "tasks.jsonl").exists()
    counts, _ = generated(settings(server), tmp_path)
    assert counts["asked"] == counts["requests"] - 6


def test_an_error_in_a_round_keeps_the_answers_beside_it(server, tmp_path):
    server.faults = [None, status(400)]
    with pytest.raises(UserError, match="400"):
        generated(settings(server), tmp_path, at_once=1)
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert 1 <= len(lines) == server.answered.total() <= 5


def command(section: Generate, folder) -> list[str]:
    names = ("journal", "output", "rejects", "manifest")
    paths = [part for name in names for part in (f"--{name}", str(folder / f"{name}.json"))]
    step = {"settings": section.settings(), "code": "c", "sources": {}}
    manner = ("--manner", json.dumps(section.manner()), "--log", str(folder / "log"))
    script = str(REPOSITORY / "scripts/generate.py")
    return [sys.executable, script, "--step", json.dumps(step), *manner, *paths]


def test_killed_again_and_again_it_asks_nothing_twice_and_ends_with_the_same_bytes(
    server, tmp_path, monkeypatch
):
    monkeypatch.setenv("THE_KEY", KEY)
    section = settings(server, count=60, key_env="THE_KEY", concurrency=3, prompt_price=2)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    subprocess.run(command(section, tmp_path / "whole"), check=True)
    whole = dict(server.answered)
    server.answered.clear()
    server.seconds, kills, journal = 0.05, 0, tmp_path / "killed/journal.json"
    while kills < 3:
        lines = len(journal.read_bytes().splitlines()) if journal.exists() else 0
        process = subprocess.Popen(command(section, tmp_path / "killed"))
        while not journal.exists() or len(journal.read_bytes().splitlines()) < lines + 4:
            assert process.poll() is None
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    with journal.open("a") as file:
        file.write('{"request": "half a li')
    kept = [json.loads(line)["request"] for line in journal.read_bytes().splitlines()[:-1]]
    asked = len(server.asked)
    subprocess.run(command(section, tmp_path / "killed"), check=True)
    for name in ("output.json", "rejects.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
    lines = [json.loads(line)["request"] for line in journal.read_text().splitlines()]
    assert lines[: len(kept)] == kept
    assert len(lines) == len(set(lines)) == len(whole)
    assert len(server.asked) - asked == len(whole) - len(kept)
    facts = json.loads((tmp_path / "killed/manifest.json").read_text())["facts"]
    assert facts["cost"] == round(facts["prompt_tokens"] * 2 / 1e6, 6)
    texts = "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())
    assert KEY not in texts
