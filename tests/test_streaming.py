"""Streaming: a streamed row meets the fate of a stored one, and nothing is read ahead or stored."""

import json
import shutil
from itertools import islice
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import settings, train
from torch.utils.data import DataLoader

from anneal.arrow_dataset import read_arrow_dataset
from anneal.cleaning.clean import clean_shard
from anneal.cleaning.contamination import contaminated_rows
from anneal.cleaning.duplicates import find_duplicates
from anneal.cleaning.filters import filtered_rows
from anneal.config.schema import Config, load_config
from anneal.errors import UserError
from anneal.formatting.format import format_shard
from anneal.provenance.files import read_json, write_json
from anneal.records import place
from anneal.sources.read import read_shard
from anneal.splitting.gates import funnel
from anneal.splitting.ledger import dropped_rows, write_ledger
from anneal.splitting.sides import decide_sides
from anneal.splitting.write import SEQUENCE, write_splits
from anneal.streaming.counts import RowCounts, TokenCounts
from anneal.streaming.rows import BATCH_ROWS, kept_rows
from anneal.streaming.sample import write_sample
from anneal.streaming.seen import Seen
from anneal.streaming.sequences import training_sequences
from anneal.streaming.tokens import row_encoder
from anneal.streaming.write import write_stream
from anneal.tokenizing.tokenize import tokenize_shard
from anneal.training.checkpoints import COMPLETE
from anneal.training.data import load_stream
from anneal.workflow import Steps

QUESTION = "Which river runs through the old town and under the seven stone bridges of the north?"


def answer(i: int) -> str:
    return f"Note {i}: the {('river', 'metal', 'bird')[i % 3]} number {i * i} is in row {i}."


def as_instruction(i: int, text: str) -> dict:
    return {"instruction": f"Where is number {i % 70}?", "output": text, "thread": i % 9}


def as_chat(i: int, text: str) -> dict:
    turns = [("system", "Be brief."), ("user", f"Where is number {i % 70}?"), ("assistant", text)]
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def as_text(i: int, text: str) -> dict:
    return {"text": text}


KINDS = {"instruction": as_instruction, "chat": as_chat, "text": as_text}


def messy(kind: str, count: int = 160) -> list[str]:
    """Lines with rows that are broken, incomplete, short, copies, contaminated or too long."""
    make = KINDS[kind]
    lines = [json.dumps({**make(i, answer(i)), "category": f"c{i % 2}"}) for i in range(count)]
    lines[3] = lines[3][:-5]
    lines[17] = json.dumps({"category": "nothing else"})
    lines[20] = json.dumps(make(20, "?"))
    lines[33] = json.dumps(make(31, answer(31).upper()))
    lines[34] = ""
    lines[50] = json.dumps(make(50, f"They say: {QUESTION}"))
    lines[61] = json.dumps(make(61, "write to ann.lee@example.com <p>now</p> <|im_end|>"))
    lines[77] = json.dumps(make(77, " ".join(map(str, range(400)))))
    return lines


