"""A whole DAG with one streamed dataset and one that is stored."""

import json
from collections import Counter
from itertools import chain, islice
from pathlib import Path

import pytest
from project import Project, fact, write_project

from anneal.arrow_dataset import read_arrow_dataset
from anneal.streaming.sequences import training_sequences

STREAMED = """\
    deduplicate: {near: false}
    stream: {eval_rows: 6, test_rows: 4, buffer_rows: 30}
"""
STORED = """\
  few:
    sources:
      second:
        path: raw/second.db
        query: select q, a, kind from facts order by rowid
        columns: {instruction: q, output: a, category: kind}
    split: {max_deviation: 0.5}
"""


@pytest.fixture(scope="module")
def streamed(tmp_path_factory, tiny_model) -> Project:
    """A project that ran to its report, with a dataset of each way."""
    folder = tmp_path_factory.mktemp("runs") / "a stream"
    write_project(folder, tiny_model)
    project = Project(folder)
    project.edit("config/config.yaml", "    shard_mb: 0.004\n", STREAMED)
    project.edit("config/config.yaml", "models:\n", f"{STORED}models:\n")
    project.finish()
    assert project.run("data").returncode == 0  # held-out rows of the dataset that no run uses
    return project


def test_a_stream_runs_from_raw_files_to_the_report(streamed):
    root = streamed.folder / "results/tiny"
    report = json.loads((root / "report/report.json").read_text())
    facts = report["datasets"]["facts"]
    assert facts["counted_by"] == "lora"
    funnel = facts["funnel"]
    assert (funnel["first"]["rejected"], funnel["first"]["dropped"]) == (1, 1)
    for source in funnel.values():
        assert source["read"] == source["kept"] + source["rejected"] + source["dropped"]
    run = report["runs"]["lora"]
    assert run["manifest"]["facts"]["stream"]["funnel"] == funnel
    assert run["manifest"]["facts"]["steps"] == 12
    assert run["tokens"]["test"]["rows"] == 4
    assert run["masks"]
    assert report["datasets"]["few"]["counted_by"] is None
    page = (root / "report/report.html").read_text()
    assert page.count("This dataset is streamed") == 1
    assert page.count("Gates: what must hold") == 2  # label and caption of the stored one
    assert f"Data facts: {sum(s['read'] for s in funnel.values())} read" in streamed.output


def test_nothing_of_a_stream_is_stored_but_its_sample(streamed):
    root = streamed.folder / "results/tiny"
    names = sorted(p.name for p in (root / "data/facts").iterdir())
    assert names == [
        *("heldout.jsonl", "plan.json", "sample.manifest.json", "sample.parquet"),
        "sample.rejects.jsonl",
    ]
    assert [p.name for p in (root / "tokens/facts/base").iterdir()] == ["splits"]
    assert (root / "data/few/ledger.parquet").is_file()


def test_no_streamed_row_that_is_scored_is_trained_on(streamed, monkeypatch):
    monkeypatch.chdir(streamed.folder)
    root = Path("results/tiny")
    heldout = (root / "data/facts/heldout.jsonl").read_text().splitlines()
    evaluated = read_arrow_dataset(root / "tokens/facts/base/splits/eval")["ids"].to_pylist()
    judged = {json.loads(line)["id"] for line in heldout} | set(chain(*evaluated))
    assert len(judged) == 4 + 6
    stream = root / "tokens/facts/base/splits/stream.json"
    trained = islice(training_sequences(stream, Path("models/base"), seed=1), 200)
    assert not judged & set(chain(*(sequence["ids"] for sequence in trained)))


def test_a_second_run_has_nothing_to_do(streamed):
    assert streamed.planned() == Counter()


def test_an_appended_row_reruns_the_stream_and_its_training_alone(streamed, tmp_path):
    project = streamed.copy(tmp_path / "a copy")
    with (project.folder / "raw/first.jsonl").open("a") as file:
        file.write(json.dumps(fact(500)) + "\n")
    after = {"train_run": 1, "benchmark": 2, "measure_heldout": 2, "compare_run": 1}
    assert project.planned() == Counter(
        {"sample_stream": 1, "write_stream": 1, **after, "write_report": 1, "all": 1}
    )
    done = project.run("train")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.planned("data") == Counter()
    counts = json.loads((project.folder / "results/tiny/runs/lora/counts.json").read_text())
    assert counts["funnel"]["first"]["read"] == 92


def test_a_changed_text_form_rereads_no_row_before_training(streamed, tmp_path):
    project = streamed.copy(tmp_path / "a copy")
    project.edit("config/config.yaml", "format: {style: chat}", "format: {style: alpaca}")
    planned = project.planned()
    assert planned["write_stream"] == planned["train_run"] == 1
    assert planned["sample_stream"] == 0
