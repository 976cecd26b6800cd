"""Formats: the same rows come out of whatever holds them, told by content, with their place."""

import csv
import glob
import gzip
import json
import os
import random
import subprocess
import sys
from decimal import Decimal
from itertools import permutations

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import read, read_source, zstd
from tiny import REPOSITORY

from anneal.config.sources import Source
from anneal.errors import UserError
from anneal.sources import table_text
from anneal.sources.document import Document
from anneal.sources.formats import sniff
from anneal.sources.shards import DigestCache, plan_shards

ROWS = [
    {"instruction": f'Question {i}, with [brackets] and "quotes"\nover two lines?', "output": x}
    for i, x in enumerate(["Yes.", "a,b;c\td", "{not: json}", "größer ✓", ""])
]
NAMES = frozenset({"instruction", "input", "output"})


def as_jsonl(rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_csv(rows, path, mark=",", end="\n"):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=mark, lineterminator=end)
        writer.writeheader()
        writer.writerows(rows)


def write_as(form: str, folder):
    """A file, or a folder, that holds ROWS in one format and has a name that says nothing."""
    path = folder / "rows.dat"
    table = pa.Table.from_pylist(ROWS)
    match form:
        case "array":
            path.write_text(json.dumps(ROWS))
        case "pretty array":
            path.write_text(json.dumps(ROWS, indent=2))
        case "an item a line":
            path.write_text("[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n")
        case "wrapped":
            path.write_text(json.dumps({"version": "1", "notes": ["a"], "data": ROWS}))
        case "pretty wrapped":
            path.write_text(json.dumps({"info": {"of": [{}]}, "rows": ROWS, "n": 5}, indent=1))
        case "pretty objects":
            path.write_text("\n".join(json.dumps(row, indent=1) for row in ROWS))
        case "packed array":
            path.write_bytes(gzip.compress(json.dumps(ROWS).encode()))
        case "csv" | "tsv" | "semicolons":
            as_csv(ROWS, path, {"csv": ",", "tsv": "\t", "semicolons": ";"}[form])
        case "windows csv":
            as_csv(ROWS, path, ",", "\r\n")
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        case "packed csv":
            as_csv(ROWS, path)
            path.write_bytes(gzip.compress(path.read_bytes()))
        case "parquet":
            pq.write_table(table.select(["output", "instruction"]), path)
        case "arrow file":
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        case "saved":
            datasets.Dataset.from_list(ROWS).save_to_disk(path)
        case "saved splits":
            parts = {"train": datasets.Dataset.from_list(ROWS)}
            datasets.DatasetDict(parts).save_to_disk(path)
        case _:
            path.write_bytes(as_jsonl(ROWS))
    return path


FORMS = [
    *("jsonl", "array", "pretty array", "an item a line", "wrapped", "pretty wrapped"),
    *("pretty objects", "packed array", "csv", "tsv", "semicolons", "windows csv", "packed csv"),
    *("parquet", "arrow file", "saved", "saved splits"),
]


@pytest.mark.parametrize("form", FORMS)
def test_every_format_gives_the_same_records(tmp_path, form):
    records, rejects, counts = read(write_as(form, tmp_path), tmp_path)
    assert [{n: r[n] for n in ("instruction", "output")} for r in records] == ROWS
    assert (rejects, counts["records"]) == ([], 5)
    places = [r["line"] for r in records]
    assert places == (
        [2, 4, 6, 8, 10] if "csv" in form or form in ("tsv", "semicolons") else [1, 2, 3, 4, 5]
    )


