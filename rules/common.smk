# The configuration, the paths of all artifacts, and what decides whether a step is current.
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "scripts"))

from anneal.config.schema import load_config
from anneal.errors import UserError
from anneal.workflow import RunLock, Steps, failures, use_this_python

use_this_python()
try:
    CONFIG = load_config(os.path.relpath((workflow.configfiles or ["config/config.yaml"])[-1]))
    STEPS = Steps(CONFIG)
except UserError as error:
    sys.exit(f"error: {error}")

STARTED = time.time()
RESULTS = f"results/{CONFIG.project}"
LOGS = f"{RESULTS}/logs"
SCRIPTS = Path(workflow.basedir) / "scripts"

MODEL = f"{RESULTS}/models/{{model}}/manifest.json"
DATA = f"{RESULTS}/data/{{dataset}}"
TOKENS = f"{RESULTS}/tokens/{{dataset}}/{{model}}"
LEDGER = f"{DATA}/ledger.parquet"
HELDOUT = f"{DATA}/heldout.jsonl"
SPLITS = f"{TOKENS}/splits/manifest.json"
RUN = f"{RESULTS}/runs/{{run}}/manifest.json"
SCORES = f"{RESULTS}/evaluation/{{dataset}}/{{scored}}"
COMPARISON = f"{RESULTS}/evaluation/comparisons/{{run}}.json"
REPORT = f"{RESULTS}/report/report.html"

# A reward model scores answers and gives none: it has nothing to be benchmarked by.
ASKED_RUNS = [n for n, r in CONFIG.runs.items() if CONFIG.evaluate.tasks and r.method != "reward"]


wildcard_constraints:
    dataset="|".join(map(re.escape, CONFIG.datasets)),
    model="|".join(map(re.escape, CONFIG.models)),
    run="|".join(map(re.escape, CONFIG.runs)) or "none",
    scored="|".join(map(re.escape, [*CONFIG.models, *CONFIG.runs])),
    shard=r"[A-Za-z0-9_.-]+-\d{5}",


def step(name):
    """Params of a step: its resolved settings, code digest and source digests, as one JSON text."""
    return lambda wildcards: STEPS.text(name, wildcards)


def current(name, manifest):
    """An input that adds no file, but has the job run if its manifest was written for another step.

    Snakemake compares params only where it has metadata; this check needs none.
    """

    def check(wildcards):
        path = manifest.format(**wildcards)
        if not STEPS.is_current(name, wildcards, path):
            workflow.dag.forcefiles.add(path)
        return []

    return check


def every_shard(pattern):
    """The pattern for each shard of the dataset, in the order of sources."""
    return lambda wildcards: [
        pattern.format(**wildcards, shard=shard.name) for shard in STEPS.shards[wildcards.dataset]
    ]


def model_origins(wildcards):
    """The artifacts that a model is made of; none for a model from elsewhere."""
    return [RUN.format(run=run) for run in CONFIG.models[wildcards.model].runs()]


def run_of(wildcards):
    return CONFIG.runs[wildcards.run]


def run_base(wildcards):
    return MODEL.format(model=run_of(wildcards).model)


def run_splits(wildcards):
    return SPLITS.format(dataset=run_of(wildcards).dataset, model=run_of(wildcards).model)


def run_reward(wildcards):
    """The run of the reward model, for methods that have one."""
    reward = run_of(wildcards).reward_model()
    return RUN.format(run=reward) if reward else []


def scored_model(wildcards):
    """A base model and a run share one rule: both are scored in exactly the same way."""
    if wildcards.scored in CONFIG.runs:
        return RUN.format(run=wildcards.scored)
    return MODEL.format(model=wildcards.scored)


def other_heldouts(wildcards):
    """TASK=FILE of tasks that ask about another dataset's held-out rows."""
    tasks = CONFIG.evaluate.tasks.items()
    return {n: HELDOUT.format(dataset=t.heldout) for n, t in tasks if t.heldout}


def scores(kind, of):
    """`results.json` or `samples.jsonl` of a run, or of its base."""

    def path(wildcards):
        run = CONFIG.runs[wildcards.run]
        scored = run.model if of == "base" else wildcards.run
        return f"{SCORES}/{kind}".format(dataset=run.dataset, scored=scored)

    return path


def datasets_of_runs(pattern):
    pairs = sorted({(run.dataset, run.model) for run in CONFIG.runs.values()})
    return [pattern.format(dataset=dataset, model=model) for dataset, model in pairs]


onstart:
    STEPS.remember_digests()
    try:
        LOCK = RunLock(Path(RESULTS) / ".lock")
    except UserError as error:
        sys.exit(f"error: {error}")


onerror:
    print("The run stopped here:", *failures(Path(LOGS), STARTED), sep="\n", file=sys.stderr)


onsuccess:
    if Path(REPORT).is_file():
        shell(
            f"python {str(SCRIPTS / 'summarise.py')!r} --report {str(Path(REPORT).with_suffix('.json'))!r}"
        )
