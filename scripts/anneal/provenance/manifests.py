"""The manifest beside every artifact: from what, by which settings and code, where and when.

The `key` (settings, code, digests of sources) alone decides whether an artifact is current;
time and host are there to be read by people.
"""

import logging
import platform
import socket
import sys
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from anneal.provenance.digests import digest_bytes, digest_folder, digest_value
from anneal.provenance.files import read_json, write_json

STARTED = time.time()
PACKAGES = (
    *("accelerate", "bitsandbytes", "datasets", "deepspeed", "duckdb", "ftfy", "gguf", "jinja2"),
    *("lm_eval", "lxml", "numpy", "optuna", "orjson", "peft", "phonenumbers", "psycopg"),
    *("py3langid", "pyarrow", "rensa", "safetensors", "sqlalchemy", "stdnum", "tokenizers"),
    *("torch", "transformers", "trl"),
)
DISTRIBUTIONS = {"stdnum": "python-stdnum"}


def step_key(step) -> str:
    """Digest of what a step was asked to do. `step` has settings, code and sources."""
    return digest_value({"settings": step.settings, "code": step.code, "sources": step.sources})


def write_manifest(path: str | Path, step, inputs: dict, outputs: list, **facts) -> None:
    """Write the manifest; its appearance is what says that the artifact is complete.

    Args:
        inputs: name to file; a folder artifact is named by its manifest.json. Paths are kept as
            given, so that `trace` finds what made them.
        outputs: the files of the artifact, or its one folder.
        facts: counts and other figures of the artifact itself.
    """
    logging.getLogger("anneal").info("done: %s", facts)
    write_json(
        path,
        {
            "rule": Path(sys.argv[0]).stem,
            "path": Path(path).as_posix(),
            "key": step_key(step),
            "settings": step.settings,
            "code": step.code,
            "sources": step.sources,
            "inputs": {name: input_digest(file) for name, file in sorted(inputs.items())},
            "origin": origin(step_key(step), map(_origin_of, inputs.values())),
            "paths": {name: Path(file).as_posix() for name, file in sorted(inputs.items())},
            "outputs": {Path(p).name: output_digest(Path(p)) for p in outputs},
            "facts": facts,
            "versions": _versions(),
            "host": socket.gethostname(),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seconds": round(time.time() - STARTED, 3),
        },
    )


def input_digest(path: str | Path) -> str:
    """Digest of an input's content; a folder's manifest stands for the folder."""
    if Path(path).name == "manifest.json":
        return digest_value(read_json(path)["outputs"])
    return digest_bytes(path)


def origin(key: str, before) -> str:
    """Digest of a step's key and of the origins of what it is made from, down to the raw files.

    It follows from the configuration, code and raw files alone, so an artifact can be judged where
    what it was made from is not there.
    """
    return digest_value([key, sorted(set(filter(None, before)))])


def _origin_of(path: str | Path) -> str | None:
    made_by = maker(Path(path))
    return read_json(made_by).get("origin") if made_by else None


def maker(path: Path) -> Path | None:
    """The manifest of what made a file (of a manifest, itself); None if no step did."""
    if path.name.endswith("manifest.json"):
        return path
    parts = path.name.split(".")
    near = [".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)]
    near = [path.with_name(f"{name}.manifest.json") for name in near]
    for manifest in (*near, *sorted(path.parent.glob("*manifest.json"))):
        with suppress(FileNotFoundError):  # another job may be making it again
            if path.name in read_json(manifest)["outputs"]:
                return manifest
    with suppress(ValueError, TypeError):  # a worker of a study leaves its manifest alone
        return path if "origin" in read_json(path) else None
    return None


def is_current(path: str | Path, key: str) -> bool:
    """Whether an existing manifest was written for the step of this key; absent is current."""
    try:
        return read_json(path)["key"] == key
    except FileNotFoundError:
        return True
    except (ValueError, KeyError, TypeError):
        return False


def output_paths(path: Path, manifest: dict) -> dict[str, Path]:
    """Where the outputs of a manifest at `path` lie, by name: files beside it, or its folder."""
    folder = path.parent
    whole = {folder.name: folder} if path.name == "manifest.json" else {}
    return {name: whole.get(name, path.with_name(name)) for name in manifest["outputs"]}


def output_digest(path: Path) -> str:
    """Digest of one output of an artifact, a file or a folder."""
    return digest_folder(path) if path.is_dir() else digest_bytes(path)


def _versions() -> dict[str, str]:
    """Versions of the packages that can change results, if this process has loaded them."""
    loaded = [DISTRIBUTIONS.get(name, name) for name in PACKAGES if name in sys.modules]
    return {"python": platform.python_version(), **{n: metadata.version(n) for n in loaded}}
