"""The three stages of PPO as one DAG: sft teaches, pairs make a reward model, ppo follows it."""

import json

import pytest
from project import Project, fact, write_project

CONFIG = """\
project: tiny
datasets:
  facts:
    sources: {made: {path: raw/facts.jsonl}}
    tokenize: {max_length: 96}
    split: &split {max_deviation: 0.2}
  pairs:
    kind: preference
    sources: {made: {path: raw/pairs.jsonl}}
    tokenize: {max_length: 96}
    split: *split
  questions:
    kind: prompts
    sources: {made: {path: raw/questions.jsonl}}
    tokenize: {max_length: 96}
    split: *split
models:
  base: {path: models/base}
  taught: {run: sft}
runs:
  sft: &run
    dataset: facts
    model: base
    threads: 1
    tuning: {r: 4}
    training: &training
      precision: fp32
      learning_rate: 1e-3
      max_steps: 2
      per_device_train_batch_size: 4
      gradient_accumulation_steps: 1
      logging_steps: 1
      eval_steps: 2
      eval_rows: 4
      save_steps: 1
  reward:
    <<: *run
    dataset: pairs
    model: taught
    method: reward
  ppo:
    <<: *run
    dataset: questions
    model: taught
    method: ppo
    online: {reward_model: reward, max_new_tokens: 6, rollout_size: 8, ppo_epochs: 2}
"""


def write_rows(project: Project) -> None:
    facts = [fact(i) for i in range(50)]
    pairs = [
        {
            "prompt": row["instruction"],
            "chosen": row["output"],
            "rejected": f"I cannot say the kind of number {i}.",
        }
        for i, row in enumerate(facts)
    ]
    questions = [{"prompt": fact(i)["instruction"]} for i in range(100, 150)]
    for name, rows in (("facts", facts), ("pairs", pairs), ("questions", questions)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (project.folder / "raw" / f"{name}.jsonl").write_text(lines)


@pytest.mark.slow
def test_raw_rows_become_a_taught_a_rewarding_and_an_aligned_model(tmp_path, tiny_model):
    project = Project(tmp_path / "project")
    write_project(project.folder, tiny_model)
    (project.folder / "config/config.yaml").write_text(CONFIG)
    write_rows(project)
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    results = project.folder / "results/tiny"
    runs = json.loads((results / "report/report.json").read_text())["runs"]
    assert {name: run["manifest"]["facts"]["steps"] for name, run in runs.items()} == {
        "sft": 2,
        "reward": 2,
        "ppo": 2,
    }
    inputs = runs["ppo"]["manifest"]["inputs"]
    assert {"base", "splits", "reward"} <= set(inputs)
    steps = [row for row in runs["ppo"]["curves"] if "kl" in row]
    assert steps[0]["kl"] == pytest.approx(0, abs=1e-4)
    assert all(row["reward"] != 0 for row in steps)
    assert (results / "runs/ppo/model/adapter_model.safetensors").is_file()
    assert not project.planned()
