"""Certificates use products from scratch; refinements reach the optimum from rough and wrong starts."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification

from dualflow import Gram, certify, problems, solve
from dualflow.core.certificate import Certifier
from dualflow.core.decision import coefficients
from dualflow.core.kernel_cache import KeptGram
from dualflow.core.solution import Status
from dualflow.core.workspace import Workspace
from dualflow.refinement.refine import refine
from tests.combinations import covering

X, T = make_classification(600, 100, n_informative=10, class_sep=2.0, random_state=0)
Y = 2.0 * T - 1
PROBLEMS = {
    "hinge": lambda g: problems.svc(g, Y, 1.0),
    "no bias": lambda g: problems.svc(g, Y, 1.0, fit_intercept=False),
    "weighted": lambda g: problems.svc(g, Y, 1.0, sample_weight=np.linspace(0.5, 2.0, 600)),
    "squared hinge": lambda g: problems.svc(g, Y, 1.0, loss="squared_hinge"),
    "ball": lambda g: problems.svdd(g, 0.1),
    "svr": lambda g: problems.svr(g, np.sin(X[:, 0]), 1.0, epsilon=0.5),
}
#: Radial kernels of many features, of few, and kernels that are neither.
GRAMS = {
    "many": lambda: Gram(X, gamma=0.005),
    "few": lambda: Gram(X[:, :20], gamma=0.02),
    "linear": lambda: Gram(X[:, :20], kernel="linear"),
    "precomputed": lambda: Gram.precomputed(Gram(X[:, :20], gamma=0.02).full()),
}


def optimal(problem, alpha, multiplier, tolerance=1e-8):
    """The KKT conditions, from dense matrices."""
    rho = problem.dense() @ alpha - problem.p
    if problem.e is not None:
        rho -= multiplier * problem.e
    size = np.abs(problem.dense()).max() * np.abs(alpha).sum() + np.abs(problem.p).max()
    assert (rho[alpha <= 0] >= -tolerance * size).all()
    assert (rho[alpha >= problem.upper] <= tolerance * size).all()
    assert np.abs(rho[(alpha > 0) & (alpha < problem.upper)]).max(initial=0.0) <= tolerance * size


@pytest.mark.parametrize("gram", GRAMS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_whole_solve_ends_at_the_optimum(name, gram):
    problem = PROBLEMS[name](GRAMS[gram]())
    solution = solve(problem, refine="early", tol=1e-9)
    assert solution.certificate.relative_gap <= 1e-9
    optimal(problem, solution.alpha, solution.certificate.multiplier)


@pytest.mark.parametrize(
    ("wrong", "name", "gram"), covering([0.0, 1e-6, 1e-2, 1e3], ["hinge", "ball", "svr"], list(GRAMS))
)
def test_a_wrong_gradient_costs_time_and_nothing_else(name, gram, wrong):
    problem, rng = PROBLEMS[name](GRAMS[gram]()), np.random.default_rng(0)
    start = solve(problem, tol=1e-2).raw_alpha
    gradient = problem.gradient(start) * (1 + wrong * rng.normal(size=problem.n))
    certifier = Certifier(problem)
    refinement = refine(problem, start, certifier=certifier, gradient=gradient)
    assert refinement.converged
    certificate = certifier.certify(refinement.alpha)
    assert certificate.relative_gap <= 1e-9
    optimal(problem, certificate.alpha, certificate.multiplier)


@pytest.mark.parametrize("name", PROBLEMS)
def test_certificates_do_not_depend_on_earlier_ones(name):
    problem, rng = PROBLEMS[name](Gram(X[:, :20], gamma=0.02)), np.random.default_rng(1)
    certifier = Certifier(problem)
    for _ in range(4):
        alpha = problem.project(rng.random(problem.n))
        found, expected = certifier.certify(alpha), certify(problem, alpha)
        assert found.relative_gap == expected.relative_gap
        assert found.bias == expected.bias
        np.testing.assert_array_equal(certifier.compute(found.alpha), problem.product(found.alpha))
        assert certifier.certify(alpha) is found  # the same α again costs nothing
        alpha[0] += 1e-3  # the caller's array is not what is remembered
        assert certifier.certify(alpha) is not found


@pytest.mark.parametrize("refine", [False, True])
def test_a_plane_through_the_origin_is_an_optimum_and_said_to_be(refine):
    """f* is 0, and all that is computed of it is round-off, whose parts have no meaning."""
    Z = np.random.default_rng(0).normal(size=(50, 3))
    solution = solve(problems.one_class(Gram(Z, "linear"), 0.5), refine=refine)
    assert abs(solution.certificate.objective) < 1e-15
    assert solution.certificate.relative_gap == 0.0
    assert solution.status is Status.OPTIMAL


def test_a_plane_next_to_the_origin_is_not_the_optimum():
    """f* is 1e-10 of its terms, which is far from their round-off."""
    Z = np.array([[1e-5, 1.0], [1e-5, -1.0], [1e-5, 0.5], [2e-5, -0.5]])
    problem = problems.one_class(Gram(Z, "linear"), 0.5)
    assert certify(problem, [0.5, 0.5, 0.0, 0.0]).relative_gap < 1e-5
    assert certify(problem, [0.25, 0.25, 0.0, 0.5]).relative_gap > 0.1


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 25, 36, 126])
def test_points_of_tiny_weights_do_not_hide_how_far_others_are_from_their_optimum(seed):
    """Their ridges, 1/(2Cw), are a million times as large as all else, and shift no linear system: a shift of their
    size makes the last steps crawl, and they end at 4e-9 with the last three seeds."""
    rng = np.random.default_rng(seed)
    weight = 10.0 ** rng.uniform(-6, 6, size=600)
    problem = problems.svc(Gram(1e-3 * X[:, :2], "linear"), Y, 1e-3, loss="squared_hinge", sample_weight=weight)
    assert solve(problem, refine=True).certificate.relative_gap < 1e-10


def test_margins_of_the_squared_hinge_are_short_of_1_by_what_slack_explains_alone():
    """A large C makes the square of what a tiny gap leaves a loss."""
    gram, rng = Gram(X[:60, :20], gamma=0.02), np.random.default_rng(0)
    for C, stretched in ((1.0, False), (1e12, True)):
        problem = problems.svc(gram, Y[:60], C, loss="squared_hinge")
        alpha = solve(problem, refine=True).alpha
        rough = certify(problem, alpha * (1 + 1e-9 * rng.normal(size=60)))
        assert 1e-10 < rough.relative_gap < 1e-6
        coef = coefficients(problem, rough)
        assert rough.bias == pytest.approx(coef.sum(), rel=1e-14)
        margins = Y[:60] * ((gram.full() + 1.0) @ coef) + np.abs(coef) / (2.0 * C)
        assert (margins.min() > 1 - 1e-13) == stretched
        if not stretched:
            assert np.array_equal(coef, Y[:60] * rough.alpha / rough.quadratic)
    far = certify(problem, np.full(60, 1 / 60))
    assert np.array_equal(coefficients(problem, far), Y[:60] * far.alpha / far.quadratic)


def test_a_problem_keeps_nothing_and_gives_nothing_away():
    problem = problems.svc(Gram(X[:, :5]), Y, 1.0)
    before = len(pickle.dumps(problem))
    first, second = problem.dense(), problem.dense()
    assert first is not second
    problem.matvec(np.ones(600))
    assert problem.psd.is_psd
    assert len(pickle.dumps(problem)) == before
    for value in (problem, problem.gram, pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        for name, array in vars(value).items():
            if isinstance(array, np.ndarray):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.flags.writeable = True
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 0
                with pytest.raises(AttributeError):
                    setattr(value, name, array)


def test_the_gram_is_a_copy():
    points = X[:50, :5].copy()
    for kernel, given in (("rbf", points), ("precomputed", points @ points.T)):
        gram = Gram(given, kernel)
        before = gram.full().copy()
        given *= 2.0
        np.testing.assert_array_equal(gram.full(), before)


def test_a_workspace_is_its_problem_with_memory():
    problem = problems.svr(Gram(X[:, :5]), np.sin(X[:, 0]), 1.0)
    workspace, v = Workspace(problem), np.random.default_rng(2).normal(size=problem.n)
    np.testing.assert_allclose(workspace.matvec(v), problem.matvec(v), rtol=0, atol=1e-11)
    assert workspace.dense() is workspace.dense()
    np.testing.assert_allclose(workspace.dense(), problem.dense(), rtol=0, atol=1e-13)
    at_hand = workspace.cached_columns()
    for j in (0, 599, 600, 1100):
        np.testing.assert_allclose(at_hand(j), problem.columns([j])[:, 0], rtol=0, atol=1e-13)
    assert isinstance(workspace.gram, KeptGram)
    assert workspace.gram is not problem.gram
    assert workspace.gram.entries_computed > 0


def test_single_columns_of_a_large_problem_come_from_kept_rows(monkeypatch):
    monkeypatch.setattr("dualflow.core.workspace.MAX_N_DENSE_COLUMNS", 10)
    problem = problems.svr(Gram(X[:, :5]), np.sin(X[:, 0]), 1.0)
    workspace, Q = Workspace(problem), problem.dense()
    for j in (3, 603, 3, 1199):
        np.testing.assert_allclose(workspace.cached_columns()(j), Q[:, j], rtol=0, atol=1e-13)
    assert workspace.gram.entries_computed == 2 * 600


class Counted(Certifier):
    """One that tells of how many weights its products were."""

    def __init__(self, problem):
        super().__init__(problem)
        product, self.weights = self.workspace.product, []
        self.workspace.product = lambda v, *rest: self.weights.append(np.count_nonzero(v)) or product(v, *rest)


def a_large_hinge():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(1500, 6))
    return problems.svc(Gram(points), np.where(points[:, 0] + 0.3 * rng.normal(size=1500) > 0, 1, -1), 1e9), rng


def test_products_of_few_changes_are_as_exact_as_those_from_scratch():
    problem, rng = a_large_hinge()
    certifier, alpha = Counted(problem), np.where(rng.random(1500) < 0.4, rng.random(1500), 0.0)
    for moved in (0, 100, 250, 250):  # since the first; those from scratch are not carried on
        other = alpha.copy()
        J = rng.choice(1500, moved, replace=False)
        other[J] = rng.random(moved) * (rng.random(moved) < 0.5)
        exact = problem.dense() @ other
        scale = np.finfo(float).eps * other.sum()  # the kernel's largest value is 1
        assert np.abs(certifier.compute(other) - exact).max() <= 8 * scale
    assert certifier.weights[0] == np.count_nonzero(alpha)
    assert all(count < 260 for count in certifier.weights[1:])
    assert len(certifier.weights) == 4


@pytest.mark.parametrize("how", ["many moved", "a large weight gone"])
def test_products_of_large_changes_are_made_from_scratch(how):
    problem, rng = a_large_hinge()
    alpha = np.where(rng.random(1500) < 0.4, rng.random(1500), 0.0)
    certifier, other = Counted(problem), alpha.copy()
    if how == "many moved":
        other *= 1 + 1e-3
    else:
        alpha[7] = 1e9  # whose rounding would stay in all that is made of its product
    certifier.compute(alpha)
    found = certifier.compute(other)
    assert certifier.weights == [np.count_nonzero(alpha), np.count_nonzero(other)]
    assert np.abs(found - problem.dense() @ other).max() <= 8 * np.finfo(float).eps * other.sum()


def test_certificates_by_change_are_those_from_scratch():
    problem, rng = a_large_hinge()
    alpha = np.where(rng.random(1500) < 0.4, rng.random(1500), 0.0)
    certifier, other = Certifier(problem), alpha.copy()
    other[np.flatnonzero(alpha)[:9]] = 0.0
    honest = certify(problem, other)
    certifier.certify(alpha)
    found = certifier.certify(other)
    assert found.lower_bound == pytest.approx(honest.lower_bound, rel=1e-12)
    assert found.objective == pytest.approx(honest.objective, rel=1e-12)


def test_the_product_that_others_are_updated_from_is_read_only():
    problem, rng = a_large_hinge()
    product = Certifier(problem).compute(np.where(rng.random(1500) < 0.4, rng.random(1500), 0.0))
    with pytest.raises(ValueError, match="read-only"):
        product[0] = 1.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        product.flags.writeable = True