def test_a_glob_may_mix_formats(tmp_path):
    folder = tmp_path / "mixed"
    for form in ("jsonl", "csv", "parquet", "saved", "wrapped"):
        (folder / form).mkdir(parents=True)
        write_as(form, folder / form)
    records, _, _ = read(folder / "*" / "*", tmp_path)
    assert len(records) == 25
    assert len({(r["file"], r["line"]) for r in records}) == 25
    assert len({r["id"] for r in records}) == 5
    again, _, _ = read(folder / "**", tmp_path)
    assert again == records


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'{"instruction":"a","output":"b"}', "jsonl"),
        (b'{"instruction":"a","output":"b","sources":[{"url":"x"}]}', "jsonl"),
        (b'{"instruction":"cut\n{"instruction":"a","output":"b"}\n', "jsonl"),
        (b'{"id":"a2","output":"Como."\n{"instruction":"a","output":"b"}\n', "jsonl"),
        (b'{"instruction":"a"},\n{"instruction":"b"},\n', "jsonl"),
        (b'["a list"]\n{"instruction":"a","output":"b"}\n', "jsonl"),
        (b'junk, and more\n{"instruction":"a","output":"b"}\n', "jsonl"),
        (b'{"data":[{"instruction":"a"}]}', "json"),
        (b'[{"instruction":"a"}\n,{"instruction":"b"}\n]', "json"),
        (b"instruction\nonly one column\n", "csv"),
        (b",instruction,output\n0,a,b\n", "csv"),
        (b"question|answer\n1+1|2\n", "csv"),
        (b"just some prose\nand more of it\n", "jsonl"),
    ],
)
def test_text_formats_are_told_apart(tmp_path, text, kind):
    path = tmp_path / "x"
    path.write_bytes(text)
    assert sniff(path, NAMES) == kind


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04abc", "a zip archive"),
        ("instruction,output\n".encode("utf-16"), "UTF-16"),
        (gzip.compress(b"PAR1 and so on"), "parquet packed again"),
    ],
    ids=[
        "zip",
        "utf-16",
        "parquet in gzip",
    ],  # gzip bytes hold the time, and so would an id of them
)
def test_other_formats_are_refused_with_what_to_do(tmp_path, content, words):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(UserError, match=words) as error:
        read(path, tmp_path)
    assert error.value.do


def test_bad_items_of_an_array_cost_one_row_each_and_keep_their_byte(tmp_path):
    path = tmp_path / "rows.json"
    good = b'{"instruction":"q","output":"a"}'
    text = b"[" + b", ".join([good, b"7", b'{"instruction":"q" "output"}', b'{"x":"\xe9"}', good])
    path.write_bytes(text + b",]")
    records, rejects, _ = read(path, tmp_path)
    assert [r["line"] for r in records] == [1, 5]
    assert [(r["line"], r["reason"][:12]) for r in rejects] == [
        (2, "not an objec"), (3, "not JSON: un"), (4, "not UTF-8"),
    ]  # fmt: skip
    assert all(text[r["offset"] : r["offset"] + 1] in b"{7" for r in records + rejects)


@pytest.mark.parametrize("form", ["array", "pretty array", "wrapped", "packed array"])
def test_a_document_that_is_cut_off_is_refused_with_its_line(tmp_path, form):
    path = write_as(form, tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[:-9] if form == "packed array" else raw[:-2])
    with pytest.raises(UserError, match="truncated"):
        read(path, tmp_path)
    assert not (tmp_path / "good.parquet").exists()


def test_two_arrays_of_records_are_refused_by_name(tmp_path):
    path = tmp_path / "x"
    path.write_text(json.dumps({"train": ROWS, "test": ROWS}))
    with pytest.raises(UserError, match="two arrays of records, 'train' and 'test'"):
        read(path, tmp_path)


def test_a_large_document_is_walked_without_loading_it(tmp_path):
    text = json.dumps([{"instruction": "q" * 50, "output": '\\"[{' * 9}] * 20_000).encode()
    spans = list(Document("x", text, NAMES).items())
    assert len(spans) == 20_000
    assert all(text[a:b].strip()[:1] == b"{" for a, b in spans)


CSV = """instruction,output
"a
b",one
ragged
"c",two

too,many,fields
"open quote,three
d,"fo""ur"
"x"y,five
e,six
"""


