"""Block loops, copies, bounds and digests: parts of the core that only large or unusual inputs reach."""

import pickle

import numpy as np
import pytest

from dualflow import DualProblem, Gram, Kind, ProblemError, certify, problems
from dualflow.core import gram as gram_module
from dualflow.core.decision import coefficients, decision_values
from dualflow.core.digest import fingerprint
from dualflow.core.kernel_cache import KeptGram
from dualflow.core.problem import project_onto
from dualflow.core.workspace import Workspace
from dualflow.testing.reference import rbf_kernel

RNG = np.random.default_rng(5)
X = RNG.normal(size=(12, 2))
Y = np.where(np.arange(12) % 2, 1.0, -1.0)
Z = RNG.normal(size=(11, 2))


def cross(A, B, gamma):
    return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(-1))


def test_matvec_in_many_blocks(monkeypatch):
    monkeypatch.setattr(gram_module, "BLOCK_ENTRIES", 30)  # two columns a block
    v = RNG.normal(size=12)
    np.testing.assert_allclose(Gram(X, gamma=0.4).matvec(v), rbf_kernel(X, 0.4) @ v, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("entries", [1 << 22, 30])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_decision_values_in_one_block_and_in_many(monkeypatch, entries, kernel):
    """From the definitions: Σ yαk + b, and R² − ‖φ(z) − Σ αφ(x)‖²; with k(z, z) different for each z, too."""
    monkeypatch.setattr(gram_module, "BLOCK_ENTRIES", entries)
    gram = Gram(X, kernel=kernel, gamma=0.4)
    K, Kz = (cross(X, X, 0.4), cross(Z, X, 0.4)) if kernel == "rbf" else (X @ X.T, Z @ X.T)
    self_z = np.ones(11) if kernel == "rbf" else (Z**2).sum(1)
    certificate = certify(problems.svc(gram, Y, 1.0), RNG.random(12))
    expected = Kz @ (Y * certificate.alpha) + certificate.bias
    found = decision_values(problems.svc(gram, Y, 1.0), certificate, Z)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    ball = problems.svdd(gram, 0.5)
    certificate = certify(ball, RNG.random(12))
    a = certificate.alpha
    expected = certificate.radius**2 - (self_z - 2 * Kz @ a + a @ K @ a)
    np.testing.assert_allclose(decision_values(ball, certificate, Z), expected, rtol=1e-11, atol=1e-12)


def test_coefficients_of_repeated_rows_add_up():
    problem = problems.svr(Gram(X, gamma=0.4), X[:, 0], 1.0)
    certificate = certify(problem, RNG.random(24))
    up, down = np.split(certificate.alpha, 2)
    np.testing.assert_allclose(coefficients(problem, certificate), up - down, rtol=1e-14)


def test_what_is_handed_out_or_in_can_be_changed_without_harm():
    gram, p, upper = Gram(X, kernel="linear"), np.ones(12), np.ones(12)
    gram.diag()[:] = 7.0
    np.testing.assert_allclose(gram.diag(), (X**2).sum(1))
    problem = DualProblem(gram, p=p, lower=0.0, upper=upper)
    p[0] = upper[0] = 5.0  # the caller's arrays stay writable, and are not the problem's
    assert problem.p[0] == problem.upper[0] == 1.0


def test_a_kept_matrix_is_not_pickled_and_a_given_one_is():
    kept, given = KeptGram(Gram(np.tile(X, (20, 1)), gamma=0.4)), Gram.precomputed(rbf_kernel(X, 0.4))
    before = len(pickle.dumps(kept))
    K = kept.full()
    assert len(pickle.dumps(kept)) <= before + 100
    np.testing.assert_allclose(pickle.loads(pickle.dumps(kept)).full(), K, atol=1e-15)
    assert np.array_equal(pickle.loads(pickle.dumps(given)).full(), given.full())


def test_scale_offset_and_ridge_together():
    """No model has s ≠ 1 and c ≠ 0 together; the definition allows it."""
    sigma, ridge = Y, RNG.random(12)
    problem = DualProblem(
        Gram(X, gamma=0.4), p=np.ones(12), lower=0.0, upper=1.0, sigma=sigma, scale=2.0, offset=3.0, ridge=ridge
    )
    Q = 2.0 * sigma[:, None] * (rbf_kernel(X, 0.4) + 3.0) * sigma + np.diag(ridge)
    v = RNG.normal(size=12)
    np.testing.assert_allclose(problem.diag(), np.diag(Q), rtol=1e-13)
    np.testing.assert_allclose(problem.dense(), Q, rtol=1e-12)
    np.testing.assert_allclose(problem.columns([4, 1]), Q[:, [4, 1]], rtol=1e-12)
    np.testing.assert_allclose(problem.block([1, 2], [2, 1]), Q[np.ix_([1, 2], [2, 1])], rtol=1e-12)
    np.testing.assert_allclose(problem.matvec(v), Q @ v, rtol=1e-11, atol=1e-11)


def test_a_point_of_weight_zero_does_not_make_a_hard_margin_soft():
    weight = np.where(np.arange(12) == 3, 0.0, 1.0)
    gram = Gram(X, gamma=0.4)
    assert problems.svc(gram, Y, np.inf, sample_weight=weight).kind is Kind.ORTHANT_EQUALITY
    assert problems.svc(gram, Y, np.inf, sample_weight=weight, fit_intercept=False).kind is Kind.ORTHANT


def test_what_the_negative_side_cannot_reach_is_refused():
    with pytest.raises(ProblemError, match="feasible"):
        DualProblem(Gram(X), p=np.ones(12), lower=0.0, upper=1.0, e=Y, d=-6.5)


def test_the_fingerprint_sees_every_number():
    base = {"p": np.ones(12), "lower": 0.0, "upper": 2.0, "e": np.ones(12), "d": 1.0}
    changes = [
        {"p": np.full(12, 2.0)}, {"upper": 3.0}, {"e": Y}, {"d": 1.5}, {"sigma": Y}, {"scale": 2.0},
        {"offset": 1.0}, {"ridge": 0.1}, {"idx": np.arange(12)[::-1]}, {"reading": problems.READINGS["hinge"]},
    ]  # fmt: skip
    gram = Gram(X, gamma=0.4)
    prints = {fingerprint(DualProblem(gram, **(base | change))) for change in [{}, *changes]}
    prints |= {fingerprint(DualProblem(g, **base)) for g in (Gram(X + 1, gamma=0.4), Gram(X))}
    assert len(prints) == len(changes) + 3
    assert fingerprint(DualProblem(Gram(X, gamma=0.4), **base)) == fingerprint(DualProblem(gram, **base))


def test_the_equality_holds_to_the_last_bits():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 60))
        e, upper = np.where(rng.random(n) < 0.5, 1.0, -1.0), 10.0 ** rng.uniform(-3, 3, n)
        d = float(e @ (upper * rng.random(n)))
        found = project_onto(rng.normal(size=n) * 100, np.zeros(n), upper, e, d)
        assert abs(e @ found - d) <= 4 * np.finfo(float).eps * max(abs(d), found.sum()), seed


def test_the_last_products_are_kept_and_no_other_is_made_of_them():
    value = problems.svc(Gram(X, gamma=0.4), Y, 1.0)
    problem, Q, v = Workspace(value), value.dense(), RNG.random(12)

    def columns(vector):
        before = problem.gram.entries_computed
        np.testing.assert_allclose(problem.matvec(vector), Q @ vector, rtol=1e-13, atol=1e-13)
        return (problem.gram.entries_computed - before) / 12

    w = v.copy()
    w[[3, 7]] += 0.5
    assert columns(w) == 12
    assert columns(v) == 12
    assert columns(v) == 0
    problem.matvec(v)[:] = 0.0  # what is handed out is the caller's
    assert columns(v) == 0
    w[5] = 0.0
    assert columns(w) == 11
    assert columns(w) == 0
