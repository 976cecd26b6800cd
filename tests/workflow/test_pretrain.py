"""From raw text to the report without any model to start from."""

import json

import pytest
from project import Project, write_project
from transformers import AutoModelForCausalLM, AutoTokenizer

CONFIG = """\
project: tiny
datasets:
  notes:
    kind: text
    sources: {raw: {path: raw/notes.jsonl}}
    split: {max_deviation: 0.2}
    tokenize: {max_length: 32, truncation: split}
models:
  new:
    scratch:
      dataset: notes
      vocab_size: 320
      config: {hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1,
        num_attention_heads: 2, num_key_value_heads: 1, max_position_embeddings: 64}
runs:
  first-words:
    dataset: notes
    model: new
    method: pretrain
    tuning: {kind: full}
    threads: 1
    training: {precision: fp32, learning_rate: 3e-3, max_steps: 20, eval_steps: 10, save_steps: 10,
      per_device_train_batch_size: 2, gradient_accumulation_steps: 1, logging_steps: 5}
evaluate:
  include: tasks
  threads: 1
  tasks:
    general: {metric: acc, limit: 2}
"""


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory, tiny_model) -> Project:
    folder = tmp_path_factory.mktemp("pretrain") / "project"
    write_project(folder, tiny_model)
    words = ("river", "metal", "bird", "town", "tree", "gem", "fish")
    texts = (f"Note {n}: the {words[n % 7]} is {n * 37 % 101} years old." for n in range(90))
    rows = [{"text": text} for text in texts]
    (folder / "raw/notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config/config.yaml").write_text(CONFIG)
    project = Project(folder)
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def test_a_new_model_learns_from_raw_text_up_to_the_report(pretrained):
    results = pretrained.folder / "results/tiny"
    report = json.loads((results / "report/report.json").read_text())
    run = report["runs"]["first-words"]
    losses = [row["eval_loss"] for row in run["curves"] if "eval_loss" in row]
    assert losses[-1] < losses[0] - 0.2
    assert run["manifest"]["facts"]["trained_weights"] == run["manifest"]["facts"]["weights"]
    assert [row["task"] for row in run["comparison"]] == ["general"]
    folder = results / "runs/first-words/model"
    assert len(AutoTokenizer.from_pretrained(folder)) == 320
    assert AutoModelForCausalLM.from_pretrained(folder).config.vocab_size == 320


def test_new_text_trains_the_tokenizer_again_and_a_new_rate_does_not(pretrained, tmp_path):
    assert not pretrained.planned()
    project = pretrained.copy(tmp_path / "a copy")
    project.edit("config/config.yaml", "learning_rate: 3e-3", "learning_rate: 2e-3")
    assert project.planned()["fetch_model"] == 0
    assert project.planned()["train_run"] == 1
    with (project.folder / "raw/notes.jsonl").open("a") as file:
        file.write(json.dumps({"text": "A last note on a mountain of salt."}) + "\n")
    planned = project.planned()
    assert planned["fetch_model"] == planned["train_run"] == 1
