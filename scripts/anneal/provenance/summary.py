"""What Snakemake says of a configuration: every output of its DAG, and whether it is up to date."""

import csv
import subprocess
import sys
from pathlib import Path

from anneal.config.schema import load_config
from anneal.errors import UserError

TARGETS = ("all", "data", "search", "train", "evaluate", "report")
CURRENT = "no update"


def jobs_of(configfile: Path) -> list[dict]:
    """The outputs of a configuration's whole DAG: `output_file`, `rule`, `log-file(s)`, `plan`.

    Raises:
        UserError: Snakemake cannot build the DAG, so that nothing is known.
    """
    config = load_config(configfile)
    models = [f"results/{config.project}/models/{name}/manifest.json" for name in config.models]
    command = (
        *(sys.executable, "-m", "snakemake", *TARGETS, *models, "--profile", "profiles/local"),
        *("--summary", "--configfile", str(configfile)),
    )
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        why = next((x for x in done.stderr.splitlines() if x.startswith("error: ")), done.stderr)
        raise UserError(configfile, f"its DAG cannot be built ({why.strip()})", "mend that first")
    start = next(n for n, line in enumerate(lines) if line.startswith("output_file\t"))
    return list(csv.DictReader(lines[start:], delimiter="\t"))
