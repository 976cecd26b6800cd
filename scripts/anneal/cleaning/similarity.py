"""Near-duplicate signatures: MinHash over word 5-grams, verified by real Jaccard similarity."""

import rensa
import xxhash

from anneal.cleaning.normalise import fold

PERMUTATIONS, BANDS, WORDS, SEED = 112, 28, 5, 42
ROWS = PERMUTATIONS // BANDS


def shingles(text: str) -> set[str]:
    """Word 5-grams of the folded text; empty for a text of fewer words, which has no signature."""
    words = fold(text).split()
    return {" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}


def signatures(texts: list[str]) -> list[list[int] | None]:
    """MinHash signature (112 x uint32) of each text; None where it is too short for one."""
    sets = [sorted(shingles(text)) for text in texts]
    digests = iter(
        rensa.RMinHash.digests_from_token_sets([s for s in sets if s], PERMUTATIONS, SEED)
    )
    return [next(digests) if s else None for s in sets]


def bands(signature: list[int]) -> list[tuple[int, int]]:
    """(band number, hash of its rows): texts that share one are candidates.

    28 bands of 4 rows find a pair of similarity 0.7 with probability 0.9995.
    """
    parts = (signature[i : i + ROWS] for i in range(0, PERMUTATIONS, ROWS))
    return [(n, xxhash.xxh3_64_intdigest(str(part).encode())) for n, part in enumerate(parts)]


def jaccard(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0
