"""What goes wrong for people who load raw files, each case with an input of its kind."""

import gzip
import json
import logging
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import read, run_read_shard, zstd

from anneal.config.schema import Config
from anneal.config.sources import Source
from anneal.errors import UserError
from anneal.workflow import Steps

BOM = b"\xef\xbb\xbf"
MIXED = [
    b'{"instruction":"Name a gem.","output":"Opal."}',
    b'{"instruction":"A secret of the row","output":"cut',
    b"",
    b'"only text"',
    b'{"instruction":"Name a lake.","output":"Como."}',
]


def test_bad_lines_stop_nothing_and_no_text_of_them_is_logged(tmp_path):
    path = tmp_path / "mixed.jsonl"
    path.write_bytes(b"\n".join(MIXED))
    done = run_read_shard(Source(path=str(path)), tmp_path)
    assert done.returncode == 0
    assert done.stderr == f"WARNING: {path}: set aside 2 of 4 rows\n"
    assert "secret" not in (tmp_path / "log").read_text()
    rejects = pq.read_table(tmp_path / "rejects").to_pylist()
    assert [(r["file"], r["line"], r["offset"]) for r in rejects] == [
        (str(path), 2, 47),
        (str(path), 4, 99),
    ]


@pytest.mark.parametrize("shard_mb", [0.00002, 64])
def test_files_joined_with_their_marks_read_like_plain_ones_and_the_log_says_so_once(
    tmp_path, caplog, shard_mb
):
    lines = [json.dumps({"instruction": "Ping?", "output": f"Pong {i}."}) for i in range(3)]
    plain, joined = tmp_path / "plain", tmp_path / "joined"
    plain.write_text("\n".join(lines * 2) + "\n")
    part = BOM + "\r\n".join(lines).encode() + b"\r\n"
    joined.write_bytes(part + part)
    with caplog.at_level(logging.INFO, logger="anneal"):
        records, rejects, _ = read(joined, tmp_path, shard_mb=shard_mb)
    assert rejects == []
    assert [r["id"] for r in records] == [r["id"] for r in read(plain, tmp_path)[0]]
    assert "\ufeff" not in str(records)
    if shard_mb == 64:
        assert [r.getMessage() for r in caplog.records] == ["dropped 2 byte-order mark(s)"]


def late_types():
    """Columns that are null or numbers for long, and something else at the end."""
    rows = [{"id": i, "text": f"Row {i}.", "group": None, "note": None} for i in range(60)]
    rows += [{"id": "60", "text": "A late group.", "group": "A-1", "note": {"by": ["x", 1]}}]
    rows += [{"id": 6.5, "text": 62, "group": 7, "note": "text"}]
    rows += [{"id": None, "text": ["two", "parts"], "group": "A-1", "note": 5}]
    return [*rows, {"id": 64, "text": "An object as a group.", "group": {"code": 1}, "note": 5}]


@pytest.mark.parametrize("shard_mb", [0.0001, 0.001, 64])
def test_types_come_from_the_kind_whatever_the_first_rows_hold(tmp_path, jsonl, shard_mb):
    path = jsonl(late_types())
    records, rejects, counts = read(path, tmp_path, "text", shard_mb, columns={"category": "group"})
    assert [r["category"] for r in records] == ["none"] * 60 + ["A-1", "7"]
    assert records[-1]["text"] == "62"
    assert json.loads(records[60]["extra"]) == {"id": "60", "note": {"by": ["x", 1]}}
    assert [(r["line"], r["reason"]) for r in rejects] == [
        (63, "'text' must be text, not list"),
        (64, "'group' must be text, not dict"),
    ]
    assert counts["converted"] == {"text: number to text": 1, "category: to text": 1}


def test_the_order_of_files_changes_no_row(tmp_path, jsonl):
    rows, found = late_types(), []
    for a, b in ((rows[:61], rows[61:]), (rows[61:], rows[:61])):
        jsonl(a, "1.jsonl"), jsonl(b, "2.jsonl")
        records, rejects, counts = read(tmp_path / "*.jsonl", tmp_path, "text")
        found.append((sorted(r["id"] for r in records), len(rejects), counts))
    assert found[0] == found[1]


