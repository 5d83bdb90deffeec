"""The benchmark of conformal prediction: its verdicts, and its entrants on little data."""

import numpy as np
import pytest

from benchmarks.classical import conformal
from benchmarks.lib.harness import Case, Row


def timed(theirs, difference=1e-5, gap=1e-12):
    case = Case("intervals diabetes", conformal.build_intervals, {"data_set": "diabetes"})
    times = {"times": [0.1] * 5, "user_times": [0.1] * 5}
    columns = {"relative_gap": gap, "relative_difference": difference}
    return [
        Row(case, conformal.OURS, 1, columns=columns, **times),
        Row(case, conformal.PEER, 1, times=[theirs] * 5, user_times=[theirs] * 5),
    ]


def covered(plus, minmax=0.95, sigma=0.004):
    case = Case("coverage wine", conformal.build_coverage, {"data_set": "wine"})
    columns = {"coverage_plus": plus, "coverage_minmax": minmax, "expected": 0.901, "sigma": sigma, "relative_gap": 0.0}
    return [Row(case, conformal.COVERAGE, 1, times=[1.0], columns=columns)]


def full(coverage, sigma=0.004):
    case = Case("full sets wine", conformal.build_full, {"data_set": "wine"})
    columns = {"coverage_full": coverage, "size_full": 1.1, "expected": 0.901, "sigma": sigma, "relative_gap": 0.0}
    return [Row(case, conformal.COVERAGE, 1, times=[1.0], columns=columns)]


def novelties(share, sigma=0.01):
    case = Case("novelties", conformal.build_novelties, {})
    columns = {"expected": 0.15}
    for name in ("split", "jackknife_plus"):
        columns |= {f"false_{name}": share, f"sigma_{name}": sigma, f"found_{name}": 0.5}
    return [Row(case, conformal.NOVELTY, 1, times=[1.0], columns=columns), *full(0.9)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (timed(2.1), [True, True, True, True]),
        (timed(1.9), [False, False, True, True]),
        (timed(2.1, difference=2e-3), [True, True, False, True]),
        (timed(2.1, gap=1e-6), [True, True, True, False]),
        (covered(0.9), [True, True, True]),
        (covered(0.88), [False, True, True]),
        (covered(0.92), [False, True, True]),
        (covered(0.9, minmax=0.89), [True, False, True]),
        (covered(float("nan")), [False, True, True]),
        (full(0.9), [True, True]),
        (full(0.88), [False, True]),
        (full(0.92), [False, True]),
        (novelties(0.18), [True, True, True]),
        (novelties(0.2), [True, False, True]),
    ],
)
def test_verdicts(found, expected):
    assert [verdict.passed for verdict in conformal.judge(found) if verdict.kind == "must"] == expected


def test_intervals_are_those_of_mapie():
    pytest.importorskip("mapie", reason="pip install 'dualflow[bench]'")
    ours, mapie = conformal.build_intervals("diabetes", 40, 10.0, 1.0, 0.1)
    ours.fit()
    mapie.fit()
    np.testing.assert_allclose(ours.ends, mapie.ends, rtol=0, atol=0.5)  # y spreads over 300
    assert ours.check()["relative_difference"] <= 1e-5


def test_sets_are_those_of_the_loop():
    ours, loop = conformal.build_sets("breast cancer", 40, 1.0, 0.03)
    ours.fit()
    loop.fit()
    assert ours.check()["ranks"] <= 1.0
    assert loop.found.shape == ours.found.shape == (100, 2)


def test_coverage_counts_what_is_held():
    (entrant,) = conformal.build_coverage("wine", 60, 3)
    entrant.fit()
    columns = entrant.check()
    assert columns["coverage_base"] <= columns["coverage_minmax"] <= 1.0
    assert columns["coverage_plus"] > 0.5
    assert columns["expected"] == 55 / 61
    assert columns["relative_gap"] <= 1e-8


def test_full_sets_and_novelties_are_counted():
    (entrant,) = conformal.build_full("iris", 20, 1)
    entrant.fit()
    columns = entrant.check()
    assert 0.5 < columns["coverage_full"] <= 1.0
    assert columns["expected"] == 19 / 21
    (entrant,) = conformal.build_novelties(1)
    entrant.fit()
    columns = entrant.check()
    assert 0.0 <= columns["false_split"] <= 1.0
    assert columns["found_split"] > 0.0
    assert columns["expected"] == pytest.approx(0.15)
