"""Pairs of classes solved from their points by one compiled call: optima, certified by float64 values."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from dualflow.working_set._point_pairs import (
    CONTINUES,
    FILLS,
    IN_FLOAT32,
    MAX_ROWS,
    MAX_ROWS_BOUNDED,
    MAX_UPDATES,
    solve_point_pairs,
)
from sklearn.datasets import load_iris, load_wine, make_blobs, make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LIBSVM

from dualflow import Gram, certify, problems
from dualflow.core.pair_certificate import CertificateRow
from dualflow.core.solution import MAX_GAP_UNREFINED
from dualflow.direct.from_points import PairArrays, PointPairs
from tests.combinations import covering

WINE, IRIS = load_wine(return_X_y=True), load_iris(return_X_y=True)
MANY = make_blobs([300, 450, 260, 380], 2, cluster_std=3.0, random_state=3)
SETS = {
    "wine": (StandardScaler().fit_transform(WINE[0]), WINE[1]),
    "iris": (np.repeat(IRIS[0], 3, axis=0), np.repeat(IRIS[1], 3)),
    "many": MANY,
    "wide": make_classification(500, 130, n_informative=6, n_classes=3, random_state=0),
    "one each": (np.array([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0]]), np.arange(3)),
}
#: Columns of the certificates.
OBJECTIVE, LOWER_BOUND, LOW, HIGH = map(CertificateRow._fields.index, ("objective", "lower_bound", "low", "high"))
#: Options of `solve_point_pairs`, in their order.
OPTIONS = {
    "gap_tol": 1e-12,
    "tol_float32": 1e-3,
    "min_product_float32": 1 << 23,
    "max_uncertain_share": 0.3,
    "safe_errors": 2.0,
    "start": np.empty(0),
}


def pairs_of(X, y, C, gamma):
    """Of all classes, with a bound of its own for each point, and their table."""
    groups = [np.flatnonzero(y == k) for k in range(y.max() + 1)]
    upper = np.concatenate([C * np.linspace(0.5, 1.5, len(X))[group] for group in groups])
    pairs = PointPairs(Gram(X, gamma=gamma), groups, upper)
    return pairs, pairs.table(combinations(range(len(groups)), 2))


def given(pairs):
    """Points as they are handed over, in either precision."""
    points = pairs.points
    single = points.in_single()
    return points.points, points.half, single.points, single.half


def solved(pairs, table, sign=1.0, begin=0, seconds=1e9, **options):
    size, count, values = int(table[-1, -1] + table[-1, :2].sum()), len(table), OPTIONS | options
    found = PairArrays(*np.full((3, size), np.nan), np.full((count, 9), np.nan), np.full(count, np.nan), np.zeros(size))
    given_to_all = (sign, pairs.gram.X.shape[1], pairs.gram.reach, pairs.gram.growth, *values.values())
    end = solve_point_pairs(*given(pairs), pairs.point_order, pairs.upper, table, *given_to_all, *found, begin, seconds)
    return found, end


def parts(pairs, table, found):
    """Of each pair: its points, labels, bounds, α as found, and its certificate."""
    for (m, n, first, second, *_, at), certificate in zip(table.tolist(), found.certificates, strict=True):
        order = np.r_[first : first + m, second : second + n]
        labels = np.r_[np.ones(m), -np.ones(n)]
        yield pairs.point_order[order], labels, pairs.upper[order], found.alpha[at : at + m + n], certificate


@pytest.mark.parametrize(
    ("name", "C", "worth", "single"), covering(list(SETS), [0.1, 10.0], [0.0, np.inf], [False, True])
)
def test_each_pair_is_at_its_optimum_by_a_fresh_certificate(name, C, worth, single):
    X, y = SETS[name]
    pairs, table = pairs_of(X, y, C, 0.3)
    table[:, IN_FLOAT32] = single
    found, end = solved(pairs, table, min_product_float32=worth)
    assert end == len(table)
    for members, labels, upper, alpha, certificate in parts(pairs, table, found):
        problem = problems.svc(Gram(X[members], gamma=0.3), labels, 1.0, sample_weight=upper)
        theirs = certify(problem, alpha)
        assert theirs.relative_gap <= 1e-11
        assert certificate[OBJECTIVE] == pytest.approx(theirs.objective, rel=1e-12)
        assert certificate[LOWER_BOUND] == pytest.approx(theirs.lower_bound, rel=1e-12)
        np.testing.assert_allclose(certificate[LOW : HIGH + 1], theirs.multiplier_interval, rtol=1e-9, atol=1e-9)
        assert (alpha >= 0).all()
        assert (alpha <= upper).all()
        peer = LIBSVM(C=1.0, gamma=0.3, tol=1e-9).fit(X[members], labels, upper)
        ours = np.zeros(len(labels))
        ours[peer.support_] = peer.dual_coef_[0]
        value = (
            0.5 * ours @ np.exp(-0.3 * ((X[members][:, None] - X[members]) ** 2).sum(axis=2)) @ ours - abs(ours).sum()
        )
        assert certificate[OBJECTIVE] <= value + 1e-6 * abs(value)  # theirs is not lower


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", SETS)
def test_wherever_it_begins_it_ends_at_the_optimum(name, single):
    pairs, table = pairs_of(*SETS[name], 10.0, 0.3)
    table[:, IN_FLOAT32 : FILLS + 1] = single, 1  # no search is given up
    right, _ = solved(pairs, table)
    rng, start = np.random.default_rng(0), np.zeros(len(right.alpha))
    for (_, labels, upper, _, _), (m, n, *_, at) in zip(parts(pairs, table, right), table.tolist(), strict=True):
        some = upper * rng.uniform(0.0, 1.0, m + n) * rng.integers(0, 2, m + n)
        lighter = min(some[labels > 0].sum(), some[labels < 0].sum())
        for side in (labels > 0, labels < 0):
            some[side] *= lighter / max(some[side].sum(), 1e-300)
        start[at : at + m + n] = some
    for begin in (start, right.alpha):
        found, end = solved(pairs, table, start=begin)
        assert end == len(table)
        gap = found.certificates[:, OBJECTIVE] - found.certificates[:, LOWER_BOUND]
        assert (gap <= MAX_GAP_UNREFINED * np.abs(found.certificates[:, OBJECTIVE])).all()
        np.testing.assert_allclose(
            found.certificates[:, OBJECTIVE], right.certificates[:, OBJECTIVE], rtol=MAX_GAP_UNREFINED
        )
    assert found.entries.sum() <= right.entries.sum()  # from there, by no more rows


def test_from_an_optimum_of_large_weights_one_look_is_enough():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1800, 5))
    y = (X[:, 0] + rng.normal(size=1800) > 0).astype(int)
    pairs, table = pairs_of(X, y, 100.0, 0.3)
    table[:, IN_FLOAT32 : FILLS + 1] = 1, 1
    right, _ = solved(pairs, table)
    found, _ = solved(pairs, table, start=right.alpha)
    survivors = np.count_nonzero(right.alpha)
    assert found.entries[0] < 3 * 1800 * survivors  # their rows, and sums over all: once
    assert found.certificates[0, OBJECTIVE] == pytest.approx(right.certificates[0, OBJECTIVE], rel=MAX_GAP_UNREFINED)


def test_a_start_of_another_length_is_refused():
    pairs, table = pairs_of(*SETS["wine"], 1.0, 0.1)
    with pytest.raises(ValueError, match="start must be as long"):
        solved(pairs, table, start=np.zeros(3))


@pytest.mark.parametrize("single", [False, True])
def test_sums_are_those_of_the_weights_or_none(single):
    X, y = SETS["wine"]
    pairs, table = pairs_of(X, y, 5.0, 0.1)
    table[:, IN_FLOAT32] = single
    found, _ = solved(pairs, table)
    for m, n, first, second, *_, at in table.tolist():
        part, members = slice(at, at + m + n), pairs.point_order[np.r_[first : first + m, second : second + n]]
        right = Gram(X[members], gamma=0.1).full() @ found.weights[part]
        if single:
            assert np.isnan(found.sums[part]).all()
        else:
            np.testing.assert_allclose(found.sums[part], right, atol=1e-12 * np.abs(found.weights[part]).sum())


def test_weights_are_the_projection_with_the_labels_signs():
    pairs, table = pairs_of(*SETS["wine"], 1.0, 0.1)
    for sign in (1.0, -1.0):
        found, _ = solved(pairs, table, sign)
        for m, n, *_, at in table.tolist():
            labels = sign * np.r_[np.ones(m), -np.ones(n)]
            weights, point = found.weights[at : at + m + n], found.point[at : at + m + n]
            np.testing.assert_array_equal(weights, labels * point)
            assert abs(weights.sum()) <= 1e-14 * point.sum()


@pytest.mark.parametrize("updates", [60, 200])
def test_variables_that_a_search_misses_join_the_subproblem(updates):
    pairs, table = pairs_of(*SETS["many"], 10.0, 0.3)
    table[:, IN_FLOAT32] = 1
    right, _ = solved(pairs, table)
    table[:, FILLS : MAX_UPDATES + 1] = 1, updates  # after which it is not given up
    found, _ = solved(pairs, table)
    relative = (found.certificates[:, OBJECTIVE] - found.certificates[:, LOWER_BOUND]) / np.abs(
        found.certificates[:, OBJECTIVE]
    )
    assert relative.max() <= 1e-11
    np.testing.assert_allclose(found.certificates[:, OBJECTIVE], right.certificates[:, OBJECTIVE], rtol=1e-11)


def far_apart(spread, n=400):
    """Clusters so far from the centre that float32 has two or three digits of a kernel value; each point is there four
    times, so that some variables at 0 have the same gradient as free ones."""
    rng, y = np.random.default_rng(0), np.arange(n) // 4 % 2
    X = spread * rng.choice([-1.0, 1.0], (n // 20, 3)).repeat(5, axis=0) + rng.normal(size=(n // 4, 3))
    return X.repeat(4, axis=0) + y[:, None], y


@pytest.mark.parametrize(("enough", "rough"), [(1e-12, 1e-3), (0.9, 0.01), (0.9, 0.1)])
@pytest.mark.parametrize("spread", [3.0, 20.0, 60.0, 120.0])
def test_sums_in_float32_are_believed_as_far_as_they_can_be(spread, enough, rough):
    X, y = far_apart(spread)
    for C in (0.05, 1.0, 20.0):
        pairs, table = pairs_of(X, y, C, 0.2)
        table[:, IN_FLOAT32] = 1
        # Where it ends early, some have a multiplier of the wrong sign that float32 might take for the right one.
        found, _ = solved(
            pairs, table, min_product_float32=0.0, max_uncertain_share=1.0, gap_tol=enough, tol_float32=rough
        )
        exact, _ = solved(pairs, table, min_product_float32=np.inf, gap_tol=enough, tol_float32=rough)
        np.testing.assert_array_equal(found.alpha, exact.alpha)
        np.testing.assert_allclose(
            found.certificates[:, [OBJECTIVE, LOWER_BOUND]], exact.certificates[:, [OBJECTIVE, LOWER_BOUND]], rtol=1e-12
        )
        np.testing.assert_allclose(
            found.certificates[:, LOW : HIGH + 1], exact.certificates[:, LOW : HIGH + 1], rtol=1e-9, atol=1e-9
        )


def test_if_too_many_signs_are_undetermined_all_sums_are_in_float64():
    X, y = far_apart(60.0)
    pairs, table = pairs_of(X, y, 1.0, 0.2)
    table[:, IN_FLOAT32] = 1
    options = {"min_product_float32": 0.0, "gap_tol": 0.9, "tol_float32": 0.1}
    exact, _ = solved(pairs, table, **(options | {"min_product_float32": np.inf}))
    # Only undetermined signs are computed anew, not nearly undetermined ones, so that it takes several rounds.
    for few in (0.0, 1e-2):
        found, _ = solved(pairs, table, **options, max_uncertain_share=few, safe_errors=1.0)
        np.testing.assert_allclose(found.certificates, exact.certificates, rtol=1e-12, atol=1e-12)


def test_a_call_ends_when_its_time_is_over_and_the_next_goes_on():
    pairs, table = pairs_of(*SETS["many"], 1.0, 0.3)
    whole, end = solved(pairs, table)
    assert end == len(table) == 6
    for k in range(len(table)):
        found, end = solved(pairs, table, begin=k, seconds=0.0)
        assert end == k + 1
        np.testing.assert_array_equal(found.certificates[k], whole.certificates[k])
        assert np.isnan(np.delete(found.certificates, k, axis=0)).all()
        at, size = int(table[k, -1]), int(table[k, :2].sum())
        np.testing.assert_array_equal(found.alpha[at : at + size], whole.alpha[at : at + size])
        assert np.isnan(np.delete(found.alpha, np.s_[at : at + size])).all()
    _, end = solved(pairs, table, begin=len(table))
    assert end == len(table)


def test_a_search_that_is_given_up_leaves_its_certificate():
    pairs, table = pairs_of(*SETS["many"], 10.0, 0.3)
    table[1, FILLS : MAX_ROWS_BOUNDED + 1] = 0, 3, 5, 5  # three updates, five rows
    found, _ = solved(pairs, table)
    assert np.isnan(found.certificates[1]).all()
    assert np.isfinite(np.delete(found.certificates, 1, axis=0)).all()


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        (0, 0, 0),
        (0, 1, -1),
        (1, 0, 10**9),
        (1, 2, -1),
        (1, 3, 10**6),
        (2, 9, 10**6),
        (0, 9, -1),
        (0, 7, -1),
        (2, 8, -5),
    ],
)
def test_a_table_that_leads_out_of_its_arrays_is_refused(row, column, value):
    pairs, table = pairs_of(*SETS["wine"], 1.0, 0.1)
    wrong = table.copy()
    wrong[row, column] = value
    found = PairArrays(*np.zeros((3, int(table[-1, -1] + table[-1, :2].sum()))), np.zeros((3, 9)), np.zeros(3))
    points = given(pairs)
    rest = (1.0, pairs.gram.X.shape[1], pairs.gram.reach, pairs.gram.growth, *OPTIONS.values())
    with pytest.raises(
        ValueError, match="must have all points of pair" if column == CONTINUES else "leads out of its arrays"
    ):
        solve_point_pairs(*points, pairs.point_order, pairs.upper, wrong, *rest, *found, 0, 1.0)
    members = pairs.point_order.copy()
    members[5] = len(points[1])
    with pytest.raises(ValueError, match="point_order"):
        solve_point_pairs(*points, members, pairs.upper, table, *rest, *found, 0, 1.0)
    wrong = table.copy()
    wrong[1, IN_FLOAT32] = 1
    for fewer in (points[2][1:], points[3]), (points[2][:, 1:].copy(), points[3]), (points[2], points[3][1:]):
        with pytest.raises(ValueError, match="float32"):
            solve_point_pairs(*points[:2], *fewer, pairs.point_order, pairs.upper, wrong, *rest, *found, 0, 1.0)
    short = found._replace(certificates=np.zeros((2, 9)))
    with pytest.raises(ValueError, match="point and weights must be as long as alpha"):
        solve_point_pairs(*points, pairs.point_order, pairs.upper, table, *rest, *short, 0, 1.0)


#: Multiples of the bounds, up and down.
FACTORS = [0.01, 0.1, 0.1, 3.0, 100.0, 0.5]


def chain(name, factors=FACTORS):
    """The pairs of classes with several multiples of their bounds, each a continuation of the one before."""
    X, y = SETS[name]
    groups = [np.flatnonzero(y == k) for k in range(y.max() + 1)]
    weight = np.concatenate([np.linspace(0.5, 1.5, len(X))[group] for group in groups])
    repeated = groups * len(factors)
    pairs = PointPairs(Gram(X, gamma=0.3), repeated, np.concatenate([factor * weight for factor in factors]))
    k, r = len(groups), range(len(factors))
    table = pairs.table([(c * k + i, c * k + j) for i, j in combinations(range(k), 2) for c in r])
    table[:, MAX_ROWS] = table[:, MAX_ROWS_BOUNDED] = table[:, 0] + table[:, 1]
    table[:, CONTINUES] = np.tile(np.arange(len(factors)) > 0, len(table) // len(factors))
    return pairs, table


@pytest.mark.parametrize("single", [0, 1])
@pytest.mark.parametrize("name", ["wine", "many", "one each"])
def test_a_chain_of_bounds_ends_at_the_optima_of_single_pairs_with_fewer_rows(name, single):
    pairs, table = chain(name)
    table[:, IN_FLOAT32] = single
    alone = table.copy()
    alone[:, CONTINUES] = 0
    right, _ = solved(pairs, alone)
    found, _ = solved(pairs, table)
    in_parts, end = solved(pairs, table, seconds=0.0), 1
    while end < len(table):
        part, end = solved(pairs, table, begin=end, seconds=0.0)
        in_parts[0].certificates[end - 1] = part.certificates[end - 1]
    for way in (found, in_parts[0]):
        assert not np.isnan(way.certificates).any()
        np.testing.assert_allclose(way.certificates[:, OBJECTIVE], right.certificates[:, OBJECTIVE], rtol=1e-11)
        gap = way.certificates[:, OBJECTIVE] - way.certificates[:, LOWER_BOUND]
        assert (gap <= 1e-10 * np.abs(way.certificates[:, OBJECTIVE])).all()
    if name != "one each":
        assert found.entries.sum() < 0.8 * right.entries.sum()


def test_a_chain_ends_where_a_search_is_given_up():
    pairs, table = chain("many", [1.0, 2.0, 3.0])
    table[:, FILLS], table[1, MAX_UPDATES] = 0, 1
    found, end = solved(pairs, table)
    assert end == len(table)
    assert np.isnan(found.certificates[:, OBJECTIVE]).tolist() == [False, True, True] + [False] * (len(table) - 3)


def test_a_chain_needs_equal_points_and_room_for_all_rows():
    for column, value in ((MAX_ROWS, 3), (IN_FLOAT32, 1), (2, 1)):
        pairs, table = chain("wine", [1.0, 2.0])
        table[0, IN_FLOAT32] = table[1, IN_FLOAT32] = 0
        table[1, column] = value
        with pytest.raises(ValueError, match="pair 1 must have all points of pair 0"):
            solved(pairs, table)
    table[0, CONTINUES] = 1
    with pytest.raises(ValueError, match="pair 0 must have"):
        solved(pairs, table)
