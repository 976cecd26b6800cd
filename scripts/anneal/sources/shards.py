"""Which pieces the raw files are cut into, and the digest of each piece's bytes.

Plain JSON lines are cut at the first line end after each multiple of the shard size, so a row that
is appended changes the last piece alone. Parquet is cut between row groups. Other formats have no
safe places to cut, and are one piece a file. Digests are remembered by path, size and time.
"""

import glob
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import xxhash

from anneal.errors import UserError
from anneal.provenance.digests import CHUNK, digest_folder, digest_text, digest_value
from anneal.provenance.files import write_json
from anneal.sources.formats import column_names, sniff


@dataclass(frozen=True)
class Shard:
    """One piece of one source.

    `start` and `end` are byte offsets, of Parquet row groups; `first_line` is 1-based.
    """

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


def plan_shards(name: str, source, kind: str, shard_mb: float, cache: DigestCache) -> list[Shard]:
    """The pieces of one source, in order.

    Args:
        source: a `config.sources.Source`.
        kind: of record; tables are checked against its fields before any row is read.

    Raises:
        UserError: no file fits the pattern, a database lacks its query or does not answer, or a
            column's type cannot become the declared one.
    """
    if source.url_env:
        return [Shard(f"{name}-00000", name, source.url_env, "sql", 0, 0, 1, _asked(source))]
    if source.hub:
        return [Shard(f"{name}-00000", name, source.hub, "hub", 0, 0, 1, _named(source))]
    pieces = [
        piece
        for file in _files(name, source)
        for piece in _pieces(name, source, kind, file, shard_mb, cache)
    ]
    return [Shard(f"{name}-{i:05d}", name, *piece) for i, piece in enumerate(pieces)]


def whole_file_piece(name: str, file: str, settings: dict) -> dict:
    """A file as one piece, for the step that downloaded it; see `Shard.as_source`.

    Args:
        settings: `kind` and `columns`.
    """
    form = sniff(file, column_names(settings["kind"], settings["columns"]))
    start, end, line, _ = next(_cuts(file, form, math.inf, settings["kind"], settings["columns"]))
    return {"source": name, "file": file, "format": form} | {
        "start": start,
        "end": end,
        "first_line": line or 1,
    }


def _asked(source) -> str:
    text = f"{source.url_env}\n{source.query}\n{source.snapshot}"
    if source.change_query:
        from anneal.sources.database import changes

        text += f"\n{source.change_query}\n{changes(source.url_env, source.change_query)}"
    return digest_text(text)


def _named(source) -> str:
    local = digest_folder(source.hub) if Path(source.hub).is_dir() else ""
    return digest_value([source.hub, source.subset, source.split, source.revision, local])


def _files(name: str, source) -> Iterator[str]:
    """The files that fit a source's pattern; a folder stands for the dataset saved in it."""
    found = sorted(glob.glob(source.path, recursive=True))  # noqa: PTH207
    saved = [path for path in found if _is_saved(Path(path))]
    inside = tuple(f"{path.rstrip('/')}/" for path in saved)
    files = [p for p in found if p in saved or (Path(p).is_file() and not p.startswith(inside))]
    if not files:
        plain = Path(source.path).is_dir()
        what = f"'{source.path}' is a folder" if plain else f"no file fits '{source.path}'"
        do = "add a pattern, such as /*.jsonl" if plain else "check the path"
        raise UserError(f"sources.{name}.path", what, do)
    for path in files:
        if path in saved:
            from anneal.sources.tables import saved_files

            yield from saved_files(Path(path), source.split)
        else:
            yield path


def _is_saved(path: Path) -> bool:
    return any((path / name).is_file() for name in ("state.json", "dataset_dict.json"))


def _pieces(name, source, kind, file, shard_mb, cache) -> Iterator[tuple]:
    """(file, format, start, end, first line, digest) of each piece of a file."""
    form = sniff(file, column_names(kind, source.columns))
    if form == "sqlite" and not source.query:
        raise UserError(f"sources.{name}", f"'{file}' is a database", "give a 'query'")
    line = 1
    for start, end, first, spans in _cuts(file, form, shard_mb, kind, source.columns):
        digest, lines = cache.lookup(Path(file), *spans)
        yield file, form, start, end, first or line, digest
        line += lines


def _cuts(file, form, shard_mb, kind, columns) -> Iterator[tuple[int, int, int, tuple[int, int]]]:
    """(start, end, first row or 0 where lines are counted, byte range) of each piece."""
    size = Path(file).stat().st_size
    if form in ("parquet", "arrow"):
        from anneal.sources.tables import arrow_schema, check_columns, parquet_pieces

        if form == "arrow":
            cuts, schema = [(0, 1), (0, 0)], arrow_schema(file)
        else:
            cuts, schema = parquet_pieces(file, shard_mb)
        check_columns(file, schema, kind, columns)
        for (group, row), (next_group, _) in pairwise(cuts):
            yield group, next_group, row, (0, size)
        return
    cuts = _line_ends(Path(file), size, shard_mb) if form == "jsonl" else [0, size]
    for start, end in pairwise(cuts):
        yield start, end, 0, (start, end)


def _line_ends(file: Path, size: int, shard_mb: float) -> list[int]:
    step = size if math.isinf(shard_mb) else math.ceil(shard_mb * 1e6)
    cuts = [0]
    with file.open("rb") as stream:
        for target in range(max(1, step), size, max(1, step)):
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
