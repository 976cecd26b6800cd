"""Which 64-bit keys have come before, at eight bytes each: a set of Python takes a hundred."""

import numpy as np


class Seen:
    """Keys in sorted runs, each at least twice as long as the next."""

    def __init__(self):
        self.runs: list[np.ndarray] = []

    def add(self, keys: list[int]) -> list[bool]:
        """Whether each key has come before, earlier in the same list too; all of them have now."""
        new = np.array(keys, np.uint64)
        _, first = np.unique(new, return_index=True)
        known = np.ones(len(new), bool)
        known[first] = False
        for run in self.runs:
            at = np.minimum(np.searchsorted(run, new), len(run) - 1)
            known |= run[at] == new
        if not known.all():
            self._keep(np.sort(new[~known]))
        return known.tolist()

    def _keep(self, run: np.ndarray) -> None:
        while self.runs and len(self.runs[-1]) < 2 * len(run):
            run = np.concatenate([self.runs.pop(), run])
            run.sort(kind="stable")  # quick on two sorted halves
        self.runs.append(run)
