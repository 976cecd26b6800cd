"""Splitting: decided by the prompt's hash, counted without a gap, gated before training."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cleaning import LONG, cleaned

from anneal.cleaning.duplicates import find_duplicates
from anneal.config.prepare import Split
from anneal.errors import UserError
from anneal.records import DROP, REJECT
from anneal.splitting.assign import assign
from anneal.splitting.gates import check_gates, funnel, gates, split_table
from anneal.splitting.groups import Groups
from anneal.splitting.ledger import check_reject_share, decide
from anneal.splitting.overlap import cross_split_pairs

SPLIT = Split().model_dump()


def ledger_of(tmp_path, texts, drops=(), rejects=(), split=SPLIT):
    shard = cleaned(tmp_path, texts)
    refused, dropped = tmp_path / "rejects.parquet", tmp_path / "drops.parquet"
    pq.write_table(pa.Table.from_pylist(list(rejects), REJECT), refused)
    pq.write_table(pa.Table.from_pylist(list(drops), DROP), dropped)
    return shard, decide([shard], [refused], dropped, split)


def test_shares_are_met_within_chance():
    sides = [assign(f"prompt {i}", "seed", 0.8, 0.1) for i in range(20_000)]
    for side, share in [("train", 0.8), ("eval", 0.1), ("test", 0.1)]:
        assert abs(sides.count(side) / 20_000 - share) < 0.01


def test_the_seed_makes_another_split():
    a, b = ([assign(f"p{i}", s, 0.5, 0.25) for i in range(100)] for s in ("a", "b"))
    assert a != b


def test_every_row_read_is_kept_dropped_or_rejected(tmp_path):
    drop = {"id": "id1", "source": "s", "file": "c.jsonl", "line": 2, "rule": "symbols", "value": 1}
    reject = {"source": "s", "file": "c.jsonl", "line": 9, "offset": 0, "reason": "not JSON"}
    _, ledger = ledger_of(tmp_path, ["a", "b", "c"], [drop], [reject])
    assert funnel(ledger)["s"] == {
        "read": 4,
        "kept": 2,
        "rejected": 1,
        "dropped": 1,
        "rules": {"symbols": 1},
        "reasons": {"not JSON": 1},
    }
    assert ledger["line"].to_pylist() == [1, 2, 3, 9]


def test_equal_prompts_stay_together(tmp_path):
    _, ledger = ledger_of(tmp_path, [f"answer {i}" for i in range(50)])
    assert len(set(ledger["split"].to_pylist())) == 1


def test_too_many_unreadable_rows_stop_the_run_and_say_where_to_look(tmp_path):
    reject = {"source": "s", "file": "c.jsonl", "line": 9, "offset": 0, "reason": "not JSON"}
    _, ledger = ledger_of(tmp_path, ["a", "b"], rejects=[reject])
    with pytest.raises(UserError, match=r"c\.jsonl:9: 1 of 3 rows of source 's' are unreadable"):
        check_reject_share(ledger, 0.1)
    check_reject_share(ledger, 0.5)


def test_nothing_read_at_all_is_an_error(tmp_path):
    _, ledger = ledger_of(tmp_path, [])
    with pytest.raises(UserError, match="all sources are empty"):
        check_reject_share(ledger, 0.1)


def test_a_split_that_is_too_small_fails_its_gate(tmp_path):
    _, ledger = ledger_of(tmp_path, ["a", "b"])
    results = gates(ledger, SPLIT, [])
    failed = {gate["gate"] for gate in results if not gate["passed"]}
    assert "smallest split, rows" in failed
    with pytest.raises(UserError, match="gate failed"):
        check_gates(results)


def test_a_large_stratum_that_a_split_lacks_fails_its_gate(tmp_path):
    _, ledger = ledger_of(tmp_path, [f"answer {i}" for i in range(60)])
    assert len(set(ledger["split"].to_pylist())) == 1
    results = {gate["gate"]: gate for gate in gates(ledger, SPLIT, [])}
    assert results["strata absent from a split"]["value"] == 2
    assert not results["strata absent from a split"]["passed"]


def test_near_duplicates_in_two_splits_are_found(tmp_path):
    shard, ledger = ledger_of(tmp_path, [LONG, LONG + " again"])
    assert cross_split_pairs([shard], ledger, 0.85) == []
    sides = pa.array(["train", "test"])
    torn = ledger.set_column(ledger.schema.get_field_index("split"), "split", sides)
    pairs = cross_split_pairs([shard], torn, 0.85)
    assert [(p["line"], p["split"], p["kept_split"]) for p in pairs] == [(2, "test", "train")]


def test_absent_strata_are_shown_as_zero(tmp_path):
    _, ledger = ledger_of(tmp_path, ["a"])
    table = split_table(ledger)
    assert sum(table["strata"]["none"].values()) == 1
    assert set(table["strata"]["none"]) == {"train", "eval", "test"}


def row(line: int, prompt: str, **extra) -> dict:
    place = {"source": "s", "file": "f", "line": line}
    return {**place, "prompt_key": prompt, "extra": json.dumps(extra)}


def test_rows_of_a_named_group_stay_together():
    groups = Groups({**SPLIT, "group_by": ["thread"]})
    rows = [row(i, f"prompt {i}", thread=i % 7) for i in range(200)]
    sides = [groups.side(r) for r in rows]
    by_thread = [{sides[i] for i in range(t, 200, 7)} for t in range(7)]
    assert all(len(found) == 1 for found in by_thread)


def test_a_missing_group_value_groups_nothing():
    groups = Groups({**SPLIT, "group_by": ["thread"]})
    sides = [groups.side(row(i, f"prompt {i}", thread=None)) for i in range(100)]
    assert len(set(sides)) > 1


def test_a_row_that_would_join_two_splits_is_set_aside_and_moves_nothing():
    groups = Groups({**SPLIT, "group_by": ["thread"]})
    sides = {i: groups.side(row(i, f"prompt {i}", thread=i)) for i in range(100)}
    train = next(i for i in sides if sides[i] == "train")
    test = next(i for i in sides if sides[i] == "test")
    assert groups.side(row(200, f"prompt {train}", thread=test)) is None
    assert groups.side(row(201, f"prompt {train}")) == "train"
    assert groups.side(row(202, f"prompt {test}")) == "test"


def test_near_duplicates_that_were_kept_follow_the_earliest():
    groups = Groups(SPLIT)
    sides = {i: groups.side(row(i, f"prompt {i}")) for i in range(50)}
    test = next(i for i in sides if sides[i] == "test")
    assert groups.side(row(99, "another prompt"), near=[("s", "f", test)]) == "test"


def test_adding_rows_never_moves_old_ones(tmp_path):
    def sides(texts):
        shard = cleaned(tmp_path, texts)
        assert find_duplicates([shard], set()) == []
        _, ledger = ledger_of(tmp_path, texts)
        return ledger["split"].to_pylist()

    texts = [f"text {i}" for i in range(40)]
    assert sides([*texts, "new"])[:40] == sides(texts)
