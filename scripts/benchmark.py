"""Score one model, base or tuned, on all benchmarks of the configuration.

python scripts/benchmark.py --step JSON --model DIR/manifest.json --heldout H.jsonl \\
    --results R.json --samples S.jsonl --manifest M.json [--parts P/manifest.json ...]

Beside the results it writes `lm_eval/`, the same as lm-eval itself would have written it. With
`--parts` nothing is asked: what the jobs of `benchmark_part` found is put together.
"""

from collections import defaultdict
from pathlib import Path

import orjson

from anneal import cli
from anneal.evaluation.network import allow
from anneal.evaluation.results import gather, gather_lm_eval, write_lm_eval
from anneal.provenance.files import whole_file, write_json
from anneal.provenance.manifests import write_manifest


def main(arguments) -> None:
    results, lines = _gathered(arguments) if arguments.parts else score(arguments)
    write_json(arguments.results, results)
    with whole_file(arguments.samples) as path:
        path.write_bytes(b"".join(lines))
    inputs = {"model": arguments.model, "heldout": arguments.heldout, **others(arguments)}
    inputs |= {f"part_{n}": part for n, part in enumerate(arguments.parts)}
    outputs = [arguments.results, arguments.samples, arguments.results.with_name("lm_eval")]
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, questions=len(lines))


def score(arguments) -> tuple[dict, list[bytes]]:
    """Results by task and lines of samples of the step's tasks; writes `lm_eval/`."""
    allow(arguments.download)
    import torch

    from anneal.evaluation.benchmark import benchmark
    from anneal.training.models import model_folder

    torch.set_num_threads(arguments.threads)
    heldout = defaultdict(lambda: arguments.heldout, others(arguments))
    settings = arguments.step.settings
    results, samples, outcomes = benchmark(settings, model_folder(arguments.model.parent), heldout)
    target = arguments.results.with_name("lm_eval")
    write_lm_eval(target, outcomes, settings, arguments.model.parent.name)
    return results, [orjson.dumps(sample) + b"\n" for sample in samples]


def others(arguments) -> dict[str, Path]:
    return {task: Path(file) for task, _, file in (o.partition("=") for o in arguments.others)}


def _gathered(arguments) -> tuple[dict, list[bytes]]:
    folders = [part.parent for part in arguments.parts]
    target = arguments.results.with_name("lm_eval")
    gather_lm_eval(target, [folder / "lm_eval" for folder in folders])
    return gather(folders, list(arguments.step.settings["tasks"]))


def options():
    """The options that this command line shares with that of benchmark_part."""
    arguments = cli.parser(__doc__)
    for name in ("model", "heldout", "results", "samples", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--others", nargs="*", default=[], metavar="TASK=FILE")
    arguments.add_argument("--parts", type=Path, nargs="*", default=[])
    arguments.add_argument("--download", type=int, choices=(0, 1), default=0)
    arguments.add_argument("--threads", type=int, default=2)
    return arguments


if __name__ == "__main__":
    cli.run(main, options().parse_args())
