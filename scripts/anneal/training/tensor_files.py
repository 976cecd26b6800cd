"""Where the tensors of a folder lie in its safetensors files, so that they can be read in pieces.

Format: 8 bytes with the length of a JSON header, the header, then the data of all tensors in a row.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch

from anneal.errors import UserError

PIECE = 1 << 20  # elements
LARGEST = 100_000_000  # bytes of a header, as safetensors has it
FLOATS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


class Tensor(NamedTuple):
    """A tensor of a file; `start` and `end` are offsets in bytes behind the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def count(self) -> int:
        """Elements; of types smaller than a byte, bytes."""
        count, size = math.prod(self.shape), self.end - self.start
        return count if count and size % count == 0 else size

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return (self.end - self.start) // self.count if self.count else 1


class Place(NamedTuple):
    """A tensor, the file it lies in, and where the data of that file begin."""

    file: Path
    data: int
    tensor: Tensor


def read_header(stream: BinaryIO, name: str) -> tuple[bytes, dict[str, Tensor]]:
    """The header's own bytes, and the tensors in the order of their data.

    Raises:
        UserError: these are no safetensors.
    """
    length = stream.read(8)
    size = int.from_bytes(length, "little")
    text = stream.read(size) if size <= LARGEST else b""
    try:
        found = json.loads(text)
        found.pop("__metadata__", None)
        tensors = {
            key: Tensor(value["dtype"], tuple(value["shape"]), *value["data_offsets"])
            for key, value in sorted(found.items(), key=lambda pair: pair[1]["data_offsets"])
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UserError(name, "is no safetensors file, or cut off", "copy it again") from None
    return length + text, tensors


def places(folder: Path) -> dict[str, Place]:
    """Every tensor of a folder's safetensors files.

    Raises:
        UserError: there are none, or a file is cut off.
    """
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            head, tensors = read_header(stream, str(file))
        data = max((tensor.end for tensor in tensors.values()), default=0)
        if file.stat().st_size != len(head) + data:
            raise UserError(file, "is cut off, or holds more than its header says", "copy it again")
        found |= {name: Place(file, len(head), tensor) for name, tensor in tensors.items()}
    if not found:
        raise UserError(folder, "holds no safetensors", "name a folder of a whole model")
    return found


def digests(found: dict[str, Place]) -> dict[str, list]:
    """Type, shape and SHA-256 of each tensor: the same however a model is cut into files."""
    return {
        name: [place.tensor.dtype, list(place.tensor.shape), _sha256(place)]
        for name, place in sorted(found.items())
    }


def bits_like(place: Place | None, wanted: Tensor, start: int, count: int) -> np.ndarray:
    """Bytes of elements of a tensor, as if it had another tensor's type and number of rows.

    Args:
        place: the tensor; None, or one whose rows or type do not fit, gives zeros.
        start, count: which elements, in the order of memory.

    Returns:
        `count * wanted.item` bytes; zeros beyond the tensor's end.
    """
    bits = np.zeros(count * wanted.item, np.uint8)
    if place and _fits(place.tensor, wanted):
        there = max(0, min(count, place.tensor.count - start))
        raw = _read(place, start, there)
        if place.tensor.dtype != wanted.dtype:
            kinds = FLOATS[place.tensor.dtype], FLOATS[wanted.dtype]
            raw = torch.from_numpy(raw).view(kinds[0]).to(kinds[1]).view(torch.uint8).numpy()
        bits[: there * wanted.item] = raw
    return bits


def _fits(tensor: Tensor, wanted: Tensor) -> bool:
    """Whether elements stand at the same places: all but the number of rows is equal."""
    same = tensor.dtype == wanted.dtype or {tensor.dtype, wanted.dtype} <= FLOATS.keys()
    return same and len(tensor.shape) == len(wanted.shape) and tensor.shape[1:] == wanted.shape[1:]


def _read(place: Place, start: int, count: int) -> np.ndarray:
    item, tensor = place.tensor.item, place.tensor
    offset = place.data + tensor.start + start * item
    return np.fromfile(place.file, np.uint8, count * item, offset=offset)


def _sha256(place: Place) -> str:
    state = hashlib.sha256()
    for start in range(0, place.tensor.count, PIECE):
        state.update(_read(place, start, min(PIECE, place.tensor.count - start)))
    return state.hexdigest()
