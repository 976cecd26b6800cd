"""Field cases of the whole DAG: what tokens depend on (FC-31), what causes work (FC-52).

The rest of FC-52 (touch, unrelated commit, dry-run, lost records) is in test_dag.py.
"""

import os
import re
import shutil
from collections import Counter

import pytest

PER_SHARD = {"format_shard": 4, "tokenize_shard": 4}


def change_the_template(project):
    project.edit("models/base/chat_template.jinja", "assistant", "Assistant")


def add_a_token(project):
    project.edit(
        "config/config.yaml", "path: models/base", "path: models/base, add_tokens: [<note>]"
    )


def shorten_the_window(project):
    project.edit("config/config.yaml", "max_length: 96", "max_length: 80")


def change_a_row(project):
    project.edit("raw/first.jsonl", "river number 0", "RIVER number 0")


@pytest.mark.parametrize(
    ("change", "made_again"),
    [
        (change_the_template, PER_SHARD),
        (add_a_token, PER_SHARD),
        (shorten_the_window, {"format_shard": 0, "tokenize_shard": 4}),
        (change_a_row, {"format_shard": 1, "tokenize_shard": 1}),
    ],
)
def test_tokens_are_made_again_when_what_they_depend_on_changes(project, change, made_again):
    change(project)
    planned = project.planned()
    assert {rule: planned[rule] for rule in made_again} == made_again
    assert planned["write_splits"] == planned["train_run"] == 1


def test_tokens_are_reused_in_another_folder_and_at_other_times(project, tmp_path):
    moved = project.copy(tmp_path / "moved")
    shutil.rmtree(project.folder)
    for pattern in ("raw/*", "models/base/*", "tasks/*"):
        for path in moved.folder.glob(pattern):
            os.utime(path, (1, 1))
    assert moved.planned() == Counter()


def test_two_parses_give_the_same_commands(project):
    commands = [
        sorted(re.findall(r"^Shell command: .*", project.run("-nFp").stdout, flags=re.M))
        for _ in range(2)
    ]
    assert commands[0] == commands[1] != []


def test_other_inputs_are_seen_without_snakemake_s_records(project):
    shutil.rmtree(project.folder / ".snakemake")
    text = (project.folder / "config/config.yaml").read_text()
    second = text[text.index("      second:") : text.index("    shard_mb")]
    project.edit("config/config.yaml", second, "")
    planned = project.planned()
    assert planned["select_rows"] == planned["train_run"] == 1
    assert planned["read_shard"] == 0


def test_a_run_that_starts_from_another_model_is_seen_without_snakemake_s_records(project):
    shutil.rmtree(project.folder / ".snakemake")
    results = project.folder / "results/tiny"
    for made in ("models", "tokens/facts", "evaluation/facts"):
        shutil.copytree(results / made / "base", results / made / "other", dirs_exist_ok=True)
    project.edit(
        "config/config.yaml", "  base: {path", "  other: {path: models/base}\n  base: {path"
    )
    project.edit("config/config.yaml", "model: base", "model: other")
    assert project.planned()["train_run"] == 1
