"""How often a training row is learned from, by the weight of its source.

A row's share of chance is a hash of its id: it does not depend on other rows, on their order or
on a seed that was drawn. Rows kept at a weight are kept at every larger one.
"""

import xxhash


def copies(record_id: str, weight: float) -> int:
    """How many times a record is taken.

    The weight's whole part counts for every record, its fraction for that share of them: 0.25
    keeps a quarter, 2.5 takes each record twice and half of them once more.

    Args:
        weight: of the record's source, above 0.
    """
    whole = int(weight)
    point = xxhash.xxh3_64_intdigest(f"weight\n{record_id}".encode()) / 2**64
    return whole + (point < weight - whole)
