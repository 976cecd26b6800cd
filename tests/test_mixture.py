"""Mixtures: a source's weight keeps or repeats its rows, by their ids alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anneal.splitting.mixture import copies

IDS = [f"{i:016x}" for i in range(20_000)]
KNOWN = [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("weight", [0.25, 1, 2.5, 3])
def test_the_number_of_rows_is_the_weight(weight):
    taken = [copies(name, weight) for name in IDS]
    assert sum(taken) / len(IDS) == pytest.approx(weight, abs=0.01)
    assert max(taken) - min(taken) == (weight != int(weight))


@given(st.text(), st.floats(0.01, 20), st.floats(0.01, 20))
def test_a_larger_weight_never_takes_a_row_away(name, a, b):
    few, many = sorted((a, b))
    assert copies(name, few) <= copies(name, many)


def test_the_choice_is_the_same_on_every_machine_and_at_every_time():
    assert [copies(name, 0.5) for name in IDS[:12]] == KNOWN
