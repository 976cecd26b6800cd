"""Learning-rate range test of the run that a study is about.

python scripts/range_test.py --step JSON --base DIR/manifest.json --splits DIR/manifest.json \\
    --curve range_test.json --plot range_test.svg --manifest range_test.manifest.json
"""

import os
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch

from anneal import cli
from anneal.provenance.files import write_json
from anneal.provenance.manifests import write_manifest
from anneal.search.plots import plot_range_test
from anneal.search.range_test import range_test
from anneal.training.job import Job
from anneal.training.precision import with_usable_precision


def main(arguments) -> None:
    torch.set_num_threads(arguments.threads)
    settings = arguments.step.settings
    base, splits = arguments.base.parent, arguments.splits.parent
    with tempfile.TemporaryDirectory() as unused:
        job = Job(with_usable_precision(settings["run"]), base, splits, Path(unused))
        found = range_test(job, settings["low"], settings["high"], settings["steps"])
    write_json(arguments.curve, found)
    plot_range_test(found, arguments.plot)
    inputs = {"base": arguments.base, "splits": arguments.splits}
    outputs = [arguments.curve, arguments.plot]
    suggestion = found["suggestion"]
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, suggestion=suggestion)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("base", "splits", "curve", "plot", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--threads", type=int, default=2)
    cli.run(main, arguments.parse_args())
