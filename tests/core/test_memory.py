"""Memory is checked before it is allocated."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from dualflow import SVC, Gram, ProblemError, problems, solve
from dualflow.core.runtime import memory


def test_a_matrix_that_cannot_fit_is_refused_before_it_is_made():
    n = 400_000
    X = np.random.default_rng(0).normal(size=(n, 2))
    gram = Gram(X)
    problem = problems.svc(gram, np.where(X[:, 0] > 0, 1.0, -1.0))
    tracemalloc.start()
    for make in (gram.full, problem.dense):
        with pytest.raises(ProblemError, match=r"of n=400000 takes [\d.e+]+ GB while it is made, and this machine has"):
            make()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_a_block_that_cannot_fit_is_refused_before_it_is_made(kernel):
    gram = Gram(np.random.default_rng(0).normal(size=(400_000, 2)), kernel)
    J = np.arange(gram.n)
    tracemalloc.start()
    for make in (
        gram.rows,
        gram.columns,
        gram.upper_block,
        lambda J: gram.block(J, J),
        lambda J: gram.cross(gram.X, J),
    ):
        with pytest.raises(ProblemError, match=r"400000 points with 400000 take 1.28e\+03 GB, and this machine has"):
            make(J)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert gram.columns(J[:2]).shape == (gram.n, 2)


@pytest.mark.parametrize("solver", ["smo", "gradient-flow", "cvxopt", "lotka-volterra"])
def test_a_solver_that_needs_it_says_what_it_takes(solver, monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 2))
    problem = problems.svc(Gram(X), np.where(X[:, 0] > 0, 1.0, -1.0), loss="squared_hinge")
    solve(problem, solver, max_steps=1)
    monkeypatch.setattr(memory, "memory_bytes", lambda: 8 * 60 * 60 - 1)
    with pytest.raises(ProblemError, match=r"takes [\d.]+e-05 GB while it is made"):
        solve(problem, solver, max_steps=1)


def test_the_default_solver_needs_none_of_it(monkeypatch):
    X = np.random.default_rng(0).normal(size=(5000, 2))
    monkeypatch.setattr(memory, "memory_bytes", lambda: 1 << 20)
    SVC().fit(X, X[:, 0] > 0)


def test_what_this_machine_has_is_known():
    there = memory.memory_bytes()
    assert there is None or 1 << 26 < there < 1 << 50


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    for text, limited in (("123456789\n", True), ("max\n", False), ("nonsense", False)):
        (tmp_path / "memory.max").write_text(text)
        monkeypatch.setattr(memory, "_GROUP", str(tmp_path / "memory.max"))
        memory.memory_bytes.cache_clear()
        there = memory.memory_bytes()
        assert there is None or (there == 123456789) == limited
    monkeypatch.undo()
    memory.memory_bytes.cache_clear()
