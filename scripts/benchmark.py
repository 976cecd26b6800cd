"""Score one model, base or tuned, on all benchmarks of the configuration.

python scripts/benchmark.py --step JSON --model DIR/manifest.json --heldout H.jsonl \\
    --results R.json --samples S.jsonl --manifest M.json
"""

import os
import tempfile
from collections import defaultdict
from pathlib import Path

CACHE = tempfile.TemporaryDirectory()
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
os.environ.update(HF_DATASETS_CACHE=CACHE.name, HF_EVALUATE_OFFLINE="1")

import orjson
import torch

from anneal import cli
from anneal.evaluation.benchmark import benchmark
from anneal.provenance.files import whole_file, write_json
from anneal.provenance.manifests import write_manifest


def main(arguments) -> None:
    torch.set_num_threads(arguments.threads)
    folder = arguments.model.parent
    folder = folder / "model" if (folder / "model").is_dir() else folder
    others = {task: Path(file) for task, _, file in (o.partition("=") for o in arguments.others)}
    heldout = defaultdict(lambda: arguments.heldout, others)
    results, samples = benchmark(arguments.step.settings, folder, heldout)
    write_json(arguments.results, results)
    with whole_file(arguments.samples) as path:
        path.write_bytes(b"".join(orjson.dumps(sample) + b"\n" for sample in samples))
    inputs = {"model": arguments.model, "heldout": arguments.heldout, **others}
    outputs = [arguments.results, arguments.samples]
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, questions=len(samples))


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    for name in ("model", "heldout", "results", "samples", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--others", nargs="*", default=[], metavar="TASK=FILE")
    arguments.add_argument("--threads", type=int, default=2)
    cli.run(main, arguments.parse_args())
