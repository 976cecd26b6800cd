"""Make Snakemake agree that what was cloned and pulled is done, after checking all of it.

python scripts/restore.py [options of Snakemake, such as --configfile X.yaml]
"""

import re
import subprocess
import sys
from pathlib import Path

from anneal import cli
from anneal.provenance.restore import judge, make_own, mark_broken, planned_jobs, summary

SNAKEMAKE = (sys.executable, "-m", "snakemake", "all", "search", "--profile", "profiles/local")
TARGETS = ("all", "search", "total")


def main(arguments) -> None:
    make_own(Path("results"))
    jobs = planned_jobs(ask("--dry-run", "--forceall", "--printshellcmds", *arguments.options))
    judge(jobs)
    for job in jobs:
        if job.state == "broken":
            mark_broken(job)
    ask("--touch", "--forceall", *arguments.options)  # times in order, and fresh metadata
    table = ask("--dry-run", "--quiet", "rules", "host", *arguments.options)
    counts = dict(re.findall(r"^(\w+) +(\d+)$", table, flags=re.M))  # it is printed twice
    left = [f"{count} {rule}" for rule, count in counts.items() if rule not in TARGETS]
    print(*summary(jobs), f"Left to run: {', '.join(left) or 'nothing'}", sep="\n")


def ask(*options: str) -> str:
    """What Snakemake prints; if it fails, the end of that is the error of this command."""
    done = subprocess.run([*SNAKEMAKE, *options], capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        sys.exit("\n".join(errors or lines[-10:]))
    return done.stdout


if __name__ == "__main__":
    arguments, options = cli.parser(__doc__).parse_known_args()
    arguments.options = options
    cli.run(main, arguments)
