"""An ancestry as a short tree of text: like shards share a line, and nothing is shown twice."""

import re

from anneal.provenance.digests import canonical
from anneal.provenance.flat import flat
from anneal.provenance.lineage import Artifact

# Settings that say what a step did; `trace --json` has all of them.
TELLING = {
    *("url", "query", "columns", "revision", "pii", "enabled", "near", "threshold", "languages"),
    *("seed", "train", "eval", "test", "style", "system", "template_file", "max_length"),
    *("truncation", "packing", "method", "kind", "r", "alpha", "learning_rate", "max_steps"),
    *("num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps"),
    *("precision", "path", "package", "gguf", "hub", "num_fewshot", "limit", "max_drop"),
}
PIECES = 3
DIGITS = 12
SHARD = re.compile(r"[^/]+-\d{5}$")
UNITS = {"parquet": "row groups", "arrow": "batches"}


def tree(artifacts: dict[str, Artifact]) -> list[str]:
    """Lines of a tree: each step with its inputs below it, breaks marked with `!!`."""
    first = next(iter(artifacts))
    return [*_branch([first], "", "", artifacts, set()), *_versions(artifacts)]


def _branch(names: list[str], role: str, indent: str, artifacts: dict, seen: set) -> list[str]:
    """A group of like artifacts, and below it the groups it was made from."""
    like = [artifacts[name] for name in names]
    title = f"{indent}{role}{_title(names, like)}"
    if seen.issuperset(names):
        return [f"{title} (see above)"]
    seen.update(names)
    title += _made(like)
    inside = indent.replace("`-", "  ").replace("|-", "| ")
    lines = [title, *(f"{inside}|  {text}" for text in _facts(like))]
    groups = _groups(like, artifacts)
    for number, (role, group) in enumerate(groups):
        mark = "`- " if number == len(groups) - 1 else "|- "
        role = f"{role}: " if len(group) == 1 else ""
        lines += _branch(group, role, inside + mark, artifacts, seen)
    return lines


def _groups(like: list[Artifact], artifacts: dict) -> list[tuple[str, list[str]]]:
    """Inputs of artifacts; shards that one rule made with one code and settings are one group."""
    groups: dict[str, tuple[str, dict]] = {}
    for artifact in like:
        for role, name in artifact.inputs.items():
            made = artifacts[name].manifest
            kin = SHARD.sub("", place(name))
            same = canonical([made["rule"], made["settings"], made["code"], kin])
            groups.setdefault(same, (role, {}))[1][name] = None
    return [(role, list(names)) for role, names in groups.values()]


def _title(names: list[str], like: list[Artifact]) -> str:
    rule = like[0].manifest["rule"]
    many = f"{len(names)} x {rule}, from" if len(names) > 1 else rule
    return f"{many} {place(names[0])}"


def _made(like: list[Artifact]) -> str:
    made = [artifact.manifest for artifact in like]
    seconds = sum(manifest["seconds"] for manifest in made)
    hosts = ", ".join(sorted({manifest["host"] for manifest in made}))
    last = max(manifest["finished"] for manifest in made)
    return f" (code {made[0]['code'][:DIGITS]}, {last}, {seconds:.1f} s on {hosts})"


def place(name: str) -> str:
    """results/PROJECT and the manifest's own name say nothing here."""
    inside = name.split("/", 2)[-1] if name.startswith("results/") else name
    return inside.removesuffix("/manifest.json").removesuffix(".manifest.json")


def _facts(like: list[Artifact]) -> list[str]:
    """Telling settings, raw pieces, other sources, and what is broken."""
    settings = flat(like[0].manifest["settings"])
    told = {k: v for k, v in settings.items() if k.split(".")[-1] in TELLING and v is not None}
    pieces = [line for a in like for line in map(_piece, a.pieces)]
    others = [
        f"from {name} {digest[:DIGITS]}"
        for name, digest in like[0].manifest["sources"].items()
        if not like[0].pieces and "file" not in like[0].manifest["sources"]
    ]
    settled = ", ".join(f"{k} {v}" for k, v in told.items())
    breaks = [f"!! {problem}" for a in like for problem in a.breaks]
    return [*([settled] if settled else []), *few(pieces), *few(others), *breaks]


def _piece(piece: dict) -> str:
    return f"raw {piece['file']} {span(piece)}"


def span(piece: dict) -> str:
    """Where a raw piece lies in its file."""
    unit = UNITS.get(piece["format"], "bytes")
    bounds = f"{unit} {piece['start']}-{piece['end']}, " if piece["end"] else ""
    return f"{bounds}from line {piece['first_line']}, digest {piece['digest']}"


def few(lines: list[str]) -> list[str]:
    rest = len(lines) - PIECES
    return lines[:PIECES] + ([f"and {rest} more (--json lists all)"] if rest > 0 else [])


def _versions(artifacts: dict[str, Artifact]) -> list[str]:
    """Package versions once, and twice where artifacts were made with unlike ones."""
    made: dict[str, dict[str, int]] = {}
    for artifact in artifacts.values():
        for package, version in artifact.manifest["versions"].items():
            by_version = made.setdefault(package, {})
            by_version[version] = by_version.get(version, 0) + 1
    told = [f"{name} {' and '.join(versions)}" for name, versions in sorted(made.items())]
    return [f"versions: {', '.join(told)}"]