@pytest.mark.parametrize("missing", [float("nan"), None, "", " "])
def test_a_category_that_pandas_or_a_table_left_out_is_none(tmp_path, missing):
    path = tmp_path / "x"
    pq.write_table(pa.table({"text": ["a"], "category": [missing]}), path)
    assert [r["category"] for r in read(path, tmp_path, "text")[0]] == ["none"]


def test_a_column_may_be_the_answer_and_the_category(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"message": "Where is it?", "team": "delivery"}\n')
    columns = {"instruction": "message", "output": "team", "category": "team"}
    (record,), _, _ = read(path, tmp_path, "instruction", columns=columns)
    assert (record["output"], record["category"], record["extra"]) == ("delivery",) * 2 + ("{}",)


def test_a_category_of_bytes_is_text_or_costs_its_row(tmp_path):
    path = tmp_path / "x"
    pq.write_table(pa.table({"text": ["a", "b"], "category": ["né".encode(), b"\xff"]}), path)
    records, rejects, _ = read(path, tmp_path, "text")
    assert [r["category"] for r in records] == ["né"]
    assert [r["reason"] for r in rejects] == ["'category' holds bytes that are not UTF-8"]
    with sqlite3.connect(tmp_path / "a.db") as db:
        db.execute("create table t (text, category)")
        db.execute("insert into t values ('a', cast(x'ff' as text)), ('b', 'b')")
    records, rejects, _ = read(tmp_path / "a.db", tmp_path, "text", query="select * from t")
    assert [r["line"] for r in records] == [2]
    assert [r["line"] for r in rejects] == [1]


@pytest.mark.parametrize(
    "row",
    [
        b'{"text":"lone \\ud83d"}',
        b'{"text":"fine","more":"lone \\udc1f"}',
        b'{"text":"fine","lone \\ud83d":1}',
        b'{"text":"fine","category":"lone \\ud83d"}',
        b'{"text":"fine","more":[{"deep":"\\udc1f\\ud83d"}]}',
        b'{"text":"fine","more":"caf\xe9"}',
    ],
)
def test_a_lone_surrogate_or_odd_byte_anywhere_costs_its_row_alone(tmp_path, row):
    fish = b'{"text":"\\ud83d\\udc1f"}'
    path = tmp_path / "x"
    for raw in (b"\n".join([fish, row, fish]), b"[" + b",".join([fish, row, fish]) + b"]"):
        path.write_bytes(raw)
        records, rejects, _ = read(path, tmp_path, "text")
        assert [(r["line"], r["text"]) for r in records] == [(1, "🐟"), (3, "🐟")]
        assert [r["line"] for r in rejects] == [2]


def test_an_empty_file_among_others_gives_no_rows_and_a_note(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "b.jsonl").write_bytes(MIXED[0])
    (tmp_path / "c.jsonl").write_bytes(b" \n\n")
    records, _, counts = read(tmp_path / "*.jsonl", tmp_path)
    assert (len(records), counts["read"]) == (1, 1)
    done = run_read_shard(Source(path=str(tmp_path / "c.jsonl")), tmp_path)
    assert (done.returncode, done.stderr) == (0, f"WARNING: {tmp_path}/c.jsonl: no rows\n")


BLANK = [b"", b"\n \r\n\n", BOM, gzip.compress(b"\n", mtime=0), zstd(b"")]


def test_inputs_that_are_all_empty_stop_before_any_step(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i, content in enumerate(BLANK):
        (tmp_path / f"{i}.jsonl").write_bytes(content)
    sources = {"a": {"path": "[01].jsonl"}, "b": {"path": "[234].jsonl"}}
    config = Config(project="p", datasets={"d": {"sources": sources}}, models={"m": {"path": "m"}})
    with pytest.raises(UserError, match=r"^datasets\.d\.sources: every file is empty; check"):
        Steps(config)
    (tmp_path / "4.jsonl").write_bytes(zstd(b"\n" * 200_000 + MIXED[0]))
    assert len(Steps(config).shards["d"]) == len(BLANK)
