"""Rows that must stay on one side of the split: equal prompts, named groups, near duplicates.

Rows are taken in order; the earliest row of a group decides its side, by the hash of its prompt.
A later row that would join two groups on different sides is set aside: so nothing that was decided
about earlier rows ever changes, and no group is torn.
"""

from collections.abc import Iterable

import orjson
import xxhash

from anneal.records import place
from anneal.splitting.assign import assign

JOINS = "joins_two_splits"


class Groups:
    """Sides of the groups seen so far.

    Args:
        split: the `split` section; `group_by` names columns of the raw rows.
    """

    def __init__(self, split: dict):
        self.split = split
        self.sides: dict[int, str] = {}

    def side(self, row: dict, near: Iterable[tuple] = ()) -> str | None:
        """The side of a row; None if it would join groups on different sides.

        Args:
            row: with its place, `prompt_key` and `extra`.
            near: places of earlier rows that it is a near duplicate of.
        """
        named = [("prompt", row["prompt_key"]), *self._named(row), ("row", place(row))]
        keys = [_key(name) for name in named]
        linked = [*keys, *(_key(("row", earlier)) for earlier in near)]
        found = {self.sides[key] for key in linked if key in self.sides}
        if len(found) > 1:
            return None
        side = found.pop() if found else self._assigned(row)
        self.sides.update(dict.fromkeys(keys, side))
        return side

    def _named(self, row: dict) -> list[tuple]:
        if not self.split["group_by"]:
            return []
        extra = orjson.loads(row["extra"])
        names = [name for name in self.split["group_by"] if extra.get(name) not in (None, "")]
        return [(name, orjson.dumps(extra[name], option=orjson.OPT_SORT_KEYS)) for name in names]

    def _assigned(self, row: dict) -> str:
        split = self.split
        return assign(row["prompt_key"], split["seed"], split["train"], split["eval"])


def _key(name: tuple) -> int:
    """64 bits that stand for a group: a fifth of the memory of its name."""
    return xxhash.xxh3_64_intdigest(repr(name).encode())
