"""Sides of the groups that a stream has met: equal prompts and named groups.

As in `splitting.sides`, the earliest row of a group decides its side by the hash of its prompt,
and a later row that would join two sides is set aside.
"""

import orjson
import xxhash

from anneal.splitting.assign import group_hash, side_of


class Groups:
    """Remembers a side for each group, in 64-bit keys.

    Args:
        split: the `split` section; `group_by` names columns of the raw rows.
    """

    def __init__(self, split: dict):
        self.split = split
        self.sides: dict[int, str] = {}

    def side(self, row: dict) -> str | None:
        """The side of a row with `prompt_key` and `extra`; None if it would join two sides."""
        keys = [_key(("prompt", row["prompt_key"])), *map(_key, self._named(row))]
        found = {self.sides[key] for key in keys if key in self.sides}
        if len(found) > 1:
            return None
        side = found.pop() if found else side_of(row["prompt_key"], self.split)
        self.sides.update(dict.fromkeys(keys, side))
        return side

    def _named(self, row: dict) -> list[tuple[str, int]]:
        extra = orjson.loads(row["extra"])
        found = [(name, group_hash(extra.get(name))) for name in self.split["group_by"]]
        return [(name, value) for name, value in found if value is not None]


def _key(name: tuple) -> int:
    return xxhash.xxh3_64_intdigest(repr(name).encode())
