"""Where an artifact comes from: its manifest, those of its inputs, and so on down to raw bytes.

A manifest names each input by path and digest. The manifest of what made the input says what it is
now; where the two digests are not equal, the chain is broken, and that is said.
"""

from dataclasses import dataclass
from pathlib import Path

from anneal.errors import UserError
from anneal.provenance.digests import digest_bytes, digest_value
from anneal.provenance.files import read_json
from anneal.provenance.manifests import maker, output_digest, output_paths

PLAIN = ("jsonl", "json", "csv", "sqlite")


@dataclass
class Artifact:
    """One artifact: its manifest, the paths of the manifests of what it was made from by the
    input's name, the raw pieces it was read from, and what does not fit."""

    manifest: dict
    inputs: dict[str, str]
    pieces: list[dict]
    breaks: list[str]


def load(path: Path) -> dict:
    """A manifest.

    Raises:
        UserError: there is none, or it is none.
    """
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        raise UserError(path, "no such manifest", "run the workflow up to it first") from None
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or not {"path", "outputs"} <= manifest.keys():
        raise UserError(path, "is no manifest of an artifact", "name a manifest.json, or run again")
    return manifest


def home(path: Path) -> Path:
    """The folder the workflow ran in, to which the paths in a manifest are relative."""
    own, full = Path(load(path)["path"]), path.absolute()
    if own.is_absolute():
        return Path("/")
    if full.parts[-len(own.parts) :] != own.parts:
        do = f"leave it at {own} below the folder of its project"
        raise UserError(path, "the artifact was moved or renamed", do)
    return Path(*full.parts[: -len(own.parts)])


def manifest_of(path: Path) -> Path:
    """The manifest of an artifact that is named by its folder, by one of its files, or by itself.

    Raises:
        UserError: nothing in that folder has made it.
    """
    if path.is_dir():
        return path / "manifest.json"
    made_by = maker(path)
    if made_by is None:
        do = "name a file of an artifact, or its folder or manifest"
        raise UserError(path, "no manifest beside it says what made it", do)
    return made_by


def ancestry(path: Path, read_bytes: bool = False) -> dict[str, Artifact]:
    """An artifact and all it was made from, by the path of its manifest; itself first.

    Args:
        read_bytes: whether every file is read and compared with its manifest too.
    """
    root = home(path)
    waiting, found = [path.absolute().relative_to(root).as_posix()], {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = artifact(root, name, read_bytes)
            waiting.extend(reversed(found[name].inputs.values()))
    return found


def artifact(root: Path, name: str, read_bytes: bool = False) -> Artifact:
    """The artifact of a manifest, by its path below the folder that the workflow ran in."""
    manifest = load(root / name)
    paths = {n: root / path for n, path in manifest["paths"].items()}
    made_by = {n: maker(path) if path.is_file() else None for n, path in paths.items()}
    inputs = {n: m.relative_to(root).as_posix() for n, m in made_by.items() if m}
    breaks = [
        problem
        for n, digest in manifest["inputs"].items()
        if (problem := _broken(paths[n], made_by[n], digest))
    ]
    breaks += [manifest["broken"]] if manifest.get("broken") else []
    pieces = _pieces(root / name, manifest)
    if read_bytes:
        breaks += _changed_outputs(root / name, manifest) + _changed_pieces(root, pieces)
    return Artifact(manifest, inputs, pieces, breaks)


def _broken(path: Path, made_by: Path | None, digest: str) -> str | None:
    """What is wrong with an input, if anything."""
    if not path.is_file():
        return f"{path.name}: it is gone ({path})"
    if made_by is None or (made_by == path and path.name != "manifest.json"):
        now = digest_bytes(path)
    else:
        outputs = load(made_by)["outputs"]
        now = digest_value(outputs) if path == made_by else outputs[path.name]
    return None if now == digest else f"made from {digest}, but {path} is {now} now"


def _pieces(path: Path, manifest: dict) -> list[dict]:
    """The raw pieces an artifact was read from, each as `Shard.as_source` has it."""
    sources, plan = manifest["sources"], path.with_name("plan.json")
    if sources.get("format") == "generated":
        return []  # it has a manifest of its own
    if "file" in sources:
        return [sources]
    return read_json(plan) if "plan" in sources and plan.is_file() else []


def _changed_outputs(path: Path, manifest: dict) -> list[str]:
    wrong = []
    for name, made in output_paths(path, manifest).items():
        digest = manifest["outputs"][name]
        now = output_digest(made) if made.exists() else "gone"
        wrong += [] if now == digest else [f"{made} is {now} now, and was {digest}"]
    return wrong


def _changed_pieces(root: Path, pieces: list[dict]) -> list[str]:
    """Text files are compared byte by byte; of other formats the digest covers more than bytes."""
    wrong = []
    for piece in (p for p in pieces if p["format"].split(".")[0] in PLAIN):
        file, span = root / piece["file"], (piece["start"], piece["end"])
        now = digest_bytes(file, *span) if file.is_file() else "gone"
        if now != piece["digest"]:
            wrong.append(f"{piece['file']} bytes {span[0]}-{span[1]} are other bytes now")
    return wrong
