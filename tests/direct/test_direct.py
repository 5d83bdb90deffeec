"""The direct lane of the driver: the same bits by every call, a strategy that the provenance names and repeats."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_blobs, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning

from dualflow import (
    SMO,
    SVC,
    SVDD,
    DirectResult,
    Gram,
    OneClassSVM,
    ProblemError,
    Status,
    WorkingSet,
    certify,
    problems,
    solve,
)
from dualflow.core.problem import DualProblem
from dualflow.direct.whole import suits_whole

SIZES = (8, 50, 200, 700, 1000)


def moons(n):
    X, y = make_moons(n, noise=0.25, random_state=n)
    return X, y, problems.svc(Gram(X), 2.0 * y - 1.0, 10.0)


def read(model):
    solution = model.solutions_[0]
    return [
        model.support_,
        model.dual_coef_,
        getattr(model, "intercept_", np.zeros(0)),
        solution.alpha,
        solution.raw_alpha,
        np.array([solution.certificate.objective, solution.certificate.lower_bound, solution.bias]),
    ]


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n", SIZES)
def test_every_door_gives_the_same_bits(n):
    X, y, problem = moons(n)
    expected = SVC(C=10.0).fit(X, y)
    ways = [
        SVC(C=10.0, solver="working-set"),
        SVC(C=10.0, solver=WorkingSet()),
        SVC(C=10.0, callback=lambda progress: False),
        SVC(C=10.0, max_steps=100),
        SVC(C=10.0, time_limit=1000.0),
        SVC(C=10.0, on_interrupt="keep"),
        SVC(C=10.0, warm_start=True),
    ]
    for model in ways:
        assert_same(read(model.fit(X, y)), read(expected))
    for refine in (True, "early"):
        solution = solve(problem, "working-set", refine=refine)
        np.testing.assert_array_equal(solution.alpha, expected.solution_.alpha)
        assert solution.bias == expected.intercept_[0]
        assert solution.certificate.gap == expected.certificate_.gap
        np.testing.assert_array_equal(solution.support, expected.solution_.support)


def test_every_door_gives_the_same_bits_where_a_run_takes_over():
    X, y = make_classification(1400, 30, n_informative=15, flip_y=0.3, random_state=0)
    problem = problems.svc(Gram(X), 2.0 * y - 1.0, 100.0)
    expected = SVC(C=100.0).fit(X, y)
    assert expected.solution_.provenance["strategy"] == "blocks"
    for options in ({"solver": WorkingSet()}, {"solver": "working-set"}, {"max_steps": 1000}):
        assert_same(read(SVC(C=100.0, **options).fit(X, y)), read(expected))
    for refine in (True, "early"):
        np.testing.assert_array_equal(solve(problem, refine=refine).alpha, expected.solution_.alpha)
    again = solve(problem, **expected.solution_.provenance_as_arguments())
    np.testing.assert_array_equal(again.alpha, expected.solution_.alpha)


@pytest.mark.parametrize("estimator", [SVDD, OneClassSVM])
def test_every_door_to_a_description_gives_the_same_bits(estimator):
    X, _ = make_blobs(400, 3, centers=2, random_state=0)
    expected = estimator(nu=0.05).fit(X)
    assert expected.solution_.provenance["strategy"] == "direct"
    for options in ({"solver": WorkingSet()}, {"callback": lambda progress: False}, {"max_steps": 9}):
        assert_same(read(estimator(nu=0.05, **options).fit(X)), read(expected))
    solution = solve(expected.solution_.problem, refine=True)
    np.testing.assert_array_equal(solution.alpha, expected.solution_.alpha)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "one that is called"])
@pytest.mark.parametrize("classes", [3, 5, 10])
def test_doors_to_several_classes_give_the_same_bits(classes, kernel):
    X, y = make_blobs(300, 3, centers=classes, cluster_std=4.0, random_state=0)
    given = {"kernel": kernel if " " not in kernel else lambda A, B: np.exp(-0.1 * abs(A[:, None] - B).sum(axis=2))}
    expected, seen = SVC(**given).fit(X, y), []
    ways = [
        {"solver": "working-set"},
        {"solver": WorkingSet()},
        {"callback": seen.append},
        {"max_steps": 9999},
        {"time_limit": 1000.0},
        {"on_interrupt": "keep"},
        {"n_jobs": 2},
    ]
    for options in ways:
        assert_same(read(SVC(**given, **options).fit(X, y)), read(expected))
    strategies = {solution.provenance["strategy"] for solution in expected.solutions_}
    if " " not in kernel:
        assert strategies == {"batch"}
        assert len(seen) == classes * (classes - 1) // 2
        for progress, solution in zip(seen, expected.solutions_, strict=True):
            np.testing.assert_array_equal(progress.alpha, solution.raw_alpha)
            assert progress.certificate.gap == solution.certificate.gap


def test_doors_give_the_same_bits_where_some_pairs_need_a_run():
    X, y = make_classification(1700, 20, n_informative=10, n_redundant=0, flip_y=0.6, random_state=0)
    X[:60], y[:60] = X[:60] + 3.0, 2  # few, and away from the others
    given = {"C": 100.0}
    expected = SVC(**given).fit(X, y)
    assert [solution.provenance["strategy"] for solution in expected.solutions_] == ["blocks", "batch", "batch"]
    for options in ({"solver": "working-set"}, {"solver": WorkingSet()}, {"callback": lambda progress: False}):
        assert_same(read(SVC(**given, **options).fit(X, y)), read(expected))


def test_what_a_callback_raises_carries_the_solution_of_its_pair():
    X, y = make_blobs(100, 3, centers=4, cluster_std=4.0, random_state=0)
    solutions, calls = SVC().fit(X, y).solutions_, []

    def fail(progress):
        calls.append(progress)
        if len(calls) == 3:
            raise KeyboardInterrupt

    for options in ({}, {"time_limit": 1000.0}):
        calls.clear()
        with pytest.raises(KeyboardInterrupt) as found:
            SVC(callback=fail, **options).fit(X, y)
        assert len(calls) == 3
        np.testing.assert_array_equal(found.value.solution.alpha, solutions[2].alpha)
        assert found.value.solution.ended is Status.INTERRUPTED
    calls.clear()
    with pytest.warns(ConvergenceWarning):
        kept = SVC(callback=fail, on_interrupt="keep").fit(X, y).solutions_
    ended = [solution.ended for solution in kept]
    assert ended[:3] == [Status.OPTIMAL, Status.OPTIMAL, Status.INTERRUPTED]
    assert set(ended[3:]) <= {Status.OPTIMAL, Status.INTERRUPTED}  # some need a single step
    np.testing.assert_array_equal(kept[2].alpha, solutions[2].alpha)


@pytest.mark.parametrize("n", [50, 200, 1000, 3000])
def test_the_provenance_repeats_a_solution_to_the_bit(n):
    X, y, problem = moons(n)
    fitted = SVC(C=10.0, random_state=3).fit(X, y).solution_
    for solution in (fitted, solve(problem), solve(problem, refine=True), solve(problem, gap_tol=1e-4, tol=1e-4)):
        again = solve(solution.problem, **solution.provenance_as_arguments())
        np.testing.assert_array_equal(again.alpha, solution.alpha)
        np.testing.assert_array_equal(again.raw_alpha, solution.raw_alpha)
        assert again.provenance == solution.provenance
        assert again.certificate.gap == solution.certificate.gap
    assert fitted.provenance["seed"] == 3


def test_the_provenance_names_the_strategy():
    _, _, small = moons(60)
    _, _, large = moons(2500)
    gram, signs = small.gram, small.sigma
    assert solve(small).provenance["strategy"] == "direct"
    assert solve(small, gap_tol=5e-7, hand_over=True, refine="early").provenance["strategy"] == "whole"
    assert solve(small, gap_tol=5e-7).provenance["strategy"] == "blocks"
    assert solve(problems.svc(gram, signs, fit_intercept=False)).provenance["strategy"] == "direct"
    assert solve(problems.svc(large.gram, large.sigma, fit_intercept=False)).provenance["strategy"] == "blocks"
    assert solve(large, kkt_tol=1e-3).provenance["strategy"] == "blocks"
    assert solve(small, SMO()).provenance["strategy"] == "smo"


def test_a_provenance_that_does_not_say_all_is_refused():
    _, _, problem = moons(20)
    solution = solve(problem, random_state=np.random.default_rng(0))
    with pytest.raises(ProblemError, match="random_state was a generator"):
        solution.provenance_as_arguments()


def test_a_default_fit_passes_through_solve():
    X, y, _ = moons(100)
    seen, before = set(), sys.getprofile()

    def look(frame, event, argument):
        if event == "call" and "dualflow" in frame.f_code.co_filename:
            seen.add((frame.f_globals["__name__"], frame.f_code.co_name))

    sys.setprofile(look)
    try:
        SVC().fit(X, y)
        SVDD(nu=0.1).fit(X)
    finally:
        sys.setprofile(before)
    assert {
        ("dualflow.driver.solve", "solve"),
        ("dualflow.solvers.working_set", "solve_directly"),
        ("dualflow.problems.classification", "hinge"),
        ("dualflow.direct.pairs", "solve_directly"),
    } <= seen


def test_a_default_fit_moves_between_few_files():
    X = np.random.default_rng(0).normal(size=(200, 4))
    y, calls, before = (X[:, 0] > 0).astype(int), [], sys.getprofile()
    SVC().fit(X, y)

    def look(frame, event, argument):
        if event == "call" and "dualflow" in (name := frame.f_code.co_filename) and name != __file__:
            calls.append(name)

    sys.setprofile(look)
    try:
        SVC().fit(X, y)
    finally:
        sys.setprofile(before)
    moves = [name for name, last in zip(calls, ["", *calls], strict=False) if name != last]
    files = set(moves)
    assert len(files) <= 20
    assert len(moves) - len(files) <= 25  # to files that were left before


def test_a_callback_sees_the_direct_result_once():
    _, _, problem = moons(300)
    seen = []
    solution = solve(problem, refine=True, callback=seen.append)
    (progress,) = seen
    assert progress.step == 1
    np.testing.assert_array_equal(progress.alpha, solution.raw_alpha)
    assert progress.certificate.gap == solution.certificate.gap
    assert solution.cost.steps == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_a_callback_raises_carries_the_solution(error):
    _, _, problem = moons(100)

    def raises(progress):
        raise error

    with pytest.raises(error) as caught:
        solve(problem, callback=raises)
    assert caught.value.solution.ended is Status.INTERRUPTED
    assert caught.value.solution.certificate.gap >= 0.0
    if error is KeyboardInterrupt:
        kept = solve(problem, callback=raises, on_interrupt="keep")
        assert kept.ended is Status.INTERRUPTED


def test_a_trajectory_has_the_start_and_the_direct_answer():
    _, _, problem = moons(100)
    solution = solve(problem, trajectory=True)
    path = solution.trajectory
    np.testing.assert_array_equal(path.alpha, [np.zeros(100), solve(problem).alpha])
    np.testing.assert_array_equal(path.t, [0.0, 1.0])
    assert path.objective[1] == solution.certificate.objective


def test_no_time_is_left_to_a_run():
    _, _, problem = moons(100)
    assert solve(problem, time_limit=1e-9).ended is Status.TIME_LIMIT


def test_points_without_weight_are_no_part_of_it():
    X, y, _ = moons(200)
    weight = np.ones(200)
    weight[::3] = 0.0
    kept = weight > 0
    model = SVC(C=10.0, gamma=1.0).fit(X, y, weight)
    alone = SVC(C=10.0, gamma=1.0).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.solution_.alpha, alone.solution_.alpha, atol=1e-9)
    assert model.solution_.provenance["strategy"] == "direct"


@dataclass(frozen=True)
class Oracle(SMO):
    """A solver of anybody's with a direct way of its own, right or wrong by so much."""

    wrong_by: float = 0.0
    name: ClassVar[str] = "oracle"

    def solve_directly(self, problem, tol, refine):
        assert type(problem) is DualProblem
        alpha = solve(problem, "working-set", refine=True).alpha
        return DirectResult(alpha * (1.0 - self.wrong_by), "revelation", 7.0)


