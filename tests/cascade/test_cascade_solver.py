"""Tests of the cascade as a solver of problems in one place: CVXOPT's optimum for every kind of problem."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from dualflow import SVC, SVDD, SVR, Cascade, CascadeSVC, Gram, SolverMismatch, Status, problems, solve

X, Y = make_classification(240, 6, n_informative=4, flip_y=0.05, class_sep=0.8, random_state=3)
SIGN = np.where(Y == 1, 1, -1)
GRAM = Gram(X)
PROBLEMS = {
    "hinge": problems.svc(GRAM, SIGN, C=2.0),
    "no bias": problems.svc(GRAM, SIGN, C=2.0, fit_intercept=False),
    "squared hinge": problems.svc(GRAM, SIGN, C=2.0, loss="squared_hinge"),
    "hard ball": problems.svdd(GRAM, nu=None),
    "soft ball": problems.svdd(GRAM, nu=0.1),
    "one class": problems.one_class(GRAM, nu=0.3),
    "tube": problems.svr(GRAM, X[:, 0] * X[:, 1], C=1.0, epsilon=0.1),
    "everyone survives": problems.svc(Gram(X, gamma=50.0), SIGN, C=1.0),
    "nobody is needed": problems.svr(GRAM, np.zeros(len(X)), C=1.0, epsilon=0.1),
}


@pytest.mark.parametrize("parts", [1, 3, 100])
@pytest.mark.parametrize("name", PROBLEMS)
def test_it_finds_cvxopts_optimum(name, parts):
    problem = PROBLEMS[name]
    exact = solve(problem, "cvxopt", tol=1e-9).certificate
    found = solve(problem, "cascade", parts=parts, tol=1e-7)
    assert found.certificate.within(1e-7)
    assert found.certificate.objective == pytest.approx(exact.objective, rel=1e-7, abs=1e-9)
    assert found.status is Status.OPTIMAL


def test_parts_of_one_class_and_rows_in_many_parts():
    copies, signs = np.repeat(X, 5, axis=0), np.repeat(SIGN, 5)
    order = np.argsort(signs, kind="stable")  # all of one class come first
    whole = solve(problems.svc(GRAM, SIGN, C=5.0), tol=1e-9).certificate.objective
    problem = problems.svc(Gram(copies[order], gamma=GRAM.gamma), signs[order], C=1.0)
    assert solve(problem, "cascade", tol=1e-7).certificate.objective == pytest.approx(whole, rel=1e-6)
    assert [len(np.unique(signs[order][J])) for J in Cascade()._split(problem)] == [2] * 8


def test_it_goes_on_from_a_warm_start_and_a_checkpoint(tmp_path):
    problem = PROBLEMS["hinge"]
    cold = solve(problem, "cascade", tol=1e-6)
    assert solve(problem, "cascade", tol=1e-6, warm=cold).cost.steps <= 2 < cold.cost.steps
    solve(problem, "cascade", tol=1e-6, max_steps=2, checkpoint=tmp_path / "run")
    again = solve(problem, "cascade", tol=1e-6, checkpoint=tmp_path / "run")
    assert np.array_equal(again.alpha, cold.alpha)


def test_estimators_take_it_by_name():
    names = np.where(Y == 1, "yes", "no")
    model = SVC(C=2.0, solver="cascade", refine=False, tol=1e-6).fit(X, names)
    peer = SVC(C=2.0, tol=1e-8).fit(X, names)
    assert np.abs(model.decision_function(X) - peer.decision_function(X)).max() < 1e-2
    assert model.solutions_[0].provenance["solver"] == "cascade"
    cascade = CascadeSVC(C=2.0, partitions=3, random_state=0, tol=1e-6).fit(X, names)
    assert (cascade.predict(X) == model.predict(X)).mean() > 0.99
    assert SVDD(nu=0.2, solver="cascade").fit(X).solutions_[0].certificate.within(1e-6)
    assert SVR(solver="cascade").fit(X, X[:, 0]).solutions_[0].certificate.within(1e-6)


def test_the_solver_has_no_engine_option():
    with pytest.raises(SolverMismatch, match=r"are options of CascadeSVC\(engine=\.\.\.\)"):
        SVC(solver="cascade", solver_options={"engine": "joblib"}).fit(X, Y)
    with pytest.raises(SolverMismatch, match="CascadeSVC"):
        solve(PROBLEMS["hinge"], "cascade", engine=None)
    with pytest.raises(TypeError, match="has no option 'part'"):
        solve(PROBLEMS["hinge"], "cascade", part=3)
