"""Tests of new points at an optimum: skipped points change nothing, and added ones give the optimum of all."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons

import dualflow
from dualflow import EcoSVC, Gram, ProblemError, problems
from dualflow.core.certificate import certify
from dualflow.online import stream
from dualflow.online.hinge_updates import CommunityModel, add_along_path
from dualflow.problems.classification import hinge
from tests.combinations import often


def moons(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_moons(n, noise=0.2, random_state=seed)
    return np.ascontiguousarray(X), np.where(y == 1, 1.0, -1.0)


def standing(X: np.ndarray, y: np.ndarray, C: float, bordered: bool = True, kernel: str = "rbf") -> CommunityModel:
    gram = Gram(X, kernel, gamma=1.0)
    problem = hinge(gram, y, np.full(len(y), C), fit_intercept=bordered)
    alpha = dualflow.solve(problem, tol=1e-10).alpha
    h = problem.gradient(alpha)
    return CommunityModel(gram, y, np.full(len(y), C), alpha, h, bordered=bordered, gap_tol=1e-7)


@pytest.mark.parametrize("C", [0.5, 10.0])
@pytest.mark.parametrize("bordered", [True, False])
@pytest.mark.parametrize("new", [1, 7, 60])
def test_points_added_along_a_path_give_the_optimum_of_all(C, bordered, new):
    X, y = moons(120 + new)
    at = standing(X[:120], y[:120], C, bordered)
    assert at.at_rest
    cap = np.full(new, 2 * C)
    found = add_along_path(at, X[120:], at.rows_of(X[120:]), y[120:], cap)
    problem = hinge(Gram(X, gamma=1.0), y, np.append(at.cap, cap), fit_intercept=bordered)
    assert certify(problem, found.alpha).relative_gap <= 1e-9
    np.testing.assert_allclose(found.h, problem.gradient(found.alpha), atol=1e-9)
    np.testing.assert_array_equal(at.alpha, standing(X[:120], y[:120], C, bordered).alpha)  # not changed


def test_points_without_violation_leave_the_certificate_unchanged():
    X, y = moons(400)
    at = standing(X[:150], y[:150], 5.0)
    h = at.gradient_at(at.rows_of(X[150:]), y[150:])
    out = np.concatenate([np.full(150, True), at.satisfies_kkt(h, y[150:])])
    assert 150 < out.sum() < 400
    problem = problems.svc(Gram(X[out], gamma=1.0), y[out], 5.0)
    assert certify(problem, np.append(at.alpha, np.zeros(out.sum() - 150))).relative_gap <= 1e-9
    for k in np.flatnonzero(~out)[:5]:  # points that violate do change it
        J = np.append(np.arange(150), k)
        assert certify(problems.svc(Gram(X[J], gamma=1.0), y[J], 5.0), np.append(at.alpha, 0.0)).relative_gap > 1e-9


def test_a_community_away_from_its_equilibrium_is_not_at_rest():
    X, y = moons(80)
    at = standing(X, y, 3.0)
    facts = (at.sign, at.cap)
    for alpha, h in ((0.99 * at.alpha, at.h), (at.alpha, at.h + 1e-3 * y * (at.alpha > 0) * np.arange(80))):
        assert not CommunityModel(Gram(X, gamma=1.0), *facts, alpha, h, bordered=True, gap_tol=1e-7).at_rest
    sigmoid = Gram(X, "sigmoid", gamma=1.0)
    assert not CommunityModel(sigmoid, *facts, at.alpha, at.h, bordered=True, gap_tol=1e-7).at_rest
    hard = np.full(80, np.inf)
    assert not CommunityModel(Gram(X, gamma=1.0), y, hard, at.alpha, at.h, bordered=True, gap_tol=1e-7).at_rest


# A linear kernel's α is not unique, and the forgotten points depend on it.
@pytest.mark.parametrize(
    ("kernel", "reserve"),
    often(
        [("rbf", 0), ("rbf", 20), ("rbf", 1.0), ("rbf", np.inf), ("linear", np.inf)], ("rbf", 20), ("linear", np.inf)
    ),
)
def test_calls_of_one_point_find_the_batch_optimum(kernel, reserve, monkeypatch):
    X, y = moons(260)
    parameters = {"C": 4.0, "gamma": 1.0, "reserve": reserve, "kernel": kernel}
    models = []
    for shortcut in (True, False):
        if not shortcut:
            monkeypatch.setattr(EcoSVC, "_batch_update", lambda *given: None)
        model = EcoSVC(**parameters)
        for k in range(len(X)):
            model.partial_fit(X[k : k + 1], y[k : k + 1], classes=[-1.0, 1.0])
        models.append(model)
    ours, other = models
    assert ours.certificate_.relative_gap <= 1e-7
    if kernel == "rbf":
        np.testing.assert_array_equal(ours.survivors_, other.survivors_)
        np.testing.assert_array_equal(ours.reserve_, other.reserve_)
    scale = np.abs(other.decision_function(X)).max()
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(X), atol=1e-4 * scale)
    assert ours.n_seen_ == 260
    assert ours.n_invasions_ - ours.n_extinctions_ == len(ours.survivors_)


def test_calls_of_one_point_solve_no_batch(monkeypatch):
    X, y = make_classification(300, random_state=1)
    model = EcoSVC(C=5.0, reserve=0).partial_fit(X[:150], y[:150], classes=[0, 1])
    monkeypatch.setattr(stream, "_distinct", None)  # the first call of the batch path
    for k in range(150, 300):
        model.partial_fit(X[k : k + 1], y[k : k + 1])
    assert model.certificate_.relative_gap <= 1e-7
    assert model.n_invasions_ > 150


def test_attributes_read_between_calls_are_of_the_last_call():
    X, y = moons(200)
    asked, silent = EcoSVC(C=3.0, gamma=1.0), EcoSVC(C=3.0, gamma=1.0)
    for k in range(0, 200, 5):
        for model in (asked, silent):
            model.partial_fit(X[k : k + 5], y[k : k + 5], classes=[-1, 1])
        np.testing.assert_array_equal(asked.support_, asked.survivors_[np.argsort(y[asked.survivors_], kind="stable")])
        assert asked.decision_function(X[:3]).shape == (3,)
    for name in ("support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(asked, name), getattr(silent, name))


def test_parameters_that_are_changed_between_calls_count():
    X, y = moons(240)
    model = EcoSVC(kernel="rbf", gamma=1.0, C=3.0, n_init=400).partial_fit(X[:200], y[:200], classes=[-1, 1])
    model.partial_fit(X[200:201], y[200:201])
    model.set_params(fit_intercept=False)
    model.partial_fit(X[201:], y[201:])
    batch = dualflow.SVC(gamma=1.0, C=3.0, fit_intercept=False, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), batch.decision_function(X), atol=1e-4)


def saved(model: EcoSVC, folder) -> EcoSVC:
    model.save(folder / "model")
    return dualflow.load(folder / "model")


THROUGH = [
    lambda model, _: model,
    lambda model, _: copy.deepcopy(model),
    lambda model, _: pickle.loads(pickle.dumps(model)),
    saved,
]


@pytest.mark.parametrize("through", THROUGH)
@pytest.mark.parametrize("there", [{"kernel": "rbf"}, {"kernel": "poly"}, {"kernel": "linear", "fit_intercept": False}])
@pytest.mark.parametrize("new", [1, 40])
def test_gradients_of_another_kernel_are_not_taken_for_those_of_this(new, there, through, tmp_path):
    X, y = moons(160)
    X += [3.0, -2.0]
    for first, then in ((there, {"kernel": "linear", "fit_intercept": True}), ({"kernel": "linear"}, there)):
        model = EcoSVC(gamma=1.0, C=5.0, reserve=np.inf, **first).partial_fit(X[:120], y[:120], classes=[-1, 1])
        model = through(model, tmp_path).set_params(**then)
        model.partial_fit(X[120 : 120 + new], y[120 : 120 + new])
        assert model.certificate_.relative_gap <= 1e-7
        assert model.certify(X[: 120 + new], y[: 120 + new]).relative_gap <= 1e-7


def test_a_call_that_fails_leaves_the_kernel_that_gradients_are_of(monkeypatch):
    X, y = moons(160)
    model = EcoSVC(gamma=1.0, C=5.0, reserve=np.inf).partial_fit(X[:120], y[:120], classes=[-1, 1])
    model.set_params(kernel="linear")
    with monkeypatch.context() as broken:
        broken.setattr(EcoSVC, "_learn_block", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.partial_fit(X[120:121], y[120:121])
    model.partial_fit(X[120:121], y[120:121])
    assert model.certify(X[:121], y[:121]).relative_gap <= 1e-7


def test_pairs_without_newcomers_go_over_to_a_kernel_that_is_changed():
    X, y = make_classification(150, 4, n_informative=3, n_redundant=0, n_classes=3, random_state=0)
    model = EcoSVC(C=3.0, gamma=0.3).partial_fit(X[1:], y[1:], classes=[0, 1, 2])
    model.set_params(kernel="linear").partial_fit(X[:1], y[:1])
    assert max(certificate.relative_gap for certificate in model.certificates_) <= 1e-7
    assert model.n_invasions_ - model.n_extinctions_ == sum(len(c.survivors) for c in model._communities)
    batch = dualflow.SVC(kernel="linear", C=3.0).fit(X, y)
    assert (model.predict(X) == batch.predict(X)).mean() >= 0.97  # some were forgotten


@pytest.mark.parametrize("kernel", ["rbf", "poly", lambda A, B: np.exp(-((A[:, None] - B) ** 2).sum(axis=2))])
@pytest.mark.parametrize(("n", "new"), [(200, 50), (60, 3), (21, 1)])
def test_weights_of_no_intercept_are_not_kept_with_one(n, new, kernel):
    X, y = moons(n)
    for there in (True, False):
        model = EcoSVC(kernel=kernel, gamma=1.0, C=5.0, fit_intercept=there, reserve=np.inf).fit(X[:-new], y[:-new])
        model.set_params(fit_intercept=not there).partial_fit(X[-new:], y[-new:])
        batch = dualflow.SVC(kernel=kernel, gamma=1.0, C=5.0, fit_intercept=not there, tol=1e-10).fit(X, y)
        scale = np.abs(batch.decision_function(X)).max()
        np.testing.assert_allclose(model.decision_function(X), batch.decision_function(X), atol=1e-5 * scale)


def test_a_point_whose_length_overflows_is_refused_by_a_community_at_rest():
    X, y = moons(100)
    model = EcoSVC(gamma=1.0).partial_fit(X, y, classes=[-1, 1])
    before = model.decision_function(X)
    with pytest.raises(ProblemError, match="overflow"):
        model.partial_fit(np.full((1, 2), 1e200), [1.0])
    np.testing.assert_array_equal(model.decision_function(X), before)
