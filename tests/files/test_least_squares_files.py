"""Forged files of `LSSVC`, `LSSVR` and `LDA` are refused, or give models with true certificates."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
from dualflow import LDA, LSSVC, LSSVR, ProblemError
from dualflow.persistence import container

X, Y = make_moons(24, noise=0.2, random_state=0)
THREE = np.arange(24) % 3
Z = np.random.default_rng(1).normal(size=(9, 2))

MODELS = {
    "LSSVC": lambda: LSSVC(C=2.0, gamma=0.4, random_state=1).fit(X, Y, 1.0 + np.arange(24) % 3),
    "LSSVC of three": lambda: LSSVC(kernel="linear", random_state=1, decision_function_shape="ovo").fit(X, THREE),
    "LSSVC penalised": lambda: LSSVC(gamma=0.4, fit_intercept="penalised", random_state=1).fit(X, Y),
    "LSSVR": lambda: LSSVR(C=2.0, gamma=0.4, random_state=1).fit(X, np.sin(X[:, 0]), 1.0 + np.arange(24) % 3),
    "LSSVR linear": lambda: LSSVR(kernel="linear", fit_intercept=False, random_state=1).fit(X, X[:, 0] ** 2),
    "LDA": lambda: LDA(random_state=1).fit(X, Y),
    "LDA of three": lambda: LDA(shrinkage=0.3, random_state=1).fit(X, THREE),
}
CHANGES = {
    "halved": lambda a: 0.5 * a,
    "a little more": lambda a: a * (1 + 1e-4),
    "negated": lambda a: -a,
    "rolled": lambda a: np.roll(a, 1, axis=0),
}
#: Values computed from points and α: a file with other values must be refused.
COMPUTED = {"dual_coef_", "pair_coef", "intercept_", "support_", "n_support_"}


def check_honesty(model):
    """Gaps against the KKT systems written out, predictions against α and points alone."""
    values = []
    for k, solution in enumerate(model.solutions_):
        problem, alpha, n = solution.problem, solution.alpha, solution.problem.n
        gram = problem.gram
        K = gram.X @ gram.X.T if gram.kernel == "linear" else radial(gram.X, gram)
        Q = np.outer(problem.sigma, problem.sigma) * (K + problem.offset) + np.diag(problem.ridge)
        A, right = Q, problem.p
        if problem.e is not None:
            A = np.block([[Q, -problem.e[:, None]], [problem.e[None], np.zeros((1, 1))]])
            right = np.append(problem.p, 0.0)
        best = np.linalg.solve(A, right)[:n]
        f, least = (0.5 * a @ Q @ a - problem.p @ a for a in (alpha, best))
        size = max(abs(f), abs(least))
        assert solution.certificate.relative_gap == pytest.approx((f - least) / size, abs=1e-8)
        assert (solution.status is dualflow.Status.OPTIMAL) == (solution.certificate.relative_gap <= solution.tol)
        if isinstance(model, LDA):
            np.testing.assert_allclose(model.coef_[k], alpha @ model._basis / model._unit, rtol=1e-9)
            continue
        own = Z @ gram.X.T if gram.kernel == "linear" else radial(Z, gram)
        values.append(own @ (problem.sigma * alpha) + model.intercept_[k])
        if problem.e is not None:  # where the gradient of all is the multiplier
            assert model.intercept_[k] == pytest.approx(solution.bias, rel=1e-8, abs=1e-10)
    if values:
        found = model.predict(Z) if isinstance(model, LSSVR) else model.decision_function(Z)
        np.testing.assert_allclose(found.reshape(len(Z), -1), np.column_stack(values), atol=1e-9)


def radial(A, gram):
    return np.exp(-gram.gamma * ((A[:, None] - gram.X) ** 2).sum(-1))


@pytest.mark.parametrize("name", MODELS)
def test_forged_files_give_the_true_gap_or_an_error(name, tmp_path):
    path = tmp_path / "model"
    model = MODELS[name]()
    check_honesty(model)
    model.save(path)
    header, arrays = container.read(path, 1 << 30)
    accepted, refused = set(), 0
    for key, array in arrays.items():
        for how, change in CHANGES.items():
            if array.dtype.kind not in "fi" or np.array_equal(forged := change(array).astype(array.dtype), array):
                continue
            container.write(path, header, arrays | {key: forged})
            try:
                again = dualflow.load(path)
            except ProblemError:
                refused += 1
            else:
                accepted.add((key, how))
                check_honesty(again)
    assert refused >= len(arrays)
    assert {key for key, _ in accepted} & COMPUTED == set()


@pytest.mark.parametrize("name", ["LSSVC", "LSSVR"])
def test_a_file_of_another_model_is_refused(name, tmp_path):
    MODELS[name]().save(tmp_path / "model")
    header, arrays = container.read(tmp_path / "model", 1 << 30)
    other = {"LSSVC": "SVC", "LSSVR": "SVR"}[name]
    container.write(tmp_path / "other", header | {"class": other}, arrays)
    with pytest.raises(ProblemError):
        dualflow.load(tmp_path / "other")
