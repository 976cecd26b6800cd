"""What a stream counts on its way, in the form in which the stored stages report it."""

from collections import Counter
from typing import BinaryIO

import numpy as np
import orjson

from anneal.errors import UserError
from anneal.splitting.assign import SPLITS
from anneal.splitting.gates import new_funnel, sorted_funnel, too_many_rejects
from anneal.splitting.write import BUCKETS

# A source is judged by its share of rejects from so many rows on, and at its end.
ENOUGH = 1_000


class RowCounts:
    """What became of every row read so far; they add up after each batch.

    Args:
        allowed: share of unreadable rows in a source above which reading stops.
        rejects: takes the rejected rows, one JSON line each.
    """

    def __init__(self, allowed: float, rejects: BinaryIO | None = None):
        self.allowed, self.rejects = allowed, rejects
        self.funnel: dict[str, dict] = {}
        self.first_reject: dict[str, dict] = {}
        self.splits: Counter[str] = Counter()
        self.pii: Counter[str] = Counter()
        self.converted: Counter[str] = Counter()
        self.review: dict[str, list[str]] = {}

    def add(self, source: str, decided: list[dict], rejects: list[dict]) -> None:
        """Count a batch.

        Raises:
            UserError: too many rows of the source are unreadable.
        """
        counts = self.funnel.setdefault(source, new_funnel())
        counts["read"] += len(decided) + len(rejects)
        counts["rejected"] += len(rejects)
        counts["reasons"].update(row["reason"].partition(" (column")[0] for row in rejects)
        for row in decided:
            counts[row["status"]] += 1
            self.pii.update(row["pii"])
            if row["status"] == "kept":
                self.splits[row["split"]] += 1
            else:
                counts["rules"][row["rule"]] += 1
        self._take_down(source, rejects)
        if counts["read"] >= ENOUGH:
            self._check(source)

    def finish(self) -> None:
        """Judge all sources at the end of a pass.

        Raises:
            UserError: nothing was read, or too many rows of a source are unreadable.
        """
        if not any(counts["read"] for counts in self.funnel.values()):
            raise UserError("datasets", "all sources are empty", "check their paths")
        for source in self.funnel:
            self._check(source)

    def facts(self) -> dict:
        return {
            "funnel": {name: sorted_funnel(counts) for name, counts in self.funnel.items()},
            "splits": {"rows": {name: self.splits[name] for name in SPLITS}},
            "pii": dict(sorted(self.pii.items())),
            "converted": dict(sorted(self.converted.items())),
            "review": dict(sorted(self.review.items())),
        }

    def _take_down(self, source: str, rejects: list[dict]) -> None:
        if rejects:
            self.first_reject.setdefault(source, rejects[0])
        if self.rejects:
            self.rejects.writelines(orjson.dumps(row) + b"\n" for row in rejects)

    def _check(self, source: str) -> None:
        counts = self.funnel[source]
        if counts["rejected"] > self.allowed * counts["read"]:
            first = self.first_reject[source]
            figures = counts["rejected"], counts["read"], self.allowed
            raise too_many_rejects(first, first["reason"], *figures)


class TokenCounts:
    """Figures of the training rows so far, as `splitting.write` gives them for stored ones.

    Shares of learned tokens are kept to one percent, for their median.
    """

    def __init__(self, max_length: int):
        self.edges = np.linspace(0, max_length, BUCKETS + 1)
        self.lengths = np.zeros(BUCKETS, np.int64)
        self.sums: Counter[str] = Counter(rows=0, sequences=0, tokens=0, supervised=0)
        self.shares: Counter[float] = Counter()
        self.least, self.at_zero = 1.0, 0
        self.set_aside: Counter[str] = Counter()

    def add(self, rows: list[dict], sequences: int) -> None:
        """Count usable rows, and into how many sequences they went."""
        lengths = np.array([row["length"] for row in rows])
        supervised = np.array([row["supervised"] for row in rows])
        shares = supervised / lengths
        self.lengths += np.histogram(lengths, self.edges)[0]
        self.shares.update(np.round(shares, 2).tolist())
        self.least = min(self.least, float(shares.min()))
        self.at_zero += int((supervised == 0).sum())
        sums = {"tokens": int(lengths.sum()), "supervised": int(supervised.sum())}
        self.sums.update(rows=len(rows), sequences=sequences, **sums)

    def facts(self) -> dict:
        share = {"min": self.least, "median": self._median(), "rows_at_zero": self.at_zero}
        lengths = {"counts": self.lengths.tolist(), "edges": np.round(self.edges, 2).tolist()}
        aside = dict(sorted(self.set_aside.items()))
        return {**self.sums, "learned_share": share, "lengths": lengths, "set_aside": aside}

    def _median(self) -> float:
        values = sorted(self.shares)
        below = np.cumsum([self.shares[value] for value in values])
        return values[int(np.searchsorted(below, below[-1] / 2))]
