"""The record types of the data stages and their Arrow schemas, on one page.

Every record knows where it came from: source, file, 1-based physical line (or row) and byte
offset. `id` is the digest of its fields as read: equal content has an equal id, anywhere.
"""

import pyarrow as pa

MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))

FIELDS: dict[str, dict[str, pa.DataType]] = {
    "instruction": {"instruction": pa.string(), "input": pa.string(), "output": pa.string()},
    "chat": {"messages": MESSAGES},
}
OPTIONAL = {"input"}

PLACE = [("source", pa.string()), ("file", pa.string()), ("line", pa.int64())]

REJECT = pa.schema([*PLACE, ("offset", pa.int64()), ("reason", pa.string())])

DROP = pa.schema(
    [
        ("id", pa.string()),
        *PLACE,
        ("rule", pa.string()),
        ("value", pa.float64()),
        ("kept_id", pa.string()),
        ("kept_file", pa.string()),
        ("kept_line", pa.int64()),
    ]
)

SCORES = pa.struct(
    [
        ("chars", pa.int64()),
        ("response_chars", pa.int64()),
        ("symbol_ratio", pa.float64()),
        ("repeated_line_share", pa.float64()),
    ]
)

# The label of a token that is not to be learned (the ignore_index of PyTorch).
IGNORED = -100

SPAN = pa.struct([("start", pa.int64()), ("end", pa.int64())])

TEXT = pa.schema(
    [
        ("id", pa.string()),
        *PLACE,
        ("text", pa.string()),
        ("spans", pa.list_(SPAN)),
        ("literals", pa.list_(SPAN)),
        ("problem", pa.string()),
    ]
)

TOKENS = pa.schema(
    [
        ("id", pa.string()),
        *PLACE,
        ("input_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int32())),
        ("length", pa.int32()),
        ("supervised", pa.int32()),
        ("problem", pa.string()),
    ]
)


def record_schema(kind: str) -> pa.Schema:
    """A raw record: place, the kind's own fields, the stratum and all other columns as JSON."""
    return pa.schema(
        [
            ("id", pa.string()),
            *PLACE,
            ("offset", pa.int64()),
            *FIELDS[kind].items(),
            ("category", pa.string()),
            ("extra", pa.string()),
        ]
    )


def clean_schema(kind: str) -> pa.Schema:
    """A cleaned record: the raw one plus keys, scores, near-duplicate signature and PII counts."""
    return pa.schema(
        [
            *record_schema(kind),
            ("content_key", pa.string()),
            ("prompt_key", pa.string()),
            ("signature", pa.list_(pa.uint32())),
            ("scores", SCORES),
            ("pii", pa.map_(pa.string(), pa.int32())),
        ]
    )
