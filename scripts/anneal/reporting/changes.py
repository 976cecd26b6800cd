"""Why two runs, artifacts or projects differ, and what came of it: rows, metrics, scores."""

from dataclasses import asdict
from pathlib import Path

import orjson

from anneal.errors import UserError
from anneal.provenance.differ import Walk
from anneal.provenance.files import read_json
from anneal.provenance.lineage import home, load, manifest_of
from anneal.provenance.tree import place
from anneal.splitting.row_changes import row_changes

REPORT = "report/manifest.json"


def changes(a: Path, b: Path) -> dict:
    """Everything that differs between two artifacts of one rule, or between two projects.

    Returns:
        `why` (see `Difference`), `bytes`: number of artifacts with unlike bytes by rule,
        `rows` by dataset, `metrics` and `scores` by run as [in A, in B], and `only_in_a`,
        `only_in_b`: artifacts that the other project lacks.
    """
    projects = is_project(a), is_project(b)
    if projects[0] != projects[1]:
        raise UserError(b, "a project and an artifact cannot be compared", "name two of a kind")
    pairs, *only = in_both(a, b) if all(projects) else (roots(a, b), [], [])
    walk = Walk(home(pairs[0][0]), home(pairs[0][1]))
    for pair in pairs:
        walk.visit(*map(_relative, pair, (walk.a, walk.b)))
    return {
        "why": [asdict(difference) for difference in walk.differences.values()],
        "only_in_a": only[0],
        "only_in_b": only[1],
        **_effects(walk),
    }


def is_project(path: Path) -> bool:
    return not (path / "manifest.json").exists() and any(
        (path / part).is_dir() for part in ("data", "runs", "models")
    )


def in_both(a: Path, b: Path) -> tuple[list, list[str], list[str]]:
    """Manifests that two projects both have, and the places of those that only one has.

    The report is left out: it holds the configuration and times of all others.
    """
    made = [
        {p.relative_to(root).as_posix() for p in root.rglob("*manifest.json")} - {REPORT}
        for root in (a, b)
    ]
    both = sorted(made[0] & made[1])
    if not both:
        raise UserError(b, f"no artifact of {a} is there", "name two results/PROJECT folders")
    only = [sorted(map(place, made[n] - made[1 - n])) for n in (0, 1)]
    return [(a / name, b / name) for name in both], *only


def roots(a: Path, b: Path) -> list[tuple[Path, Path]]:
    """Two artifacts, and the benchmarks of both where they are runs that have them."""
    pair = manifest_of(a), manifest_of(b)
    rules = [load(path)["rule"] for path in pair]
    if rules[0] != rules[1]:
        raise UserError(b, f"{rules[1]} and {rules[0]} cannot be compared", "name two of a kind")
    scored = [_benchmarks(path) for path in pair]
    return [pair, *((scored[0][d], scored[1][d]) for d in scored[0].keys() & scored[1].keys())]


def _benchmarks(manifest: Path) -> dict[str, Path]:
    """Benchmarks of a run or model, by the dataset they were asked on."""
    folder = manifest.parent
    found = (folder.parents[1] / "evaluation").glob(f"*/{folder.name}/manifest.json")
    return {path.parents[1].name: path for path in found if load(manifest)["rule"] == "train_run"}


def _relative(path: Path, root: Path) -> str:
    return path.absolute().relative_to(root).as_posix()


def _effects(walk: Walk) -> dict:
    """What differs in consequence, of the pairs of artifacts with unlike bytes."""
    effects = {"bytes": {}, "rows": {}, "metrics": {}, "scores": {}}
    for names in walk.pairs:
        a, b = walk.a / names[0], walk.b / names[1]
        rule, what = load(a)["rule"], place(names[0])
        effects["bytes"][rule] = effects["bytes"].get(rule, 0) + 1
        if rule == "assign_splits":
            rows = row_changes(*(p.with_name("ledger.parquet") for p in (a, b)))
            effects["rows"][a.parent.name] = rows
        elif rule == "train_run":
            effects["metrics"][what] = _unlike(_last_metrics(a.parent), _last_metrics(b.parent))
        elif rule == "benchmark":
            effects["scores"][what] = _unlike(_scores(a.parent), _scores(b.parent))
    return effects


def _unlike(a: dict, b: dict) -> dict[str, list]:
    named = sorted(a.keys() | b.keys())
    return {name: [a.get(name), b.get(name)] for name in named if a.get(name) != b.get(name)}


def _last_metrics(run: Path) -> dict[str, float]:
    """What was measured last of each kind."""
    lines = (run / "metrics.jsonl").read_bytes().splitlines()
    return {name: value for line in lines for name, value in orjson.loads(line).items()}


def _scores(folder: Path) -> dict[str, float]:
    return {task: score["value"] for task, score in read_json(folder / "results.json").items()}
