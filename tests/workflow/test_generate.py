"""Generated rows in a DAG: they are read like any other source, and asked for once."""

import json
import subprocess
import sys
from collections import Counter

import pyarrow.parquet as pq
import pytest
from answering import answering
from project import Project, write_project

SOURCE = """\
      invented:
        generate: {seeds: raw/seeds.jsonl, count: 12, model: m, url: URL, round: 4}
"""


@pytest.fixture(scope="module")
def server():
    with answering() as server:
        yield server


@pytest.fixture(scope="module")
def generated(tmp_path_factory, tiny_model, server) -> Project:
    """A project with a generated source, whose data are prepared."""
    folder = tmp_path_factory.mktemp("runs") / "a generator"
    write_project(folder, tiny_model)
    project = Project(folder)
    seeds = [{"instruction": f"Say {word} aloud.", "output": word} for word in ("one", "two")]
    (folder / "raw/seeds.jsonl").write_text("".join(json.dumps(seed) + "\n" for seed in seeds))
    source = SOURCE.replace("URL", server.url)
    project.edit("config/config.yaml", "    shard_mb", f"{source}    shard_mb")
    done = project.run("data")
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def test_every_generated_row_is_in_the_ledger(generated):
    data = generated.folder / "results/tiny/data/facts"
    ledger = pq.read_table(data / "ledger.parquet").to_pylist()
    rows = [row for row in ledger if row["source"] == "invented"]
    assert [row["line"] for row in rows] == list(range(1, 13))
    assert {row["file"] for row in rows} == {"results/tiny/data/facts/generated/invented.jsonl"}
    facts = json.loads((data / "generated/invented.manifest.json").read_text())["facts"]
    assert facts["read"] == facts["kept"] + sum(facts["rejected"].values()) == 24


def test_the_ancestry_of_a_generated_row_leads_to_its_seeds(generated):
    data = generated.folder / "results/tiny/data/facts"
    read = json.loads((data / "records/invented-00000.manifest.json").read_text())
    assert list(read["paths"].values()) == ["results/tiny/data/facts/generated/invented.jsonl"]
    made = json.loads((data / "generated/invented.manifest.json").read_text())
    assert set(made["sources"]) == {"seeds"}
    assert made["outputs"]["invented.jsonl"] == read["inputs"]["generated"]
    trace = [sys.executable, "scripts/trace.py", str(data / "records/invented-00000.manifest.json")]
    told = subprocess.run(trace, cwd=generated.folder, capture_output=True, text=True)
    assert "generate data/facts/generated/invented" in told.stdout, told.stderr
    assert f"from seeds {made['sources']['seeds'][:12]}" in told.stdout


def test_nothing_is_asked_again_whatever_is_changed_or_lost(generated, server):
    asked = len(server.asked)
    assert generated.planned("data") == Counter()
    generated.edit("config/config.yaml", "round: 4}", "round: 4, concurrency: 2, timeout: 9}")
    assert generated.planned("data") == Counter()
    generated.edit("config/config.yaml", "count: 12", "count: 8")
    planned = generated.planned("data")
    assert (planned["generate"], planned["read_shard"]) == (1, 1)
    done = generated.run("results/tiny/data/facts/generated/invented.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(server.asked) == asked


def test_a_changed_seed_is_generated_from_anew(generated):
    with (generated.folder / "raw/seeds.jsonl").open("a") as file:
        file.write(json.dumps({"instruction": "Say three aloud.", "output": "three"}) + "\n")
    assert generated.planned("data")["generate"] == 1
