"""The rules of the house: who imports whom, how fast a data step starts, how long functions are."""

import ast
import subprocess
import sys
from statistics import median

import pytest
from tiny import REPOSITORY

SCRIPTS = REPOSITORY / "scripts"
STAGES = (
    *("generating", "sources", "cleaning", "formatting", "tokenizing", "splitting", "streaming"),
    *("training", "search", "planning", "evaluation", "reporting"),
)
DATA_STEPS = (
    *("read_shard", "clean_shard", "select_rows", "format_shard", "tokenize_shard"),
    *("assign_splits", "write_splits", "write_heldout", "compare_run"),
    *("sample_stream", "write_stream"),
)


def imports(path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_a_stage_imports_only_itself_and_earlier_stages():
    wrong = []
    for number, stage in enumerate(STAGES):
        later = tuple(f"anneal.{name}" for name in STAGES[number + 1 :])
        for path in (SCRIPTS / "anneal" / stage).glob("*.py"):
            wrong += [f"{path.name}: {name}" for name in imports(path) if name.startswith(later)]
    assert wrong == []


def test_the_library_does_not_know_snakemake():
    paths = (SCRIPTS / "anneal").rglob("*.py")
    assert [p.name for p in paths if any(n.startswith("snakemake") for n in imports(p))] == []


@pytest.mark.parametrize("name", DATA_STEPS)
def test_a_data_step_starts_without_torch(name):
    code = f"import sys; sys.argv = ['x']; import {name}; print('torch' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=SCRIPTS, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_each_rule_has_a_script_of_its_name():
    import re

    text = "".join(path.read_text() for path in (REPOSITORY / "rules").glob("*.smk"))
    rules = set(re.findall(r"^rule (\w+):", text, flags=re.M))
    assert rules
    assert [rule for rule in sorted(rules) if not (SCRIPTS / f"{rule}.py").is_file()] == []


def test_functions_are_short():
    lengths = [
        node.end_lineno - node.lineno + 1
        for path in SCRIPTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    assert median(lengths) <= 12
    assert sum(length > 60 for length in lengths) / len(lengths) < 0.04
