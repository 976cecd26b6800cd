"""DVC drives the DAG, compares versions, and keeps artifacts elsewhere."""

import json
import shutil

import pytest
from versions import dvc, git, restore, under_dvc


@pytest.fixture(scope="module")
def kept(finished, tmp_path_factory):
    """A finished project that was put under DVC without running a stage."""
    folder = tmp_path_factory.mktemp("kept")
    return under_dvc(finished.copy(folder / "project"), folder / "remote")


def test_what_a_cluster_made_is_recorded_and_dvc_has_nothing_to_do(kept):
    assert "up to date" in dvc(kept.folder, "status")
    assert "Running stage" not in dvc(kept.folder, "repro")
    stages = [s for s in dvc(kept.folder, "stage", "list", "--name-only").split() if s]
    assert stages == ["data", "train", "evaluate", "report"]


def test_git_keeps_the_figures_and_not_the_artifacts(kept):
    tracked = git(kept.folder, "ls-files", "results").split()
    assert tracked == ["results/tiny/report/curves/lora.csv", "results/tiny/report/metrics.json"]


def times(project) -> dict[str, int]:
    """When each artifact was written, by its manifest or rejects."""
    root = project.folder / "results/tiny"
    kept = [p for p in root.rglob("*") if p.name.endswith(("manifest.json", "rejects.parquet"))]
    return {path.relative_to(root).as_posix(): path.stat().st_mtime_ns for path in kept}


@pytest.mark.slow
def test_an_experiment_retrains_and_is_compared_and_reproduced(kept, tmp_path):
    project = kept.copy(tmp_path / "project")
    folder = project.folder
    before = times(project)
    setting = "config/config.yaml:runs.lora.training.max_steps=4"
    dvc(folder, "exp", "run", "--name", "short", "--set-param", setting)
    made = {path for path, time in times(project).items() if before[path] != time}
    assert {path.split("/")[0] for path in made} == {"runs", "evaluation", "report"}

    assert "short" in dvc(folder, "exp", "show", "--csv")
    changed = json.loads(dvc(folder, "params", "diff", "--json"))
    steps = changed["config/config.yaml"]["runs.lora.training.max_steps"]
    assert (steps["old"], steps["new"]) == (12, 4)
    changed = json.loads(dvc(folder, "metrics", "diff", "--json"))
    (scores,) = changed.values()
    assert scores["runs.lora.eval_loss"]["diff"] > 0
    dvc(folder, "plots", "diff", "HEAD", "workspace")
    page = (folder / "dvc_plots/index.html").read_text()
    assert "curves/lora.csv" in page

    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "shorter")
    git(folder, "checkout", "-q", "HEAD~1")
    dvc(folder, "checkout")
    assert restore(project) == (["28 of 28 artifacts hold"], {})
    assert "Running stage" not in dvc(folder, "repro")


@pytest.mark.slow
def test_a_changed_raw_file_is_carried_through_by_dvc_repro(kept, tmp_path):
    project = kept.copy(tmp_path / "project")
    project.edit("raw/first.jsonl", "river number 0", "RIVER number 0")
    shutil.rmtree(project.folder / ".snakemake")
    before = times(project)
    dvc(project.folder, "repro")
    made = {path for path, time in times(project).items() if before[path] != time}
    assert [path for path in made if path.endswith("rejects.parquet")] == [
        "data/facts/records/first-00000.rejects.parquet"
    ]
    assert "up to date" in dvc(project.folder, "status")
    assert restore(project)[1] == {}


def test_a_model_is_an_artifact_that_others_get_by_name(kept, tmp_path):
    git(kept.folder, "tag", "--annotate", "lora@v1.0.0", "--message", "the first")
    dvc(tmp_path, "artifacts", "get", str(kept.folder), "lora", "--out", "model")
    assert (tmp_path / "model/model/adapter_model.safetensors").is_file()
