"""Look at locks, leftovers, environment, profile and configuration, and say what to do.

python scripts/doctor.py [--config config/config.yaml] [--profile profiles/local]

It changes nothing. It exits with 1 if something is wrong.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from anneal import cli
from anneal.doctor.finding import Finding
from anneal.doctor.machine import look_at_devices, look_at_disk, look_at_packages
from anneal.doctor.setup import look_at_config, look_at_profile
from anneal.doctor.state import look_at_state
from anneal.provenance.files import read_json


def main(arguments) -> None:
    findings = list(findings_of(arguments.config, arguments.profile))
    print(*findings, sep="\n")
    if any(finding.level == "wrong" for finding in findings):
        sys.exit(1)


def findings_of(path: Path, profile: Path) -> Iterator[Finding]:
    yield from look_at_packages()
    yield from look_at_profile(profile)
    config, finding = look_at_config(path)
    yield finding
    if config is None:
        return
    results = Path("results") / config.project
    yield from look_at_devices({name: run.hardware for name, run in config.runs.items()})
    yield from look_at_disk(results, planned_disk(results / "plan" / "plan.json"))
    yield from look_at_state(results)


def planned_disk(plan: Path) -> float:
    """Bytes of checkpoints and results of all runs, as the plan has them; 0 without one."""
    plans = read_json(plan) if plan.is_file() else []
    return sum(p["disk"]["checkpoints"] + p["disk"]["result"] for p in plans)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--config", type=Path, default=Path("config/config.yaml"))
    arguments.add_argument("--profile", type=Path, default=Path("profiles/local"))
    cli.run(main, arguments.parse_args())