def test_any_solver_may_offer_a_direct_way():
    _, _, problem = moons(60)
    solution = solve(problem, Oracle(), refine=True)
    assert solution.provenance["strategy"] == "revelation"
    assert solution.cost.kernel_columns == 7.0
    assert solution.status is Status.OPTIMAL
    assert len(solution.support) == np.count_nonzero(solution.alpha)


def test_a_direct_result_is_believed_by_its_certificate_alone():
    _, _, problem = moons(60)
    solution = solve(problem, Oracle(wrong_by=0.1))
    assert solution.provenance["strategy"] == "oracle"
    assert solution.certificate.relative_gap <= 1e-6


@dataclass(frozen=True)
class Forger(WorkingSet):
    """A solver from outside whose result brings a certificate along that is not its own."""

    name: ClassVar[str] = "forger"

    def solve_directly(self, problem, tol, refine):
        found = super().solve_directly(problem, tol, refine)
        found.__dict__["alpha"] = 0.5 * found.alpha
        return found


def test_a_certificate_that_a_solver_from_outside_brings_is_not_believed():
    _, _, problem = moons(60)
    solution = solve(problem, Forger())
    assert solution.provenance["strategy"] != "direct"
    assert certify(problem, solution.raw_alpha).relative_gap <= 1e-6


