"""Several adapters on one base, combined into one model that is benchmarked like any other."""

import json
import re
from collections import Counter

import pytest
from project import CONFIG, Project, write_project

RUN = CONFIG[CONFIG.index("  lora:") : CONFIG.index("evaluate:")].replace("12", "4")
HEAD = CONFIG[: CONFIG.index("      second:")] + "    split: {max_deviation: 0.2}\n"
MIDDLE = CONFIG[CONFIG.index("    format:") : CONFIG.index("runs:")]
TWO_RUNS = (
    HEAD
    + MIDDLE
    + "  both: {combine: {runs: {first: 0.5, second: 0.25}}}\n"
    + "runs:\n"
    + RUN.replace("lora:", "first:")
    + RUN.replace("lora:", "second:").replace("r: 4", "r: 2")
    + CONFIG[CONFIG.index("evaluate:") :].replace("limit: 6", "limit: 2")
)
MIXED = RUN.replace("lora:", "mixed:").replace("{r: 4}", "{kind: xlora, adapters: [first, second]}")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory, tiny_model) -> Project:
    folder = tmp_path_factory.mktemp("combine") / "project"
    write_project(folder, tiny_model)
    raw = folder / "raw/first.jsonl"
    raw.write_text("\n".join(raw.read_text().splitlines()[6:]) + "\n")
    (folder / "config/config.yaml").write_text(TWO_RUNS)
    return Project(folder).finish()


def test_the_combined_model_is_compared_with_the_base_of_its_runs(two_runs):
    results = two_runs.folder / "results/tiny"
    report = json.loads((results / "report/report.json").read_text())
    assert report["models"]["both"]["runs"] == ["first", "second"]
    rows = report["models"]["both"]["comparison"]
    assert {row["task"] for row in rows} == {"kind", "general"}
    assert all(row["verdict"] != "not comparable" for row in rows)
    assert [row["base"] for row in rows] == [
        row["base"] for row in report["runs"]["first"]["comparison"]
    ]
    assert "both: made of first, second" in two_runs.output
    html = (results / "report/report.html").read_text()
    assert re.search(r"model made of first and\s+second", html)


def test_the_combined_model_is_ready_to_be_pushed(two_runs):
    folder = two_runs.folder / "results/tiny/models/both"
    names = {path.name for path in folder.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"} <= names
    card = (folder / "README.md").read_text()
    assert "## Run first" in card and "## Run second" in card
    assert "dataset `facts`" in card


def test_other_weights_rerun_the_combination_and_what_follows(two_runs, tmp_path):
    assert two_runs.planned() == Counter()
    project = two_runs.copy(tmp_path / "a copy")
    project.edit("config/config.yaml", "second: 0.25", "second: 0.5")
    wanted = ("fetch_model", "benchmark", "measure_heldout", "compare_run", "write_report", "all")
    assert project.planned() == Counter(dict.fromkeys(wanted, 1))
    project.edit("scripts/anneal/training/scratch.py", "BATCH = 1_000", "BATCH = 999")
    assert project.planned() == Counter(dict.fromkeys(wanted, 1))


def test_a_mixing_classifier_is_trained_on_the_adapters_of_two_runs(two_runs, tmp_path):
    project = two_runs.copy(tmp_path / "a copy")
    project.edit("config/config.yaml", "evaluate:", MIXED + "evaluate:")
    wanted = ("train_run", "benchmark", "measure_heldout", "compare_run", "write_report", "all")
    assert project.planned() == Counter(dict.fromkeys(wanted, 1))
    done = project.run("train")
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((project.folder / "results/tiny/runs/mixed/manifest.json").read_text())
    assert {"adapter-0", "adapter-1"} <= manifest["inputs"].keys()
    assert manifest["facts"]["logit_difference"] < 1e-4
    project.edit("config/config.yaml", "r: 2", "r: 3")
    assert project.planned("train")["train_run"] == 2
