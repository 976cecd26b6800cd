"""A search as jobs of the DAG, and a run that takes its result."""

import json
import shutil
from collections import Counter

from anneal.config.schema import load_config
from anneal.reporting.gather import gather

SEARCH = """\
search:
  tune:
    run: lora
    trials: 3
    workers: 2
    max_steps: 4
    eval_steps: 2
    space: {learning_rate: {low: 1e-4, high: 1e-2}}
    range_test: {steps: 10}
"""
TRIALS = {"run_trials": 2, "best_trial": 1}
SCORED = {"benchmark": 1, "measure_heldout": 1, "compare_run": 1}
AFTER = {"train_run": 1, **SCORED, "write_report": 1, "all": 1}


def test_a_search_runs_when_asked_for_or_when_a_run_takes_its_result(project):
    config = project.folder / "config/config.yaml"
    config.write_text(config.read_text() + SEARCH)
    assert project.planned() == Counter()
    assert project.planned("search") == Counter(TRIALS | {"range_test": 1, "search": 1})
    project.edit("config/config.yaml", "tracker: none", "best_of: tune\n    tracker: none")
    assert project.planned() == Counter(TRIALS | AFTER)

    done = project.run("search", "train")
    assert done.returncode == 0, done.stdout + done.stderr
    root = project.folder / "results/tiny"
    best = json.loads((root / "search/tune/best.json").read_text())
    assert [row["state"] for row in best["trials"]] == ["complete"] * 3
    assert best["loss"] == min(row["loss"] for row in best["trials"])
    assert (root / "search/tune/history.svg").read_text().startswith("<?xml")
    assert len(json.loads((root / "search/tune/range_test.json").read_text())["rates"]) > 3
    ran = [json.loads((root / f"search/tune/workers/{k}.json").read_text()) for k in (0, 1)]
    assert sorted(n for manifest in ran for n in manifest["facts"]["trials"]) == [0, 1, 2]

    facts = json.loads((root / "runs/lora/manifest.json").read_text())["facts"]
    assert facts["searched"] == best["values"]
    adapter = json.loads((root / "runs/lora/model/adapter_config.json").read_text())
    assert adapter["r"] == best["values"]["r"]
    assert adapter["lora_alpha"] == best["values"]["alpha"]
    given = {"project": "tiny", "config": load_config(config).model_dump(), "made": {}}
    shown = gather(given, root)["runs"]["lora"]
    assert (shown["tuning"]["r"], shown["tuning"]["alpha"]) == (adapter["r"], adapter["lora_alpha"])

    assert project.planned("search", "train") == Counter()
    shutil.rmtree(project.folder / ".snakemake")
    assert project.planned("search", "train") == Counter()
    project.edit("config/config.yaml", "workers: 2", "workers: 2\n    seed: 4")
    assert project.planned("train") == Counter(TRIALS | {"train_run": 1, "train": 1})
