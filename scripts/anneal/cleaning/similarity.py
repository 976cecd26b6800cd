"""Near-duplicate signatures: MinHash over word 5-grams, verified by real Jaccard similarity."""

import numpy as np
import pyarrow as pa
import rensa
import xxhash

from anneal.cleaning.normalise import fold

PERMUTATIONS, BANDS, WORDS, SEED = 112, 28, 5, 42
ROWS = PERMUTATIONS // BANDS
MIX = np.uint64(0x9E3779B97F4A7C15)


def shingles(text: str) -> set[str]:
    """Word 5-grams of the folded text; empty for a text of fewer words, which has no signature."""
    words = fold(text).split()
    return {" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}


def shingle_hashes(text: str) -> np.ndarray:
    """64-bit hashes of the shingles, sorted."""
    hashes = [xxhash.xxh3_64_intdigest(s.encode()) for s in shingles(text)]
    return np.sort(np.array(hashes, np.uint64))


def signatures(texts: list[str]) -> list[list[int] | None]:
    """MinHash signature (112 x uint32) of each text; None where it is too short for one."""
    sets = [sorted(shingles(text)) for text in texts]
    digests = iter(
        rensa.RMinHash.digests_from_token_sets([s for s in sets if s], PERMUTATIONS, SEED)
    )
    return [next(digests) if s else None for s in sets]


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
