"""Which split a row belongs to: decided by a hash of its prompt alone.

Rows with equal prompts share the hash and so the side. No other row takes part in the decision,
so adding or removing rows never moves a row. That forbids exact quotas: every stratum gets its
shares in expectation, the real ones are reported, and gates watch over them.
"""

import orjson
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


def side_of(prompt_key: str, split: dict) -> str:
    """The same by the `split` section of a dataset."""
    return assign(prompt_key, split["seed"], split["train"], split["eval"])


def group_hash(value) -> int | None:
    """64 bits that stand for a value of a `group_by` column; None for no value."""
    if value in (None, ""):
        return None
    return xxhash.xxh3_64_intdigest(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
