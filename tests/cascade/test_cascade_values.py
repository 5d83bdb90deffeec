"""`CascadeSVR` and `CascadeSVDD` are certified over all rows, as a judge of the whole problem finds, and within tol."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR as LIBSVM
from sklearn.svm import OneClassSVM as LIBSVMOneClass

from dualflow import (
    SVDD,
    SVR,
    CascadeSVDD,
    CascadeSVR,
    FitError,
    Gram,
    ProblemError,
    Status,
    certify,
    problems,
)

RNG = np.random.default_rng(0)
N = 500
X = RNG.standard_normal((N, 3)) * [1.0, 2.0, 0.5] + 4.0
Y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * RNG.standard_normal(N) + 100.0
WEIGHT = RNG.choice([0.0, 0.5, 1.0, 3.0], N)
GAMMA = 1.0 / (3.0 * X.var())
TOL = 1e-5
PARTS = {"partitions": 4, "random_state": 0, "tol": TOL}


class Fixed:
    """Given rows."""

    def __init__(self, *columns):
        self.columns = columns

    def load(self):
        return self.columns


def tube_problem(model, X, y, weight):
    return problems.svr(Gram(X, gamma=GAMMA), y - y.mean(), model.C, epsilon=model.epsilon, sample_weight=weight)


def tube_alpha(model):
    difference = np.zeros(N)
    difference[model.support_] = model.dual_coef_[0]
    return np.concatenate([np.maximum(difference, 0.0), np.maximum(-difference, 0.0)])


def tube_primal(model, weights, support_vectors, predicted, weight):
    """Return ½‖w‖² + C Σ weight · (residual beyond ε)."""
    square = weights @ Gram(support_vectors, gamma=GAMMA).block(*(np.arange(len(weights)),) * 2) @ weights
    return 0.5 * square + model.C * weight @ np.maximum(0.0, np.abs(Y - predicted) - model.epsilon)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["ones", "weights"])
@pytest.mark.parametrize("options", [{}, {"C": 30.0, "epsilon": 0.01}, {"epsilon": 0.0}, {"C": 0.01, "epsilon": 1.0}])
def test_regression_is_certified_over_all_rows(options, weight):
    model = CascadeSVR(**options, **PARTS).fit(X, Y, weight)
    found = model.certificate_
    assert model.statuses_ == [Status.OPTIMAL]
    judged = certify(tube_problem(model, X, Y, weight), tube_alpha(model))
    assert found.objective == pytest.approx(judged.objective, rel=1e-9)
    assert found.gap == pytest.approx(judged.gap, abs=1e-9 * abs(judged.objective))
    best = SVR(**options, gamma=GAMMA, tol=1e-10).fit(X, Y, weight).certificate_.objective
    assert best - 1e-9 * abs(best) <= found.objective <= best + TOL * abs(best)
    primal = tube_primal(
        model, model.dual_coef_[0], model.support_vectors_, model.predict(X), np.ones(N) if weight is None else weight
    )
    assert -best <= primal * (1 + 1e-9)
    assert primal <= -best * (1 + 2 * TOL)
    assert np.array_equal(model.support_vectors_, X[model.support_])


def test_regression_is_as_good_as_libsvm():
    model = CascadeSVR(**PARTS | {"tol": 1e-8}).fit(X, Y)
    theirs = LIBSVM(gamma=GAMMA, tol=1e-8).fit(X, Y)
    ones, ours = np.ones(N), model.predict(X)
    assert tube_primal(model, model.dual_coef_[0], model.support_vectors_, ours, ones) <= (1 + 1e-8) * tube_primal(
        model, theirs.dual_coef_[0], theirs.support_vectors_, theirs.predict(X), ones
    )
    assert np.allclose(ours, theirs.predict(X), atol=1e-4)
    assert model.intercept_[0] == model.certificate_.bias == pytest.approx(theirs.intercept_[0], abs=1e-3)
    assert model.score(X, Y) == pytest.approx(theirs.score(X, Y), abs=1e-5)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["ones", "weights"])
@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5, 0.9])
def test_the_ball_is_certified_over_all_rows(nu, weight):
    model = CascadeSVDD(nu, **PARTS).fit(X, sample_weight=weight)
    found = model.certificate_
    assert model.statuses_ == [Status.OPTIMAL]
    alpha = np.zeros(N)
    alpha[model.support_] = model.dual_coef_[0]
    kept = np.ones(N, dtype=bool) if weight is None else weight > 0
    given = None if weight is None else weight[kept]
    judged = certify(problems.svdd(Gram(X[kept], gamma=GAMMA), nu, sample_weight=given), alpha[kept])
    assert found.objective == pytest.approx(judged.objective, rel=1e-9)
    assert found.gap == pytest.approx(judged.gap, abs=1e-9)
    best = SVDD(nu=nu, gamma=GAMMA, tol=1e-10).fit(X, sample_weight=weight)
    objective = best.certificate_.objective
    assert objective - 1e-9 <= found.objective <= objective + TOL * abs(objective)
    assert model.radius_ == found.radius == pytest.approx(best.radius_, abs=1e-4)
    assert np.allclose(model.decision_function(X), best.decision_function(X), atol=2e-4)


def test_the_surface_is_that_of_the_one_class_svm():
    model, theirs = (
        CascadeSVDD(0.2, **PARTS | {"tol": 1e-8}).fit(X),
        LIBSVMOneClass(nu=0.2, gamma=GAMMA, tol=1e-9).fit(X),
    )
    ours, plane = model.decision_function(X), theirs.decision_function(X)  # R² − distance², and νn (⟨a, φ⟩ − ρ)
    assert np.allclose(ours, 2.0 * plane / (0.2 * N), atol=1e-5)


def test_weights_count_rows():
    weight = RNG.integers(0, 4, size=N).astype(float)
    rows = np.repeat(np.arange(N), weight.astype(int))
    for kind in (CascadeSVR, CascadeSVDD):
        weighted = kind(gamma=0.2, **PARTS).fit(X, Y, weight)
        repeated = kind(gamma=0.2, **PARTS).fit(X[rows], Y[rows])
        assert weighted.certificate_.objective == pytest.approx(repeated.certificate_.objective, rel=2 * TOL)


def test_parts_of_any_size():
    """Unequal parts, an empty one and one of a single row; the bounds of a ball are those of all rows together."""
    cuts = [0, 1, 1, 30, 430, N]
    parts = [Fixed(X[a:b], Y[a:b]) for a, b in itertools.pairwise(cuts)]
    value, ball = CascadeSVR(tol=TOL).fit(parts), CascadeSVDD(tol=TOL).fit(parts)
    best = SVR(gamma=GAMMA, tol=1e-10).fit(X, Y).certificate_.objective, SVDD(nu=0.1, gamma=GAMMA).fit(X).radius_
    assert value.certificate_.objective == pytest.approx(best[0], rel=TOL)
    assert ball.radius_ == pytest.approx(best[1], abs=1e-4)
    for model in (value, ball):
        assert np.array_equal(model.support_vectors_, X[model.support_])
        assert model.dual_coef_.sum() == pytest.approx(0.0 if model is value else 1.0, abs=1e-9)


def test_one_part_a_bound_for_all_rows():
    """Every row of a part may be at its bound."""
    ball = CascadeSVDD(0.5, partitions=5, partitioner="given", tol=TOL).fit(np.arange(10.0)[:, None])
    best = SVDD(nu=0.5, tol=1e-9).fit(np.arange(10.0)[:, None])
    assert ball.radius_ == pytest.approx(best.radius_, abs=1e-4)


def test_a_tube_around_all_rows_has_no_support_vectors():
    model = CascadeSVR(epsilon=50.0, partitions=3).fit(X, Y)
    assert len(model.support_) == 0
    assert model.certificate_.gap == 0.0
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), np.full(N, model.intercept_[0]))
    assert np.abs(model.intercept_[0] - Y).max() <= 50.0


def test_parts_of_any_kind_give_the_same_bits(tmp_path):
    given = {"partitions": 3, "partitioner": "given", "tol": 1e-3}
    points, values = X[:300], Y[:300]
    value, ball = CascadeSVR(**given).fit(points, values), CascadeSVDD(**given).fit(points)
    cuts = [slice(0, 100), slice(100, 200), slice(200, 300)]
    own = [Fixed(points[rows], values[rows]) for rows in cuts]
    of_words = [Fixed(points[rows], np.full(100, "word")) for rows in cuts]
    others = [(CascadeSVR(**given).fit(own), CascadeSVDD(**given).fit(of_words))]
    array = pytest.importorskip("dask.array")
    chunked = [array.from_array(one, chunks=100) for one in (points, values)]
    others.append((CascadeSVR(**given).fit(*chunked), CascadeSVDD(**given).fit(chunked[0])))
    for regression, description in others:
        for model, other in ((value, regression), (ball, description)):
            assert np.array_equal(model.dual_coef_, other.dual_coef_)
            assert model.certificate_.gap == other.certificate_.gap
    assert np.array_equal(others[-1][0].predict(chunked[0]).compute(), value.predict(points))
    assert np.array_equal(others[-1][1].predict(chunked[0]).compute(), ball.predict(points))
    assert others[-1][0].score(*chunked) == pytest.approx(value.score(points, values), rel=1e-12)


def test_models_pickle_and_are_not_saved():
    for model in (CascadeSVR(**PARTS, engine="joblib", n_jobs=1), CascadeSVDD(**PARTS)):
        model.fit(X[:200], Y[:200])
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.predict(X), model.predict(X))
        assert np.array_equal(again.support_vectors_, model.support_vectors_)
        with pytest.raises(ProblemError, match="Pickle the model"):
            model.save("model")


def test_limits_stop_with_a_certificate():
    with pytest.raises(FitError, match="time_limit"):
        CascadeSVR(time_limit=1e-9).fit(X, Y)
    for model in (CascadeSVR(epsilon=0.3, max_steps=1, tol=1e-9), CascadeSVDD(max_steps=1, tol=1e-9)):
        with pytest.warns(ConvergenceWarning, match="Certified relative gap over all parts"):
            model.set_params(random_state=0).fit(X, Y)
        assert model.fit_status_ == 1
        assert 1e-9 < model.certificate_.relative_gap < 1.0


def test_data_that_do_not_fit_are_named():
    with pytest.raises(ProblemError, match=r"part 0: y holds <U4; numbers are needed"):
        CascadeSVR().fit([Fixed(X, np.full(N, "word"))])
    with pytest.raises(ProblemError, match="the parts hold no rows"):
        CascadeSVDD().fit([Fixed(X[:0], Y[:0])])
    with pytest.raises(ProblemError, match="sample_weight is zero for every point"):
        CascadeSVDD().fit([Fixed(X, Y, np.zeros(N))])
    with pytest.raises(ProblemError, match="nu"):
        CascadeSVDD(None).fit(X)
    with pytest.raises(ProblemError, match="epsilon"):
        CascadeSVR(epsilon=-1.0).fit(X, Y)


def test_a_part_that_changes_gets_no_certificate():
    class Shuffled(Fixed):
        turn = 0

        def load(self):
            self.turn += 1
            order = np.random.default_rng(self.turn).permutation(N)
            return X[order], Y[order]

    for kind in (CascadeSVR, CascadeSVDD):
        with pytest.raises(ProblemError, match="part changed between two reads"):
            kind().fit([Shuffled()])


def test_a_ball_around_one_place_is_certified():
    ball = CascadeSVDD(partitions=4, random_state=0).fit(np.full((100, 2), 3.0))
    certificate = ball.certificate_
    assert abs(certificate.objective) < 1e-14
    assert certificate.relative_gap == 0.0 == SVDD(nu=0.1).fit(np.full((100, 2), 3.0)).certificate_.relative_gap
    assert ball.statuses_ == [Status.OPTIMAL]
    assert ball.n_iter_ == 1
