"""Profiles hold what Snakemake's own parser knows, and rules ask a cluster for what a run needs."""

import contextlib
import io
import re

import pytest
import yaml
from snakemake.cli import get_argument_parser, parse_args
from tiny import REPOSITORY

from anneal.cluster import NAMES, cpu_request, device_request, training_request
from anneal.config.run import Run
from anneal.config.schema import load_config
from anneal.config.site import Site
from anneal.errors import UserError

PROFILES = sorted(path.parent.name for path in (REPOSITORY / "profiles").glob("*/config.yaml"))
# of plugins that are not installed here
ELSEWHERE = {"kubernetes": {"executor", "default-storage-provider"}}


@pytest.mark.parametrize("name", PROFILES)
def test_every_key_and_value_of_a_profile_is_one_of_snakemake(name, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    profile = yaml.safe_load((REPOSITORY / "profiles" / name / "config.yaml").read_text())
    options = {o for a in get_argument_parser()._actions for o in a.option_strings}
    assert [key for key in profile if f"--{key}" not in options] == []
    given = ["--profile", f"profiles/{name}"]
    for key in ELSEWHERE.get(name, ()):
        given += [f"--{key}", {"executor": "local"}.get(key, "none")]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        parse_args(given)
    assert "error" not in errors.getvalue()


@pytest.mark.parametrize("name", ["slurm", "kubernetes"])
def test_what_a_profile_says_of_rules_names_rules(name):
    text = "".join(path.read_text() for path in (REPOSITORY / "rules").glob("*.smk"))
    rules = set(re.findall(r"^rule (\w+):", text, flags=re.M))
    profile = yaml.safe_load((REPOSITORY / "profiles" / name / "config.yaml").read_text())
    named = {re.split("[:=]", entry)[0] for entry in profile["groups"]}
    named |= {entry.split(":")[0] for entry in profile.get("set-resources", [])}
    assert named <= rules


def test_profile_slurm_is_found_from_the_root():
    assert (REPOSITORY / "slurm").readlink().as_posix() == "profiles/slurm"


def run(**values) -> Run:
    return Run(dataset="d", model="m", **values)


SITE = Site(
    account="lab",
    partitions={"cpu": {"name": "batch"}, "gpu": {"name": "gpu", "max_minutes": 2000}},
    gpus={"a100-80": "a100"},
)


def test_a_killed_job_asks_for_more():
    first, second = (cpu_request(SITE, 2000, 60, attempt) for attempt in (1, 2))
    assert first == {
        "mem_mb": 2000,
        "runtime": 60,
        "slurm_partition": "batch",
        "slurm_account": "lab",
    }
    assert (second["mem_mb"], second["runtime"]) == (4000, 120)


def test_no_job_asks_for_more_minutes_than_its_partition_gives():
    request = training_request(SITE, run(hardware="a100-80", minutes=1440), attempt=2)
    assert request["runtime"] == 2000


def test_gpus_are_asked_for_by_the_names_of_the_site():
    assert device_request(SITE, "a100-80", 1, 1, devices=4)["gres"] == "gpu:a100:4"
    assert device_request(SITE, "h100", 1, 1)["gres"] == "gpu:1"
    assert "gres" not in device_request(SITE, "cpu", 1, 1)


def test_several_nodes_are_one_task_each():
    strategy = {"kind": "fsdp", "nodes": 2, "processes": 4}
    request = training_request(SITE, run(hardware="a100-80", strategy=strategy))
    wanted = {"nodes": 2, "tasks": 2, "tasks_per_gpu": 0, "mpi": "srun", "gres": "gpu:a100:4"}
    assert {name: request[name] for name in wanted} == wanted
    alone = training_request(SITE, run(hardware="a100-80"))
    assert alone["nodes"] == 1
    assert not {"mpi", "tasks"} & set(alone)


def test_training_is_warned_in_time_to_save_a_checkpoint():
    assert training_request(SITE, run(minutes=600))["slurm_extra"] == "'--signal=TERM@300'"
    assert training_request(SITE, run(minutes=2))["slurm_extra"] == "'--signal=TERM@10'"


def test_rules_ask_for_all_that_a_request_may_hold():
    strategy = {"kind": "fsdp", "nodes": 2}
    assert set(training_request(SITE, run(hardware="x", strategy=strategy))) == set(NAMES)


def test_a_mistake_in_the_site_file_is_one_line(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text("account: lab\npartition: gpu\n")
    with pytest.raises(UserError, match=r"site.yaml:2: .*did you mean 'partitions'"):
        load_config(path, Site)


def test_the_site_file_as_it_comes_names_nothing():
    site = load_config(REPOSITORY / "profiles/slurm/site.yaml", Site)
    assert site == Site()
