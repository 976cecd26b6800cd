"""Which pieces the raw files are cut into, and the digest of each piece's bytes.

A plain JSONL is cut at the first line end after each multiple of the shard size, so a row that is
appended changes the last piece alone. Digests are remembered by path, size and time of change.
"""

import glob
import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import xxhash

from anneal.errors import UserError
from anneal.provenance.digests import CHUNK, digest_text
from anneal.provenance.files import write_json

MAGIC = {
    b"PAR1": "parquet",
    b"\x1f\x8b": "jsonl.gz",
    b"\x28\xb5\x2f\xfd": "jsonl.zst",
    b"SQLite format 3\0": "sqlite",
}


@dataclass(frozen=True)
class Shard:
    """One piece of one source. `start` and `end` are byte offsets, `first_line` is 1-based."""

    name: str
    source: str
    file: str
    format: str
    start: int
    end: int
    first_line: int
    digest: str

    def as_source(self) -> dict:
        """What the step that reads this piece must know; it decides whether to read again."""
        return {k: v for k, v in asdict(self).items() if k != "name"}


class DigestCache:
    """Digests by (path, size, mtime, range), kept between runs in one JSON file."""

    def __init__(self, path: Path):
        self.path, self.known = path, {}
        if path.is_file():
            self.known = json.loads(path.read_text())
        self.fresh = False

    def lookup(self, file: Path, start: int, end: int) -> tuple[str, int]:
        """(digest, number of line ends) of a byte range."""
        status = file.stat()
        key = json.dumps([str(file), status.st_size, status.st_mtime_ns, start, end])
        if key not in self.known:
            self.known[key] = _digest_and_lines(file, start, end)
            self.fresh = True
        return tuple(self.known[key])

    def save(self) -> None:
        if self.fresh:
            write_json(self.path, self.known)


def plan_shards(name: str, source, shard_mb: float, cache: DigestCache) -> list[Shard]:
    """The pieces of one source, in order.

    Raises:
        UserError: no file fits the pattern, or a database lacks its query.
    """
    if source.url_env:
        digest = digest_text(f"{source.url_env}\n{source.query}\n{source.snapshot}")
        return [Shard(f"{name}-00000", name, source.url_env, "sql", 0, 0, 1, digest)]
    files = sorted(glob.glob(source.path, recursive=True)) or [source.path]  # noqa: PTH207
    pieces = [piece for file in files for piece in _pieces(name, source, file, shard_mb, cache)]
    return [
        Shard(f"{name}-{i:05d}", name, file, kind, start, end, line, digest)
        for i, (file, kind, start, end, line, digest) in enumerate(pieces)
    ]


def sniff(path: str | Path) -> str:
    """Format of a file by its first bytes."""
    with Path(path).open("rb") as stream:
        head = stream.read(16)
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), "jsonl")


def _pieces(name, source, file, shard_mb, cache):
    if not Path(file).is_file():
        raise UserError(f"sources.{name}.path", f"no file fits '{file}'", "check the path")
    kind = sniff(file)
    if kind == "sqlite" and not source.query:
        raise UserError(f"sources.{name}", f"'{file}' is a database", "give a 'query'")
    size = Path(file).stat().st_size
    cuts = _cuts(Path(file), size, shard_mb) if kind == "jsonl" else [0, size]
    line = 1
    for start, end in pairwise(cuts):
        digest, lines = cache.lookup(Path(file), start, end)
        yield file, kind, start, end, line, digest
        line += lines


def _cuts(file: Path, size: int, shard_mb: float) -> list[int]:
    step = max(1, math.ceil(shard_mb * 1e6))
    cuts = [0]
    with file.open("rb") as stream:
        for target in range(step, size, step):
            stream.seek(target - 1)
            stream.readline()
            if cuts[-1] < stream.tell() < size:
                cuts.append(stream.tell())
    return [*cuts, size]


def _digest_and_lines(file: Path, start: int, end: int) -> tuple[str, int]:
    state, lines, left = xxhash.xxh3_128(), 0, end - start
    with file.open("rb") as stream:
        stream.seek(start)
        while left > 0 and (block := stream.read(min(CHUNK, left))):
            state.update(block)
            lines += block.count(b"\n")
            left -= len(block)
    return state.hexdigest(), lines
