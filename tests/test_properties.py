"""Properties of the data steps, each over whatever rows Hypothesis thinks of.

Every test runs the steps themselves, from raw bytes: read, clean, select, assign, format, tokenize
and write.
"""

import json
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_cleaning_duplicates import shingles
from tiny import make_tokenizer

import assign_splits
import select_rows
from anneal.arrow_dataset import read_arrow_dataset
from anneal.cleaning.clean import clean_shard
from anneal.cleaning.pii import PLACEHOLDER
from anneal.cli import step
from anneal.config.clean import Clean, Decontaminate, Deduplicate, Filter
from anneal.config.prepare import Format, Split, Tokenize
from anneal.config.sources import Source
from anneal.formatting.format import format_shard
from anneal.records import IGNORED
from anneal.sources.read import read_shard
from anneal.sources.shards import DigestCache, plan_shards
from anneal.splitting.write import write_splits
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.tokenize import tokenize_shard

# A run of all steps takes a third of a second: few examples, of many rows each.
calm = settings(deadline=None, suppress_health_check=list(HealthCheck))
light, heavy, compared = (settings(calm, max_examples=n) for n in (15, 5, 3))


def asked(**sections) -> SimpleNamespace:
    return step(json.dumps({"settings": sections}))


def selected(folder: Path, shards: list[Path], tests=None, **changes) -> tuple[list[dict], dict]:
    """Dropped rows and the facts of the manifest; `changes` are settings by section."""
    sections = {"filter": Filter, "decontaminate": Decontaminate, "deduplicate": Deduplicate}
    chosen = {name: kind(**changes.get(name, {})).model_dump() for name, kind in sections.items()}
    out, manifest = folder / "drops.parquet", folder / "drops.manifest.json"
    select_rows.main(
        SimpleNamespace(
            step=asked(**chosen, tests=tests or {}),
            records=shards,
            output=out,
            contaminated=folder / "contaminated.parquet",
            manifest=manifest,
        )
    )
    return pq.read_table(out).to_pylist(), json.loads(manifest.read_text())["facts"]


class Run:
    """The data steps from the raw bytes of each source to the ledger, in a folder of their own.

    Args:
        sources: name to the bytes of a JSON lines file, in order.
        workers: threads that read and clean shards, last shard first.
        changes: of the settings, by section.
    """

    def __init__(self, sources, kind="instruction", shard_mb=64.0, workers=1, **changes):
        self.kept_open = tempfile.TemporaryDirectory()
        self.folder, self.kind = Path(self.kept_open.name), kind
        self.changes, cache = changes, DigestCache(self.folder / "digests.json")
        with chdir(self.folder):  # equal rows then have equal places in every run
            plan = []
            for name, raw in sources.items():
                Path(f"{name}.jsonl").write_bytes(raw)
                source = Source(path=f"{name}.jsonl")
                plan += [(source, x) for x in plan_shards(name, source, kind, shard_mb, cache)]
            with ThreadPoolExecutor(workers) as pool:
                done = [pool.submit(self._cleaned, *one) for one in reversed(plan)]
        pairs = [future.result() for future in reversed(done)]
        self.shards, self.rejects = ([pair[i] for pair in pairs] for i in (0, 1))

    def _cleaned(self, source, shard) -> tuple[Path, Path]:
        places = [self.folder / f"{shard.name}.{part}.parquet" for part in ("raw", "bad", "clean")]
        raw, bad, clean = places
        read_shard({"kind": self.kind, **source.reading()}, shard.as_source(), raw, bad)
        wanted = Clean(**self.changes.get("clean", {})).model_dump()
        clean_shard({"kind": self.kind, "clean": wanted}, raw, clean)
        return clean, bad

    @cached_property
    def drops(self) -> list[dict]:
        sections = {n: c for n, c in self.changes.items() if n in ("filter", "deduplicate")}
        return selected(self.folder, self.shards, **sections)[0]

    @cached_property
    def ledger(self) -> list[dict]:
        assert self.drops is not None
        split = Split(min_rows=0, max_deviation=1, **self.changes.get("split", {})).model_dump()
        assign_splits.main(
            SimpleNamespace(
                step=asked(split=split, max_reject_share=1.0, threshold=0.85),
                records=self.shards,
                rejects=self.rejects,
                drops=self.folder / "drops.parquet",
                ledger=self.folder / "ledger.parquet",
                gates=self.folder / "gates.json",
                manifest=self.folder / "ledger.manifest.json",
            )
        )
        return pq.read_table(self.folder / "ledger.parquet").to_pylist()

    @cached_property
    def funnel(self) -> dict:
        assert self.ledger
        return json.loads((self.folder / "gates.json").read_text())["funnel"]

    def cleaned(self) -> list[dict]:
        return [row for shard in self.shards for row in pq.read_table(shard).to_pylist()]

    def tokens(self, model: Path, style="chat", **wanted) -> list[Path]:
        """Token folder of each shard."""
        folders = []
        for number, shard in enumerate(self.shards):
            texts, ids = self.folder / f"{number}.texts.parquet", self.folder / f"{number}.ids"
            format_shard(Format(style=style).model_dump(), shard, model, texts)
            limits = Tokenize(**wanted).model_dump(include={"max_length", "truncation"})
            tokenize_shard({"kind": self.kind, **limits}, texts, model, ids)
            folders.append(ids)
        return folders


