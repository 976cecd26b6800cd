"""Train one run from its tokenized splits; run it again after a kill and it goes on.

python scripts/train_run.py --step JSON --base DIR/manifest.json --splits DIR/manifest.json \\
    --checkpoints DIR --manifest DIR/manifest.json
"""

import os
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

from anneal import cli
from anneal.config.strategy import Strategy
from anneal.provenance.digests import digest_value
from anneal.provenance.files import read_json
from anneal.provenance.manifests import input_digest, step_key, write_manifest


def main(arguments) -> None:
    offline = "0" if streams_from_hub(arguments.splits.parent) else "1"
    os.environ.update(HF_HUB_OFFLINE=offline, HF_DATASETS_OFFLINE=offline)
    from anneal.search.settings import with_values
    from anneal.training.job import Job  # reads the switches above
    from anneal.training.precision import check_kernels, with_usable_precision
    from anneal.training.processes import check_processes, is_first
    from anneal.training.train import train

    torch.set_num_threads(max(1, arguments.threads // int(os.environ.get("LOCAL_WORLD_SIZE", 1))))
    step, folder = arguments.step, arguments.manifest.parent
    inputs = {"base": arguments.base, "splits": arguments.splits}
    inputs |= {"reward": arguments.reward} if arguments.reward else {}
    inputs |= {f"adapter-{n}": path for n, path in enumerate(arguments.adapters)}
    inputs |= {"best": arguments.best} if arguments.best else {}
    searched = read_json(arguments.best)["values"] if arguments.best else {}
    digests = {name: input_digest(path) for name, path in inputs.items()}
    settings = with_usable_precision(step.settings)
    check_kernels(settings["training"])
    precision = settings["training"]["precision"]
    fingerprint = digest_value([step_key(step), digests, precision])[:16]
    job = Job(
        with_values(settings, searched),
        arguments.base.parent,
        arguments.splits.parent,
        arguments.checkpoints / fingerprint,
        arguments.tracker,
        arguments.reward.parent / "model" if arguments.reward else None,
        tuple(path.parent / "model" for path in arguments.adapters),
        arguments.trackers,
        arguments.strategy,
    )
    check_processes(arguments.strategy)
    facts = train(job, folder) | ({"searched": searched} if searched else {})
    if is_first():
        write_manifest(arguments.manifest, step, inputs, [folder], fingerprint=fingerprint, **facts)


def streams_from_hub(splits: Path) -> bool:
    stream = splits / "stream.json"
    shards = read_json(stream)["shards"] if stream.is_file() else []
    return any(shard["format"] == "hub" for shard in shards)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("base", "splits", "checkpoints", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--reward", type=Path, help="manifest of the reward model's run")
    more = {"type": Path, "nargs": "*", "default": []}
    arguments.add_argument("--adapters", **more, help="manifests of the runs that xlora mixes")
    arguments.add_argument("--best", type=Path, help="result of a study; its values are taken")
    arguments.add_argument("--tracker", default="none", help="where curves go besides our own")
    arguments.add_argument("--trackers", type=Path, help="folder of the tracker's files")
    arguments.add_argument("--threads", type=int, default=2, help="of all processes of this node")
    how = {"type": Strategy.model_validate_json, "default": Strategy()}
    arguments.add_argument("--strategy", **how, help="JSON; scripts/launch.py says it")
    cli.run(main, arguments.parse_args())
