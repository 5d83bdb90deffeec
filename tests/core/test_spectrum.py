"""Evidence on a spectrum, and the amount of work for it."""

import numpy as np
import pytest
import scipy.linalg

from dualflow import Gram, problems
from dualflow.core.psd import examine

RNG = np.random.default_rng(0)
N = 300


def symmetric(eigenvalues):
    V = np.linalg.qr(np.random.default_rng(1).normal(size=(len(eigenvalues),) * 2))[0]
    K = (V * eigenvalues) @ V.T
    return 0.5 * (K + K.T)


def posed(gram):
    y, z = np.where(np.arange(gram.n) % 3, 1, -1), np.linspace(-1, 1, gram.n)
    yield problems.svc(gram, y, C=1.0)
    yield problems.svc(gram, y, C=1.0, fit_intercept=False)
    yield problems.svdd(gram, 0.2)
    yield problems.one_class(gram, 0.2)
    yield problems.svr(gram, z, C=1.0, epsilon=0.1)


def test_an_indefinite_matrix_is_found_without_all_of_its_eigenvalues(monkeypatch):
    """They were computed, twice: 150 times scikit-learn's time for the fit."""
    B = RNG.normal(size=(N, N))
    K = B + B.T
    gram, smallest = Gram.precomputed(K), float(np.linalg.eigvalsh(K)[0])
    factors = [float(np.linalg.eigvalsh(p.dense())[0]) / smallest for p in posed(gram)]

    def refused(*_, **__):
        raise AssertionError("all eigenvalues were computed")

    monkeypatch.setattr(scipy.linalg, "eigvalsh", refused)
    for problem, factor in zip(posed(gram), factors, strict=True):
        evidence = problem.psd
        assert evidence.kind == "indefinite"
        assert evidence.smallest_eigenvalue == pytest.approx(factor * smallest, rel=1e-3)


@pytest.mark.parametrize("least", [-1e-12, -1e-9, -1e-6, -1e-3, -1.0])
def test_how_little_below_0_an_eigenvalue_may_be(least):
    evidence = examine(symmetric(np.r_[least, np.linspace(0.0, 1.0, N - 1)]))
    assert evidence.kind == "indefinite"
    assert evidence.smallest_eigenvalue == pytest.approx(least, rel=2e-3)


def test_a_low_rank_is_seen_without_a_factor_of_all(monkeypatch):
    factors = []
    potrf = scipy.linalg.lapack.dpotrf
    monkeypatch.setattr(scipy.linalg.lapack, "dpotrf", lambda *a, **k: factors.append(1) or potrf(*a, **k))
    X = RNG.normal(size=(N, 5))
    for K in (X @ X.T, np.ones((N, N)), (X[:, :2] @ X[:, :2].T + 1) ** 2):
        assert examine(K).kind == "checked"
    assert not factors


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0])
def test_an_indefinite_matrix_of_low_rank_is_none_that_is_positive_semidefinite(size):
    X, v = RNG.normal(size=(N, 5)), RNG.normal(size=N)
    evidence = examine(X @ X.T - size * np.outer(v, v))
    assert evidence.kind == "indefinite"
    assert evidence.smallest_eigenvalue < 0


def test_a_ridge_makes_up_for_eigenvalues_below_0():
    K = symmetric(np.r_[-0.1, np.linspace(0.0, 1.0, 59)])
    y = np.where(np.arange(60) % 2, 1, -1)
    for C, kind in ((1.0, "checked"), (1e3, "indefinite")):
        problem = problems.svc(Gram.precomputed(K), y, C=C, loss="squared_hinge")
        true = float(np.linalg.eigvalsh(problem.dense())[0])
        assert problem.psd.kind == kind
        if kind == "indefinite":
            assert problem.psd.smallest_eigenvalue == pytest.approx(true, rel=1e-3)