def test_csv_rows_that_do_not_fit_are_set_aside_by_physical_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(CSV)
    records, rejects, counts = read(path, tmp_path)
    assert [(r["line"], r["instruction"], r["output"]) for r in records] == [
        (2, "a\nb", "one"),
        (5, "c", "two"),
        (9, "d", 'fo"ur'),
        (11, "e", "six"),
    ]
    assert [r["line"] for r in rejects] == [4, 7, 8, 10]
    assert rejects[1]["reason"] == "3 fields where the first line names 2 columns"
    lines = CSV.splitlines(keepends=True)
    for row in records + rejects:
        assert row["offset"] == len("".join(lines[: row["line"] - 1]))
    assert counts["read"] == 8


def test_a_quote_that_stays_open_over_very_many_lines_costs_its_line_alone(tmp_path, monkeypatch):
    """Its lines are held in memory until it closes, so there is a limit to them."""
    monkeypatch.setattr(table_text, "ROW_LINES", 50)
    long = '"' + "line\n" * 40 + '",kept\n'
    path = tmp_path / "x.csv"
    path.write_text("instruction,output\n" + long + '"open,one\n' + "a,b\n" * 200)
    records, rejects, _ = read(path, tmp_path)
    assert [r["line"] for r in records] == [2, *range(44, 244)]
    assert [(r["line"], r["reason"]) for r in rejects] == [
        (43, "a row of more than 50 lines; is a quote left open?")
    ]


def test_an_array_of_anything_else_before_the_records_is_passed_over(tmp_path):
    other = [1, *({"a": "b"} for _ in range(2_000))]
    path = tmp_path / "x"
    path.write_text(json.dumps({"meta": other, "data": ROWS}, indent=1))
    assert [r["output"] for r in read(path, tmp_path)[0]] == [r["output"] for r in ROWS]


def test_csv_bytes_that_are_not_utf8_cost_their_row(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"instruction,output\ncaf\xe9,a\nq,a\n")
    records, rejects, _ = read(path, tmp_path)
    assert [r["line"] for r in records] == [3]
    assert [(r["line"], r["reason"]) for r in rejects] == [(2, "not UTF-8")]


def test_packed_files_may_be_joined(tmp_path):
    line, path = as_jsonl(ROWS[:1]), tmp_path / "x"
    for pack in (gzip.compress, zstd):
        path.write_bytes(pack(line) + pack(line))
        assert [r["line"] for r in read(path, tmp_path)[0]] == [1, 2]


@pytest.mark.parametrize("text", [b"instruction,output\n", b"[]", b"[\n]\n"])
def test_a_table_or_array_without_rows_has_none(tmp_path, text):
    path = tmp_path / "x"
    path.write_bytes(text)
    assert read(path, tmp_path)[2]["read"] == 0


def test_another_revision_split_or_subset_is_another_source(tmp_path):
    digests = {
        plan_shards("s", Source(hub="org/name", **more), "text", 64, DigestCache(tmp_path / "d"))[
            0
        ].digest
        for more in ({}, {"revision": "v2"}, {"split": "test"}, {"subset": "en"})
    }
    assert len(digests) == 4


def test_two_csv_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("instruction,output,output\na,b,c\n")
    with pytest.raises(UserError, match="two columns are called 'output'"):
        read(path, tmp_path)


@pytest.mark.parametrize("shard_mb", [0.0001, 0.002, 64])
def test_parquet_is_cut_by_row_group_and_keeps_its_row_numbers(tmp_path, shard_mb):
    rows = [{"instruction": f"q{i}", "output": random.Random(i).randbytes(9).hex()}
            for i in range(1000)]  # fmt: skip
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=90)
    assert len(plan(path, tmp_path, shard_mb)) == {0.0001: 12, 0.002: 12, 64: 1}[shard_mb]
    records, _, _ = read(path, tmp_path, shard_mb=shard_mb)
    assert [(r["line"], r["instruction"]) for r in records] == [
        (i + 1, f"q{i}") for i in range(1000)
    ]


def plan(path, tmp_path, shard_mb):
    cache = DigestCache(tmp_path / "digests.json")
    return plan_shards("s", Source(path=str(path)), "instruction", shard_mb, cache)


def written_in_groups(path, rows, **options):
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100, **options)


