"""Writing splits: every usable row is in its split, as often as its source's weight says."""

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anneal.arrow_dataset import write_arrow_dataset
from anneal.errors import UserError
from anneal.records import PAIR_TOKENS, TOKENS
from anneal.splitting.ledger import LEDGER
from anneal.splitting.write import write_splits

SETTINGS = {"kind": "instruction", "packing": True, "max_length": 16, "weights": {"a": 1, "b": 1}}


def token_row(line: int, source: str = "a", problem: str | None = None) -> dict:
    ids = None if problem else [line] * 5
    place = {"id": f"{source}{line}", "source": source, "file": f"{source}.jsonl", "line": line}
    made = {"input_ids": ids, "labels": ids, "length": 0 if problem else 5, "supervised": 5}
    return {**place, **made, "problem": problem}


def project(tmp_path, rows: list[dict], split_of, schema=TOKENS):
    tokens, ledger = tmp_path / "tokens", tmp_path / "ledger.parquet"
    write_arrow_dataset(tokens, schema, [pa.RecordBatch.from_pylist(rows, schema)])
    names = ("id", "source", "file", "line")
    decided = [{**{n: r[n] for n in names}, "split": split_of(r), "status": "kept"} for r in rows]
    pq.write_table(pa.Table.from_pylist(decided, LEDGER), ledger)
    return [tokens], ledger


def by_line(row: dict) -> str:
    return ("train", "train", "train", "eval", "test")[row["line"] % 5]


def ids_of(folder) -> list[str]:
    rows = datasets.load_from_disk(str(folder))
    return sorted(name for row in rows for name in row["ids"])


def test_every_row_is_in_its_split_once(tmp_path):
    rows = [token_row(line) for line in range(20)]
    report = write_splits(*project(tmp_path, rows, by_line), SETTINGS, tmp_path / "out")
    for name in ("train", "eval", "test"):
        wanted = sorted(r["id"] for r in rows if by_line(r) == name)
        assert ids_of(tmp_path / "out" / name) == wanted
        assert report[name]["rows"] == len(wanted)
    assert report["train"]["sequences"] == 4
    assert report["test"]["sequences"] == 4


def test_weights_repeat_training_rows_and_no_others(tmp_path):
    rows = [token_row(i, "a") for i in range(20)] + [token_row(i, "b") for i in range(20)]
    settings = {**SETTINGS, "weights": {"a": 1, "b": 3}}
    write_splits(*project(tmp_path, rows, by_line), settings, tmp_path / "out")
    train, test = ids_of(tmp_path / "out" / "train"), ids_of(tmp_path / "out" / "test")
    assert sum(name.startswith("a") for name in train) == 12
    assert sum(name.startswith("b") for name in train) == 36
    assert sum(name.startswith("b") for name in test) == 4


def test_rows_that_were_set_aside_are_counted_by_reason(tmp_path):
    rows = [token_row(0), token_row(1, problem="too_long"), token_row(2)]
    report = write_splits(*project(tmp_path, rows, by_line), SETTINGS, tmp_path / "out")
    assert report["train"]["rows"] == 2
    assert report["train"]["set_aside"] == {"too_long": 1}


def test_no_training_row_at_all_is_an_error_with_the_reasons(tmp_path):
    rows = [token_row(0, problem="too_long"), token_row(1, problem="too_long")]
    with pytest.raises(UserError, match=r"no training row is left \(2 x too_long\)"):
        write_splits(*project(tmp_path, rows, by_line), SETTINGS, tmp_path / "out")


def test_pairs_keep_their_three_parts(tmp_path):
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    made = {"length": 3, "supervised": 2, "problem": None}
    rows = [{**token_row(line), **{key: [line] for key in names}, **made} for line in range(5)]
    rows = [{k: v for k, v in row.items() if k not in ("input_ids", "labels")} for row in rows]
    settings = {**SETTINGS, "kind": "preference"}
    write_splits(*project(tmp_path, rows, by_line, PAIR_TOKENS), settings, tmp_path / "out")
    train = datasets.load_from_disk(str(tmp_path / "out" / "train"))
    assert train.column_names == ["id", *names, "length"]
    assert train["chosen_ids"][:] == [[0], [1], [2]]
