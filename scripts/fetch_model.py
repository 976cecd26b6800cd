"""Bring a model into a local folder of safetensors, tokenizer and chat template.

python scripts/fetch_model.py --step JSON --manifest DIR/manifest.json [--origins M.json ...]
"""

import os
from pathlib import Path

from anneal import cli
from anneal.provenance.files import whole_folder
from anneal.provenance.manifests import write_manifest
from anneal.training.fetch import fetch


def main(arguments) -> None:
    settings, model = arguments.step.settings, arguments.step.settings["model"]
    os.environ["HF_HUB_OFFLINE"] = "0" if model["hub"] else "1"
    folder = arguments.manifest.parent
    with whole_folder(folder) as partial:
        given = (settings["styles"], settings["maker"], arguments.origins)
        facts = fetch(model, partial, *given)
    inputs = {f"origin-{n}": path for n, path in enumerate(arguments.origins)}
    write_manifest(arguments.manifest, arguments.step, inputs, [folder], **facts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--manifest", type=Path, required=True)
    more = {"nargs": "*", "action": cli.Shards, "default": []}
    arguments.add_argument("--origins", type=Path, **more, help="what it is made of")
    cli.run(main, arguments.parse_args())
