"""Measure one model, base or tuned, on held-out rows: loss, perplexity, answers to prompts.

python scripts/measure_heldout.py --step JSON --model DIR/manifest.json --heldout H.jsonl \\
    --output O.json --manifest M.json
"""

import os
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch

from anneal import cli
from anneal.evaluation.heldout import measure
from anneal.provenance.files import write_json
from anneal.provenance.manifests import write_manifest
from anneal.training.models import model_folder


def main(arguments) -> None:
    torch.set_num_threads(arguments.threads)
    folder = model_folder(arguments.model.parent)
    found = measure(arguments.step.settings, folder, arguments.heldout)
    write_json(arguments.output, found)
    inputs = {"model": arguments.model, "heldout": arguments.heldout}
    facts = {name: found[name] for name in ("loss", "perplexity", "tokens", "stopped")}
    write_manifest(arguments.manifest, arguments.step, inputs, [arguments.output], **facts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("model", "heldout", "output", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--threads", type=int, default=2)
    cli.run(main, arguments.parse_args())
