"""`snakemake --profile slurm`, from raw files to the report, on a real Slurm."""

from collections import Counter

import pytest
from project import Project


def job(project, rule: str) -> dict[str, str]:
    """The Slurm job of a rule."""
    return next(job for comment, job in project.jobs.items() if comment.startswith(f"rule_{rule}"))


def test_the_whole_dag_ends_with_the_report_and_nothing_is_left_to_do(finished):
    assert (finished.folder / "results/tiny/report/report.html").is_file()
    assert finished.planned() == Counter()
    assert Project(finished.folder).planned() == Counter(), "with the other profile"


@pytest.mark.parametrize("rule", ["train_run", "benchmark"])
def test_what_runs_models_are_gpu_jobs(finished, rule):
    assert job(finished, rule)["TresPerNode"] == "gres:gpu:1"
    assert job(finished, rule)["Partition"] == "gpu"


def test_data_steps_are_cpu_jobs(finished):
    assert "TresPerNode" not in job(finished, "select_rows")
    assert job(finished, "select_rows")["Partition"] == "cpu"
    assert job(finished, "select_rows")["MinMemoryNode"] == "4000M"


def test_small_shards_share_jobs(finished):
    shards = len(
        list((finished.folder / "results/tiny/data/facts/records").glob("*.manifest.json"))
    )
    assert shards > 2
    grouped = [comment for comment in finished.jobs if "shard" in comment]
    assert sorted(name.split("_")[1] for name in grouped) == ["reads", "tokens"]


def test_training_waited_for_a_free_gpu(finished):
    assert finished.waited


def test_logs_of_jobs_are_kept(finished):
    for rule in ("rule_train_run", "rule_select_rows", "group_reads_facts"):
        assert list((finished.folder / "results/slurm-logs").glob(f"{rule}*/**/*.log"))
