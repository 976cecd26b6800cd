"""A run of the DAG by several processes, and what it means that their number is no setting."""

import json

import pytest
from project import CONFIG, Project, write_project

STRATEGY = "strategy: {kind: ddp, processes: 2}"
TWO = CONFIG.replace("gradient_accumulation_steps: 1", "global_batch_size: 2").replace(
    "    tracker: none\n", f"    tracker: none\n    {STRATEGY}\n"
)


@pytest.mark.slow
def test_a_run_of_two_processes_is_not_trained_again_by_one(tmp_path, tiny_model):
    folder = tmp_path / "project"
    write_project(folder, tiny_model)
    config = folder / "config/config.yaml"
    config.write_text(TWO)
    project = Project(folder)
    done = project.run("train")
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((folder / "results/tiny/runs/lora/manifest.json").read_text())
    assert (manifest["facts"]["processes"], manifest["facts"]["backend"]) == (2, "gloo")
    assert manifest["settings"]["training"]["global_batch_size"] == 2
    config.write_text(TWO.replace(STRATEGY, "strategy: {kind: single}"))
    again = project.run("train", "-n")
    assert "Nothing to be done" in again.stdout + again.stderr
