"""Small data descriptions are solved with the kernel rows they need, without a run: cvxopt's results, certified."""

import pickle

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_digits, load_iris, make_moons

from dualflow import SVDD, Gram, OneClassSVM, certify, problems, solve
from dualflow.direct import from_points
from dualflow.direct.simplex import simplex_from_points, suits_simplex_points
from dualflow.driver import solve as solve_module
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum, rbf_kernel
from tests.thresholds import USUAL, fits_with

RNG = np.random.default_rng(0)
SETS = {
    "iris": load_iris().data,
    "moons": make_moons(1500, noise=0.1, random_state=0)[0],
    "repeated": np.repeat(load_digits().data[:60], 5, axis=0),
    "heavy tails": RNG.standard_cauchy((400, 3)),
    "one point": np.ones((20, 2)),
    "two": np.array([[0.0, 1.0], [2.0, 0.0]]),
}


@pytest.fixture
def no_runs(monkeypatch):
    def refuse(*given, **options):
        raise AssertionError("a run was made")

    monkeypatch.setattr(solve_module, "Run", refuse)


NUS = [(name, nu) for name in SETS for nu in (0.01, 0.1, 0.6, 1.0, None) if name != "moons" or nu in (0.01, 0.1, None)]


@pytest.mark.parametrize(("name", "nu"), NUS)
def test_the_certificate_is_that_of_a_fresh_look(name, nu, no_runs):
    X = SETS[name]
    weight = None if nu is None else RNG.uniform(0.5, 2.0, len(X))
    model = SVDD(nu=nu, gamma=0.7).fit(X, sample_weight=weight)
    solution = model.solution_
    assert model.fit_status_ == 0
    assert not solution.refined
    again = certify(problems.svdd(Gram(X, gamma=0.7), nu, sample_weight=weight), solution.raw_alpha)
    assert again.relative_gap == solution.certificate.relative_gap <= 1e-11
    np.testing.assert_array_equal(again.alpha, solution.certificate.alpha)
    assert again.infeasibility <= 1e-12
    assert solution.cost.kernel_columns <= len(X)
    assert solution.cost.wall_time_s > 0
    assert solution.cost.certify_time_s > 0


@pytest.mark.parametrize("nu", [0.02, 0.3])
@pytest.mark.parametrize("name", ["iris", "heavy tails"])
def test_the_optimum_is_cvxopts(name, nu, no_runs):
    X = SETS[name]
    K, n = rbf_kernel(X, 0.7), len(X)
    optimum, _ = coneqp_optimum(QuadraticProgram(2 * K, np.ones(n), np.full(n, 1 / (nu * n)), np.ones(n), 1.0))
    assert SVDD(nu=nu, gamma=0.7).fit(X).solution_.certificate.objective == pytest.approx(optimum, abs=1e-8)


def test_one_class_is_libsvms(no_runs):
    X = SETS["moons"]
    model, theirs = OneClassSVM(nu=0.02).fit(X), svm.OneClassSVM(nu=0.02, tol=1e-10).fit(X)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert model.solution_.certificate.relative_gap <= 1e-11


@pytest.mark.parametrize("nu", [0.01, 0.05])
def test_violators_missed_by_float32_rows_join_the_working_set(nu, monkeypatch, no_runs):
    X = SETS["moons"]
    right = SVDD(nu=nu).fit(X)
    looks, look = [], from_points.PointSearch.extend

    def noted(search, sums):
        looks.append(look(search, sums))
        return looks[-1]

    fits_with(monkeypatch, min_rows_float32=0)
    monkeypatch.setattr(from_points, "MIN_KKT_FLOAT32", 0.005)
    monkeypatch.setattr(from_points, "nearly_free", lambda free, wish, margin: np.flatnonzero(free))
    monkeypatch.setattr(from_points.PointSearch, "extend", noted)
    model = SVDD(nu=nu).fit(X)
    assert any(looks)
    assert model.certificate_.relative_gap <= 1e-10
    np.testing.assert_array_equal(model.support_, right.support_)
    np.testing.assert_allclose(model.solution_.alpha, right.solution_.alpha, atol=1e-8)


def test_few_support_vectors_take_few_kernel_rows(no_runs):
    model = SVDD(nu=0.01).fit(SETS["moons"])
    few = len(model.support_)
    assert 15 <= few < 40
    assert few <= model.solution_.cost.kernel_columns <= 4 * few


