"""The benchmark of incremental learning: what sampled refits stand for, its verdicts, its entrants on little data."""

import numpy as np
import pytest

from benchmarks.lib.harness import Case, Row
from benchmarks.online import incremental


def rows(title, ours, theirs, drift=1e-12, difference=1e-12, gap=1e-12):
    case = Case(f"{title} moons", incremental.build_growth, {"data_set": "moons", "n": 1, "C": 1.0})
    columns = {"relative_gap": gap, "drift": drift, "margin_difference": difference}
    return [
        Row(case, incremental.OURS, 1, times=[ours] * 5, columns=columns),
        Row(case, incremental.BY_CALLS, 1, times=[2 * ours] * 5, columns=columns),
        Row(case, incremental.PEER, 1, times=[theirs] * 5, columns={"stands_for": 100.0}),
    ]


def musts(found):
    return [verdict.passed for verdict in incremental.judge(found) if verdict.kind == "must"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rows("growing", 2.0, 1.01), [True, True, True]),
        (rows("growing", 2.0, 0.99), [False, True, True]),
        (rows("growing", 2.0, 1.01, drift=2e-8), [True, True, False]),
        (rows("growing", 2.0, 1.01, gap=1e-8), [True, False, True]),
        (rows("leave one out", 1.0, 0.11), [True, True]),
        (rows("leave one out", 1.0, 0.09), [False, True]),
        (rows("leave one out", 1.0, 0.11, difference=1e-4), [True, False]),
    ],
)
def test_verdicts(found, expected):
    assert musts(found) == expected


def test_entrants_do_what_they_are_timed_for():
    ours, by_calls, refits = incremental.build_growth("moons", 200, 1.0)
    for entrant in (ours, by_calls, refits):
        entrant.fit()
    assert ours.check()["relative_gap"] <= 1e-10
    assert by_calls.check()["relative_gap"] <= 1e-10
    assert np.array_equal(by_calls.model.ids_, np.arange(200))
    assert refits.check()["stands_for"] == 100
    leave, without = incremental.build_leave_one_out("blobs", 150, 1.0)
    leave.fit()
    without.fit()
    columns = leave.check()
    assert columns["margin_difference"] <= 1e-6
    stands = without.check()
    assert stands["stands_for"] * len(without.parts) == stands["support_vectors"] == columns["support_vectors"]
    assert all(len(y) == 149 for _, y in without.parts)
