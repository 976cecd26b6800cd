"""Best-fit packing: several rows in one sequence, none cut, the fewest sequences a greedy finds.

Best-fit decreasing (Johnson 1974): longest rows first, each into the fullest sequence that still
has room. Position ids restart at each row, which is what keeps packed rows from seeing each other.
"""

from bisect import bisect_left, insort
from collections import defaultdict

import numpy as np


def pack(lengths: np.ndarray, capacity: int) -> list[list[int]]:
    """Row numbers of each sequence.

    Args:
        lengths: tokens of each row, none above `capacity`.

    Returns:
        sequences ordered by their first row; rows inside ascend.
    """
    rooms: list[int] = []
    open_by_room: dict[int, list[int]] = defaultdict(list)
    sequences: list[list[int]] = []
    for row in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        length = int(lengths[row])
        at = bisect_left(rooms, length)
        if at == len(rooms):
            room, sequence = capacity, len(sequences)
            sequences.append([])
        else:
            room = rooms[at]
            sequence = open_by_room[room].pop()
            if not open_by_room[room]:
                rooms.pop(at)
        sequences[sequence].append(row)
        left = room - length
        if not open_by_room[left]:
            insort(rooms, left)
        open_by_room[left].append(sequence)
    return sorted(sorted(sequence) for sequence in sequences)


def position_ids(lengths: list[int]) -> np.ndarray:
    """0, 1, 2, ... restarting at each row: int32 of the sum of the lengths."""
    return np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
