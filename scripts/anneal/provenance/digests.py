"""Stable digests of text, settings, files and byte ranges."""

import json
from pathlib import Path

import xxhash

CHUNK = 1 << 20


def digest_text(text: str) -> str:
    """128-bit xxh3 of the UTF-8 bytes, 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


def canonical(value) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_value(value) -> str:
    return digest_text(canonical(value))


def digest_bytes(path: str | Path, start: int = 0, end: int | None = None) -> str:
    """Digest of the bytes [start, end) of a file; `end` None is the file's end."""
    state = xxhash.xxh3_128()
    with Path(path).open("rb") as stream:
        stream.seek(start)
        left = float("inf") if end is None else end - start
        while left > 0 and (block := stream.read(int(min(CHUNK, left)))):
            state.update(block)
            left -= len(block)
    return state.hexdigest()


def digest_folder(path: str | Path, ignore: tuple[str, ...] = ("manifest.json",)) -> str:
    """Digest of the relative names and bytes of all files below a folder, in sorted order."""
    root = Path(path)
    files = sorted(p for p in root.rglob("*") if p.is_file() and p.name not in ignore)
    return digest_value([[p.relative_to(root).as_posix(), digest_bytes(p)] for p in files])