@pytest.mark.parametrize("shard_mb", [0.000001, 0.003])
def test_a_row_group_that_is_appended_makes_or_changes_one_shard(tmp_path, shard_mb):
    rows = [{"instruction": f"q{i}", "output": random.Random(i).randbytes(9).hex()}
            for i in range(900)]  # fmt: skip
    path = tmp_path / "x.parquet"
    written_in_groups(path, rows[:800])
    before = plan(path, tmp_path, shard_mb)
    written_in_groups(path, rows)
    after = plan(path, tmp_path, shard_mb)
    assert len(before) > 3
    assert [shard in before for shard in after] == [True] * (len(after) - 1) + [False]


@pytest.mark.parametrize("name", ["x.parquet", "x *[0-9]?{a,b}'s.parquet"])
def test_a_changed_value_changes_its_row_groups_shard_alone(tmp_path, name):
    rows = [{"instruction": f"q{i:03}", "output": f"a{i:03}"} for i in range(500)]
    path = tmp_path / name
    plain = {"compression": "none", "use_dictionary": False}
    written_in_groups(path, rows, **plain)
    before = plan(glob.escape(str(path)), tmp_path, 0.000001)
    rows[250]["output"] = "b250"
    written_in_groups(path, rows, **plain)
    changed = [
        a != b
        for a, b in zip(before, plan(glob.escape(str(path)), tmp_path, 0.000001), strict=True)
    ]
    assert changed == [False, False, True, False, False]


def test_a_renamed_column_of_equal_bytes_changes_every_shard(tmp_path):
    path = tmp_path / "x.parquet"
    rows = [{"instruction": f"q{i}", "output": f"a{i}"} for i in range(200)]
    written_in_groups(path, rows)
    before = plan(path, tmp_path, 0.000001)
    written_in_groups(
        path, [{"instruction": r["instruction"], "answer": r["output"]} for r in rows]
    )
    after = plan(path, tmp_path, 0.000001)
    assert [a.digest == b.digest for a, b in zip(before, after, strict=True)] == [False, False]


def test_an_index_of_pandas_does_not_change_the_shards_before_it(tmp_path):
    import pandas

    path, frames = tmp_path / "x.parquet", []
    for rows in (200, 300):
        table = pa.Table.from_pandas(pandas.DataFrame({"instruction": ["q"] * rows}))
        assert f'"stop": {rows}' in str(table.schema.metadata)
        pq.write_table(table, path, row_group_size=100)
        frames.append(plan(path, tmp_path, 0.000001))
    assert frames[1][:2] == frames[0]


def disagreeing(folder):
    """Three Parquet files of five rows: other types, orders and columns in each."""
    folder.mkdir()
    long, short = pa.int64(), pa.int32()
    turn = [{"role": "user", "content": "Hi"}] * 2
    named = [{**t, "name": "x"} for t in turn]
    tables = {
        "a": {"id": pa.array([1, 2], long), "year": [1901, 1902], "text": ["one", "two"],
              "turn": turn},
        "b": {"text": ["three", "four"], "year": ["1903", ""], "id": pa.array([3, 4], short),
              "turn": named},
        "c": {"year": pa.nulls(1), "text": ["five"], "id": pa.array([5], long)},
    }  # fmt: skip
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def test_parquet_files_that_disagree_give_the_same_rows_in_any_order(tmp_path):
    disagreeing(tmp_path / "raw")
    found = {}
    for order in map("".join, permutations("abc")):
        folder = tmp_path / order
        folder.mkdir()
        for i, name in enumerate(order):
            (folder / f"{i}").write_bytes((tmp_path / "raw" / f"{name}.parquet").read_bytes())
        columns = {"category": "year"}
        records, rejects, counts = read(
            folder / "*", tmp_path, "text", shard_mb=0.0001, columns=columns
        )
        found[order] = sorted((r["text"], r["category"], r["extra"]) for r in records)
        assert (rejects, counts["converted"]) == (
            [], {"category: to text": 2, "category: empty to none": 1},
        )  # fmt: skip
    assert all(rows == found["abc"] for rows in found.values())
    assert [row[:2] for row in found["abc"]] == [
        ("five", "none"), ("four", "none"), ("one", "1901"), ("three", "1903"), ("two", "1902"),
    ]  # fmt: skip


