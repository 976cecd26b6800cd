"""The record types of the data stages and their Arrow schemas, on one page.

Every record knows where it came from: source, file, 1-based physical line (or row) and byte
offset. `id` is the digest of its fields as read: equal content has an equal id, anywhere.
"""

import pyarrow as pa

# `tool_calls` is JSON text, so that the type stays the same whatever the tools take; null if none.
MESSAGES = pa.list_(
    pa.struct([(n, pa.string()) for n in ("role", "content", "name", "tool_calls", "tool_call_id")])
)

# The fields of each kind of record. `tools` is JSON text too. Prompts and answers that were read
# as plain text are lists of one message. OPTIONAL fields are empty text where they are missing.
FIELDS: dict[str, dict[str, pa.DataType]] = {
    "instruction": {"instruction": pa.string(), "input": pa.string(), "output": pa.string()},
    "chat": {"messages": MESSAGES, "tools": pa.string()},
    "preference": {"prompt": MESSAGES, "chosen": MESSAGES, "rejected": MESSAGES},
    "prompts": {"prompt": MESSAGES},
    "text": {"text": pa.string()},
}
OPTIONAL = {"input", "tools"}

PLACE = [("source", pa.string()), ("file", pa.string()), ("line", pa.int64())]

IDENTITY = ("id", *(name for name, _ in PLACE))

REJECT = pa.schema([*PLACE, ("offset", pa.int64()), ("reason", pa.string())])

MATCH = pa.schema(
    [
        ("id", pa.string()),
        *PLACE,
        ("task", pa.string()),
        ("question", pa.int64()),
        ("coverage", pa.float64()),
        ("span", pa.string()),
    ]
)

# `row` is the number of the row in its dataset's cleaned shards, in order of appearance.
DROP = pa.schema(
    [
        ("row", pa.int64()),
        ("id", pa.string()),
        *PLACE,
        ("rule", pa.string()),
        ("value", pa.float64()),
        ("kept_id", pa.string()),
        ("kept_source", pa.string()),
        ("kept_file", pa.string()),
        ("kept_line", pa.int64()),
    ]
)

COUNTS = ("chars", "response_chars", "word_count", "stop_words", "curly_braces")
SHARES = (
    *("symbol_ratio", "repeated_line_share", "mean_word_length", "symbol_word_ratio"),
    *("alphabetic_word_share", "bullet_line_share", "ellipsis_line_share", "ended_line_share"),
    *("short_line_share", "newline_word_ratio", "lorem_ipsum", "duplicate_line_share"),
    *("duplicate_paragraph_share", "top_2_gram_share", "top_3_gram_share", "top_4_gram_share"),
    *(f"duplicate_{n}_gram_share" for n in range(5, 11)),
)
SCORES = pa.struct(
    [
        *((name, pa.int64()) for name in COUNTS),
        *((name, pa.float64()) for name in SHARES),
        ("script", pa.string()),
        ("language", pa.string()),
        ("language_score", pa.float64()),
    ]
)

# The label of a token that is not to be learned (the ignore_index of PyTorch).
IGNORED = -100

SPAN = pa.struct([("start", pa.int64()), ("end", pa.int64())])

# A text with the spans that are learned, and the spans of control tokens that are only text.
MARKED = [("text", pa.string()), ("spans", pa.list_(SPAN)), ("literals", pa.list_(SPAN))]

TEXT = pa.schema(
    [
        ("id", pa.string()),
        *PLACE,
        *MARKED,
        ("rejected", pa.struct(MARKED)),
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

PAIR_TOKENS = pa.schema(
    [
        ("id", pa.string()),
        *PLACE,
        *((name, pa.list_(pa.int32())) for name in ("prompt_ids", "chosen_ids", "rejected_ids")),
        ("length", pa.int32()),
        ("supervised", pa.int32()),
        ("problem", pa.string()),
    ]
)


def fields_among(names: list[str]) -> list[str]:
    """Which columns of a shard are its kind's own fields, each once."""
    return [n for n in dict.fromkeys(n for kind in FIELDS.values() for n in kind) if n in names]


def identity(row: dict) -> dict:
    """What a row keeps through every stage: its id and its place."""
    return {name: row[name] for name in IDENTITY}


def place(row: dict) -> tuple[str, str, int]:
    """What names a raw row: source, file and line."""
    return row["source"], row["file"], row["line"]


def filled(schema: pa.Schema, columns: dict, size: int) -> pa.Table:
    """A table of a schema; columns that are not given are null."""
    given = {f.name: columns.get(f.name, pa.nulls(size, f.type)) for f in schema}
    return pa.table(given, schema=schema)


def counted(column: pa.ChunkedArray) -> dict[str, int]:
    """How often each value stands in a column, by value."""
    counts = {item["values"]: item["counts"] for item in column.value_counts().to_pylist()}
    return dict(sorted(counts.items()))


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
