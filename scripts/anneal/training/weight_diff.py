"""A tuned model as its difference from a base, and back again bit by bit.

The difference is the XOR of the bits. Subtraction of floats rounds, so that base + (tuned - base)
is not always tuned; XOR is its own inverse. Where a weight has moved little, sign, exponent and
first digits are zero; first bytes of all elements stand together, then second ones, so that they
pack well.

Rows that only the tuned model has (new tokens) meet zeros: they are stored as they are. So is each
tensor that the base lacks or has in another shape. A base in another float type is rounded to the
tuned one's first.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from anneal.errors import UserError
from anneal.provenance.files import read_json, whole_folder, write_json
from anneal.training.tensor_files import PIECE, Place, bits_like, digests, places, read_header

NOTE = "weight_diff.json"
PACKED = ".xor.zst"
AGAIN = "fetch the diff again"


def make(base: Path, tuned: Path, diff: Path) -> dict:
    """Write the folder `diff`: packed differences, all other files as they are, and checksums.

    Returns:
        `tensors` of the tuned model, `alone`: names without a like in the base, and bytes of the
        weights: `tuned_bytes`, `diff_bytes`.

    Raises:
        UserError: a folder holds no whole model, or `diff` is there already.
    """
    _must_be_new(diff)
    if (tuned / "adapter_config.json").is_file():
        raise UserError(tuned, "is an adapter, which is a difference itself", "publish it as it is")
    known, wanted = places(base), places(tuned)
    with whole_folder(diff) as folder:
        note = {"base": digests(known), "tuned": {}, "diff": {}}
        for name in _names(tuned):
            packed = f"{name}{PACKED}" if _is_weights(name) else name
            _copy(tuned / name, folder / packed, known)
            note["tuned"][name] = _sha256(tuned / name)
            note["diff"][packed] = _sha256(folder / packed)
        write_json(folder / NOTE, note)
    weights = {name for name in note["tuned"] if _is_weights(name)}
    return {
        "tensors": len(wanted),
        "alone": sorted(wanted.keys() - known.keys()),
        "tuned_bytes": sum((tuned / name).stat().st_size for name in weights),
        "diff_bytes": sum((diff / f"{name}{PACKED}").stat().st_size for name in weights),
    }


def recover(base: Path, diff: Path, output: Path) -> int:
    """Write the tuned model's folder, whose every file has the bytes that it had.

    Returns:
        number of files.

    Raises:
        UserError: the diff is damaged or the base another one, before anything is written.
    """
    _must_be_new(output)
    note = _note(diff)
    known = places(base)
    _check_base(base, note["base"], digests(known))
    with whole_folder(output) as folder:
        for packed in note["diff"]:
            name = packed.removesuffix(PACKED)
            _copy(diff / packed, folder / name, known)
            if _sha256(folder / name) != note["tuned"].get(name):
                raise UserError(diff / packed, f"gives another {name} than was tuned", AGAIN)
    return len(note["tuned"])


def _copy(source: Path, target: Path, base: dict[str, Place]) -> None:
    """Pack weights, unpack packed ones, and leave other files as they are."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.name.endswith(PACKED):
        with pa.CompressedInputStream(str(source), "zstd") as stream, target.open("wb") as file:
            file.writelines(_unpacked(stream, base, str(source)))
    elif _is_weights(source.name):
        with source.open("rb") as stream, pa.CompressedOutputStream(str(target), "zstd") as file:
            for piece in _differences(stream, base, str(source)):
                file.write(piece)
    else:
        shutil.copyfile(source, target)


def _differences(stream: BinaryIO, base: dict[str, Place], name: str) -> Iterator[bytes]:
    head, tensors = read_header(stream, name)
    yield head
    for bits, item, known in _pieces(stream, tensors, base):
        yield (bits ^ known).reshape(-1, item).T.tobytes()


def _unpacked(stream: BinaryIO, base: dict[str, Place], name: str) -> Iterator[bytes]:
    head, tensors = read_header(stream, name)
    yield head
    for bits, item, known in _pieces(stream, tensors, base):
        yield (bits.reshape(item, -1).T.reshape(-1) ^ known).tobytes()


def _pieces(stream, tensors: dict, base: dict[str, Place]) -> Iterable[tuple]:
    """Bytes of the stream, bytes of an element, and the base's bytes, a piece at a time."""
    for name, tensor in tensors.items():
        for start in range(0, tensor.count, PIECE):
            count = min(PIECE, tensor.count - start)
            bits = np.frombuffer(stream.read(count * tensor.item), np.uint8)
            yield bits, tensor.item, bits_like(base.get(name), tensor, start, count)


def _note(diff: Path) -> dict:
    """What `make` noted, once all files of the diff are as it left them."""
    try:
        note = read_json(diff / NOTE)
        made, _, _ = note["diff"], note["tuned"], note["base"].keys()
        missing = sorted(made.keys() - set(_names(diff)))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise UserError(diff / NOTE, "is missing or damaged", AGAIN) from None
    if missing:
        raise UserError(diff / missing[0], "is missing", AGAIN)
    for name, digest in made.items():
        if _sha256(diff / name) != digest:
            raise UserError(diff / name, "is not as it was made: cut off or changed", AGAIN)
    return note


def _check_base(base: Path, wanted: dict[str, list], found: dict[str, list]) -> None:
    """Raise with the reason if the base's tensors are not those that the diff was made from."""
    lacking = sorted(wanted.keys() - found.keys())
    more = sorted(found.keys() - wanted.keys())
    both = sorted(wanted.keys() & found.keys())
    forms = [name for name in both if wanted[name][:2] != found[name][:2]]
    values = [name for name in both if wanted[name] != found[name]]
    if lacking or more:
        what = f"it {'lacks' if lacking else 'has also'} {(lacking or more)[0]}"
    elif forms:
        what = f"{forms[0]} is {found[forms[0]][:2]} here and was {wanted[forms[0]][:2]}"
    elif values:
        what = f"{len(values)} of {len(wanted)} tensors have other values, such as {values[0]}"
    else:
        return
    raise UserError(base, f"is not the base of this diff: {what}", "fetch the model it names")


def _must_be_new(folder: Path) -> None:
    if folder.exists():
        raise UserError(folder, "is there already", "name a new folder, or remove it")


def _names(folder: Path) -> list[str]:
    """Files of a folder, hidden ones left out."""
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(p.as_posix() for p in files if not any(x.startswith(".") for x in p.parts))


def _is_weights(name: str) -> bool:
    return "/" not in name and name.endswith(".safetensors")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def in_words(made: dict) -> str:
    """What `make` has done, for people."""
    share = made["diff_bytes"] / made["tuned_bytes"]
    alone = f"; not in the base: {json.dumps(made['alone'])}" if made["alone"] else ""
    return f"{made['tensors']} tensors in {share:.0%} of the tuned model's bytes{alone}"