def test_a_true_conflict_names_file_column_and_both_types_before_any_row_is_read(tmp_path):
    disagreeing(tmp_path / "raw")
    with pytest.raises(UserError, match=r"a\.parquet: column 'turn' is struct<.* 'text' has text"):
        plan_shards(
            "s", Source(path=str(tmp_path / "raw" / "*"), columns={"text": "turn"}),
            "text", 64, DigestCache(tmp_path / "digests.json"),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.int8(), -7, "-7"),
        (pa.uint64(), 2**64 - 1, "18446744073709551615"),
        (pa.float32(), 0.5, "0.5"),
        (pa.decimal128(9, 2), Decimal("1.50"), "1.50"),
        (pa.large_string(), "né", "né"),
        (pa.binary(), "né".encode(), "né"),
        (pa.dictionary(pa.int8(), pa.string()), "né", "né"),
    ],
)
def test_a_type_that_becomes_text_without_loss_does(tmp_path, kind, value, text):
    path = tmp_path / "x"
    pq.write_table(pa.table({"text": pa.array([value], kind)}), path)
    assert [r["text"] for r in read(path, tmp_path, "text")[0]] == [text]


def test_a_damaged_parquet_is_one_clear_error(tmp_path):
    path = write_as("parquet", tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"rows\.dat: truncated or damaged table"):
        read(path, tmp_path)


def test_a_saved_dataset_has_the_split_that_is_named(tmp_path):
    path = write_as("saved splits", tmp_path)
    with pytest.raises(UserError, match="has no split 'test'; name one of: train"):
        read(path, tmp_path, split="test")


def test_a_plain_folder_needs_a_pattern(tmp_path):
    with pytest.raises(UserError, match="is a folder; add a pattern"):
        read(tmp_path, tmp_path)


def test_a_hub_dataset_is_read_by_our_own_readers(tmp_path):
    """The very call that downloads, pointed at a folder laid out like a Hub dataset."""
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_bytes(as_jsonl(ROWS[:3]) + b"broken\n")
    (folder / "test.jsonl").write_bytes(as_jsonl(ROWS[3:]))
    source = Source(hub=str(folder.parent), split="train")
    records, rejects, _ = read_source(source, tmp_path)
    assert [r["line"] for r in records] == [1, 2, 3]
    assert [r["line"] for r in rejects] == [4]
    assert records[0]["file"].endswith("data/train.jsonl")
    with pytest.raises(UserError, match="has no split 'dev'; name one of: train, test"):
        read_source(Source(hub=str(folder.parent), split="dev"), tmp_path)


def as_parquet(rows) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def csv_bytes(rows) -> bytes:
    lines = [list(rows[0]), *([*row.values()] for row in rows)]
    return "".join(",".join(fields) + "\n" for fields in lines).encode()


SHORT = [{"instruction": f"q{i}", "output": f"a{i}"} for i in range(4)]
SUBSETS = """---
configs:
- config_name: plain
  data_files: [{split: train, path: "plain/train-*"}, {split: test, path: "plain/test*"}]
- config_name: hard
  data_files: [{split: train, path: "hard/*"}]
---
"""


