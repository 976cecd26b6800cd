"""A real PostgreSQL server of this machine: streaming, noticed changes, and no word of the URL."""

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from reading import read_source
from tiny import REPOSITORY

from anneal.config.sources import Source
from anneal.errors import UserError
from anneal.sources.shards import DigestCache, plan_shards

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
PASSWORD, USER = "s3cr3t%40word", "owner_of_notes"
ROWS = 50_000
QUERY = "select question as instruction, answer as output, kind as category from notes order by id"

pytestmark = pytest.mark.skipif(
    not PROGRAMS or not (PROGRAMS[-1] / "initdb").is_file(),
    reason="no PostgreSQL server is installed (Debian: apt install postgresql)",
)


def as_service() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def initialise(folder: Path) -> None:
    password = folder / "password"
    password.write_text("s3cr3t@word")
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        for path in (folder, password):
            os.chown(path, account.pw_uid, account.pw_gid)
    command = [*as_service(), str(PROGRAMS[-1] / "initdb"), "-D", str(folder / "data")]
    options = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "-N"]
    subprocess.run([*command, *options], check=True, capture_output=True, cwd=folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server on a free port of the loopback, with a table of notes; `run` executes SQL."""
    import tempfile

    import sqlalchemy

    # not below pytest's folder, which only its owner may enter
    folder = Path(tempfile.mkdtemp(prefix="anneal-postgres-"))
    initialise(folder)
    port = free_port()
    options = ["-h", "127.0.0.1", "-p", str(port), "-k", str(folder), "-c", "fsync=off"]
    command = [*as_service(), str(PROGRAMS[-1] / "postgres"), "-D", str(folder / "data")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log, cwd=folder)
    url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
    engine = sqlalchemy.create_engine(url.replace("postgresql", "postgresql+psycopg"))

    def run(statement: str) -> None:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement))

    try:
        wait_for(lambda: run("select 1"), folder / "log")
        run("create table notes (id serial, question text, answer text, kind text, at timestamptz)")
        run(
            "insert into notes (question, answer, kind, at) select 'What is ' || n || ' + 1?',"
            f" (n + 1)::text, 'sum', now() from generate_series(1, {ROWS}) n"
        )
        yield SimpleNamespace(url=url, run=run, port=port)
    finally:
        engine.dispose()
        stop(folder, process)


def wait_for(connect, log: Path) -> None:
    for _ in range(150):
        try:
            return connect()
        except Exception:
            time.sleep(0.2)
    raise AssertionError(log.read_text())


def stop(folder: Path, process: subprocess.Popen) -> None:
    import signal

    pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGINT)
    process.wait(30)
    shutil.rmtree(folder)


@pytest.fixture
def source(server, monkeypatch):
    monkeypatch.setenv("NOTES_URL", server.url)
    return Source(url_env="NOTES_URL", query=QUERY)


def plan(source, tmp_path):
    return plan_shards("notes", source, "instruction", 64, DigestCache(tmp_path / "digests.json"))


def test_rows_are_streamed_whole_and_in_order(source, tmp_path):
    records, rejects, counts = read_source(source, tmp_path)
    assert counts["read"] == ROWS
    assert rejects == []
    assert [r["line"] for r in records] == list(range(1, ROWS + 1))
    assert records[-1]["output"] == str(ROWS + 1)
    assert {r["file"] for r in records} == {"$NOTES_URL[s]"}


def test_only_a_batch_of_rows_is_held(source):
    """The server sends a few thousand rows of a query that would fill the memory."""
    from anneal.sources.database import query_rows

    piece = {"format": "sql", "file": "NOTES_URL"}
    endless = "select repeat('x', 1000) as output from notes a, notes b"
    start = time.monotonic()
    rows = query_rows(piece, endless)
    assert [next(rows)[0] for _ in range(3000)][-1] == 3000
    rows.close()
    assert time.monotonic() - start < 20


def test_a_changed_table_is_noticed(source, server, tmp_path):
    watched = source.model_copy(update={"change_query": "select count(*), max(at) from notes"})
    before, blind = plan(watched, tmp_path), plan(source, tmp_path)
    assert plan(watched, tmp_path) == before
    server.run("insert into notes (question, answer, at) values ('New?', 'Yes.', now())")
    try:
        assert plan(watched, tmp_path) != before
        assert plan(source, tmp_path) == blind
        again = source.model_copy(update={"snapshot": "later"})
        assert plan(again, tmp_path) != blind
    finally:
        server.run("delete from notes where question = 'New?'")


def test_json_columns_numbers_and_nulls_arrive_as_they_are(source, tmp_path):
    query = """select '[{"role": "user", "content": "Hi"}]'::jsonb as messages, 1.50::numeric as n,
        null as nothing, timestamptz '2026-01-02 03:04:05+00' as at, 12345678901234567890123 as big
    """
    chat = source.model_copy(update={"query": query})
    records, rejects, _ = read_source(chat, tmp_path, "chat")
    assert rejects == []
    assert records[0]["messages"][0]["content"] == "Hi"
    extra = json.loads(records[0]["extra"])
    assert (extra["n"], extra["nothing"], extra["big"]) == ("1.50", None, "12345678901234567890123")


@pytest.mark.parametrize(
    "query", ["delete from notes returning question", "select setval('notes_id_seq', 1)"]
)
def test_nothing_can_be_written(source, tmp_path, query):
    with pytest.raises(UserError, match=r"read-only|syntax error"):
        read_source(source.model_copy(update={"query": query}), tmp_path)
    assert read_source(source, tmp_path)[2]["read"] == ROWS


def test_a_wrong_query_is_one_clear_error(source, tmp_path):
    with pytest.raises(UserError, match=r"\$NOTES_URL: .*\"nope\" does not exist") as error:
        read_source(source.model_copy(update={"query": "select * from nope"}), tmp_path)
    assert "\n" not in str(error.value)


def step_of(source, tmp_path) -> str:
    settings = {"kind": "instruction", **source.reading()}
    piece = plan(source, tmp_path)[0].as_source()
    return json.dumps({"settings": settings, "code": "", "sources": piece})


def run_step(step: str, url: str, out: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "scripts/read_shard.py", "--step", step]
    for name in ("records", "rejects", "manifest", "log"):
        command += [f"--{name}", str(out / name)]
    environment = os.environ | {"NOTES_URL": url}
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)


def everything(done: subprocess.CompletedProcess, out: Path) -> str:
    files = [p for p in out.rglob("*") if p.is_file()]
    tables = [str(pq.read_table(p).to_pylist()[:3]) for p in files if p.suffix == ""
              and p.read_bytes()[:4] == b"PAR1"]  # fmt: skip
    raw = [p.read_bytes().decode("utf-8", "replace") for p in files]
    return "\n".join([done.stdout, done.stderr, *tables, *raw])


@pytest.mark.parametrize(
    ("query", "spoil"),
    [
        (QUERY, lambda url, port: url),
        ("select * from nope", lambda url, port: url),
        (f"select * from {USER}_x", lambda url, port: url),
        (QUERY, lambda url, port: url.replace("s3cr3t", "wr0ng-s3cr3t")),
        (QUERY, lambda url, port: url.replace(str(port), "1")),
        (QUERY, lambda url, port: url.replace(str(port), "s3cr3t")),
        (QUERY, lambda url, port: url.replace("/postgres", "/no_such_base")),
        (QUERY, lambda url, port: url.replace("postgresql:", "postgraesql:")),
        (QUERY, lambda url, port: url.replace("://", ":/")),
    ],
)
def test_neither_url_nor_password_is_written_anywhere(source, server, tmp_path, query, spoil):
    source = source.model_copy(update={"query": query})
    url, out = spoil(server.url, server.port), tmp_path / "out"
    done = run_step(step_of(source, tmp_path), url, out)
    assert (done.returncode == 0) == (url == server.url and query == QUERY), done.stderr
    written = everything(done, out)
    assert "NOTES_URL" in written
    for secret in (url, PASSWORD, "s3cr3t", "127.0.0.1", "no_such_base"):
        assert secret not in written
    if done.returncode:
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("error: $NOTES_URL")
