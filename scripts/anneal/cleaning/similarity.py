"""Near-duplicate signatures: MinHash over word 5-grams, verified by real Jaccard similarity."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import rensa
import xxhash

from anneal.cleaning.normalise import fold

PERMUTATIONS, BANDS, WORDS, SEED = 112, 28, 5, 42
ROWS = PERMUTATIONS // BANDS
MIX = np.uint64(0x9E3779B97F4A7C15)


def shingle_hashes(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the word 5-grams of folded texts, all in one array.

    Returns:
        hashes, uint64, repeated as often as the 5-gram is; and where each text begins, uint64 of
        (texts + 1). A text of fewer words has none.
    """
    known: dict[str, int] = {}
    hashes, sizes = [], []
    for text in texts:
        words = fold(text).split()
        hashes += [known.get(w) or known.setdefault(w, _hashed(w)) for w in words]
        sizes.append(len(words))
    words = np.array(hashes, np.uint64)
    ends = np.cumsum(sizes, dtype=np.int64)
    starts = ends - sizes
    windows = _windows(words)
    inside = np.ones(len(windows), bool)
    for n in range(1, WORDS):  # a window must not reach into the next text
        crossing = ends[:-1] - n
        inside[crossing[(crossing >= 0) & (crossing < len(windows))]] = False
    counts = np.maximum(ends - starts - WORDS + 1, 0)
    return windows[inside], np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)


def _windows(words: np.ndarray) -> np.ndarray:
    """One hash of each five words in a row."""
    count = max(len(words) - WORDS + 1, 0)
    mixed = np.zeros(count, np.uint64)
    for n in range(WORDS):
        mixed = (mixed ^ words[n : n + count]) * MIX
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _hashed(word: str) -> int:
    return xxhash.xxh3_64_intdigest(word.encode())


def shingle_sets(texts: list[str]) -> list[np.ndarray]:
    """The distinct hashes of each text, sorted, for `jaccard`."""
    hashes, starts = shingle_hashes(texts)
    return [np.unique(hashes[a:b]) for a, b in pairwise(starts.tolist())]


def signatures(texts: list[str]) -> list[list[int] | None]:
    """MinHash signature (112 x uint32) of each text; None where it is too short for one."""
    hashes, starts = shingle_hashes(texts)
    made = rensa.RMinHash.digest_matrix_from_flat_token_hashes(hashes, starts, PERMUTATIONS, SEED)
    there = starts[1:] > starts[:-1]
    return [row if full else None for row, full in zip(made.to_rows(), there, strict=True)]


def band_hashes(signatures: pa.Array) -> dict[str, pa.Array]:
    """Columns `h0` to `h27`: the hash of each band, null without a signature.

    Texts that share one are candidates: 28 bands of 4 rows find a pair of similarity 0.7 with
    probability 0.9995.
    """
    there = signatures.is_valid().to_numpy(zero_copy_only=False)
    values = signatures.drop_null().flatten().to_numpy().reshape(-1, BANDS, ROWS)
    hashes = np.zeros((len(signatures), BANDS), np.uint64)
    mixed = np.zeros(values.shape[:2], np.uint64)
    for row in range(ROWS):
        mixed = (mixed ^ values[:, :, row]) * MIX
        mixed ^= mixed >> np.uint64(29)
    hashes[there] = mixed
    return {f"h{n}": pa.array(hashes[:, n], mask=~there) for n in range(BANDS)}


def jaccard(a: np.ndarray, b: np.ndarray) -> float:
    """Shared part of two sorted arrays of distinct hashes."""
    both = len(np.intersect1d(a, b, assume_unique=True))
    return both / (len(a) + len(b) - both) if len(a) or len(b) else 1.0
