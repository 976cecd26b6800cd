# The configuration, the paths of all artifacts, and what decides whether a step is current.
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "scripts"))

from anneal.config.schema import load_config
from anneal.errors import UserError
from anneal.lock import RunLock
from anneal.patience import be_patient
from anneal.workflow import Steps, failures, use_this_python

use_this_python()
CONFIG_FILE = os.path.relpath((workflow.configfiles or ["config/config.yaml"])[-1])
try:
    CONFIG = load_config(CONFIG_FILE)
    STEPS = Steps(CONFIG, workflow.is_main_process)
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
SAMPLE = f"{DATA}/sample.parquet"
SPLITS = f"{TOKENS}/splits/manifest.json"
RUN = f"{RESULTS}/runs/{{run}}/manifest.json"
SEARCH = f"{RESULTS}/search/{{study}}"
BEST = f"{SEARCH}/best.json"
SCORES = f"{RESULTS}/evaluation/{{dataset}}/{{scored}}"
PART = f"{SCORES}/parts/{{part}}/{{file}}"
COMPARISON = f"{RESULTS}/evaluation/comparisons/{{tuned}}.json"
REPORT = f"{RESULTS}/report/report.html"
STREAMED = [name for name, dataset in CONFIG.datasets.items() if dataset.stream]
STORED = [name for name in CONFIG.datasets if name not in STREAMED]
COMPARED = CONFIG.compared()


def one_of(names):
    """A pattern for a wildcard that stands for one of these names."""
    return "|".join(map(re.escape, names)) or "none"


wildcard_constraints:
    dataset=one_of(CONFIG.datasets),
    model=one_of(CONFIG.models),
    run=one_of(CONFIG.runs),
    tuned=one_of(COMPARED),
    study=one_of(CONFIG.search),
    worker=r"\d+",
    part=r"\d+",
    scored=one_of([*CONFIG.models, *CONFIG.runs]),
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


def anew(path):
    """An input that adds no file, but has the job of `path` run whenever it is asked for."""

    def force(wildcards):
        workflow.dag.forcefiles.add(path)
        return []

    return force


def every_shard(pattern):
    """The pattern for each shard of the dataset, in the order of sources."""
    return lambda wildcards: [
        pattern.format(**wildcards, shard=shard.name) for shard in STEPS.shards[wildcards.dataset]
    ]


def all_shards_at(pattern, dataset, **wildcards):
    """The same files, short enough for any command line: the pattern, then SOURCE:COUNT ..."""
    place = pattern.replace("{shard}", "{{shard}}").format(dataset=dataset, **wildcards)
    return [place, *STEPS.shard_counts(dataset)]


def shards_at(pattern):
    return lambda wildcards: all_shards_at(pattern, **wildcards)


def model_origins(wildcards):
    """The artifacts that a model is made of; none for a model from elsewhere."""
    model = CONFIG.models[wildcards.model]
    if model.scratch:
        clean = f"{DATA}/clean/{{shard}}.parquet"
        shards = STEPS.shards[model.scratch.dataset]
        return expand([LEDGER], dataset=model.scratch.dataset) + expand(
            clean, dataset=model.scratch.dataset, shard=[shard.name for shard in shards]
        )
    runs = [CONFIG.runs[name] for name in model.runs()]
    return [*expand(RUN, run=model.runs()), *map(splits_of, runs)]


def origins_at(wildcards):
    """`model_origins`, short enough for any command line."""
    scratch = CONFIG.models[wildcards.model].scratch
    if not scratch:
        return model_origins(wildcards)
    ledger = LEDGER.format(dataset=scratch.dataset)
    return [ledger, *all_shards_at(f"{DATA}/clean/{{shard}}.parquet", scratch.dataset)]


def run_of(wildcards):
    return CONFIG.runs[wildcards.run]


def run_base(wildcards):
    return MODEL.format(model=run_of(wildcards).model)


def splits_of(run):
    return SPLITS.format(dataset=run.dataset, model=run.model)


def run_splits(wildcards):
    return splits_of(run_of(wildcards))


def run_reward(wildcards):
    """The run of the reward model, for methods that have one."""
    reward = run_of(wildcards).reward_model()
    return RUN.format(run=reward) if reward else []