@pytest.fixture
def project(tmp_path, tiny_model, monkeypatch):
    """Write raw rows and a task in an empty folder; returns the configuration's steps."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    Path("tasks/rivers.jsonl").write_text(json.dumps({"q": QUESTION}) + "\n")
    data = "dataset_kwargs: {data_files: {test: tasks/rivers.jsonl}}\ntest_split: test\n"
    Path("tasks/rivers.yaml").write_text(data)

    def write(lines: list[str], kind: str = "instruction", weight: float = 1, **section) -> Steps:
        Path("rows.jsonl").write_text("\n".join(lines) + "\n")
        dataset = {
            "kind": kind,
            "sources": {"web": {"path": "rows.jsonl", "weight": weight}},
            "shard_mb": 0.002,
            "filter": {"min_response_chars": 3},
            "deduplicate": {"near": False},
            "tokenize": {"max_length": 200},
            **section,
        }
        training = {"max_steps": 4}
        run = {"dataset": "d", "model": "m", "training": training}
        return Steps(
            Config.model_validate(
                {
                    "project": "p",
                    "datasets": {"d": dataset},
                    "models": {"m": {"path": str(tiny_model)}},
                    "runs": {"r": run},
                    "evaluate": {"include": "tasks", "tasks": {"rivers": {}}},
                }
            )
        )

    return write


def plan_of(steps: Steps) -> dict:
    shards = [shard.as_source() for shard in steps.shards["d"]]
    return {
        **steps.step("write_stream", {"dataset": "d", "model": "m"})["settings"],
        "shards": shards,
    }


def stored(steps: Steps, model: Path, folder: Path):
    """(ledger, token folders) as the steps of a stored dataset make them, shard by shard."""
    files: dict[str, list[Path]] = {"records": [], "rejects": [], "clean": [], "ids": []}
    for shard in (s.name for s in steps.shards["d"]):
        at = {name: folder / name / shard for name in (*files, "text")}
        read = steps.step("read_shard", {"dataset": "d", "shard": shard})
        read_shard(read["settings"], read["sources"], at["records"], at["rejects"])
        clean = steps.step("clean_shard", {"dataset": "d", "shard": shard})
        clean_shard(clean["settings"], at["records"], at["clean"])
        names = {"dataset": "d", "model": "m", "shard": shard}
        form = steps.step("format_shard", names)["settings"]
        format_shard(form, at["clean"], model, at["text"])
        limits = steps.step("tokenize_shard", names)["settings"]
        tokenize_shard(limits, at["text"], model, at["ids"])
        for name, found in files.items():
            found.append(at[name])
    return _ledger(steps, files, folder / "drops"), files["ids"]


def _ledger(steps: Steps, files: dict, drops: Path):
    settings = steps.step("select_rows", {"dataset": "d"})["settings"]
    clean, ledger = files["clean"], drops.with_name("ledger")
    skip = np.zeros(sum(pq.read_metadata(path).num_rows for path in clean), bool)
    dropped = filtered_rows(clean, settings["filter"])
    skip[dropped["row"]] = True
    found, _ = contaminated_rows(clean, skip, settings["tests"], settings["decontaminate"])
    skip[found["row"]] = True
    copies = find_duplicates(clean, skip, near=False)
    pq.write_table(pa.concat_tables([dropped, found, copies]), drops)
    split = steps.step("assign_splits", {"dataset": "d"})["settings"]["split"]
    sides, _ = decide_sides(clean, dropped_rows(clean, drops), split, 1.0)
    write_ledger(clean, files["rejects"], drops, sides, ledger)
    return ledger


def streamed_tokens(plan: dict, model: Path, counts: RowCounts) -> dict:
    """Place of each kept row to its split, and the ids and labels it became."""
    encode, found = row_encoder(plan, model), {}
    for batch in kept_rows(plan, counts):
        sides = {place(row): row["split"] for row in batch}
        for row in encode(batch):
            ids = row["problem"] or (row["input_ids"].tolist(), row["labels"].tolist())
            found[place(row)] = (row["id"], sides[place(row)], ids)
    return found


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_streamed_row_meets_the_fate_of_a_stored_one(project, tiny_model, tmp_path, kind):
    ledger, ids = stored(project(messy(kind), kind), tiny_model, tmp_path / "stored")
    side = {place(row): row["split"] for row in pq.read_table(ledger).to_pylist()}
    wanted = {
        place(row): (
            row["id"],
            side[place(row)],
            row["problem"] or (row["input_ids"], row["labels"]),
        )
        for folder in ids
        for row in read_arrow_dataset(folder).to_pylist()
        if side[place(row)]
    }
    counts = RowCounts(allowed=0.1)
    plan = plan_of(project(messy(kind), kind, stream={}))
    assert streamed_tokens(plan, tiny_model, counts) == wanted
    found = counts.facts()["funnel"]
    assert found == funnel(ledger)
    assert found["web"]["rules"].keys() >= {"exact_duplicate", "contaminated"}
    assert found["web"]["rejected"] == 2
    assert "too_long" in {problem for _, _, problem in wanted.values() if isinstance(problem, str)}


def test_named_groups_stay_on_the_side_they_have_when_stored(project, tiny_model, tmp_path):
    section = {"split": {"group_by": ["thread"]}}
    ledger, _ = stored(project(messy("instruction"), **section), tiny_model, tmp_path / "stored")
    plan = plan_of(project(messy("instruction"), stream={}, **section))
    counts = RowCounts(allowed=0.1)
    found = {place(row): row["split"] for batch in kept_rows(plan, counts) for row in batch}
    assert found == {
        place(r): r["split"] for r in pq.read_table(ledger).to_pylist() if r["status"] == "kept"
    }
    assert counts.facts()["funnel"] == funnel(ledger)


def test_files_of_the_hub_are_on_the_disk_one_at_a_time(project, tmp_path, monkeypatch):
    """The very calls that download, pointed at a folder laid out like a Hub dataset."""
    folder, borrowed = tmp_path / "hub/data", tmp_path / "borrowed"
    folder.mkdir(parents=True)
    borrowed.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(borrowed))
    for part in range(3):
        lines = [json.dumps(as_instruction(i, answer(i))) for i in range(part * 50, part * 50 + 50)]
        (folder / f"train-{part}.jsonl").write_text("\n".join(lines))
    sources = {"hub": {"hub": str(folder.parent)}}
    plan = plan_of(project([], stream={}, sources=sources))
    files, rows = [], []
    for batch in kept_rows(plan, RowCounts(0.1)):
        files.append(len(list(borrowed.iterdir())))
        rows += batch
    assert files == [1, 1, 1]
    assert list(borrowed.iterdir()) == []
    assert len(rows) == 150
    assert {Path(row["file"]).name for row in rows} == {f"train-{n}.jsonl" for n in range(3)}


def one_pass(plan: dict, model: Path, folder: Path, seed: int = 1, passes: int = 1) -> list[dict]:
    """The sequences of the first passes, whose number the notes give."""
    write_json(folder / "stream.json", plan)
    sequences = training_sequences(folder / "stream.json", model, seed, folder / "notes")
    first = next(sequences)
    assert sum(plan_rows(folder).values()) < plan["stream"]["buffer_rows"]
    more = passes * read_json(folder / "notes/counts.json")["train"]["sequences"] - 1
    return [first, *islice(sequences, more)]


def plan_rows(folder: Path) -> dict[str, int]:
    return read_json(folder / "notes/counts.json")["splits"]["rows"]


@pytest.mark.parametrize("weight", [1, 2.5, 0.5])
@pytest.mark.parametrize("packing", [True, False])
def test_a_pass_has_the_rows_of_the_stored_training_split(
    project, tiny_model, tmp_path, weight, packing
):
    section = {"weight": weight, "tokenize": {"max_length": 200, "packing": packing}}
    steps = project(messy("instruction"), **section)
    ledger, ids = stored(steps, tiny_model, tmp_path / "stored")
    settings = steps.step("write_splits", {"dataset": "d", "model": "m"})["settings"]
    report = write_splits(ids, ledger, settings, tmp_path / "splits")
    plan = plan_of(project(messy("instruction"), stream={}, **section))
    found = one_pass(plan, tiny_model, tmp_path)
    wanted = datasets.load_from_disk(str(tmp_path / "splits/train"))
    assert list(found[0]) == SEQUENCE.names

    def rows(sequences):
        return sorted(
            (id, *piece) for s in sequences for id, piece in zip(s["ids"], pieces(s), strict=True)
        )

    assert rows(found) == rows(wanted)
    facts = read_json(tmp_path / "notes/counts.json")["train"]
    same = ("rows", "tokens", "supervised", "lengths", "set_aside")
    assert [facts[key] for key in same] == [report["train"][key] for key in same]
    assert facts["learned_share"]["min"] == report["train"]["learned_share"]["min"]


def pieces(sequence: dict) -> list[tuple]:
    """Ids and labels of each row of a sequence, cut where positions begin again."""
    starts = [i for i, position in enumerate(sequence["position_ids"]) if position == 0]
    ends = [*starts[1:], sequence["length"]]
    names = ("input_ids", "labels")
    return [
        tuple(tuple(sequence[n][a:b]) for n in names) for a, b in zip(starts, ends, strict=True)
    ]


def test_what_is_counted_adds_up_and_rejects_keep_their_place(project, tiny_model, tmp_path):
    plan = plan_of(project(messy("instruction"), stream={}))
    one_pass(plan, tiny_model, tmp_path)
    facts = read_json(tmp_path / "notes/counts.json")
    counts, train_rows = facts["funnel"]["web"], facts["train"]
    assert counts["read"] == 159
    assert counts["read"] == counts["kept"] + counts["rejected"] + counts["dropped"]
    assert counts["dropped"] == sum(counts["rules"].values())
    assert counts["kept"] == sum(facts["splits"]["rows"].values())
    aside = sum(train_rows["set_aside"].values())
    assert train_rows["rows"] + aside == facts["splits"]["rows"]["train"]
    assert facts["pii"] == {"email": 1}
    refused = [json.loads(x) for x in (tmp_path / "notes/rejects.jsonl").read_text().splitlines()]
    assert [(row["file"], row["line"]) for row in refused] == [
        ("rows.jsonl", 4),
        ("rows.jsonl", 18),
    ]
    raw = Path("rows.jsonl").read_bytes()
    assert all(raw[row["offset"] - 1 :].startswith(b"\n{") for row in refused)
    assert [row["reason"].partition(" (")[0] for row in refused][1].endswith("missing or null")


def test_nothing_is_read_beyond_the_buffer_and_one_batch(project, tiny_model, tmp_path):
    lines = [json.dumps(as_instruction(i, answer(i))) for i in range(6_000)]
    plan = plan_of(project(lines, stream={"buffer_rows": 700}))
    write_json(tmp_path / "stream.json", plan)
    sequences = training_sequences(tmp_path / "stream.json", tiny_model, 1, tmp_path / "notes")
    next(sequences)
    assert 700 <= plan_rows(tmp_path)["train"] < 700 + BATCH_ROWS


def test_each_pass_has_the_same_rows_in_another_order(project, tiny_model, tmp_path):
    plan = plan_of(project(messy("instruction"), stream={}))
    both = one_pass(plan, tiny_model, tmp_path, passes=2)
    ids = [[id for s in part for id in s["ids"]] for part in (both[: len(both) // 2], both)]
    first, second = ids[0], ids[1][len(ids[0]) :]
    assert sorted(first) == sorted(second)
    assert first != second
    other = [id for s in one_pass(plan, tiny_model, tmp_path, seed=2) for id in s["ids"]]
    assert sorted(other) == sorted(first)
    assert other != first


def test_a_stream_of_small_buffers_loses_no_row(project, tiny_model, tmp_path):
    plan = plan_of(project(messy("instruction"), stream={}))
    whole = [id for s in one_pass(plan, tiny_model, tmp_path) for id in s["ids"]]
    write_json(tmp_path / "stream.json", {**plan, "stream": {**plan["stream"], "buffer_rows": 7}})
    parts = training_sequences(tmp_path / "stream.json", tiny_model, 1)
    found: list[str] = []
    while len(found) < len(whole):
        found += next(parts)["ids"]
    assert sorted(found) == sorted(whole)


def sampled(steps: Steps, model: Path, folder: Path) -> Path:
    """Folder of the splits that training gets of a streamed dataset."""
    plan = plan_of(steps)
    files = [folder / name for name in ("sample.parquet", "heldout.jsonl", "rejects.jsonl")]
    write_sample(plan, *files)
    write_stream(plan, files[0], model, folder / "splits")
    return folder / "splits"


def test_the_sample_is_the_first_rows_of_each_side_and_stops_there(project, tiny_model, tmp_path):
    lines = [json.dumps(as_instruction(i, answer(i)) | {"n": i}) for i in range(6_000)]
    section = {"stream": {"eval_rows": 12, "test_rows": 9}}
    steps = project([line.replace(" % 70", "") for line in lines], **section)
    plan = plan_of(steps)
    kept = [row for batch in kept_rows(plan, RowCounts(0.1)) for row in batch]
    wanted = {s: [r["id"] for r in kept if r["split"] == s] for s in ("train", "eval", "test")}
    files = [tmp_path / name for name in ("sample.parquet", "heldout.jsonl", "rejects.jsonl")]
    facts = write_sample(plan, *files)
    assert facts["funnel"]["web"]["read"] < 2_000
    rows = pq.read_table(files[0]).to_pylist()
    for side, count in (("train", 200), ("eval", 12), ("test", 9)):
        assert [r["id"] for r in rows if r["split"] == side] == wanted[side][:count]
    heldout = [json.loads(line) for line in files[1].read_text().splitlines()]
    assert [row["id"] for row in heldout] == wanted["test"][:9]
    assert heldout[0].keys() == {"id", "category", "instruction", "input", "output"}
    report = write_stream(plan, files[0], tiny_model, tmp_path / "splits")
    assert [report[name]["rows"] for name in ("first", "eval", "test")] == [200, 12, 9]
    assert sorted(p.name for p in (tmp_path / "splits").iterdir()) == [
        *("eval", "first", "stream.json", "test")
    ]


def test_a_side_without_a_share_is_not_waited_for(project, tiny_model, tmp_path):
    lines = [json.dumps(as_instruction(i, answer(i))) for i in range(3_000)]
    split = {"train": 0.9, "eval": 0.0, "test": 0.1, "min_rows": 0}
    steps = project(lines, stream={"test_rows": 5}, split=split)
    splits = sampled(steps, tiny_model, tmp_path)
    assert len(datasets.load_from_disk(str(splits / "eval"))) == 0
    assert len(datasets.load_from_disk(str(splits / "test"))) == 5


def test_a_side_that_the_whole_stream_lacks_is_an_error(project, tiny_model, tmp_path):
    lines = [json.dumps(as_instruction(1, answer(i))) for i in range(20)]
    with pytest.raises(UserError, match="the whole stream has 0 rows for"):
        sampled(project(lines, stream={}), tiny_model, tmp_path)


def test_too_many_unreadable_rows_stop_the_stream_before_its_end(project, tmp_path):
    good = [json.dumps(as_instruction(i, answer(i))) for i in range(900)]
    plan = plan_of(project(good + ["{broken"] * 5_000, stream={}))
    counts = RowCounts(allowed=0.1)
    with pytest.raises(UserError, match=r"rows\.jsonl:901: 600 of 1500 rows of source 'web'"):
        list(kept_rows(plan, counts))


def test_an_empty_stream_is_an_error(project):
    with pytest.raises(UserError, match="every file is empty"):
        list(kept_rows(plan_of(project([], stream={})), RowCounts(0.1)))


def test_a_stream_without_a_row_to_learn_from_is_an_error_with_the_reasons(
    project, tiny_model, tmp_path
):
    plan = plan_of(project(messy("instruction"), stream={}, tokenize={"max_length": 8}))
    write_json(tmp_path / "stream.json", plan)
    with pytest.raises(UserError, match=r"no training row is left \(\d+ x too_long\)"):
        next(training_sequences(tmp_path / "stream.json", tiny_model, 1))


@given(st.lists(st.lists(st.integers(0, 40) | st.integers(2**63, 2**64 - 1), max_size=9)))
def test_keys_that_came_before_are_known_in_any_batches(batches):
    seen, before = Seen(), set()
    for batch in batches:
        wanted = [key in before or key in batch[:at] for at, key in enumerate(batch)]
        assert seen.add(batch) == wanted
        before |= set(batch)
    assert sum(map(len, seen.runs)) == len(before)


def test_the_median_share_of_learned_tokens_is_right_to_a_percent():
    counts = TokenCounts(max_length=100)
    rows = [{"length": 100, "supervised": n} for n in (0, 10, 20, 30, 90)]
    counts.add(rows[:2], 1)
    counts.add(rows[2:], 2)
    facts = counts.facts()
    assert facts["learned_share"] == {"min": 0.0, "median": 0.2, "rows_at_zero": 1}
    assert (facts["rows"], facts["sequences"], facts["tokens"]) == (5, 3, 500)


def test_data_workers_change_neither_rows_nor_order(project, tiny_model, tmp_path):
    splits = sampled(project(messy("instruction"), stream={}), tiny_model, tmp_path)

    def batches(workers: int) -> list:
        stream = load_stream(splits, tiny_model, 1, tmp_path / "notes")
        loader = DataLoader(stream, 2, num_workers=workers, collate_fn=lambda rows: rows)
        return list(islice(loader, 30))

    assert batches(2) == batches(0)


def test_a_resumed_stream_ends_with_the_bytes_of_an_undisturbed_one(project, tiny_model, tmp_path):
    section = {"stream": {"buffer_rows": 20}, "tokenize": {"max_length": 120}}
    splits = sampled(project(messy("instruction"), **section), tiny_model, tmp_path)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    given = settings(gradient_accumulation_steps=2)
    facts = train(given, tiny_model, splits, whole / "checkpoints", whole / "run")
    assert facts["stream"]["funnel"]["web"]["read"] == 159
    shutil.copytree(whole / "checkpoints", killed / "checkpoints")
    shutil.rmtree(killed / "checkpoints/checkpoint-6")
    (killed / "checkpoints/checkpoint-4" / COMPLETE).unlink()
    again = train(given, tiny_model, splits, killed / "checkpoints", killed / "run")
    assert again["resumed_step"] == 3
    assert again["stream"] == facts["stream"]
    files = ("model/adapter_model.safetensors", "metrics.jsonl", "counts.json", "rejects.jsonl")
    for name in files:
        assert (killed / "run" / name).read_bytes() == (whole / "run" / name).read_bytes(), name


def test_a_changed_row_changes_the_step(project):
    def step(lines):
        return project(lines, stream={}).text("write_stream", {"dataset": "d", "model": "m"})

    lines = messy("instruction")
    assert step(lines) == step(lines)
    assert step(lines) != step([*lines, lines[0]])


BASE = {
    "project": "p",
    "datasets": {
        "d": {"sources": {"s": {"path": "x"}}, "deduplicate": {"near": False}, "stream": {}}
    },
    "models": {"m": {"path": "x"}},
    "runs": {"r": {"dataset": "d", "model": "m", "training": {"max_steps": 5}}},
}


def test_a_mistyped_key_of_the_optional_section_gets_the_nearest_name(tmp_path):
    given = json.loads(json.dumps(BASE))
    given["datasets"]["d"]["stream"] = {"eval_row": 5}
    (tmp_path / "config.yaml").write_text(json.dumps(given))
    with pytest.raises(
        UserError, match=r"d\.stream\.eval_row: unknown key; did you mean 'eval_rows'"
    ):
        load_config(tmp_path / "config.yaml")


def test_a_streamed_dataset_is_accepted():
    assert Config.model_validate(BASE).datasets["d"].stream.eval_rows == 500


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("datasets.d.deduplicate", {"near": True}, "near duplicates cannot be found in a stream"),
        ("datasets.d.kind", "preference", "'preference' records cannot be streamed"),
        ("datasets.d.kind", "prompts", "'prompts' records cannot be streamed"),
        ("runs.r.training", {}, r"runs.r: set training.max_steps"),
        (
            "runs.r.training",
            {"max_steps": 5, "train_sampling_strategy": "group_by_length"},
            "runs.r: train_sampling_strategy must be random",
        ),
    ],
)
def test_what_cannot_work_in_a_stream_is_refused(path, value, message):
    given = json.loads(json.dumps(BASE))
    *parents, key = path.split(".")
    inner = given
    for name in parents:
        inner = inner[name]
    inner[key] = value
    with pytest.raises(ValueError, match=message):
        Config.model_validate(given)
