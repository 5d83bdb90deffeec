"""Repeated points are one variable: the same optimum, of the problem as given, through every argument of `solve`."""

import numpy as np
import pytest
import scipy.sparse

from dualflow import SVC, SVDD, SVR, Gram, certify, problems, solve
from dualflow.core import repeats
from dualflow.core.repeats import repeats_of
from dualflow.core.sparse_points import SparsePoints
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum

rng = np.random.default_rng(0)
X = rng.integers(0, 3, size=(1500, 3)).astype(float)
Y = np.where(X.sum(axis=1) + rng.standard_normal(1500) > 3, 1, -1)
T = np.round(X[:, 0] + 0.5 * rng.integers(0, 2, 1500), 1)
WEIGHTS = rng.uniform(0.1, 2.0, 1500)
GRAM = Gram(X, gamma=0.5)
PROBLEMS = {
    "svc": problems.svc(GRAM, Y, C=3.0),
    "weights": problems.svc(GRAM, Y, C=3.0, sample_weight=WEIGHTS),
    "no intercept": problems.svc(GRAM, Y, C=3.0, fit_intercept=False),
    "squared hinge": problems.svc(GRAM, Y, C=3.0, loss="squared_hinge"),
    "tube": problems.svr(GRAM, T, C=1.0, epsilon=0.1),
    "ball": problems.svdd(GRAM, nu=0.1),
    "linear": problems.svc(Gram(X, "linear"), Y, C=3.0),
}


@pytest.fixture
def unmerged(monkeypatch):
    def solved(*given, **options):
        with monkeypatch.context() as patch:
            patch.setattr(repeats, "MIN_VARIABLES", 1 << 40)
            return solve(*given, **options)

    return solved