def test_all_rows_are_made_in_one_batch_up_to_a_number_of_points(monkeypatch, no_runs):
    X = RNG.normal(size=(300, 5))
    model = SVDD(nu=0.5).fit(X)
    assert model.solution_.cost.kernel_columns == len(X)
    fits_with(monkeypatch, max_row_share=1)
    one_by_one = SVDD(nu=0.5).fit(X)
    assert one_by_one.solution_.cost.kernel_columns < len(X)
    np.testing.assert_allclose(one_by_one.score_samples(X), model.score_samples(X), atol=1e-9)


def test_problems_that_need_more_rows_are_left_to_a_run():
    X = RNG.normal(size=(1200, 40))  # nearly all points are support vectors
    problem = problems.svdd(Gram(X, gamma=1.0), 0.01)
    assert suits_simplex_points(problem)
    assert simplex_from_points(problem, 1e-10) is None
    model = SVDD(nu=0.01, gamma=1.0).fit(X)
    assert model.solution_.certificate.relative_gap <= 1e-9
    assert len(model.support_) > 1000


@pytest.mark.parametrize(
    ("problem", "suits"),
    [
        (problems.svdd(Gram(SETS["moons"]), 0.05), True),
        (problems.svdd(Gram(SETS["moons"])), True),
        (problems.one_class(Gram(SETS["moons"]), 0.05), True),
        (problems.svdd(Gram(SETS["moons"]), 0.6), False),
        (problems.svdd(Gram(SETS["iris"], "linear"), 0.5), False),
        (problems.svdd(Gram(SETS["iris"], "poly"), 0.5), False),
        (problems.svdd(Gram(SETS["iris"]), 0.5, ridge=0.1), False),
        (problems.svc(Gram(SETS["iris"]), 2 * (np.arange(150) % 2) - 1, 1.0), False),
        (problems.svdd(Gram(RNG.normal(size=(USUAL.max_simplex_numbers // 50, 50))), 0.01), False),
        (problems.svdd(Gram(RNG.normal(size=(USUAL.max_simplex_points, 1))), 0.01), True),
        (problems.svdd(Gram(RNG.normal(size=(USUAL.max_simplex_points + 1, 1))), 0.01), False),
        (problems.svdd(Gram(RNG.normal(size=(USUAL.max_simplex_points, 1))), 0.1), False),
        (problems.svdd(Gram(RNG.normal(size=(300, 65))), 0.01), False),
    ],
)
def test_the_problems_that_take_this_way(problem, suits):
    assert suits_simplex_points(problem) is suits


@pytest.mark.parametrize(
    "options",
    [{"solver": "smo"}, {"max_iter": 5}, {"solver_options": {"gap_tol": 1e-9}}],
)
def test_other_options_take_a_run(options, no_runs):
    with pytest.raises(AssertionError, match="a run was made"):
        SVDD(**options).fit(SETS["iris"])


@pytest.mark.parametrize("name", ["moons", "iris"])
def test_unrefined_results_are_the_same(name, no_runs):
    raw, refined = (SVDD(nu=0.01, refine=refine).fit(SETS[name]).solution_ for refine in (False, True))
    assert not raw.refined
    assert raw.provenance["refine"] is False
    assert refined.provenance["refine"] == "early"
    np.testing.assert_array_equal(raw.alpha, refined.alpha)


def test_the_result_equals_a_runs_solution(tmp_path):
    X = SETS["iris"]
    model = SVDD(nu=0.2, verbose=True, time_limit=60.0).fit(X)
    run = solve(problems.svdd(Gram(X), 0.2), refine=True)
    np.testing.assert_array_equal(model.solution_.support, run.support)
    np.testing.assert_allclose(model.solution_.alpha, run.alpha, atol=1e-9)
    assert model.radius_ == pytest.approx(run.certificate.radius, rel=1e-12)
    assert model.solution_.provenance["solver"] == "working-set"
    assert "OPTIMAL" in repr(model.solution_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_ctrl_c_is_handled_as_in_a_run(monkeypatch):
    from dualflow.direct import pairs

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(pairs, "simplex_from_points", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SVDD(nu=0.2).fit(SETS["iris"])
    with pytest.warns(UserWarning, match="nterrupted"):
        model = SVDD(nu=0.2, on_interrupt="keep").fit(SETS["iris"])
    assert model.solution_.ended.name == "INTERRUPTED"
