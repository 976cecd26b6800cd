"""What befalls a run on a cluster: each test trains once more, and into trouble."""

import os
import signal
import time
from datetime import datetime

import pytest
from lab import wait_for


@pytest.mark.slow
def test_a_users_error_is_not_tried_again(lab, project):
    project.edit("config/config.yaml", "precision: fp32", "precision: fp16")
    project.set_run(mem_mb=2000)
    done = project.run("train")
    assert done.returncode == 1
    assert "error: runs.*.training.precision" in done.stderr
    second = lab.show(project.train_jobs(lab)[1]["id"])
    started = datetime.fromisoformat(second["StartTime"]).timestamp()
    found = project.folder / "results/tiny/logs/train_run/lora.error"
    assert found.stat().st_mtime < started, "later jobs only repeat what the first found"


def test_a_job_that_ran_out_of_memory_is_tried_again_with_more(lab, project):
    project.set_run(mem_mb=400)
    done = project.run("train")
    assert done.returncode == 0, done.stderr
    asked = [lab.show(job["id"])["MinMemoryNode"] for job in project.train_jobs(lab)]
    assert asked in (["400M", "800M"], ["400M", "800M", "1200M"])


@pytest.mark.slow
def test_ctrl_c_leaves_no_job(lab, project):
    project.slow_down()
    with project.started("train", SLOW="5") as run:
        until_it_trains(lab, project, run)
        os.kill(run.pid, signal.SIGINT)
        run.wait(60)
    wait_for(lambda: not project.train_jobs(lab, "PENDING,RUNNING,COMPLETING"), 30)


def test_jobs_of_a_killed_driver_are_not_doubled(lab, project):
    project.slow_down()
    with project.started("train", SLOW="10") as run:
        job = until_it_trains(lab, project, run)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    again = project.run("train")
    assert again.returncode == 1
    cure = f"scancel --name {job['name']}"
    assert f"queued or at work (1); wait for them to end, or `{cure}`" in again.stderr
    assert [j["id"] for j in lab.jobs() if "train_run" in j["comment"]] == [job["id"]]
    lab.call(*cure.split())
    wait_for(lambda: not lab.jobs(), 30)
    last = project.run("train")
    assert last.returncode == 0, last.stderr
    assert project.facts()["resumed_step"] > 0


@pytest.mark.slow
def test_a_job_that_ran_out_of_time_goes_on_from_its_checkpoint_with_more(lab, project):
    project.slow_down()
    project.set_run(minutes=1)
    project.edit("config/config.yaml", "max_steps: 12", "max_steps: 20")
    project.edit("config/config.yaml", "save_steps: 3", "save_steps: 20")
    done = project.run("train", SLOW="3")
    assert done.returncode == 0, done.stderr
    asked = [lab.show(job["id"])["TimeLimit"] for job in project.train_jobs(lab)]
    assert asked[:2] == ["00:01:00", "00:02:00"]
    assert 0 < project.facts()["resumed_step"] < 20, "no step is a regular checkpoint"


def disturbed(lab, project, *command: str) -> dict:
    """The training job that Slurm was told this about, once the run has come to a good end."""
    project.slow_down()
    with project.started("train", SLOW="2") as run:
        job = until_it_trains(lab, project, run)
        lab.call(*command, job["id"])
        assert run.wait(400) == 0, project.printed()
    return job


@pytest.mark.slow
def test_a_preempted_job_goes_on_from_its_checkpoint(lab, project):
    job = disturbed(lab, project, "scontrol", "requeue")
    assert [j["id"] for j in project.train_jobs(lab)] == [job["id"]]
    assert project.facts()["resumed_step"] > 0


@pytest.mark.slow
def test_a_job_that_somebody_cancelled_is_noticed_and_submitted_again(lab, project):
    disturbed(lab, project, "scancel")
    assert [j["state"] for j in project.train_jobs(lab)] == ["CANCELLED", "COMPLETED"]
    assert project.facts()["resumed_step"] > 0


@pytest.mark.slow
def test_a_controller_that_is_down_for_a_minute_is_survived(lab, project):
    project.slow_down()
    with project.started("train", SLOW="6") as run:
        job = until_it_trains(lab, project, run)
        lab.stop("slurmctld")
        time.sleep(60)
        lab.call("slurmctld")
        assert run.wait(400) == 0, project.printed()
    assert [j["id"] for j in project.train_jobs(lab)] == [job["id"]]


def until_it_trains(lab, project, run) -> dict[str, str]:
    """The job, as soon as it has made a few steps and saved a checkpoint."""
    checkpoints = project.folder / "results/tiny/checkpoints/lora"
    wait_for(lambda: run.poll() is not None or any(checkpoints.glob("*/checkpoint-*")), 120)
    assert run.poll() is None, project.printed()
    return project.train_jobs(lab, "RUNNING")[0]