@pytest.mark.parametrize("solver", ["working-set", "interior-point", "auto"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_optimum_is_that_of_the_problem_with_repeats(name, solver, unmerged):
    problem = PROBLEMS[name]
    found, wanted = solve(problem, solver, refine=True), unmerged(problem, solver, refine=True)
    assert found.problem is problem
    assert found.provenance["distinct_variables"] < 120
    assert "distinct_variables" not in wanted.provenance
    assert found.status.name == "OPTIMAL"
    f = wanted.certificate.objective
    assert abs(found.certificate.objective - f) <= 1e-10 * abs(f)
    again = certify(problem, found.alpha)  # of the problem as given, from scratch
    assert again.relative_gap <= 1e-10
    assert abs(again.objective - found.certificate.objective) <= 1e-12 * abs(f)
    np.testing.assert_allclose(found.decision_values(X[:50]), wanted.decision_values(X[:50]), atol=1e-7)
    np.testing.assert_array_equal(found.support, np.flatnonzero(found.alpha > 0))
    small = solve(repeats_of(problem).problem, solver, refine=True)
    assert found.cost.kernel_columns * problem.n == pytest.approx(small.cost.kernel_columns * small.problem.n)


@pytest.mark.parametrize("name", ["svc", "weights", "squared hinge", "tube"])
def test_it_is_the_optimum_of_an_independent_solver(name, monkeypatch):
    monkeypatch.setattr(repeats, "MIN_VARIABLES", 1)
    J = np.arange(80)
    gram = Gram(X[J], gamma=0.5)
    small = {
        "svc": lambda: problems.svc(gram, Y[J], C=3.0),
        "weights": lambda: problems.svc(gram, Y[J], C=3.0, sample_weight=WEIGHTS[J]),
        "squared hinge": lambda: problems.svc(gram, Y[J], C=3.0, loss="squared_hinge"),
        "tube": lambda: problems.svr(gram, np.round(T[J]), C=1.0, epsilon=0.1),
    }[name]()
    monkeypatch.setattr(repeats, "MAX_DISTINCT_SHARE", 0.99)
    found = solve(small, refine=True)
    assert found.provenance["distinct_variables"] < small.n
    wanted, _ = coneqp_optimum(QuadraticProgram(small.dense(), small.p, small.upper, small.e, small.d))
    assert abs(found.certificate.objective - wanted) <= 1e-7 * abs(wanted)


def test_equal_variables_share_in_proportion_to_their_bounds_and_bounds_stay_bits():
    problem = PROBLEMS["weights"]
    merged, alpha = repeats_of(problem), solve(problem, refine=True).alpha
    for k in range(merged.problem.n):
        members = np.flatnonzero(merged.group == k)
        assert len({(*X[i], Y[i]) for i in members}) == 1
        np.testing.assert_allclose(
            alpha[members] / problem.upper[members], alpha[members[0]] / problem.upper[members[0]]
        )
    small = solve(merged.problem, refine=True).alpha
    np.testing.assert_array_equal(alpha[(small == 0)[merged.group]], 0.0)
    full = (small == merged.problem.upper)[merged.group]
    assert full.any()
    np.testing.assert_array_equal(alpha[full], problem.upper[full])
    summed = merged.summed(alpha)
    np.testing.assert_allclose(merged.spread(summed), alpha, rtol=1e-12)


def test_callback_trajectory_warm_start_and_steps_are_of_the_problem_as_given(unmerged):
    problem = PROBLEMS["squared hinge"]
    seen = []
    watched = solve(problem, "working-set", callback=seen.append, trajectory=True, refine=True)
    plain = solve(problem, "working-set", refine=True)
    np.testing.assert_array_equal(watched.alpha, plain.alpha)
    assert seen
    assert all(progress.alpha.shape == (problem.n,) for progress in seen)
    assert all(progress.certificate.alpha.shape == (problem.n,) for progress in seen)
    assert watched.trajectory.alpha.shape == (len(watched.trajectory.t), problem.n)
    warm = solve(problem, "working-set", warm=plain)
    assert warm.certificate.relative_gap <= 1e-6
    wanted = unmerged(problem, "working-set", refine=True)
    np.testing.assert_allclose(warm.certificate.objective, wanted.certificate.objective, rtol=1e-6)


def test_an_interrupt_carries_a_solution_of_the_problem_as_given():
    def interrupt(progress):
        raise KeyboardInterrupt

    problem = PROBLEMS["squared hinge"]
    with pytest.raises(KeyboardInterrupt) as caught:
        solve(problem, "working-set", callback=interrupt)
    assert caught.value.solution.problem is problem
    assert caught.value.solution.alpha.shape == (problem.n,)
    kept = solve(problem, "working-set", callback=interrupt, on_interrupt="keep")
    assert kept.ended.name == "INTERRUPTED"
    assert kept.alpha.shape == (problem.n,)


def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path):
    problem, file = PROBLEMS["squared hinge"], tmp_path / "run.npz"
    wanted = solve(problem, "interior-point", tol=1e-9)
    solve(problem, "interior-point", tol=1e-9, max_steps=3, checkpoint=file)
    assert file.exists()
    resumed = solve(problem, "interior-point", tol=1e-9, checkpoint=file)
    np.testing.assert_array_equal(resumed.alpha, wanted.alpha)


def test_provenance_repeats_it_to_the_bit():
    solution = solve(PROBLEMS["svc"], refine=True)
    again = solve(solution.problem, **solution.provenance_as_arguments())
    np.testing.assert_array_equal(again.alpha, solution.alpha)


def test_weights_of_zero_and_bounds_without_end(unmerged):
    weights = WEIGHTS * (np.arange(1500) % 5 > 0)
    weights[(X == 0).all(axis=1)] = 0.0  # a place that has no weight at all
    problem = problems.svc(GRAM, Y, C=3.0, sample_weight=weights)
    found, wanted = solve(problem, refine=True), unmerged(problem, refine=True)
    assert (found.alpha[weights == 0] == 0).all()
    np.testing.assert_allclose(found.certificate.objective, wanted.certificate.objective, rtol=1e-10)
    apart = np.where(X[:, 0] > 0, 1, -1)
    hard = problems.svc(Gram(X, "linear"), apart, C=np.inf)
    found, wanted = solve(hard, refine=True), unmerged(hard, refine=True)
    np.testing.assert_allclose(found.certificate.objective, wanted.certificate.objective, rtol=1e-9)
    assert certify(hard, found.alpha).relative_gap <= 1e-9


def test_least_squares_given_matrices_sparse_rows_and_few_repeats_are_left_alone():
    assert repeats_of(problems.least_squares(GRAM, Y, C=1.0)) is None
    assert repeats_of(problems.svc(Gram.precomputed(GRAM.full()), Y)) is None
    rows = scipy.sparse.random_array((30, 2000), density=0.01, format="csr", random_state=np.random.default_rng(0))
    sparse = Gram(scipy.sparse.csr_array(rows[np.arange(1500) % 30]), gamma=0.5)
    assert isinstance(sparse.X, SparsePoints)
    assert repeats_of(problems.svc(sparse, Y)) is None
    assert repeats_of(problems.svc(Gram(X, lambda A, B: A @ B.T), Y)) is None
    different = np.random.default_rng(1).standard_normal((1500, 3))
    assert repeats_of(problems.svc(Gram(different), Y)) is None
    nearly = np.concatenate([different, different[:400]])  # 1500 different ones of 1900
    assert repeats_of(problems.svc(Gram(nearly), np.concatenate([Y, Y[:400]]))) is None


@pytest.mark.parametrize("order", ["next to each other", "a block after the other"])
def test_pairs_of_equal_points_are_found_wherever_they_are(order):
    different = np.random.default_rng(1).standard_normal((1500, 3))
    repeat = (
        np.repeat if order == "next to each other" else lambda values, k, axis=0: np.concatenate([values] * k, axis)
    )
    merged = repeats_of(problems.svc(Gram(repeat(different, 2, axis=0)), repeat(Y, 2, axis=0)))
    assert merged.problem.n == 1500
    np.testing.assert_array_equal(merged.problem.upper, 2.0)


def test_rows_of_one_hash_that_differ_are_not_merged(monkeypatch):
    monkeypatch.setattr(repeats, "hash_rows", lambda rows, *given: np.zeros(len(rows), np.uint64))
    assert repeats_of(PROBLEMS["svc"]) is None


def test_zero_and_minus_zero_are_one_place():
    signed = np.where(np.arange(1500)[:, None] % 2, X, -X * (X > 0)) * (X == 0) + X
    signed[::2][X[::2] == 0] = -0.0
    merged = repeats_of(problems.svc(Gram(signed, gamma=0.5), Y))
    assert merged.problem.n == repeats_of(PROBLEMS["svc"]).problem.n


def test_estimators_have_every_point_and_the_callers_arrays_stay():
    given = X.copy()
    model = SVC(C=3.0, gamma=0.5).fit(given, Y)
    np.testing.assert_array_equal(given, X)
    assert model.solution_.provenance["distinct_variables"] < 60
    assert len(model.support_) == np.count_nonzero(model.solution_.alpha)
    assert model.score(X, Y) == np.mean(np.sign(model.solution_.decision_values(X)) == Y)
    assert SVR(C=1.0, gamma=0.5).fit(X, T).solution_.provenance["distinct_variables"] < 120
    assert SVDD(nu=0.1, gamma=0.5).fit(X).solution_.provenance["distinct_variables"] == 27
