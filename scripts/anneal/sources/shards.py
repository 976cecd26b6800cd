"""Which pieces the raw files are cut into, and the digest of each piece's bytes.

Plain JSON lines are cut at the first line end after each multiple of the shard size, so a row that
is appended changes the last piece alone. Parquet is cut between row groups. Other formats have no
safe places to cut, and are one piece a file. Digests are remembered by path, size and time. What
lies elsewhere is one piece too, and nothing of it is fetched here but the answer of a cheap query.
"""

import glob
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import xxhash

from anneal.errors import UserError
from anneal.provenance.digests import CHUNK, digest_text, digest_value
from anneal.provenance.files import write_json
from anneal.sources.formats import column_names, is_blank, sniff

ELSEWHERE = ("sql", "hub", "http", "generated")


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


class Cut(NamedTuple):
    """Where a piece begins and ends (see `Shard`), and what its digest covers."""

    start: int
    end: int
    first_row: int  # 0 where lines are counted
    span: tuple[int, int]  # bytes
    types: str = ""  # of the columns, where they stand outside of these bytes


class DigestCache:
    """Digests by (path, size, mtime, range), kept between runs in one JSON file."""

    def __init__(self, path: Path):
        self.path, self.known, self.fresh = path, {}, False
        with suppress(FileNotFoundError, ValueError):  # a damaged one is made again
            self.known = json.loads(path.read_text())

    def lookup(self, file: Path, start: int, end: int) -> tuple[str, int]:
        """(digest, number of line ends) of a byte range."""
        status = file.stat()
        key = json.dumps([str(file), status.st_size, status.st_mtime_ns, start, end])
        if key not in self.known:
            self.known[key] = _digest_and_lines(file, start, end)
            self.fresh = True
        return tuple(self.known[key])

    def save(self) -> None:
        """Write what is new; what was known of files that changed or are gone is forgotten."""
        if self.fresh:
            write_json(self.path, {key: d for key, d in self.known.items() if _is_there(key)})


def plan_shards(
    name: str,
    source,
    kind: str,
    shard_mb: float,
    cache: DigestCache,
    answers: dict[str, str] | None = None,
) -> list[Shard]:
    """The pieces of one source, in order.

    Args:
        source: a `config.sources.Source`.
        kind: of record; tables are checked against its fields before any row is read.
        answers: what this run's databases answered to a `change_query`; new answers are added.

    Raises:
        UserError: no file fits the pattern, a database lacks its query or does not answer, or a
            column's type cannot become the declared one.
    """
    if source.url_env:
        answers = {} if answers is None else answers
        return [_elsewhere(name, "sql", source.url_env, _asked(source, answers))]
    if source.hub:
        return [_elsewhere(name, "hub", source.hub, _named(source, cache))]
    if source.url:
        digest = source.sha256 or digest_value([source.url, source.snapshot])
        return [_elsewhere(name, "http", source.url, digest)]
    pieces = [
        piece
        for file in _files(name, source)
        for piece in _pieces(source, kind, file, shard_mb, cache)
    ]
    return [Shard(f"{name}-{i:05d}", name, *piece) for i, piece in enumerate(pieces)]


def without_text(shards: list[Shard]) -> bool:
    """Whether every shard is a file without any text, so that nothing can come of them."""
    return all(s.format.startswith("jsonl") and is_blank(s.file) for s in shards)


def whole_file_piece(name: str, file: str, settings: dict) -> dict:
    """A file as one piece, for the step that fetched it; see `Shard.as_source`.

    Args:
        settings: `kind`, `columns` and `query`.
    """
    form = _format(file, settings["kind"], settings["columns"], settings["query"])
    cut = next(_cuts(file, form, math.inf, settings["kind"], settings["columns"]))
    place = {"start": cut.start, "end": cut.end, "first_line": cut.first_row or 1}
    return {"source": name, "file": file, "format": form, **place}


def generated_shard(name: str, file: str, digest: str) -> Shard:
    """What a step of the same DAG will write, as one piece; `digest` is that step's."""
    return _elsewhere(name, "generated", file, digest)


def _elsewhere(name: str, form: str, place: str, digest: str) -> Shard:
    return Shard(f"{name}-00000", name, place, form, 0, 0, 1, digest)


def _asked(source, answers: dict[str, str]) -> str:
    text = f"{source.url_env}\n{source.query}\n{source.snapshot}"
    if source.change_query:
        from anneal.sources.database import changes

        question = digest_value([source.url_env, source.change_query])
        if question not in answers:
            answers[question] = changes(source.url_env, source.change_query)
        text += f"\n{source.change_query}\n{answers[question]}"
    return digest_text(text)


def _named(source, cache: DigestCache) -> str:
    """Digest of what names a version of a Hub dataset, and of a local one's bytes."""
    files = sorted(p for p in Path(source.hub).rglob("*") if p.is_file())
    local = [[str(p), cache.lookup(p, 0, p.stat().st_size)[0]] for p in files]
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


def _pieces(source, kind, file, shard_mb, cache) -> Iterator[tuple]:
    """(file, format, start, end, first line, digest) of each piece of a file."""
    form = _format(file, kind, source.columns, source.query)
    line = 1
    for cut in _cuts(file, form, shard_mb, kind, source.columns):
        digest, lines = cache.lookup(Path(file), *cut.span)
        digest = digest_value([digest, cut.types]) if cut.types else digest
        yield file, form, cut.start, cut.end, cut.first_row or line, digest
        line += lines


def _format(file: str, kind: str, columns: dict[str, str], query: str | None) -> str:
    form = sniff(file, column_names(kind, columns))
    if form == "sqlite" and not query:
        raise UserError(file, "is a database", "give a 'query' to its source")
    return form


def _cuts(file, form, shard_mb, kind, columns) -> Iterator[Cut]:
    size = Path(file).stat().st_size
    if form == "parquet":
        from anneal.sources.tables import check_columns, parquet_pieces

        pieces, schema = parquet_pieces(file, shard_mb)
        check_columns(file, schema, kind, columns)
        types = schema.remove_metadata().to_string(show_field_metadata=False)
        yield from (Cut(*piece, types) for piece in pieces)
    elif form == "arrow":
        from anneal.sources.tables import arrow_schema, check_columns

        check_columns(file, arrow_schema(file), kind, columns)
        yield Cut(0, 0, 1, (0, size))
    else:
        cuts = _line_ends(Path(file), size, shard_mb) if form == "jsonl" else [0, size]
        yield from (Cut(start, end, 0, (start, end)) for start, end in pairwise(cuts))


def _line_ends(file: Path, size: int, shard_mb: float) -> list[int]:
    step = size if math.isinf(shard_mb) else math.ceil(shard_mb * 1e6)
    step = max(1, step)
    cuts, target = [0], step
    with file.open("rb") as stream:
        while target < size:
            stream.seek(target - 1)
            while (piece := stream.readline(CHUNK)) and not piece.endswith(b"\n"):
                pass
            if stream.tell() < size:
                cuts.append(stream.tell())
            target = step * (stream.tell() // step + 1)
    return [*cuts, size]


def _is_there(key: str) -> bool:
    file, size, mtime, *_ = json.loads(key)
    try:
        status = Path(file).stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (size, mtime)


def _digest_and_lines(file: Path, start: int, end: int) -> tuple[str, int]:
    state, lines, left = xxhash.xxh3_128(), 0, end - start
    with file.open("rb") as stream:
        stream.seek(start)
        while left > 0 and (block := stream.read(min(CHUNK, left))):
            state.update(block)
            lines += block.count(b"\n")
            left -= len(block)
    return state.hexdigest(), lines
