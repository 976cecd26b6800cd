"""A real Slurm, and a project that ran on it to its end."""

import json
import shutil
import sys

import pytest
from lab import Lab, missing, new_folder, wait_for
from project import Project, write_project


class SlurmProject(Project):
    """A project whose user has a cluster."""

    command = (
        *(sys.executable, "-m", "snakemake", "--profile", "slurm"),
        *("--slurm-init-seconds-before-status-checks", "2"),
    )

    def facts(self) -> dict:
        """What the manifest says of the run."""
        return json.loads((self.folder / "results/tiny/runs/lora/manifest.json").read_text())[
            "facts"
        ]

    def set_run(self, **values) -> None:
        """Keys of the run."""
        lines = "".join(f"    {name}: {value}\n" for name, value in values.items())
        self.edit("config/config.yaml", "    tracker: none\n", f"    tracker: none\n{lines}")

    def train_jobs(self, lab: Lab, states: str = "all") -> list[dict[str, str]]:
        """Training jobs of the last run of Snakemake, in the order of submission."""
        name = (self.folder / "results/tiny/.lock").read_text()
        jobs = [job for job in lab.jobs(states) if job["name"] == name]
        return [job for job in jobs if "train_run" in job["comment"]]


@pytest.fixture(scope="session")
def lab():
    """The cluster; where none can be started, its tests are skipped."""
    if reason := missing():
        pytest.skip(reason)
    lab = Lab(new_folder())
    try:
        try:
            lab.up()
        except (OSError, RuntimeError) as error:
            pytest.skip(f"Slurm does not start here: {error}")
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="session")
def finished(lab, tmp_path_factory, tiny_model) -> SlurmProject:
    """A project that ran to its report on the cluster, its training and benchmarks on GPUs.

    All GPUs are taken at first, and given free when training waits for one.
    """
    folder = tmp_path_factory.mktemp("runs") / "a project"
    write_project(folder, tiny_model)
    project = SlurmProject(folder)
    project.set_run(hardware="h100")
    project.edit("config/config.yaml", "shard_mb: 0.004", "shard_mb: 0.008")
    site = "  gpu:\n    name: gpu\n    max_minutes: 60\n"
    project.edit("profiles/slurm/site.yaml", "  gpu:\n    name:\n    max_minutes:\n", site)
    holder = lab.call(
        "sbatch", "--parsable", "-N2", "--gres=gpu:2", "-o/dev/null", "--wrap=sleep 600"
    ).strip()
    with project.started() as run:
        wait_for(lambda: run.poll() is not None or waits_for_gpu(lab), 300)
        project.waited = waits_for_gpu(lab)
        lab.call("scancel", holder)
        assert run.wait(300) == 0, project.printed()
    project.jobs = {job["comment"]: lab.show(job["id"]) for job in lab.jobs("all")}
    return project


def waits_for_gpu(lab: Lab) -> bool:
    """Whether the training job is queued because others hold what it asks for."""
    full = ("Resources", "Priority")
    return any("train_run" in job["comment"] and job["why"] in full for job in lab.jobs())


@pytest.fixture
def project(finished, tmp_path) -> SlurmProject:
    """A copy of the finished project, whose run has to train again."""
    copy = finished.copy(tmp_path / "a copy")
    shutil.rmtree(copy.folder / "results/tiny/checkpoints")
    copy.edit("config/config.yaml", "learning_rate: 1e-3", "learning_rate: 2e-3")
    return copy
