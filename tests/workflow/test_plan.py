"""The target `plan` on a whole project, and runs that are refused before anything starts."""

import json
import re
import shlex
import subprocess

# A Llama of 70 billion weights: its configuration is all that the plan reads.
HUGE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
RUN = """
  huge-lora: {dataset: facts, model: huge, hardware: rtx4090, tracker: none}
evaluate:"""


def test_a_plan_reads_what_is_there_and_reruns_nothing(project):
    done = project.run("plan")
    assert done.returncode == 0, done.stdout + done.stderr
    (plan,) = json.loads((project.folder / "results/tiny/plan/plan.json").read_text())
    assert plan["data"]["measured"] and plan["data"]["rows"] > 50
    assert plan["work"]["steps"] == 12 and plan["verdict"] == "fits"
    assert "## lora" in (project.folder / "results/tiny/plan/plan.md").read_text()
    assert project.planned() == {}
    assert project.planned("plan") == {"plan": 1}  # it is made anew whenever it is asked for


def test_a_report_that_is_made_after_the_plan_sets_it_beside_what_was_measured(project):
    for target in (["plan"], ["--forcerun", "write_report", "--", "report"]):
        done = project.run(*target)
        assert done.returncode == 0, done.stdout + done.stderr
    folder = project.folder / "results/tiny/report"
    assert json.loads((folder / "report.json").read_text())["runs"]["lora"]["plan"]["work"]
    assert "Planned and measured: lora" in (folder / "report.html").read_text()


def test_the_planned_command_is_what_the_workflow_starts(project):
    assert project.run("plan").returncode == 0
    (plan,) = json.loads((project.folder / "results/tiny/plan/plan.json").read_text())
    shown = project.run("-n", "-p", "--forcerun", "train_run", "--until", "train_run").stdout
    line = re.search(r"python scripts/launch.py .*train_run.py.*", shown).group()
    line = line.replace("launch.py", "launch.py --print-command", 1)
    asked = subprocess.run(
        shlex.split(line), cwd=project.folder, capture_output=True, text=True, check=True
    )
    _, *started = shlex.split(asked.stdout)  # python, by its path
    assert shlex.split(plan["command"])[1:] == started


def test_a_run_that_cannot_fit_is_refused_before_any_job(project):
    folder = project.folder / "models" / "huge"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(HUGE))
    (project.folder / "results" / "tiny" / "data" / "facts" / "ledger.parquet").unlink()
    project.edit("config/config.yaml", "{path: models/base}", "{path: models/base}\n"
                 "  huge: {path: models/huge}")  # fmt: skip
    project.edit("config/config.yaml", "\nevaluate:", RUN)
    done = project.run()
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == 1 and len(errors) == 1, done.stderr
    assert errors[0].startswith("error: runs.huge-lora: needs about ")
    assert "on a device of 24 GB" in errors[0]
    assert not re.search(r"^rule \w+:", done.stdout + done.stderr, flags=re.M)
    assert not (project.folder / "results" / "tiny" / "data" / "facts" / "ledger.parquet").exists()
