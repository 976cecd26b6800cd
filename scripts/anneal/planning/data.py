"""How much a run learns from: counted in its tokenized splits, or guessed from the raw bytes."""

from dataclasses import dataclass
from pathlib import Path

from anneal.provenance.files import read_json
from anneal.sources.shards import ELSEWHERE

# Of English prose with today's vocabularies; and how far text is compressed.
BYTES_A_TOKEN = 4
COMPRESSED = 3


@dataclass(frozen=True)
class Data:
    """The training split. `sequences` and `tokens` of one pass; None where nothing is known.

    `longest` is the longest sequence in tokens, padding left out; `measured` tells counted figures
    from guessed ones, and `how` says in words where they come from.
    """

    rows: int | None
    sequences: int | None
    tokens: int | None
    longest: int
    measured: bool
    how: str


def data_of(run, dataset, results: Path, shards: list) -> Data:
    """Of the run's splits if they are there, else a guess.

    Args:
        dataset: a `config.dataset.Dataset`.
        shards: its pieces, as `sources.shards` plans them.
    """
    manifest = results / "tokens" / run.dataset / run.model / "splits" / "manifest.json"
    longest = dataset.tokenize.max_length
    if manifest.is_file() and (train := read_json(manifest)["facts"].get("train")):
        if not dataset.tokenize.packing:
            longest = _longest(train["lengths"]) or longest
        figures = (train["rows"], train["sequences"], train["tokens"])
        return Data(*figures, longest, True, f"counted in {manifest}")
    if dataset.stream:
        return Data(None, None, None, longest, False, "a stream has no length; max_steps decides")
    size = sum(_text_bytes(shard) for shard in shards)
    if not size:
        how = "unknown until the data stages have run: the sources lie elsewhere"
        return Data(None, None, None, longest, False, how)
    return _guessed(size, dataset, longest)


def _guessed(size: float, dataset, longest: int) -> Data:
    """As if every row were kept, and sequences were full (packed) or half full."""
    tokens = int(size / BYTES_A_TOKEN * dataset.split.train)
    filled = longest if dataset.tokenize.packing else longest // 2
    how = f"guessed from {size / 1e6:,.3g} MB of raw text at {BYTES_A_TOKEN} bytes a token"
    how += "; run the target `data` first for real counts"
    return Data(None, max(1, tokens // max(filled, 1)), tokens, longest, False, how)


def _text_bytes(shard) -> float:
    if shard.format in ELSEWHERE:
        return 0.0
    size = Path(shard.file).stat().st_size
    if shard.format.startswith("jsonl") and shard.end:
        size = shard.end - shard.start
    elif shard.format == "parquet" and shard.start:
        return 0.0  # another row group of a file that is counted already
    packed = shard.format == "parquet" or shard.format.endswith((".gz", ".zst"))
    return size * COMPRESSED if packed else size


def _longest(lengths: dict) -> int:
    """The upper edge of the last bin that holds a row."""
    filled = [n for n, count in enumerate(lengths["counts"]) if count]
    return int(lengths["edges"][filled[-1] + 1]) if filled else 0
