"""What a job asks of a cluster, in the names of Snakemake's Slurm plugin; locally it means nothing.

Nothing in here can change a result, so nothing in here is part of a step.
"""

from anneal.config.run import Run
from anneal.config.site import Site

# Slurm warns this long before the end, so that a checkpoint can be saved; a twelfth at most.
NOTICE_S = 300


def cpu_request(site: Site, mem_mb: int, minutes: int, attempt: int = 1) -> dict:
    """A job on CPUs. One that was killed asks for more memory (MB) and minutes the next time."""
    return _request(site, "cpu", mem_mb, minutes, attempt)


def device_request(
    site: Site, hardware: str, mem_mb: int, minutes: int, attempt: int = 1, devices: int = 1
) -> dict:
    """A job on one node that uses `devices` of the hardware: GPUs, or none if it is `cpu`."""
    if hardware == "cpu":
        return cpu_request(site, mem_mb, minutes, attempt)
    kind = site.gpus.get(hardware)
    gres = f"gpu:{kind}:{devices}" if kind else f"gpu:{devices}"
    # Without tasks_per_gpu the plugin would start one task a GPU; torchrun starts the processes.
    request = _request(site, "gpu", mem_mb, minutes, attempt)
    return request | {"gres": gres, "tasks_per_gpu": 0}


def training_request(site: Site, run: Run, attempt: int = 1) -> dict:
    """A training job: one task a node, which starts a process for each GPU there."""
    nodes, processes = run.strategy.nodes, run.strategy.processes
    request = device_request(site, run.hardware, run.mem_mb, run.minutes, attempt, processes)
    minutes = request["runtime"]
    request |= {"nodes": nodes}
    request |= {"slurm_extra": f"'--signal=TERM@{min(NOTICE_S, minutes * 5)}'"}
    return request | ({"mpi": "srun", "tasks": nodes} if nodes > 1 else {})


def _request(site: Site, kind: str, mem_mb: int, minutes: int, attempt: int) -> dict:
    partition = getattr(site.partitions, kind)
    request = {
        "mem_mb": mem_mb * attempt,
        "runtime": min(minutes * attempt, partition.max_minutes or minutes * attempt),
        "slurm_partition": partition.name,
        "slurm_account": site.account,
    }
    return {name: value for name, value in request.items() if value is not None}


# What a request may hold.
NAMES = (
    *("mem_mb", "runtime", "slurm_partition", "slurm_account", "gres", "tasks_per_gpu"),
    *("nodes", "tasks", "mpi", "slurm_extra"),
)
