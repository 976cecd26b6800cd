"""Have a language model write tasks after some written by hand; keep those that are new and sound.

python scripts/generate.py --step JSON --manner JSON --journal J.jsonl --output O.jsonl \\
    --rejects X.jsonl --manifest M.json [--model DIR/manifest.json]
"""

import json
import os
from pathlib import Path

from anneal import cli
from anneal.generating.endpoint import Endpoint
from anneal.generating.generate import generate
from anneal.generating.journal import Journal
from anneal.provenance.manifests import input_digest, write_manifest


def main(arguments) -> None:
    step, manner = arguments.step, arguments.manner
    journal = Journal(arguments.journal, *asker(step.settings, manner, arguments.model))
    outputs = [arguments.output, arguments.rejects]
    counts = generate(step.settings, journal, manner["max_requests"], *outputs)
    inputs = {"model": arguments.model} if arguments.model else {}
    cost = price(counts, manner)
    write_manifest(arguments.manifest, step, inputs, outputs, **counts, cost=cost)


def asker(settings: dict, manner: dict, model: Path | None) -> tuple:
    """Who answers, under which name its answers are remembered, and how many requests at once."""
    if model:
        os.environ["HF_HUB_OFFLINE"] = "1"
        from anneal.generating.local import LocalModel

        return LocalModel(model.parent, manner["threads"]), input_digest(model), 1
    ask = Endpoint(settings["url"], manner["key_env"], manner["timeout"])
    return ask, settings["url"], manner["concurrency"]


def price(counts: dict, manner: dict) -> float:
    """Of all requests, in the currency of the prices, which are those of a million tokens."""
    prompts = counts["prompt_tokens"] * manner["prompt_price"]
    return round((prompts + counts["answer_tokens"] * manner["answer_price"]) / 1e6, 6)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--manner", type=json.loads, required=True, help="JSON")
    arguments.add_argument("--model", type=Path, help="manifest of a model that answers here")
    for name in ("journal", "output", "rejects", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
