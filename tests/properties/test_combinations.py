"""Quick cases of several axes: every pair of values meets in one, and the others are slow, not gone."""

from itertools import combinations, product

import pytest

from tests.combinations import covering

AXES = ["abc", [1, 2], [None, 0.5], range(4)]


@pytest.mark.parametrize("together", [1, 2, 3])
def test_values_meet_in_quick_cases_and_no_case_is_lost(together):
    cases = covering(*AXES, together=together)
    assert [case.values for case in cases] == list(product(*AXES))
    quick = [case.values for case in cases if not case.marks]
    assert len(quick) < len(cases) / 2 or together == 3
    for places in combinations(range(len(AXES)), together):
        assert {tuple(case[k] for k in places) for case in quick} == set(product(*(AXES[k] for k in places)))
