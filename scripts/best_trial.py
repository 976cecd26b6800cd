"""The result of a study, as a file that a run takes its values from.

python scripts/best_trial.py --step JSON --workers workers/*.json --studies DIR \\
    --best best.json --plot history.svg --manifest best.manifest.json
"""

from pathlib import Path

from anneal import cli
from anneal.provenance.files import read_json, write_json
from anneal.provenance.manifests import write_manifest
from anneal.search.best import best_trial
from anneal.search.plots import plot_history
from anneal.search.study import load_study


def main(arguments) -> None:
    fingerprint = read_json(arguments.workers[0])["facts"]["fingerprint"]
    study = load_study(arguments.studies / fingerprint)
    best = best_trial(study, arguments.step.settings["trials"])
    write_json(arguments.best, best)
    plot_history(best["trials"], arguments.plot)
    inputs = {f"worker {number}": path for number, path in enumerate(arguments.workers)}
    outputs, facts = [arguments.best, arguments.plot], {"loss": best["loss"]}
    write_manifest(arguments.manifest, arguments.step, inputs, outputs, **facts)


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--workers", nargs="+", type=Path, required=True)
    for name in ("studies", "best", "plot", "manifest"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    cli.run(main, arguments.parse_args())
