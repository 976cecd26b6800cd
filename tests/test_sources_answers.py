"""A `change_query` is asked once a run: jobs inherit the answer that their run was planned with."""

import os
import shutil
import sqlite3
import subprocess
import sys

import pytest
from tiny import REPOSITORY

from anneal.config.schema import Config, load_config
from anneal.config.sources import Source
from anneal.sources import database
from anneal.sources.shards import DigestCache, plan_shards
from anneal.workflow import ANSWERS, Steps

COUNT = "select count(*) from notes"
CONFIG = f"""\
project: p
datasets:
  d:
    sources:
      notes: {{url_env: NOTES_URL, query: select 1 as text, change_query: {COUNT}}}
models:
  m: {{path: m}}
"""


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """A database with an empty table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOTES_URL", f"sqlite:///{tmp_path}/notes.db")
    monkeypatch.setenv(ANSWERS, "{}")  # undone afterwards, whatever is set meanwhile
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text(CONFIG)
    db = sqlite3.connect(tmp_path / "notes.db", isolation_level=None)
    db.execute("create table notes (text)")
    return db


def planned(config: Config, main: bool) -> str:
    return Steps(config, main).shards["d"][0].digest


def test_a_job_plans_what_its_run_planned_though_the_table_changed(notes):
    config = load_config("config/config.yaml")
    before = planned(config, main=True)
    notes.execute("insert into notes values ('meanwhile')")
    assert planned(config, main=False) == before
    assert planned(config, main=True) != before


def test_equal_questions_are_asked_once(notes, tmp_path, monkeypatch):
    asked, ask = [], database._answer
    monkeypatch.setattr(database, "_answer", lambda *given: asked.append(given) or ask(*given))
    answers = {}
    for query in ("select 1 as text", "select 2 as text"):
        source = Source(url_env="NOTES_URL", query=query, change_query=COUNT)
        plan_shards("s", source, "text", 64, DigestCache(tmp_path / "none"), answers)
    assert len(asked) == 1


def snakemake(folder, *mode: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1", *mode]
    target = "results/p/data/d/records/notes-00000.parquet"
    return subprocess.run(
        [*command, target], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_process_that_snakemake_starts_for_a_job_asks_nothing(notes, tmp_path, monkeypatch):
    for part in ("Snakefile", "rules", "scripts", "profiles"):
        copy = shutil.copytree if (REPOSITORY / part).is_dir() else shutil.copy
        copy(REPOSITORY / part, tmp_path / part)
    planned(load_config("config/config.yaml"), main=True)
    assert os.environ[ANSWERS] != "{}"
    monkeypatch.setenv("NOTES_URL", "sqlite:////nowhere/notes.db")
    job = snakemake(tmp_path, "--mode", "remote")
    assert (job.returncode, "read_shard" in job.stdout) == (0, True), job.stderr
    assert "$NOTES_URL: the database cannot be reached" in snakemake(tmp_path).stderr
