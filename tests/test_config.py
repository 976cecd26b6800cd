"""The configuration: typed by its schema, strict at every depth, clear when it is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel
from tiny import REPOSITORY

from anneal.config.hardware import CATALOGUE, read_catalogue
from anneal.config.schema import Config, load_config
from anneal.errors import UserError

BASE = """
project: p
datasets:
  d:
    sources:
      s: {path: rows.jsonl}
models:
  m: {path: models/m}
runs:
  r:
    dataset: d
    model: m
"""


def load(tmp_path: Path, extra: str = "", base: str = BASE) -> Config:
    path = tmp_path / "config.yaml"
    path.write_text(base + extra)
    return load_config(path)


def refused(tmp_path: Path, extra: str, base: str = BASE) -> str:
    with pytest.raises(UserError) as error:
        load(tmp_path, extra, base)
    return str(error.value)


def test_numbers_that_yaml_reads_as_text_or_octal_mean_what_they_say(tmp_path):
    training = "learning_rate: 2e-5, weight_decay: 1e-2, eval_steps: 012, save_steps: 1_000"
    config = load(tmp_path, f"    training: {{{training}}}\n")
    found = config.runs["r"].training
    assert found.learning_rate == 2e-5
    assert found.weight_decay == 0.01
    assert found.eval_steps == 12
    assert found.save_steps == 1000


def test_a_run_named_like_a_date_keeps_its_name(tmp_path):
    config = load(tmp_path, "  2026-11-03:\n    dataset: d\n    model: m\n")
    assert list(config.runs) == ["r", "2026-11-03"]


def test_a_mistyped_number_is_refused_with_file_line_and_key(tmp_path):
    message = refused(tmp_path, "    training:\n      learning_rate: fast\n")
    assert "config.yaml:14: runs.r.training.learning_rate" in message
    assert "'fast'" in message


@pytest.mark.parametrize(
    ("extra", "path", "nearest"),
    [
        ("    trainin: {}\n", "runs.r.trainin", "training"),
        ("    training: {learning_rat: 1}\n", "runs.r.training.learning_rat", "learning_rate"),
        ("    tuning: {rank: 8}\n", "runs.r.tuning.rank", ""),
        ("evaluat: {}\n", "evaluat", "evaluate"),
        ("evaluate:\n  tasks:\n    t: {metrik: acc}\n", "evaluate.tasks.t.metrik", "metric"),
    ],
)
def test_an_unknown_key_is_an_error_at_any_depth_with_the_nearest_name(
    tmp_path, extra, path, nearest
):
    message = refused(tmp_path, extra)
    assert f": {path}: unknown key" in message
    assert f"did you mean '{nearest}'?" in message if nearest else "known: " in message


def test_a_key_given_twice_is_refused(tmp_path):
    assert "config.yaml:13: key 'dataset' is given twice" in refused(tmp_path, "    dataset: e\n")


def test_broken_yaml_names_the_line(tmp_path):
    assert "config.yaml:2" in refused(tmp_path, "", "project: [p\nruns: {")


def test_a_run_of_an_unknown_dataset_is_refused(tmp_path):
    message = refused(tmp_path, "  other:\n    dataset: nope\n    model: m\n")
    assert "runs.other: no 'nope' in datasets (there: d)" in message


def test_a_method_that_cannot_learn_from_the_datasets_kind_is_refused(tmp_path):
    base = BASE.replace("  d:\n", "  d:\n    kind: preference\n")
    assert "runs.r: method 'sft' cannot learn from 'preference'" in refused(tmp_path, "", base)


def test_anchors_and_merges_work(tmp_path):
    config = load(
        tmp_path,
        "  base: &b\n    dataset: d\n    model: m\n    threads: 1\n"
        "  more:\n    <<: *b\n    threads: 3\n",
    )
    assert config.runs["more"].threads == 3
    assert config.runs["more"].dataset == "d"


def test_a_reward_model_is_no_model_to_start_from(tmp_path):
    base = BASE.replace("  d:\n", "  d:\n    kind: preference\n")
    base = base.replace("runs:", "  judged: {run: r}\nruns:")
    message = refused(tmp_path, "    method: reward\n", base)
    assert "models.judged: 'r' scores answers and writes none" in message


def test_every_key_is_documented():
    undocumented = [
        f"{model.__name__}.{name}"
        for model in _sections(Config)
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert undocumented == []


def test_the_generated_reference_is_current():
    command = [sys.executable, "scripts/document_config.py", "--check"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted((REPOSITORY / "config").glob("**/*.yaml")), ids=str)
def test_every_shipped_configuration_is_valid(path):
    if path.name == CATALOGUE.name:
        assert read_catalogue(path)
    elif "tasks" not in path.parts:
        load_config(path)


def _sections(model: type[BaseModel]) -> set[type[BaseModel]]:
    import typing

    found, waiting = set(), [model]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found.add(kind)
            waiting += [field.annotation for field in kind.model_fields.values()]
        else:
            waiting += typing.get_args(kind)
    return found