def run_adapters(wildcards):
    """The runs whose adapters tuning `xlora` mixes."""
    return expand(RUN, run=run_of(wildcards).tuning.adapters)


def run_best(wildcards):
    """The result of the study whose values the run takes."""
    study = run_of(wildcards).best_of
    return BEST.format(study=study) if study else []


def study_run(wildcards):
    return CONFIG.runs[CONFIG.search[wildcards.study].run]


def study_base(wildcards):
    return MODEL.format(model=study_run(wildcards).model)


def study_splits(wildcards):
    return splits_of(study_run(wildcards))


def study_workers(wildcards):
    workers = range(CONFIG.search[wildcards.study].workers)
    return expand(f"{SEARCH}/workers/{{worker}}.json", worker=workers, study=wildcards.study)


def scored_model(wildcards):
    """A base model and a run share one rule: both are scored in exactly the same way."""
    if wildcards.scored in CONFIG.runs:
        return RUN.format(run=wildcards.scored)
    return MODEL.format(model=wildcards.scored)


def other_heldouts(wildcards):
    """TASK=FILE of tasks that ask about another dataset's held-out rows."""
    tasks = CONFIG.evaluate.tasks.items()
    return {n: HELDOUT.format(dataset=t.heldout) for n, t in tasks if t.heldout}


def others_at(wildcards):
    return [f"{name}={file}" for name, file in other_heldouts(wildcards).items()]


def score_parts(wildcards):
    """The parts of the scores, where several jobs share the tasks."""
    if CONFIG.evaluate.jobs == 1:
        return []
    return expand(PART, part=range(len(STEPS.task_shares)), file="manifest.json", **wildcards)


def contaminated_rows(wildcards):
    """Rows that gave test questions away; a streamed dataset keeps none."""
    dataset = COMPARED[wildcards.tuned].dataset
    return f"{DATA}/contaminated.parquet".format(dataset=dataset) if dataset in STORED else []


def score_options(input):
    """Options of compare_run for what is there only if tasks are named."""
    names = ("base", "tuned", "base_samples", "tuned_samples") if CONFIG.evaluate.tasks else ()
    return [part for name in names for part in (f"--{name.replace('_', '-')}", input[name])]


def scores(kind, of):
    """`results.json`, `samples.jsonl` or `heldout.json` of a run or model, or of its base."""

    def path(wildcards):
        run = COMPARED[wildcards.tuned]
        scored = run.model if of == "base" else wildcards.tuned
        return f"{SCORES}/{kind}".format(dataset=run.dataset, scored=scored)

    return path


def datasets_of_runs(pattern):
    pairs = sorted({(run.dataset, run.model) for run in CONFIG.runs.values()})
    return [pattern.format(dataset=dataset, model=model) for dataset, model in pairs]


def must_fit():
    """Runs that will train on devices whose memory the plan compares with what they need."""
    jobs = [job for job in workflow.dag.needrun_jobs() if job.rule.name == "train_run"]
    names = {job.wildcards.run for job in jobs}
    return sorted(name for name in names if CONFIG.runs[name].hardware != "cpu")


onstart:
    STEPS.remember_digests()
    try:
        jobs = getattr(workflow.scheduler._executor, "run_uuid", None)  # their name on Slurm
        LOCK = RunLock(Path(RESULTS), jobs)
    except UserError as error:
        sys.exit(f"error: {error}")
    if jobs:
        be_patient(workflow.scheduler._executor)
    STEPS.write_plans()
    if names := must_fit():  # before a job of days waits for a device that is too small
        command = [SCRIPTS / "plan.py", "--config", CONFIG_FILE, "--check", *names]
        if subprocess.run([sys.executable, *map(str, command)]).returncode:
            sys.exit(1)


onerror:
    print("The run stopped here:", *failures(Path(LOGS), STARTED), sep="\n", file=sys.stderr)


onsuccess:
    if Path(REPORT).is_file():
        shell(
            f"python {str(SCRIPTS / 'summarise.py')!r} --report {str(Path(REPORT).with_suffix('.json'))!r}"
        )
