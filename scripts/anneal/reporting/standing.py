"""How each run of a project stands: what it is, what is kept of it, its scores, and what speaks
against promoting it."""

from pathlib import Path

from anneal.config.schema import Config
from anneal.provenance.files import read_json
from anneal.provenance.lineage import ancestry
from anneal.provenance.summary import CURRENT


def standings(config: Config, jobs: list[dict]) -> dict[str, dict]:
    """Of each run by name: `fingerprint`, `kept_step`, steps of the `checkpoints` on the disk,
    `scores` (base and tuned by task), `forgotten` tasks, and `problems`.

    Args:
        jobs: what Snakemake says of this configuration, see `jobs_of`.
    """
    project = Path("results") / config.project
    late = {job["output_file"] for job in jobs if job["plan"] != CURRENT}
    return {name: _standing(name, config, project, late) for name in config.runs}


def _standing(name: str, config: Config, project: Path, late: set[str]) -> dict:
    manifest = project / "runs" / name / "manifest.json"
    comparison = project / "evaluation" / "comparisons" / f"{name}.json"
    facts = read_json(manifest)["facts"] if manifest.is_file() else {}
    rows = read_json(comparison) if comparison.is_file() else []
    states = project / "checkpoints" / name / facts.get("fingerprint", "")
    forgotten = [row["task"] for row in rows if row["forgotten"]]
    return {
        "fingerprint": facts.get("fingerprint"),
        "kept_step": facts.get("kept_step"),
        "checkpoints": sorted(int(p.name.split("-")[1]) for p in states.glob("checkpoint-*")),
        "scores": {row["task"]: [_value(row[side]) for side in ("base", "tuned")] for row in rows},
        "forgotten": forgotten,
        "problems": [
            *(["it was not trained yet"] if not facts else _doubts(manifest)),
            *(
                ["it is not current: the workflow would make it again"]
                if str(manifest) in late
                else []
            ),
            *_judged(str(comparison), rows, late),
            *(f"it forgot: task {task} fell" for task in forgotten),
            *_contamination(config, name),
        ],
    }


def _value(score: dict | None) -> float | None:
    return score and score["value"]


def _doubts(manifest: Path) -> list[str]:
    return [problem for made in ancestry(manifest).values() for problem in made.breaks]


def _judged(comparison: str, rows: list[dict], late: set[str]) -> list[str]:
    if not rows:
        return ["it was not compared with its base"]
    unlike = [row["task"] for row in rows if row["verdict"] == "not comparable"]
    found = [f"task {task} cannot be compared with the base's" for task in unlike]
    return found + (["its benchmarks are not current"] if comparison in late else [])


def _contamination(config: Config, name: str) -> list[str]:
    """Rows that overlap with a benchmark are dropped, unless that is switched off."""
    dataset = config.runs[name].dataset
    if config.datasets[dataset].decontaminate.enabled:
        return []
    return [f"contamination is unknown: datasets.{dataset}.decontaminate is not enabled"]
