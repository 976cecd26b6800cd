"""The exact command that starts the processes of a run, and what they find in their environment."""

import shlex
import sys
import tempfile
from getpass import getuser
from pathlib import Path

from anneal.config.strategy import Strategy
from anneal.errors import UserError

# torchrun passes these on to the ranks, which save a checkpoint; a long step may be under way
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
GRACE = 300
# jobs of one machine meet at different ports, all below those that the system gives out itself
SLURM_PORT = "$((20000 + SLURM_JOB_ID % 10000))"
SLURM_HOST = "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"


def launch_command(
    strategy: Strategy,
    script: list[str],
    cpus: int = 1,
    endpoint: str | None = None,
    python: str = sys.executable,
) -> list[str]:
    """The command that trains: python itself, torchrun, or srun with a torchrun on each node.

    Args:
        script: the script and its arguments.
        cpus: those of a node.
        endpoint: `host:port` at which the nodes meet, where no Slurm tells them; then the command
            is to be started once on each node.
    """
    if strategy.world_size == 1 and strategy.kind in ("single", "ddp"):
        return [python, *script]
    script = ["--", *script]  # or torchrun would take --log for one of its own options
    run = [
        *(python, "-m", "torch.distributed.run", f"--nproc-per-node={strategy.processes}"),
        *(f"--signals-to-handle={SIGNALS}", f"--shutdown-timeout={GRACE}"),
    ]
    if strategy.nodes == 1:
        return [*run, "--standalone", *script]
    run += [f"--nnodes={strategy.nodes}", "--rdzv-backend=c10d"]
    if endpoint:
        return [*run, f"--rdzv-id={endpoint}", f"--rdzv-endpoint={endpoint}", *script]
    return [*_srun(strategy.nodes, cpus), "bash", "-c", _on_each_node(run, script)]


def _srun(nodes: int, cpus: int) -> list[str]:
    """One task a node. All is said again: Snakemake's job step hides the job's own variables."""
    return [
        *("srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"),
        *(f"--cpus-per-task={cpus}", "--cpu-bind=none", "--kill-on-bad-exit=1"),
    ]


def _on_each_node(run: list[str], script: list[str]) -> str:
    """The hosts of the job are known inside of srun only."""
    meeting = f"--rdzv-id=$SLURM_JOB_ID --rdzv-endpoint={SLURM_HOST}:{SLURM_PORT}"
    return f"exec {shlex.join(run)} {meeting} {shlex.join(script)}"


def check_launch(strategy: Strategy, environment: dict[str, str], endpoint: str | None) -> None:
    """Raises UserError if several nodes are asked for and nothing says where they meet."""
    if strategy.nodes > 1 and not endpoint and "SLURM_JOB_ID" not in environment:
        what = f"{strategy.nodes} nodes, and this is no job of Slurm"
        do = "run with --profile slurm, or start it on each node with --endpoint HOST:PORT"
        raise UserError("runs.*.strategy.nodes", what, do)


def surroundings(environment: dict[str, str]) -> dict[str, str]:
    """The environment of the processes; what the site has set already stays.

    Compiled kernels are cached on the node, not in a home folder that all nodes share. Which
    network interface NCCL and gloo use is the site's to say (NCCL_SOCKET_IFNAME, ...).
    """
    caches = Path(environment.get("TMPDIR", tempfile.gettempdir())) / f"anneal-{getuser()}"
    ours = {
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TORCH_EXTENSIONS_DIR": str(caches / "extensions"),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",  # a lost peer ends the run instead of hanging it
        "OMP_NUM_THREADS": "1",  # each process sets its own threads; torchrun would warn
    }
    return ours | environment
