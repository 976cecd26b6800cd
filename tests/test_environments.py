"""The environments of the stages agree with the lock, and hold what the stages import."""

import ast
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tiny import REPOSITORY

from anneal.provenance.code import SCRIPTS

ENVS = sorted((REPOSITORY / "envs").glob("*.yaml"))
# Imported by a tracker only when a run names it (envs/trackers.in).
OPTIONAL = {"mlflow", "mlflow-skinny", "tensorboard", "trackio", "wandb"}


def pins(text: str) -> dict[str, str]:
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^(?: +- )?([\w.-]+)==([\w.]+)$", text, flags=re.M)
    }


def env_of_rules() -> dict[str, str]:
    """The environment that each rule names."""
    text = "\n".join(path.read_text() for path in (REPOSITORY / "rules").glob("*.smk"))
    rules = re.split(r"^rule (\w+):\n", text, flags=re.M)[1:]
    named = {
        rule: re.search(r'conda:\s+"\.\./envs/([\w-]+\.yaml)"', body)
        for rule, body in zip(rules[::2], rules[1::2], strict=True)
    }
    return {rule: found[1] for rule, found in named.items() if found}


def module_file(name: str):
    plain = SCRIPTS.joinpath(*name.split("."))
    files = (plain.with_suffix(".py"), plain / "__init__.py")
    return next((path for path in files if path.is_file()), None)


def imported_names(path) -> set[str]:
    """Modules that a file imports, anywhere in it, and what may be a module below them."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def foreign_packages(rule: str) -> set[str]:
    """Distributions that the script of a rule imports, over all modules of ours it reaches."""
    waiting, seen, foreign = [SCRIPTS / f"{rule}.py"], set(), set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in imported_names(path):
            ours = module_file(name)
            if ours:
                waiting.append(ours)
            elif not module_file(name.partition(".")[0]):
                foreign.add(name.partition(".")[0])
    known = packages_distributions()
    found = {known.get(name, [name])[0] for name in foreign - sys.stdlib_module_names - {"anneal"}}
    return set(map(canonicalize_name, found)) - OPTIONAL


def closure(names: set[str]) -> set[str]:
    """Distributions and all that they need to be installed."""
    waiting, found = list(names), set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            found.add(name)
            try:
                needs = map(Requirement, requires(name) or [])
            except PackageNotFoundError:
                continue
            waiting += [n.name for n in needs if not n.marker or n.marker.evaluate({"extra": ""})]
    return found


@pytest.mark.parametrize("env", ENVS, ids=lambda path: path.name)
def test_an_environment_pins_what_the_lock_pins(env):
    locked = pins((REPOSITORY / "envs/anneal.lock").read_text())
    pinned = pins(env.read_text())
    wanted = yaml.safe_load(env.read_text())["dependencies"][-1]["pip"]
    assert len(pinned) == len(wanted)
    assert {name: version for name, version in pinned.items() if locked.get(name) != version} == {}


def test_every_rule_names_an_environment_that_is_there():
    assert set(env_of_rules().values()) == {path.name for path in ENVS}


@pytest.mark.parametrize("env", ENVS, ids=lambda path: path.name)
def test_an_environment_has_all_that_its_rules_import(env):
    there = closure(set(pins(env.read_text())))
    rules = [rule for rule, name in env_of_rules().items() if name == env.name]
    missing = {rule: sorted(foreign_packages(rule) - there) for rule in rules}
    assert {rule: names for rule, names in missing.items() if names} == {}


def test_the_container_copies_all_that_its_setup_needs(tmp_path):
    text = (REPOSITORY / "envs/Containerfile").read_text()
    for file, folder in re.findall(r"^COPY (\S+) (\S+)$", text, flags=re.M):
        (tmp_path / folder).mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / file, tmp_path / folder)
    assert "RUN make setup" in text
    done = subprocess.run(["make", "-n", "setup"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