LINE = "the river carries seven small boats past old stone mills toward a quiet grey harbour"
WORDS = LINE.split()
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)
texts = sentences | st.sampled_from(["Yes.", "no.", "No.", "", "!!!!!!!!", "はい", "x\n" * 9])
records = st.fixed_dictionaries(
    {"instruction": sentences, "output": texts},
    optional={
        "input": texts,
        "category": st.sampled_from(["a", "b", "", None]),
        "thread": st.integers(0, 3),
    },
)
good = records.map(lambda row: json.dumps(row, ensure_ascii=False).encode())
bad = st.sampled_from(
    [b"{", b"[1]", b'{"instruction": 5, "output": []}', b"\xff", b"x", b'{"a": 1}']
)
lines = st.lists(good | good | good | bad, min_size=5, max_size=25).map(lambda x: [VALID, *x])
VALID = b'{"instruction": "Name a gem.", "output": "Opal."}'


def joined(rows: list[bytes]) -> bytes:
    return b"\n".join(rows) + b"\n"


@heavy
@given(lines, lines)
def test_counts_add_up_for_every_source_and_every_rule(one, two):
    run = Run({"one": joined(one), "two": joined(two)})
    for source, rows in (("one", one), ("two", two)):
        here = [row for row in run.ledger if row["source"] == source]
        assert [row["line"] for row in here] == list(range(1, len(rows) + 1))
        count = run.funnel[source]
        assert count["read"] == len(rows) == count["kept"] + count["rejected"] + count["dropped"]
        assert sum(count["rules"].values()) == count["dropped"]
        assert sum(count["reasons"].values()) == count["rejected"]
        dropped = Counter(row["rule"] for row in here if row["status"] == "dropped")
        assert count["rules"] == dict(sorted(dropped.items()))
    by_select = Counter(row["rule"] for row in run.drops)
    by_ledger = Counter(row["rule"] for row in run.ledger if row["status"] == "dropped")
    assert by_select == by_ledger
    assert all((row["split"] is None) == (row["status"] != "kept") for row in run.ledger)


@compared
@given(lines, st.integers(150, 900))
def test_neither_workers_nor_the_cut_into_shards_change_a_byte(rows, size):
    whole = Run({"s": joined(rows)})
    cut = Run({"s": joined(rows)}, shard_mb=size / 1e6, workers=4)
    again = Run({"s": joined(rows)}, shard_mb=size / 1e6)
    assert [x.read_bytes() for x in cut.shards] == [x.read_bytes() for x in again.shards]
    assert cut.ledger == again.ledger == whole.ledger
    assert cut.cleaned() == whole.cleaned()


@compared
@given(lines, lines, lines)
def test_rows_that_come_later_change_nothing_that_was_decided(old, appended, other):
    before = Run({"s": joined(old)}).ledger
    appended = Run({"s": joined([*old, *appended])}, shard_mb=0.0003).ledger
    assert appended[: len(before)] == before
    beside = Run({"s": joined(old), "t": joined(other)}).ledger
    assert beside[: len(before)] == before


@heavy
@given(lines, lines, st.booleans())
def test_no_group_lies_in_two_splits(one, two, named):
    """A group has one prompt, or one value of a named column; it may lie in two sources."""
    run = Run(
        {"one": joined(one), "two": joined(two)},
        split={"train": 0.4, "eval": 0.3, "test": 0.3, "group_by": ["thread"] if named else []},
    )
    cleaned = {(row["source"], row["line"]): row for row in run.cleaned()}
    sides: dict[tuple, set[str]] = {}
    for row in run.ledger:
        if row["status"] == "kept":
            extra = json.loads(cleaned[row["source"], row["line"]]["extra"])
            keys = [("prompt", row["prompt_key"])]
            keys += [("thread", extra["thread"])] if named and "thread" in extra else []
            for key in keys:
                sides.setdefault(key, set()).add(row["split"])
    assert [key for key, found in sides.items() if len(found) > 1] == []


close = st.lists(st.sampled_from("ab"), max_size=10).map(
    lambda more: " ".join([*WORDS, *more, *WORDS[::-1]])
)


@heavy
@given(st.lists(close | sentences, min_size=2, max_size=9))
def test_the_duplicates_are_those_of_comparing_all_pairs(outputs):
    """Each row against every kept row, by real similarity of its whole text; the earliest wins."""
    rows = [json.dumps({"instruction": "Tell.", "output": text}).encode() for text in outputs]
    run = Run({"s": joined(rows)}, filter={"max_repeated_line_share": 1})
    kept, wanted = [], {}
    for n, text in enumerate(outputs):
        equal = [k for k in kept if outputs[k] == text]
        near = [k for k in kept if similarity(outputs[k], text) >= 0.85]
        if equal or near:
            wanted[n + 1] = (equal or near)[0] + 1
        else:
            kept.append(n)
    assert {drop["line"]: drop["kept_line"] for drop in run.drops} == wanted


