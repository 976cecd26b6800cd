"""Junk: whatever bytes a file holds, good rows are read, the rest has a place, nothing crashes."""

import gzip
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import read, zstd

from anneal.errors import UserError
from anneal.records import REJECT, record_schema
from anneal.sources import read as reader

GOOD = {"instruction": "Name a gem.", "output": "Opal."}
LINE = json.dumps(GOOD).encode()
STARTS = [
    *(b"", b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"),
    *(b"[", b"{", b"[{", b'{"data":[', b"\xef\xbb\xbf", b"instruction,output\n", b'"a\tb"\n'),
    *(b"\xff\xfe", b"PK\x03\x04"),
]
junk = st.binary(max_size=60) | st.text('{}[]",:\\\n\r\t a1', max_size=40).map(str.encode)
thorough = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(raw: bytes, kind="instruction", shard_mb=64.0, **more):
    """What reading a file of these bytes gives; a refusal is its message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(raw)
        try:
            records, rejects, counts = read(path, Path(folder), kind, shard_mb, **more)
        except UserError as error:
            return str(error).replace(folder, "")
        assert path.read_bytes() == raw
        assert counts["read"] == len(records) + len(rejects)
        places = [row["line"] for row in records + rejects]
        assert len(places) == len(set(places))
        return [{**row, "file": ""} for row in records], [{**row, "file": ""} for row in rejects]


@thorough
@given(st.sampled_from(STARTS), junk, st.sampled_from([None, gzip.compress, zstd]))
def test_any_bytes_are_read_or_refused(start, rest, pack):
    raw = start + rest
    found = outcome(pack(raw) if pack else raw)
    assert isinstance(found, tuple | str)


@thorough
@given(st.lists(junk | st.just(LINE), max_size=8), st.integers(1, 200))
def test_json_lines_give_the_same_in_shards_of_any_size(lines, size):
    raw = LINE + b"\n" + b"\n".join(lines)
    whole = outcome(raw)
    assert outcome(raw, shard_mb=size / 1e6) == whole
    good = [i for i, line in enumerate(raw.split(b"\n"), 1) if line == LINE]
    assert {r["line"] for r in whole[0]} >= set(good)
    blank = sum(not line.strip() for line in raw.split(b"\n"))
    marks = sum(line.strip() == b"\xef\xbb\xbf" for line in raw.split(b"\n"))
    assert len(whole[0]) + len(whole[1]) == raw.count(b"\n") + 1 - blank - marks


BAD = [
    *(
        b"[1]",
        b"7",
        b'"text"',
        b"null",
        b"{",
        b'{"output":"only"}',
        b'{"instruction":"a","output":',
    ),
    *(b'{"instruction":"a","output":[]}', b'{"instruction":"caf\xe9","output":"b"}', b"{},"),
    b'{"instruction":"\\ud83d","output":"b"}',
]
mixtures = st.lists(
    st.tuples(st.just("good"), st.text(max_size=30))
    | st.tuples(st.just("bad"), st.sampled_from(BAD))
    | st.tuples(st.just("blank"), st.sampled_from([b"", b" ", b"\t\r"])),
    max_size=30,
)


def written_bytes(path: Path, shard_mb: float, batch_rows: int) -> tuple[bytes, bytes, dict]:
    """Records and rejects as one table each, in Arrow's bytes, and the counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "BATCH_ROWS", batch_rows)
        *rows, counts = read(path, path.parent, shard_mb=shard_mb)
    tables = zip(rows, (record_schema("instruction"), REJECT), strict=True)
    return *(pa.RecordBatch.from_pylist(r, schema).serialize() for r, schema in tables), counts


@thorough
@given(mixtures, st.integers(1, 400), st.integers(1, 7), st.booleans())
def test_counts_add_up_and_bytes_are_the_same_for_any_shard_and_batch(lines, size, batch, ends):
    number = {kind: sum(k == kind for k, _ in lines) for kind in ("good", "bad")}
    texts = [
        json.dumps({**GOOD, "output": value}).encode() if kind == "good" else value
        for kind, value in lines
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(LINE + b"\n" + b"\n".join(texts) + (b"\n" if ends else b""))
        whole = written_bytes(path, 64, 5_000)
        assert written_bytes(path, size / 1e6, batch) == whole
    assert whole[2] == {
        "read": number["good"] + 1 + number["bad"],
        "records": number["good"] + 1,
        "rejected": number["bad"],
        "converted": {},
    }


@thorough
@given(st.lists(st.text(max_size=9) | st.none(), min_size=1), st.integers(1, 9), st.integers(1, 7))
def test_a_tables_bytes_are_the_same_for_any_shard_and_batch(answers, group, batch):
    table = pa.table(
        {"instruction": ["q"] * len(answers), "output": pa.array(answers, pa.string())}
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        pq.write_table(table, path, row_group_size=group)
        whole = written_bytes(path, 64, 5_000)
        assert written_bytes(path, 1e-6, batch) == whole
    assert whole[2]["rejected"] == answers.count(None)
    assert whole[2]["read"] == whole[2]["records"] + whole[2]["rejected"] == len(answers)


@thorough
@given(st.lists(junk.filter(lambda text: b'"' not in text), max_size=6))
def test_good_csv_rows_around_junk_are_read(lines):
    good = b"Name a gem.,Opal."
    raw = b"\n".join([b"instruction,output", *(part for x in lines for part in (x, good))])
    found = outcome(raw)
    assert sum(r["instruction"] == "Name a gem." for r in found[0]) >= len(lines)


@thorough
@given(st.lists(st.fixed_dictionaries({"instruction": st.text(), "output": st.text()})))
def test_a_table_written_as_csv_or_json_is_read_back(rows):
    import csv
    import io

    file = io.StringIO()
    writer = csv.DictWriter(file, ["instruction", "output"])
    writer.writeheader()
    writer.writerows(rows)
    for raw in (file.getvalue().encode(), json.dumps(rows).encode()):
        records, rejects = outcome(raw)
        assert [{n: r[n] for n in GOOD} for r in records] == rows
        assert rejects == []


def as_table(form: str) -> bytes:
    table = pa.Table.from_pylist([{**GOOD, "n": i} for i in range(30)])
    sink = pa.BufferOutputStream()
    if form == "parquet":
        pq.write_table(table, sink, row_group_size=10)
    else:
        new = pa.ipc.new_file if form == "arrow file" else pa.ipc.new_stream
        with new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("form", ["parquet", "arrow file", "arrow stream"])
@thorough
@given(st.data())
def test_a_table_with_bytes_changed_is_read_or_refused(form, data):
    raw = bytearray(as_table(form))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    found = outcome(bytes(raw))
    assert isinstance(found, tuple | str)


def test_a_damaged_footer_does_not_end_the_process():
    """pyarrow 26 aborts where it is asked for a column of this one."""
    raw = bytearray(as_table("parquet"))
    raw[1001], raw[603] = 96, 132
    assert isinstance(outcome(bytes(raw)), tuple | str)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "text", "tool_calls", "x"]), inner)
    ),
    max_leaves=8,
)
NAMES = ["instruction", "output", "messages", "tools", "prompt", "chosen", "rejected", "text"]


@thorough
@given(
    st.sampled_from(["instruction", "chat", "preference", "prompts", "text"]),
    st.lists(st.dictionaries(st.sampled_from(NAMES), json_values), max_size=5),
)
def test_rows_of_any_shape_become_records_or_rejects(kind, rows):
    raw = b"\n".join(json.dumps(row).encode() for row in [{"x": 0}, *rows])
    records, rejects = outcome(raw, kind)
    assert len(records) + len(rejects) == len(rows) + 1


@pytest.mark.parametrize("size", [20_000])
def test_open_quotes_and_brackets_take_no_long_time(size):
    for raw in (b'"' * size, b'\\"' * size, b"[" * size, b'{"a":[' * size, b'"a,\n' * size):
        for start in (b"", b"[", b"instruction,output\n", b'[{"a":"'):
            assert outcome(start + raw, max_row_mb=1) is not None