@dataclass(frozen=True)
class Careless(SMO):
    """Returns α itself."""

    name: ClassVar[str] = "careless"

    def solve_directly(self, problem, tol, refine):
        return np.zeros(problem.n)


def test_what_is_no_direct_result_is_an_error_that_says_so():
    with pytest.raises(TypeError, match="'careless' returned ndarray; return a DirectResult or None"):
        solve(moons(60)[2], Careless())


def test_a_solution_keeps_what_it_is_when_it_is_copied():
    import copy
    import pickle

    _, _, problem = moons(60)
    solution = solve(problem)
    for other in (copy.deepcopy(solution), pickle.loads(pickle.dumps(solution)), solution.without_problem()):
        np.testing.assert_array_equal(other.alpha, solution.alpha)
        np.testing.assert_array_equal(other.support, solution.support)
        assert other.certificate.gap == solution.certificate.gap
        assert other.status is Status.OPTIMAL
        assert other.provenance == solution.provenance
        assert other.cost == solution.cost


@pytest.mark.parametrize("sparse", [False, True])
def test_pairs_with_expensive_rows_and_low_bounds_are_solved_from_their_matrix(sparse):
    """And those with high bounds over the whole matrix at once; both come to the optimum."""
    points = np.random.default_rng(3)
    X = (
        points.standard_normal((700, 1600)) * (points.random((700, 1600)) < 0.02)
        if sparse
        else points.normal(size=(700, 1600))
    )
    y = np.where(X[:, :20].sum(axis=1) + 0.1 * points.standard_normal(700) > 0, 1, -1)
    gram = Gram(scipy.sparse.csr_array(X) if sparse else X, gamma=1.0 / X.var() / 1600)
    for C, gap in ((10.0, 1e-10), (100.0, 1e-9)):
        found = solve(problems.svc(gram, y, C=C), "working-set", refine=True)
        assert found.provenance["strategy"] == "direct"
        wanted = solve(problems.svc(gram, y, C=C), "interior-point", refine=True).certificate.objective
        assert abs(found.certificate.objective - wanted) <= 1e-9 * abs(wanted)
        assert certify(found.problem, found.alpha).relative_gap <= gap


@pytest.mark.parametrize(
    ("C", "flip_y", "class_sep", "expected"), [(1, 0.3, 1, True), (10, 0.3, 1, False), (1, 0, 6, False)]
)
def test_the_whole_matrix_is_for_small_bounds_and_many_support_vectors(C, flip_y, class_sep, expected):
    X, y = make_classification(1400, 80, n_informative=40, flip_y=flip_y, class_sep=class_sep, random_state=0)
    problem = problems.svc(Gram(X), 2.0 * y - 1.0, float(C))
    assert suits_whole(problem) is expected
    found = SVC(C=C).fit(X, y)
    assert (len(found.support_) > 700) is (flip_y > 0)  # what the samples of 128 and 256 points have to say
    assert certify(problem, found.solution_.alpha).relative_gap <= 1e-9
