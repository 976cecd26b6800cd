# What each job asks of a cluster. The site's own values are in profiles/slurm/site.yaml.
from anneal.cluster import NAMES, cpu_request, device_request, training_request
from anneal.config.site import Site

try:
    SITE = load_config(Path(workflow.basedir) / "profiles/slurm/site.yaml", Site)
except UserError as error:
    sys.exit(f"error: {error}")


def resources_of(request):
    """A function of wildcards and attempt for each name that a request may hold."""

    def resource(name):
        return lambda wildcards, attempt: request(wildcards, attempt).get(name)

    return {name: resource(name) for name in NAMES}


def on_cpu(mem_mb, minutes):
    """Resources of a step on CPUs."""
    return resources_of(lambda wildcards, attempt: cpu_request(SITE, mem_mb, minutes, attempt))


def scoring(wildcards, attempt):
    """Scoring, on the hardware of the run; of a base, on a GPU if any of its runs has one."""
    users = [run for run in CONFIG.runs.values() if run.model == wildcards.scored]
    runs = [COMPARED[wildcards.scored]] if wildcards.scored in COMPARED else users
    hardware = max((run.hardware for run in runs), key=lambda name: name != "cpu")
    section = CONFIG.evaluate
    return device_request(SITE, hardware, section.mem_mb, section.minutes, attempt)


def searching(wildcards, attempt):
    """Trials and range tests: one process, as one of the run's."""
    run = study_run(wildcards)
    return device_request(SITE, run.hardware, run.mem_mb, run.minutes, attempt)


def training(wildcards, attempt):
    return training_request(SITE, run_of(wildcards), attempt)


on_shard = on_cpu(mem_mb=2000, minutes=60) | {"shards_at_once": 1}
on_whole = on_cpu(mem_mb=4000, minutes=240)
scoring_whole = on_cpu(mem_mb=2000, minutes=30)  # what several jobs found, put together