def similarity(a: str, b: str) -> float:
    a, b = shingles(f"Tell.\n\n{a}"), shingles(f"Tell.\n\n{b}")
    return len(a & b) / len(a | b) if a and b else 0.0


# Two are joined from parts, so that no scanner takes these inventions for leaks.
PLANTED = [
    *("ann.lee@example.com", "кот@пример.example", "+44 20 7946 0958", "(202) 555-0143"),
    *("203.0.113.77", "198.51.100.0/24", "2001:db8:5::17", "DE89 3704 0044 0532 0130 00"),
    *("4111 1111 1111 1111", "3782-822463-10005", "536-90-4399", "390.533.447-05"),
    *(
        "RSSMRA85T10A562S",
        "756.9217.0769.85",
        "gh" + "p_" + "a1B2" * 9,
        "AK" + "IAQ3EGTZ5XW7LMN2PD",
    ),
]
around = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=12) | sentences


@light
@given(st.lists(st.tuples(around, st.sampled_from(PLANTED)), min_size=1, max_size=6))
def test_no_planted_value_is_left_and_cleaning_again_changes_nothing(parts):
    """The values tell what they are by themselves; the words around them may be anything."""
    text = "".join(f"{before} | {value} | " for before, value in parts)
    row = {"instruction": f"Read: {text}", "output": text, "input": ""}
    first = Run({"s": joined([json.dumps(row).encode()])}).cleaned()
    for field in ("instruction", "output"):
        assert [value for _, value in parts if value in first[0][field]] == []
        assert len(PLACEHOLDER.findall(first[0][field])) >= len(parts)
    again = {name: first[0][name] for name in row}
    second = Run({"s": joined([json.dumps(again).encode()])}).cleaned()
    assert {name: second[0][name] for name in row} == again
    assert dict(second[0]["pii"]) == {}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("model"))


def learned(row: dict) -> list[int]:
    return [label for label in row["labels"] if label != IGNORED]


anything = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=20)


@light
@given(
    st.lists(st.tuples(anything, anything), min_size=1, max_size=5),
    st.sampled_from(["chat", "alpaca", "completion"]),
)
@example([(" ", "0")], "completion")
def test_the_learned_ids_decode_to_the_cleaned_response_and_its_end(model, pairs, style):
    rows = [json.dumps({"instruction": a, "output": b}).encode() for a, b in pairs]
    run = Run({"s": joined(rows)}, clean={"pii": []})
    decode = Tokenizer(model).backend.decode
    made = [
        row for folder in run.tokens(model, style) for row in read_arrow_dataset(folder).to_pylist()
    ]
    outputs = [row["output"] for row in run.cleaned()]
    assert [decode(learned(row), False) for row in made] == [f"{x}<|im_end|>" for x in outputs]


@heavy
@given(
    st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6),
    st.sampled_from(["drop", "right", "left"]),
    st.integers(8, 60),
    st.sampled_from(["chat", "completion"]),
)
def test_a_row_learns_something_or_is_counted_whatever_the_cut(model, pairs, policy, length, style):
    rows = [json.dumps({"instruction": a, "output": b}).encode() for a, b in pairs]
    run = Run({"s": joined([VALID, *rows])}, split={"train": 1, "eval": 0, "test": 0})
    tokens = run.tokens(model, style, max_length=length, truncation=policy)
    made = [row for folder in tokens for row in read_arrow_dataset(folder).to_pylist()]
    assert all(bool(row["supervised"]) == (row["problem"] is None) for row in made)
    assert all(row["length"] <= length for row in made)
    wanted = {"kind": "instruction", "packing": True, "max_length": length, "weights": {"s": 1.0}}
    usable = {row["line"] for row in made if not row["problem"]}
    kept = [row["line"] for row in run.ledger if row["status"] == "kept"]
    if usable.intersection(kept):
        report = write_splits(tokens, run.folder / "ledger.parquet", wanted, run.folder / "out")
        assert report["train"]["rows"] + sum(report["train"]["set_aside"].values()) == len(kept)
        assert report["train"]["learned_share"]["rows_at_zero"] == 0


@light
@given(st.lists(sentences, min_size=1, max_size=6), st.integers(8, 20))
def test_every_part_of_a_text_that_is_cut_learns_something(model, stories, length):
    rows = [json.dumps({"text": text}).encode() for text in stories]
    run = Run({"s": joined(rows)}, kind="text")
    tokens = run.tokens(model, max_length=length, truncation="split")
    made = [row for folder in tokens for row in read_arrow_dataset(folder).to_pylist()]
    assert all(row["supervised"] or row["problem"] for row in made)
