"""Train one run from its tokenized splits; run it again after a kill and it goes on.

python scripts/train_run.py --step JSON --base DIR/manifest.json --splits DIR/manifest.json \\
    --checkpoints DIR --manifest DIR/manifest.json
"""

import os
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch

from anneal import cli
from anneal.provenance.digests import digest_value
from anneal.provenance.files import read_json
from anneal.provenance.manifests import input_digest, step_key, write_manifest
from anneal.search.settings import with_values
from anneal.training.job import Job
from anneal.training.train import train


def main(arguments) -> None:
    torch.set_num_threads(arguments.threads)
    step, folder = arguments.step, arguments.manifest.parent
    inputs = {"base": arguments.base, "splits": arguments.splits}
    inputs |= {"reward": arguments.reward} if arguments.reward else {}
    inputs |= {"best": arguments.best} if arguments.best else {}
    searched = read_json(arguments.best)["values"] if arguments.best else {}
    digests = {name: input_digest(path) for name, path in inputs.items()}
    fingerprint = digest_value([step_key(step), digests])[:16]
    job = Job(
        with_values(step.settings, searched),
        arguments.base.parent,
        arguments.splits.parent,
        arguments.checkpoints / fingerprint,
        arguments.tracker,
        arguments.reward.parent / "model" if arguments.reward else None,
        arguments.trackers,
    )
    facts = train(job, folder) | ({"searched": searched} if searched else {})
    write_manifest(arguments.manifest, step, inputs, [folder], fingerprint=fingerprint, **facts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("base", "splits", "checkpoints", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--reward", type=Path, help="manifest of the reward model's run")
    arguments.add_argument("--best", type=Path, help="result of a study; its values are taken")
    arguments.add_argument("--tracker", default="none", help="where curves go besides our own")
    arguments.add_argument("--trackers", type=Path, help="folder of the tracker's files")
    arguments.add_argument("--threads", type=int, default=2)
    cli.run(main, arguments.parse_args())
