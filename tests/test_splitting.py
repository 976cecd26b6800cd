"""Splitting: decided by the prompt's hash, counted without a gap, gated before training."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cleaning import LONG, cleaned

from anneal.cleaning.filters import drop_table
from anneal.config.prepare import Split
from anneal.errors import UserError
from anneal.records import REJECT
from anneal.splitting.assign import SPLITS, assign
from anneal.splitting.gates import check_gates, check_reject_share, funnel, gates, split_table
from anneal.splitting.ledger import dropped_rows, write_ledger
from anneal.splitting.sides import decide_sides

SPLIT = Split().model_dump()


def ledger_of(tmp_path, texts, drops=None, rejects=(), split=SPLIT, threshold=0.85):
    shard = cleaned(tmp_path, texts)
    refused, dropped = tmp_path / "rejects.parquet", tmp_path / "drops.parquet"
    pq.write_table(pa.Table.from_pylist(list(rejects), REJECT), refused)
    pq.write_table(drop_table(drops or {"row": []}), dropped)
    sides, torn = decide_sides([shard], dropped_rows([shard], dropped), split, threshold)
    assert torn == []
    write_ledger([shard], [refused], dropped, sides, tmp_path / "ledger.parquet")
    return tmp_path / "ledger.parquet"


def column(ledger, name):
    return pq.read_table(ledger)[name].to_pylist()


def test_shares_are_met_within_chance():
    sides = [assign(f"prompt {i}", "seed", 0.8, 0.1) for i in range(20_000)]
    for side, share in [("train", 0.8), ("eval", 0.1), ("test", 0.1)]:
        assert abs(sides.count(side) / 20_000 - share) < 0.01


def test_the_seed_makes_another_split():
    a, b = ([assign(f"p{i}", s, 0.5, 0.25) for i in range(100)] for s in ("a", "b"))
    assert a != b


def test_every_row_read_is_kept_dropped_or_rejected(tmp_path):
    drop = {"row": [1], "rule": ["symbols"], "value": [1.0]}
    reject = {"source": "s", "file": "c.jsonl", "line": 9, "offset": 0, "reason": "not JSON"}
    ledger = ledger_of(tmp_path, ["a", "b", "c"], drop, [reject])
    assert funnel(ledger)["s"] == {
        "read": 4,
        "kept": 2,
        "rejected": 1,
        "dropped": 1,
        "rules": {"symbols": 1},
        "reasons": {"not JSON": 1},
    }
    assert column(ledger, "line") == [1, 2, 3, 9]


def test_equal_prompts_stay_together(tmp_path):
    ledger = ledger_of(tmp_path, [f"answer {i}" for i in range(50)])
    assert len(set(column(ledger, "split"))) == 1


def test_too_many_unreadable_rows_stop_the_run_and_say_where_to_look(tmp_path):
    reject = {"source": "s", "file": "c.jsonl", "line": 9, "offset": 0, "reason": "not JSON"}
    ledger = ledger_of(tmp_path, ["a", "b"], rejects=[reject])
    with pytest.raises(UserError, match=r"c\.jsonl:9: 1 of 3 rows of source 's' are unreadable"):
        check_reject_share(ledger, 0.1)
    check_reject_share(ledger, 0.5)


def test_nothing_read_at_all_is_an_error(tmp_path):
    ledger = ledger_of(tmp_path, [])
    with pytest.raises(UserError, match="all sources are empty"):
        check_reject_share(ledger, 0.1)


def test_a_split_that_is_too_small_fails_its_gate(tmp_path):
    ledger = ledger_of(tmp_path, ["a", "b"])
    results = gates(ledger, SPLIT, 0)
    failed = {gate["gate"] for gate in results if not gate["passed"]}
    assert "smallest split, rows" in failed
    with pytest.raises(UserError, match="gate failed"):
        check_gates(results)


def test_a_large_stratum_that_a_split_lacks_fails_its_gate(tmp_path):
    ledger = ledger_of(tmp_path, [f"answer {i}" for i in range(60)])
    assert len(set(column(ledger, "split"))) == 1
    results = {gate["gate"]: gate for gate in gates(ledger, SPLIT, 0)}
    assert results["strata absent from a split"]["value"] == 2
    assert not results["strata absent from a split"]["passed"]


def test_absent_strata_are_shown_as_zero(tmp_path):
    ledger = ledger_of(tmp_path, ["a"])
    table = split_table(ledger)
    assert sum(table["strata"]["none"].values()) == 1
    assert set(table["strata"]["none"]) == {"train", "eval", "test"}


def sides_of(tmp_path, texts, extras=None, split=SPLIT, threshold=0.85):
    """Side of each text; rows have prompts of their own, unless `extras` names the same."""
    shard = cleaned(tmp_path, texts)
    table = pq.read_table(shard)
    extras = extras or [{} for _ in texts]
    prompts = [extra.get("prompt", f"prompt {n}") for n, extra in enumerate(extras)]
    table = table.set_column(table.schema.get_field_index("prompt_key"), "prompt_key", [prompts])
    texts = [json.dumps(extra) for extra in extras]
    table = table.set_column(table.schema.get_field_index("extra"), "extra", [texts])
    pq.write_table(table, shard)
    sides, torn = decide_sides([shard], np.zeros(len(table), bool), split, threshold)
    assert torn == []
    return [SPLITS[side - 1] if side else None for side in sides]


BY_THREAD = {**SPLIT, "group_by": ["thread"]}


def test_rows_of_a_named_group_stay_together(tmp_path):
    extras = [{"thread": i % 7} for i in range(200)]
    sides = sides_of(tmp_path, [f"text {i}" for i in range(200)], extras, BY_THREAD)
    by_thread = [{sides[i] for i in range(t, 200, 7)} for t in range(7)]
    assert all(len(found) == 1 for found in by_thread)
    assert len(set(sides)) > 1


def test_a_missing_group_value_groups_nothing(tmp_path):
    extras = [{"thread": None} if i % 2 else {} for i in range(100)]
    assert len(set(sides_of(tmp_path, ["x"] * 100, extras, BY_THREAD))) > 1


def test_a_row_that_would_join_two_splits_is_set_aside_and_moves_nothing(tmp_path):
    extras = [{"thread": i} for i in range(100)]
    sides = sides_of(tmp_path, ["x"] * 100, extras, BY_THREAD)
    train, test = sides.index("train"), sides.index("test")
    both = {"prompt": f"prompt {train}", "thread": test}
    new = [both, {"prompt": f"prompt {train}"}, {"prompt": f"prompt {test}"}]
    again = sides_of(tmp_path, ["x"] * 103, [*extras, *new], BY_THREAD)
    assert again == [*sides, None, "train", "test"]


def families(count: int, copies: int) -> list[str]:
    """Texts of which each `copies` in a row are near duplicates, and no others."""
    stem = "the {0} of harbour {0} keeps {0} boats and {0} lamps for the crews of ship {0} all year"
    return [
        " ".join(f"{stem.format(f'{f}.{n}')}" for n in range(3)) + f" {c}"
        for f in range(count)
        for c in range(copies)
    ]


def test_near_duplicates_that_were_kept_stay_with_the_earliest(tmp_path):
    sides = sides_of(tmp_path, families(40, 3))
    assert len(set(sides)) == 3
    assert all(len(set(sides[i : i + 3])) == 1 for i in range(0, 120, 3))


def test_families_stay_together_in_any_order_of_rows(tmp_path):
    rows = families(30, 3)
    for texts in (rows, rows[::-1], rows[1::2] + rows[::2]):
        side = dict(zip(texts, sides_of(tmp_path, texts), strict=True))
        family = {text.rpartition(" ")[0]: side[text] for text in texts}
        assert all(side[text] == family[text.rpartition(" ")[0]] for text in texts)


def test_less_alike_rows_are_split_apart(tmp_path):
    sides = sides_of(tmp_path, families(20, 3), threshold=1.0)
    assert any(len(set(sides[i : i + 3])) > 1 for i in range(0, 60, 3))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5) | st.none()), max_size=40))
def test_no_group_is_ever_in_two_splits_and_new_rows_move_no_old_one(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    extras = [{"prompt": f"p{p}", "thread": t} for p, t in rows]
    texts = [f"{LONG} {p}" if t == 0 else f"text {n}" for n, (p, t) in enumerate(rows)]
    sides = sides_of(folder, texts, extras, BY_THREAD)
    for name in ("prompt", "thread"):
        for value in {extra[name] for extra in extras} - {None}:
            found = {s for s, extra in zip(sides, extras, strict=True) if extra[name] == value}
            assert len(found - {None}) <= 1
    half = len(rows) // 2
    assert sides_of(folder, texts[:half], extras[:half], BY_THREAD) == sides[:half]


def test_adding_rows_never_moves_old_ones(tmp_path):
    texts = [f"text {i}" for i in range(40)]
    before = column(ledger_of(tmp_path, texts), "split")
    assert column(ledger_of(tmp_path, [*texts, "new"]), "split")[:40] == before


def test_a_row_set_aside_is_counted_by_its_rule(tmp_path):
    sides = np.array([1, 0, 3], np.uint8)
    shard = cleaned(tmp_path, ["a", "b", "c"])
    refused, dropped = tmp_path / "rejects.parquet", tmp_path / "drops.parquet"
    pq.write_table(REJECT.empty_table(), refused)
    pq.write_table(drop_table({"row": []}), dropped)
    write_ledger([shard], [refused], dropped, sides, tmp_path / "odd [name] *.parquet")
    counts = funnel(tmp_path / "odd [name] *.parquet")["s"]
    assert (counts["kept"], counts["rules"]) == (2, {"joins_two_splits": 1})
