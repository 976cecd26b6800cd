"""One worker of a study; run it again after a kill and it goes on.

python scripts/run_trials.py --step JSON --base DIR/manifest.json --splits DIR/manifest.json \\
    --studies DIR --worker 0 --workers 4 --manifest workers/0.json
"""

import os
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch

from anneal import cli
from anneal.provenance.digests import digest_value
from anneal.provenance.manifests import input_digest, write_manifest
from anneal.search.trials import run_trials
from anneal.training.job import Job
from anneal.training.precision import with_usable_precision


def main(arguments) -> None:
    torch.set_num_threads(arguments.threads)
    step = arguments.step
    inputs = {"base": arguments.base, "splits": arguments.splits}
    digests = {name: input_digest(path) for name, path in inputs.items()}
    fixed = {name: value for name, value in step.settings.items() if name != "trials"}
    settings = step.settings | {"run": with_usable_precision(fixed["run"])}
    fingerprint = digest_value([fixed, step.code, digests])[:16]
    folder = arguments.studies / fingerprint
    with tempfile.TemporaryDirectory() as unused:
        job = Job(settings["run"], arguments.base.parent, arguments.splits.parent, Path(unused))
        done = run_trials(job, settings, folder, arguments.worker, arguments.workers)
    write_manifest(arguments.manifest, step, inputs, [], trials=done, fingerprint=fingerprint)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("base", "splits", "studies", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--worker", type=int, required=True, help="number of this worker")
    arguments.add_argument("--workers", type=int, required=True, help="how many there are")
    arguments.add_argument("--threads", type=int, default=2)
    cli.run(main, arguments.parse_args())
