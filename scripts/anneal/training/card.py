"""The model card of a model that is made of runs: what a stranger must know before using it."""

from pathlib import Path

import yaml
from huggingface_hub import ModelCardData

from anneal.provenance.files import read_json
from anneal.splitting.assign import SPLITS


def write_card(folder: Path, made_of: dict[str, dict], origins: list[Path], how: str) -> None:
    """Write `README.md` beside a model's weights.

    Args:
        made_of: `dataset` and `base` of each run.
        origins: manifests of the runs, then of the tokenized splits, both in the order of the runs.
        how: a sentence on how the runs' results became this model.
    """
    manifests = [read_json(path) for path in origins]
    runs, splits = manifests[: len(made_of)], manifests[len(made_of) :]
    parts = [
        f"---\n{_metadata(made_of, runs)}\n---\n",
        f"# {' and '.join(made_of)}\n",
        f"{how} Trained by Anneal on {', '.join(sorted(_values(made_of, 'base')))}.\n",
        *map(_run, made_of, made_of.values(), runs, splits),
        "## Scores\n",
        "A model is written before it is benchmarked. Its scores against its base are in the\n"
        "project's report, and in `evaluation/comparisons` of the project's results.\n",
    ]
    (folder / "README.md").write_text("\n".join(parts), encoding="utf-8")


def _metadata(made_of: dict, runs: list[dict]) -> str:
    methods = {run["settings"]["method"] for run in runs}
    return ModelCardData(
        base_model=sorted(_values(made_of, "base")),
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["anneal", *sorted(methods)],
    ).to_yaml()


def _values(made_of: dict, key: str) -> set[str]:
    return {run[key] for run in made_of.values()}


def _run(name: str, made: dict, run: dict, splits: dict) -> str:
    rows = ", ".join(f"{splits['facts'][split]['rows']} {split}" for split in SPLITS)
    versions = ", ".join(f"{package} {version}" for package, version in run["versions"].items())
    return (
        f"## Run {name}\n\n"
        f"- Base: {made['base']}\n"
        f"- Data: dataset `{made['dataset']}`, rows: {rows}; "
        f"digest of the splits `{run['inputs']['splits']}`\n"
        f"- Steps: {run['facts']['steps']}; trained weights: {run['facts']['trained_weights']} of "
        f"{run['facts']['weights']}\n"
        f"- Versions: {versions}\n\n"
        f"```yaml\n{yaml.safe_dump(run['settings'], sort_keys=True)}```\n"
    )
