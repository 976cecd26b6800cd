"""After `git clone` and `dvc pull`, `make restore` leaves to rerun exactly what does not hold."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from project import Project
from versions import (
    AS_ANOTHER,
    clone,
    give_to_another,
    needs_another_user,
    restore,
    shuffle_times,
    under_dvc,
)

SCORED = {"compare_run": 1, "write_report": 1}
TRAINED = {"train_run": 1, "benchmark": 1, "measure_heldout": 1, **SCORED}
DECIDED = {"select_rows": 1, "assign_splits": 1, "write_splits": 1, "write_heldout": 1}
AFTER_DATA = {"train_run": 1, "benchmark": 2, "measure_heldout": 2, **SCORED}
ONE_SHARD = {"clean_shard": 1, "format_shard": 1, "tokenize_shard": 1}
MANIFEST = "results/tiny/runs/lora/manifest.json"


@pytest.fixture(scope="module")
def published(finished, tmp_path_factory) -> Project:
    folder = tmp_path_factory.mktemp("published")
    return under_dvc(finished.copy(folder / "project"), folder / "remote")


@pytest.fixture
def pulled(finished, tmp_path) -> Project:
    """All artifacts are there, in times of no order, and Snakemake knows nothing of them."""
    project = finished.copy(tmp_path / "pulled")
    shuffle_times(project)
    return project


def bytes_and_modes(folder: Path) -> dict:
    files = [p for p in folder.rglob("*") if p.is_file()]
    return {p.as_posix(): (p.read_bytes(), p.stat().st_mode) for p in files}


@pytest.mark.parametrize("link", ["copy", "hardlink", "symlink", "reflink"])
def test_a_fresh_clone_has_nothing_to_run_and_its_cache_is_left_alone(published, tmp_path, link):
    if link == "reflink" and not reflinks(tmp_path):
        pytest.skip("this file system has no reflinks")
    project = clone(published, tmp_path / "elsewhere", link)
    cache = project.folder / ".dvc/cache/files"
    before = bytes_and_modes(cache)
    lines, left = restore(project)
    assert (lines, left) == (["28 of 28 artifacts hold"], {})
    assert project.planned() == Counter()
    project.edit("config/config.yaml", "batch_size: 4", "batch_size: 4\n  max_drop: 0.2")
    assert project.run().returncode == 0
    assert bytes_and_modes(cache) == before


def reflinks(folder: Path) -> bool:
    (folder / "file").touch()
    copied = ["cp", "--reflink=always", folder / "file", folder / "copy"]
    return subprocess.run(copied, capture_output=True).returncode == 0


@pytest.mark.parametrize("link", ["hardlink", pytest.param("symlink", marks=pytest.mark.slow)])
def test_another_user_s_clone_has_nothing_to_run_and_can_run_what_changed(
    published, tmp_path, link
):
    needs_another_user()
    project = clone(published, tmp_path / "elsewhere", link)
    before = bytes_and_modes(project.folder / ".dvc/cache/files")
    give_to_another(project.folder)  # but for the cache, which stays another's
    who = {"HOME": str(project.folder), "LOGNAME": "another"}
    assert restore(project, prefix=AS_ANOTHER, **who) == (["28 of 28 artifacts hold"], {})
    project.edit("config/config.yaml", "batch_size: 4", "batch_size: 4\n  max_drop: 0.2")
    project.command = (*AS_ANOTHER, *project.command)
    done = project.run(**who)
    assert done.returncode == 0, done.stderr
    assert bytes_and_modes(project.folder / ".dvc/cache/files") == before


def test_of_a_partial_pull_the_rest_is_left_to_run(published, tmp_path):
    project = clone(published, tmp_path / "part", "copy", "data", "train")
    lines, left = restore(project)
    assert lines == ["22 of 28 artifacts hold; 6 are not here"]
    assert left == {"benchmark": 2, "measure_heldout": 2, **SCORED}


def test_what_was_pulled_without_its_data_holds_while_the_raw_files_are_the_same(
    published, tmp_path
):
    project = clone(published, tmp_path / "part", "copy", "evaluate", "report")
    assert restore(project) == (["6 of 28 artifacts hold; 22 are not here"], {})
    project.edit("raw/first.jsonl", "river number 0", "RIVER number 0")
    lines, left = restore(project)
    assert lines[0] == (
        "results/tiny/evaluation/facts/base/heldout.manifest.json: "
        "what it was made from is not here, and would be another now"
    )
    assert left["read_shard"] == 4
    assert left["benchmark"] == 2


def append(path: Path, text: str = "x") -> None:
    with path.open("a") as file:
        file.write(text)


def tamper_with_a_shard(project):
    append(project.folder / "results/tiny/data/facts/clean/first-00000.parquet")


def tamper_with_the_adapter(project):
    append(project.folder / "results/tiny/runs/lora/model/adapter_config.json", "\n")


def change_a_raw_row(project):
    project.edit("raw/first.jsonl", "river number 0", "RIVER number 0")


def change_a_setting(project):
    project.edit("config/config.yaml", "learning_rate: 1e-3", "learning_rate: 2e-3")


def edit_a_helper(project):
    project.edit("scripts/anneal/training/loss.py", "mean = loss /", "mean = 1.0 * loss /")


def take_a_source_away(project):
    text = (project.folder / "config/config.yaml").read_text()
    second = text[text.index("      second:") : text.index("    shard_mb")]
    project.edit("config/config.yaml", second, "")


def lose_a_manifest(project):
    (project.folder / MANIFEST).unlink()


def take_another_version_s(project):
    path = project.folder / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code": "0" * 32, "key": "1" * 32}))


@pytest.mark.parametrize(
    ("change", "reason", "left"),
    [
        (tamper_with_a_shard, "the bytes of", ONE_SHARD | DECIDED | AFTER_DATA),
        (tamper_with_the_adapter, "the bytes of", TRAINED),
        (
            change_a_raw_row,
            "made for other sources (digest)",
            {"read_shard": 1} | ONE_SHARD | DECIDED | AFTER_DATA,
        ),
        (change_a_setting, "made for other settings (training.learning_rate)", TRAINED),
        (edit_a_helper, "made for other code", TRAINED | {"measure_heldout": 2}),
        (take_a_source_away, "made for other settings (shards)", DECIDED | AFTER_DATA),
        (lose_a_manifest, "its manifest is missing", TRAINED),
        (take_another_version_s, "made for other code", TRAINED),
    ],
)
def test_what_does_not_hold_is_named_and_left_to_run_with_what_follows(
    pulled, change, reason, left
):
    change(pulled)
    lines, found = restore(pulled)
    assert reason in lines[0]
    assert found == left


@pytest.mark.slow
def test_what_is_named_once_runs_and_then_all_of_it_holds(pulled):
    tamper_with_the_adapter(pulled)
    restore(pulled)
    assert pulled.run().returncode == 0
    assert restore(pulled) == (["28 of 28 artifacts hold"], {})


def test_a_lost_record_of_snakemake_s_makes_no_work(project):
    records = sorted((project.folder / ".snakemake/metadata").iterdir())
    for path in records[::3]:
        path.unlink()
    assert restore(project) == (["28 of 28 artifacts hold"], {})
    project.edit("config/config.yaml", "learning_rate: 1e-3", "learning_rate: 2e-3")
    assert restore(project)[1] == TRAINED
