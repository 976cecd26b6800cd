"""Sources: every good row is read, every bad row is set aside with its place and reason."""

import gzip
import json
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import read, read_source, zstd

from anneal.config.sources import Source
from anneal.errors import UserError
from anneal.sources.read import read_shard
from anneal.sources.shards import DigestCache, plan_shards

BROKEN = b"""
{"id":"a1","instruction":"Name a gem.","output":"Opal."}

{"id":"a2","instruction":"Name a lake.","output":"Como."
{"id":"a3","instruction":"Name a fish.","output":"Pike."}
["a4","a list"]
{"id":"a5","instruction":"Name a herb.","output":"Dill.",}
{"id":"a6","instruction":"Name a tool.","output":"Awl."}
{"id":"a7","instruction":"Name a sea.","outp"""


def test_broken_lines_are_set_aside_with_line_and_offset(tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(BROKEN)
    records, rejects, counts = read(path, tmp_path)
    assert [json.loads(r["extra"])["id"] for r in records] == ["a1", "a3", "a6"]
    assert [r["line"] for r in rejects] == [4, 6, 7, 9]
    assert [BROKEN[r["offset"] :][:10] for r in rejects] == [
        b'{"id":"a2"',
        b'["a4","a l',
        b'{"id":"a5"',
        b'{"id":"a7"',
    ]
    assert "not an object but list" in rejects[1]["reason"]
    assert "Lake" not in str(rejects)
    assert counts == {"read": 7, "records": 3, "rejected": 4, "converted": {}}


@pytest.mark.parametrize("shard_mb", [0.00001, 0.00005, 0.0001, 64])
def test_rows_and_line_numbers_do_not_depend_on_the_shard_size(tmp_path, shard_mb):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(BROKEN)
    records, rejects, _ = read(path, tmp_path, shard_mb=shard_mb)
    assert [r["line"] for r in records] == [2, 5, 8]
    assert [r["line"] for r in rejects] == [4, 6, 7, 9]


def test_a_file_with_bom_and_crlf_reads_like_its_plain_twin(tmp_path):
    rows = [
        {"instruction": "Ping?", "output": "Pong."},
        {"instruction": "Tick?", "output": "Tock."},
    ]
    lines = [json.dumps(row).encode() for row in rows]
    plain, marked = tmp_path / "plain.jsonl", tmp_path / "marked.jsonl"
    plain.write_bytes(b"\n".join(lines) + b"\n")
    bom = b"\xef\xbb\xbf"
    marked.write_bytes(bom + lines[0] + b"\r\n" + bom + lines[1] + b"\r\n")
    a, b = read(plain, tmp_path)[0], read(marked, tmp_path)[0]
    assert [r["id"] for r in a] == [r["id"] for r in b]
    assert not any(mark in str(b) for mark in ("\\ufeff", "\ufeff", "\\r"))


@pytest.mark.parametrize("content", [b"", b"\n\n \n", b"\xef\xbb\xbf"])
def test_empty_and_blank_files_have_no_rows(tmp_path, content):
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    assert read(path, tmp_path)[:2] == ([], [])


@pytest.mark.parametrize(("compress", "kind"), [(gzip.compress, "gz"), (zstd, "zst")])
def test_a_compressed_file_is_read_whole_and_a_cut_one_is_refused_as_truncated(
    tmp_path, compress, kind
):
    rows = b"".join(b'{"instruction":"q%d","output":"a%d"}\n' % (i, i * 7919) for i in range(500))
    path = tmp_path / f"rows.jsonl.{kind}"
    path.write_bytes(compress(rows))
    assert [r["line"] for r in read(path, tmp_path)[0]] == list(range(1, 501))
    (tmp_path / "good.parquet").unlink()
    path.write_bytes(compress(rows)[:-40])
    with pytest.raises(UserError, match=rf"rows\.jsonl\.{kind}: truncated"):
        read(path, tmp_path)
    assert not (tmp_path / "good.parquet").exists()


def test_format_is_found_by_content_not_by_name(tmp_path):
    path = tmp_path / "rows.txt"
    pq.write_table(pa.table({"instruction": ["q"], "output": ["a"]}), path)
    assert [r["output"] for r in read(path, tmp_path)[0]] == ["a"]
    path.write_bytes(gzip.compress(b'{"instruction":"q","output":"b"}\n'))
    assert [r["output"] for r in read(path, tmp_path)[0]] == ["b"]


def test_sqlite_is_read_by_query_and_not_written_to(tmp_path):
    path = tmp_path / "odd name?#%.db"
    with sqlite3.connect(path) as db:
        db.execute("create table notes (q text, a text, kind text)")
        db.executemany("insert into notes values (?, ?, ?)", [("1+1", "2", "sum"), ("2", "", None)])
    before = path.read_bytes(), sorted(p.name for p in tmp_path.iterdir())
    records, _, _ = read(
        path, tmp_path, query="select q as instruction, a as output, kind as category from notes"
    )
    assert [(r["instruction"], r["category"], r["line"]) for r in records] == [
        ("1+1", "sum", 1),
        ("2", "none", 2),
    ]
    new = {"good.parquet", "bad.parquet"}
    assert (path.read_bytes(), sorted({p.name for p in tmp_path.iterdir()} - new)) == before


def test_two_queries_of_one_database_have_places_of_their_own(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as db:
        db.execute("create table t (text)")
        db.execute("insert into t values ('a')")
    files = set()
    for name in ("first", "second"):
        source = Source(path=str(path), query="select text from t")
        shard = plan_shards(name, source, "text", 64, DigestCache(tmp_path / "none"))[0]
        good = tmp_path / "good.parquet"
        read_shard({"kind": "text", **source.reading()}, shard.as_source(), good, tmp_path / "bad")
        files |= set(pq.read_table(good)["file"].to_pylist())
    assert files == {f"{path}[first]", f"{path}[second]"}


def test_text_of_a_database_that_is_not_utf8_costs_its_row(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as db:
        db.execute("create table t (text, more)")
        db.execute("insert into t values ('a', 1), (cast(x'ff' as text), 2), ('b', x'ff')")
        db.execute("insert into t values ('c', cast(x'ff' as text))")
    records, rejects, _ = read(path, tmp_path, "text", query="select * from t")
    assert [(r["line"], r["text"]) for r in records] == [(1, "a"), (3, "b")]
    assert [r["line"] for r in rejects] == [2, 4]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (None, "is not set"),
        ("no url, s3cr3t", "holds no database URL"),
        ("oracle+nodriver://a:s3cr3t@h/x", "no database is known as"),
        ("mysql://a:s3cr3t@h/x", "needs the driver 'MySQLdb'"),
        ("sqlite:////no/such/s3cr3t.db", "cannot be reached"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_clear_error(tmp_path, monkeypatch, url, words):
    if url:
        monkeypatch.setenv("NOTES_URL", url)
    source = Source(url_env="NOTES_URL", query="select 1 as text")
    with pytest.raises(UserError, match=words) as error:
        read_source(source, tmp_path, "text")
    assert str(error.value).startswith("$NOTES_URL: ")
    assert "s3cr3t" not in str(error.value)


def test_a_changed_table_is_noticed_where_a_query_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES_URL", f"sqlite:///{tmp_path}/a.db")
    db = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    db.execute("create table t (text)")
    watched = Source(
        url_env="NOTES_URL", query="select * from t", change_query="select count(*) from t"
    )

    def digest():
        return plan_shards("s", watched, "text", 64, DigestCache(tmp_path / "none"))[0].digest

    before = digest()
    assert digest() == before
    db.execute("insert into t values ('new')")
    assert digest() != before


def test_digests_are_kept_while_their_file_is_as_it_was(tmp_path):
    cache = DigestCache(tmp_path / "digests.json")
    for name in ("kept", "changed", "gone"):
        (tmp_path / name).write_text(name)
        cache.lookup(tmp_path / name, 0, 9)
    cache.save()
    (tmp_path / "changed").write_text("otherwise")
    (tmp_path / "gone").unlink()
    later = DigestCache(tmp_path / "digests.json")
    later.lookup(tmp_path / "changed", 0, 9)
    later.save()
    known = [json.loads(key)[:2] for key in DigestCache(tmp_path / "digests.json").known]
    assert known == [[str(tmp_path / "changed"), 9], [str(tmp_path / "kept"), 4]]


def test_a_digest_cache_that_is_damaged_is_made_again(tmp_path):
    path = tmp_path / "digests.json"
    (tmp_path / "x").write_text("x")
    path.write_text('{"half')
    cache = DigestCache(path)
    cache.lookup(tmp_path / "x", 0, 1)
    cache.save()
    assert len(DigestCache(path).known) == 1


def test_a_wrong_query_is_one_clear_error(tmp_path):
    path = tmp_path / "a.db"
    sqlite3.connect(path).execute("create table t (x)")
    with pytest.raises(UserError, match="the query failed: no such table: nope"):
        read(path, tmp_path, query="select * from nope")


def test_values_of_another_type_are_converted_without_loss_or_set_aside(tmp_path, jsonl):
    path = jsonl(
        [
            {"instruction": "q", "output": 42},
            {"instruction": "q", "output": None},
            {"instruction": "q", "output": ["a"]},
            {"instruction": "q", "output": True},
            {"output": "a"},
        ]
    )
    records, rejects, _ = read(path, tmp_path)
    assert [r["output"] for r in records] == ["42"]
    assert [(r["line"], r["reason"]) for r in rejects] == [
        (2, "'output' is missing or null"),
        (3, "'output' must be text, not list"),
        (4, "'output' must be text, not bool"),
        (5, "'instruction' is missing or null"),
    ]


def test_invalid_utf8_and_lone_surrogates_are_set_aside(tmp_path):
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(
        b'{"instruction":"q","output":"caf\xc3\xa9 \\ud83d\\udc1f"}\n'
        b'{"instruction":"q","output":"caf\xe9"}\n'
        b'{"instruction":"q","output":"\\ud83d"}\n'
    )
    records, rejects, _ = read(path, tmp_path)
    assert [r["output"] for r in records] == ["café 🐟"]
    assert [r["line"] for r in rejects] == [2, 3]


def test_sharegpt_turns_become_messages(tmp_path, jsonl):
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]
    path = jsonl([{"conversations": turns}, {"messages": [{"role": "robot", "content": "x"}]}])
    records, rejects, _ = read(path, tmp_path, kind="chat")
    assert [(m["role"], m["content"]) for m in records[0]["messages"]] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
    ]
    assert "unknown role 'robot'" in rejects[0]["reason"]


def test_appending_a_row_changes_the_last_shard_alone(tmp_path, jsonl):
    rows = [{"instruction": f"question {i}", "output": "answer"} for i in range(100)]
    path = jsonl(rows)

    def plan():
        return plan_shards(
            "s", Source(path=str(path)), "instruction", 0.001, DigestCache(tmp_path / "none")
        )

    before = plan()
    path.write_text(path.read_text() + json.dumps(rows[0]) + "\n")
    after = plan()
    assert len(before) > 3
    assert after[: len(before) - 1] == before[:-1]
    assert after[len(before) - 1 :] != before[-1:]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="no file fits"):
        read(tmp_path / "nope.jsonl", tmp_path)
