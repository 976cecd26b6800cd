"""Why two artifacts differ: what was set, coded or installed otherwise, anywhere in their ancestry.

Both are walked together, input by input. Where an input is the same, nothing behind it matters.
"""

from dataclasses import dataclass, field
from pathlib import Path

from anneal.provenance.flat import flat
from anneal.provenance.lineage import Artifact, artifact
from anneal.provenance.tree import few, place, span

ABSENT = "absent"


@dataclass
class Difference:
    """What a step did otherwise, as [what, in A, in B] each, and in how many artifacts."""

    rule: str
    place: str
    changes: list[list]
    artifacts: int = 0


@dataclass
class Walk:
    """What differs between two ancestries.

    `a` and `b` are the folders that the paths in `pairs` are relative to; `pairs` are the
    manifests of artifacts with unlike bytes.
    """

    a: Path
    b: Path
    differences: dict[str, Difference] = field(default_factory=dict)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)

    def visit(self, a: str, b: str) -> None:
        """Note what differs between two artifacts and in what they were made from."""
        waiting = [(a, b)]
        while waiting:
            names = waiting.pop()
            if names not in self.seen:
                self.seen.add(names)
                waiting += reversed(self._compare(names))

    def _compare(self, names: tuple[str, str]) -> list[tuple[str, str]]:
        """Note how two artifacts differ; returns the pairs of their inputs that do."""
        pair = artifact(self.a, names[0]), artifact(self.b, names[1])
        changes, inputs = own_changes(*pair), differing_inputs(*pair)
        bytes_of = [list(made.manifest["outputs"].values()) for made in pair]
        if bytes_of[0] != bytes_of[1]:
            self.pairs.append(names)
            changes = changes or ([] if inputs else chance(*pair))
        if changes:
            self._note(pair[0].manifest["rule"], names[0], changes)
        return inputs

    def _note(self, rule: str, name: str, changes: list[list]) -> None:
        """Artifacts of one rule that differ in the same things are one difference."""
        kind = " ".join([rule, *(change[0] for change in changes)])
        self.differences.setdefault(kind, Difference(rule, place(name), changes)).artifacts += 1


def own_changes(a: Artifact, b: Artifact) -> list[list]:
    """Settings, code, versions, sources and names of inputs that are not the same."""
    old, new = a.manifest, b.manifest
    parts = {
        "": (flat(old["settings"]), flat(new["settings"])),
        "version of ": (old["versions"], new["versions"]),
        "raw ": (_sources(a), _sources(b)),
    }
    changes = [
        [f"{part}{name}", before.get(name, ABSENT), after.get(name, ABSENT)]
        for part, (before, after) in parts.items()
        for name in sorted(before.keys() | after.keys())
        if before.get(name, ABSENT) != after.get(name, ABSENT)
    ]
    if old["code"] != new["code"]:
        changes.append(["code", old["code"], new["code"]])
    return changes + _other_inputs(a.inputs.keys(), b.inputs.keys())


def _sources(made: Artifact) -> dict[str, str]:
    """Raw pieces, or whatever else a step took from outside, by file."""
    pieces = {piece["file"]: span(piece) for piece in made.pieces}
    return pieces or made.manifest["sources"]


def _other_inputs(a, b) -> list[list]:
    if a == b:
        return []
    only = [", ".join(few(sorted(names))) or "none" for names in (a - b, b - a)]
    return [["inputs that the other lacks", *only]]


def differing_inputs(a: Artifact, b: Artifact) -> list[tuple[str, str]]:
    """Makers of the inputs that both have by one name with unlike bytes."""
    old, new = a.manifest["inputs"], b.manifest["inputs"]
    both = [name for name in a.inputs if name in b.inputs and old[name] != new[name]]
    return [(a.inputs[name], b.inputs[name]) for name in both]


def chance(a: Artifact, b: Artifact) -> list[list]:
    """The same work gave other bytes."""
    made = [f"{x.manifest['host']}, {x.manifest['finished']}" for x in (a, b)]
    return [["bytes, made from the same in the same way", *made]]
