"""Sides of the groups that a stream has met: equal prompts and named groups.

As in `splitting.sides`, the earliest row of a group decides its side by the hash of its prompt,
and a later row that would join two sides is set aside.
"""

import orjson
import xxhash

from anneal.splitting.assign import assign


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
        side = found.pop() if found else self._assigned(row)
        self.sides.update(dict.fromkeys(keys, side))
        return side

    def _named(self, row: dict) -> list[tuple]:
        extra = orjson.loads(row["extra"])
        names = [name for name in self.split["group_by"] if extra.get(name) not in (None, "")]
        return [(name, orjson.dumps(extra[name], option=orjson.OPT_SORT_KEYS)) for name in names]

    def _assigned(self, row: dict) -> str:
        split = self.split
        return assign(row["prompt_key"], split["seed"], split["train"], split["eval"])


def _key(name: tuple) -> int:
    return xxhash.xxh3_64_intdigest(repr(name).encode())
