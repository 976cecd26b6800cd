"""Preference pairs from a raw file to a model that learned from them, as one DAG."""

import json
import random
from collections import Counter

import pytest
from project import Project, write_project

TRAINING = """\
    threads: 1
    tuning: {r: 4}
    training:
      precision: fp32
      learning_rate: 1e-3
      max_steps: 2
      per_device_train_batch_size: 2
      gradient_accumulation_steps: 1
      logging_steps: 1
      save_steps: 2
"""

CONFIG = f"""\
project: tiny
datasets:
  facts:
    sources: {{first: {{path: raw/first.jsonl}}}}
    max_reject_share: 0.2
    split: {{max_deviation: 0.2}}
    tokenize: {{max_length: 96}}
  taste:
    kind: preference
    sources: {{pairs: {{path: raw/pairs.jsonl}}}}
    split: {{max_deviation: 0.2}}
    tokenize: {{max_length: 96}}
models:
  base: {{path: models/base}}
  facts-sft: {{run: sft}}
runs:
  sft:
    dataset: facts
    model: base
{TRAINING}
  aligned:
    dataset: taste
    model: facts-sft
    method: dpo
{TRAINING}
  judge:
    dataset: taste
    model: facts-sft
    method: reward
{TRAINING}
"""


def pair(i: int) -> dict:
    words = random.Random(i).sample(["river", "metal", "bird", "town", "tree", "gem", "fish"], 4)
    return {
        "prompt": f"Which {words[0]} or {words[1]} has number {i}, and which {words[2]}?",
        "chosen": f"That {words[3]} has number {i}.",
        "rejected": f"No {words[3]} has any number, {i} times no.",
    }


@pytest.fixture(scope="module")
def aligned(tmp_path_factory, tiny_model) -> Project:
    """A project with an sft run, a dpo run on its result, and a reward model."""
    folder = tmp_path_factory.mktemp("preferences") / "a project"
    write_project(folder, tiny_model)
    (folder / "config" / "config.yaml").write_text(CONFIG)
    rows = "".join(json.dumps(pair(i)) + "\n" for i in range(60))
    (folder / "raw" / "pairs.jsonl").write_text(rows + rows.splitlines()[0] + "\n{}\n")
    return Project(folder).finish()


def manifest(project: Project, path: str) -> dict:
    return json.loads((project.folder / "results/tiny" / path / "manifest.json").read_text())


def test_pairs_go_from_a_raw_file_to_a_model_that_learned_from_them(aligned):
    run, start = manifest(aligned, "runs/aligned"), manifest(aligned, "models/facts-sft")
    assert run["facts"]["steps"] == 2
    assert run["facts"]["reference"]["model"] == "facts-sft"
    assert start["settings"]["model"]["run"] == "sft"
    assert len(start["inputs"]) == 2  # the run, and the splits that its card tells of


def test_a_reward_model_is_trained_and_never_benchmarked(aligned, tmp_path):
    assert manifest(aligned, "runs/judge")["facts"]["steps"] == 2
    project = aligned.copy(tmp_path / "with a task")
    with (project.folder / "config" / "config.yaml").open("a") as config:
        config.write("evaluate: {include: tasks, tasks: {general: {metric: acc}}}\n")
    planned = project.planned()
    assert planned["compare_run"] == 2, "sft and aligned"
    assert planned["benchmark"] == 4, "and what each of them started from"


def test_the_report_shows_pairs_and_what_became_of_their_rewards(aligned):
    report = json.loads((aligned.folder / "results/tiny/report/report.json").read_text())
    funnel = report["datasets"]["taste"]["funnel"]["pairs"]
    assert (funnel["read"], funnel["rejected"], funnel["dropped"]) == (62, 1, 1)
    page = (aligned.folder / "results/tiny/report/report.html").read_text()
    assert "rejected answer" in page
    assert "fig-reward-aligned" in page
    assert "fig-reward-judge" in page
    assert "fig-reward-sft" not in page


def test_a_finished_project_has_nothing_to_do(aligned):
    assert aligned.planned() == Counter()
