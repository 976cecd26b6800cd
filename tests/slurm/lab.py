"""A Slurm of two nodes with two GPUs each, on one machine, from Debian's packages.

python tests/slurm/lab.py install|up|down      as root; `up` prints the folder

Everything is in one folder, but for two things that `down` takes away again: a link at
/etc/slurm/slurm.conf, as job steps of Snakemake's plugin lose SLURM_CONF; and a line in /etc/hosts,
as processes of a training job find each other by the names of nodes.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
NODES, GPUS = ("n1", "n2"), 2
LINK, HOSTS = Path("/etc/slurm/slurm.conf"), Path("/etc/hosts")
HOSTS_LINE = f"127.0.0.1 {' '.join(NODES)} # anneal's test cluster\n"

# OverMemoryKill: a memory limit without cgroups. KillWait: seconds from SIGTERM to SIGKILL.
# config_overrides: a node may claim more than the machine has.
CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
GresTypes=gpu
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
KillWait=10
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] \
CPUs=4 RealMemory=32000 Gres=gpu:{gpus}
PartitionName=cpu Nodes=ALL Default=YES State=UP
PartitionName=gpu Nodes=ALL MaxTime=60 State=UP
"""


class Lab:
    """The daemons of one cluster, and its commands."""

    def __init__(self, folder: Path):
        self.folder = folder

    def up(self) -> "Lab":
        """Start the daemons; raises RuntimeError if the nodes are not idle within 30 s."""
        self._write()
        munge = [f"--{part}-file={self.folder}/munge.{part}" for part in ("key", "pid", "log")]
        munge += [f"--socket={self.folder}/munge.socket", f"--seed-file={self.folder}/munge.seed"]
        self.call("munged", "--force", *munge)
        self.call("slurmctld")
        for node in NODES:
            self.call("slurmd", "-N", node)
        idle = [*("sinfo", "-h", "-N", "-p", "cpu", "-o", "%t")]
        wait_for(lambda: self.call(*idle, check=False).split() == ["idle"] * len(NODES), 30)
        return self

    def down(self) -> None:
        """Cancel all jobs, stop the daemons of this folder, remove what lies outside of it."""
        if self.running("slurmctld"):
            self.call("scancel", "--user", "root", check=False)
            wait_for(lambda: not self.jobs(), 30)
        for pid in (*self.folder.glob("slurm*.pid"), self.folder / "munge.pid"):
            self.stop(pid.stem)
        if LINK.is_symlink() and LINK.readlink() == self.folder / "slurm.conf":
            LINK.unlink()
        HOSTS.write_text(HOSTS.read_text().replace(HOSTS_LINE, ""))
        shutil.rmtree(self.folder)

    def call(self, *command: str, check: bool = True) -> str:
        environment = os.environ | {"SLURM_CONF": f"{self.folder}/slurm.conf"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def jobs(self, states: str = "PENDING,RUNNING,COMPLETING") -> list[dict[str, str]]:
        """Jobs in these states, in the order of submission."""
        fields = {"id": "%i", "name": "%j", "state": "%T", "why": "%r", "comment": "%k"}
        form = "|".join(fields.values())
        lines = self.call("squeue", "-h", "-S", "i", "-t", states, "-o", form).splitlines()
        return [dict(zip(fields, line.split("|"), strict=True)) for line in lines]

    def show(self, job: str) -> dict[str, str]:
        """What Slurm knows of a job, also some minutes after its end."""
        words = self.call("scontrol", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def running(self, daemon: str) -> int | None:
        """The daemon's process; None if it is gone, or dead and not yet reaped."""
        try:
            pid = int((self.folder / f"{daemon}.pid").read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):  # the file may go at any moment, and may be empty
            return None
        return pid if state != "Z" else None

    def stop(self, daemon: str) -> None:
        if pid := self.running(daemon):
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda: not self.running(daemon), 20)

    def _write(self) -> None:
        if LINK.exists():
            do = "if it is of these tests: python tests/slurm/lab.py down"
            raise RuntimeError(f"{LINK} exists, so this machine has a Slurm; {do}")
        for part in ("state", "spool", "dev"):
            (self.folder / part).mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        host = socket.gethostname().split(".")[0]
        values = {"host": host, "folder": self.folder, "ports": free_ports(3), "gpus": GPUS}
        (self.folder / "slurm.conf").write_text(CONF.format(**values))
        for number in range(GPUS):  # what Slurm takes for a GPU has to be a device
            (self.folder / "dev" / f"nvidia{number}").symlink_to("/dev/null")
        device = f"{self.folder}/dev/nvidia[0-{GPUS - 1}]"
        gres = f"NodeName=n[1-2] Name=gpu File={device} Flags=nvidia_gpu_env\n"
        (self.folder / "gres.conf").write_text(gres)
        LINK.parent.mkdir(exist_ok=True)
        LINK.unlink(missing_ok=True)
        LINK.symlink_to(self.folder / "slurm.conf")
        if HOSTS_LINE not in HOSTS.read_text():
            with HOSTS.open("a") as hosts:
                hosts.write(HOSTS_LINE)


def free_ports(count: int) -> list[int]:
    """The first of so many free ports in a row, below those that connections are given."""
    for first in range(16_800, 30_000, 100):
        ports = list(range(first, first + count))
        if all(map(_is_free, ports)):
            return ports
    raise RuntimeError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


def wait_for(true, seconds: float, every: float = 0.1) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds} s")
        time.sleep(every)


def new_folder() -> Path:
    """A short path that other users may enter: sockets allow 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="lab-", dir="/tmp"))
    folder.chmod(0o755)
    return folder


def missing() -> str | None:
    """Why no cluster can be started here; None if one can."""
    if os.geteuid() != 0:
        return "a test cluster is started by root only"
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    return f"{', '.join(lacking)} not found: `make test-slurm` installs them" if lacking else None


def install() -> None:
    if missing() and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        apt = ("apt-get", "-qq", "-y", "--no-install-recommends")
        subprocess.run([*apt, "update"], env=environment, check=True)
        subprocess.run([*apt, "install", *PACKAGES], env=environment, check=True)


if __name__ == "__main__":
    if sys.argv[1] == "install":
        install()
    elif sys.argv[1] == "up":
        print(Lab(new_folder()).up().folder)
    else:
        Lab(LINK.readlink().parent).down()