@pytest.mark.parametrize(
    ("ending", "written"),
    [
        ("parquet", as_parquet),
        ("jsonl", as_jsonl),
        ("csv", csv_bytes),
        ("jsonl.gz", lambda rows: gzip.compress(as_jsonl(rows))),
        ("json", lambda rows: json.dumps(rows).encode()),
    ],
)
def test_a_hub_dataset_has_the_subset_and_split_that_are_named(tmp_path, ending, written):
    root = tmp_path / "hub"
    parts = {"plain/train-0": SHORT[:1], "plain/train-1": SHORT[1:2], "plain/test": SHORT[2:3],
             "hard/train": SHORT[3:]}  # fmt: skip
    for name, rows in parts.items():
        path = root / f"{name}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(written(rows))
    (root / "README.md").write_text(SUBSETS)

    def answers(subset, split):
        return [r["output"] for r in read_source(
            Source(hub=str(root), subset=subset, split=split), tmp_path)[0]]  # fmt: skip

    assert answers("plain", "train") == ["a0", "a1"]
    assert answers("plain", "test") == ["a2"]
    assert answers("hard", "train") == ["a3"]
    with pytest.raises(UserError, match="easy"):
        answers("easy", "train")
    with pytest.raises(UserError, match=r"Config name is missing.*'plain', 'hard'"):
        answers(None, "train")


def test_a_local_hub_datasets_bytes_decide_and_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "hub" / "train.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(as_jsonl(SHORT)))
    source = Source(hub=str(path.parent))

    def digest():
        cache = DigestCache(tmp_path / "digests.json")
        return plan_shards("s", source, "instruction", 64, cache)[0].digest

    before = digest()
    path.write_bytes(path.read_bytes()[:-20])
    assert digest() != before
    with pytest.raises(UserError, match=r"hub/train\.jsonl\.gz: truncated or damaged gzip"):
        read_source(source, tmp_path)


def test_a_hub_dataset_that_cannot_be_reached_is_one_clear_error(tmp_path):
    with pytest.raises(UserError, match="no-such/dataset-here"):
        read_source(Source(hub="no-such/dataset-here"), tmp_path)


def test_a_row_of_20_mb_is_read_whole_or_rejected_by_the_stated_limit(tmp_path):
    rows = [{"instruction": "q", "output": "x" * 20_000_000}, {"instruction": "r", "output": "a"}]
    table = pa.Table.from_pylist(rows)
    for form in ("jsonl", "json", "csv", "parquet"):
        path = tmp_path / form
        if form == "parquet":
            pq.write_table(table, path)
        elif form == "csv":
            as_csv(rows, path)
        else:
            path.write_bytes(as_jsonl(rows) if form == "jsonl" else json.dumps(rows).encode())
        whole, _, _ = read(path, tmp_path, shard_mb=1)
        assert [len(r["output"]) for r in whole] == [20_000_000, 1], form
        small, rejects, _ = read(path, tmp_path, shard_mb=1, max_row_mb=10)
        assert [r["output"] for r in small] == ["a"], form
        assert "a row of 20.0 MB, more than max_row_mb 10" in rejects[0]["reason"], form


def test_the_locale_changes_nothing(tmp_path):
    raw = tmp_path / "größe.jsonl"
    raw.write_bytes(
        b'{"text":"caf\xc3\xa9"}\n{"text":"caf\xe9"}\n{"text":"\\ud83d\\udc1f"}\n'
        b'{"text":"lone \\ud83d"}\n{"text":"lone \\udc1f"}\n{"text":"nul \\u0000 end"}\n'
    )
    shard = plan_shards("s", Source(path=str(raw)), "text", 64, DigestCache(tmp_path / "d"))[0]
    settings = {"kind": "text", **Source(path=str(raw)).reading()}
    step = json.dumps({"settings": settings, "code": "", "sources": shard.as_source()})
    made = []
    for n, locale in enumerate(({"LANG": "C", "LC_ALL": "C"}, {"LANG": "C.UTF-8"})):
        out = tmp_path / str(n)
        command = [sys.executable, "scripts/read_shard.py", "--step", step]
        for name in ("records", "rejects", "manifest"):
            command += [f"--{name}", str(out / name)]
        environment = {"PATH": os.environ["PATH"], **locale}
        subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True)
        made.append([(out / name).read_bytes() for name in ("records", "rejects")])
    assert made[0] == made[1]
    texts = pq.read_table(tmp_path / "0" / "records")["text"].to_pylist()
    assert texts == ["café", "🐟", "nul \0 end"]
    assert pq.read_table(tmp_path / "0" / "rejects")["line"].to_pylist() == [2, 4, 5]
