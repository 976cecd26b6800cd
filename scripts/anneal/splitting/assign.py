"""Which split a row belongs to: decided by a hash of its prompt alone.

Rows with equal prompts share the hash and so the side. No other row takes part in the decision,
so adding or removing rows never moves a row. That forbids exact quotas: every stratum gets its
shares in expectation, the real ones are reported, and gates watch over them.
"""

import xxhash

SPLITS = ("train", "eval", "test")


def assign(prompt_key: str, seed: str, train: float, evaluation: float) -> str:
    """`train`, `eval` or `test`.

    Args:
        prompt_key: digest of the folded prompt, the group that stays together.
        train, evaluation: shares of the first two splits.
    """
    point = xxhash.xxh3_64_intdigest(f"{seed}\n{prompt_key}".encode()) / 2**64
    if point < train:
        return "train"
    return "eval" if point < train + evaluation else "test"
