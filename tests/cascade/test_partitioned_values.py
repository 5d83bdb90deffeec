"""`PartitionedLinearSVR` and `PartitionedLinearSVDD` are the optima of all rows in one place, and so certified."""

import pickle

import numpy as np
import pytest
from sklearn.svm import SVR as LIBSVM

from dualflow import SVDD, SVR, FitError, PartitionedLinearSVDD, PartitionedLinearSVR, ProblemError, Status

RNG = np.random.default_rng(0)
X = RNG.standard_normal((900, 5)) * [1.0, 2.0, 0.5, 1.0, 3.0] + 4.0
Y = X @ [1.0, -0.5, 2.0, 0.0, 0.3] + 0.5 * RNG.standard_normal(900)
WEIGHT = RNG.choice([0.0, 0.5, 1.0, 3.0], 900)
PARTS = {"partitions": 4, "random_state": 0, "tol": 1e-9}


class Fixed:
    """Given rows."""

    def __init__(self, *columns):
        self.columns = columns

    def load(self):
        return self.columns


def tube_primal(model, X, y, weight):
    """Return ½‖w‖² + C Σ weight · (residual beyond ε)."""
    loss = np.maximum(0.0, np.abs(y - model.predict(X)) - model.epsilon)
    return 0.5 * model.coef_[0] @ model.coef_[0] + model.C * weight @ loss


def ball_primal(model, X, weight):
    """Return R² + Σ weight · (squared distance beyond R²) / (ν Σ weight)."""
    beyond = np.maximum(0.0, ((X - model.center_) ** 2).sum(axis=1) - model.radius_**2)
    return model.radius_**2 + weight @ beyond / (model.nu * weight.sum())


def drawn(n):
    rng = np.random.default_rng(n)
    points = rng.standard_normal((n, 4)) + 2.0
    return points, points @ [1.0, 2.0, -1.0, 0.5] + rng.standard_normal(n)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["ones", "weights"])
@pytest.mark.parametrize("options", [{}, {"C": 1e-3}, {"C": 50.0, "epsilon": 0.0}, {"epsilon": 3.0}])
def test_regression_is_the_optimum_of_all_rows(options, weight):
    model = PartitionedLinearSVR(**options, **PARTS).fit(X, Y, weight)
    whole = SVR(kernel="linear", **options, tol=1e-11).fit(X, Y, weight)
    found, best = model.certificate_, whole.certificate_.objective
    assert model.statuses_ == [Status.OPTIMAL]
    assert abs(found.objective - best) <= 1e-9 * abs(best)
    given = np.ones(len(Y)) if weight is None else weight
    assert tube_primal(model, X, Y, given) == pytest.approx(-found.lower_bound, rel=1e-11)
    assert np.allclose(model.predict(X), whole.predict(X), atol=1e-4)
    assert found.bias == model.intercept_[0]
    assert found.multiplier == pytest.approx(whole.certificate_.multiplier, abs=1e-4)


def test_regression_is_as_good_as_libsvm():
    ones, model = np.ones(len(Y)), PartitionedLinearSVR(**PARTS).fit(X, Y)
    theirs = LIBSVM(kernel="linear", tol=1e-8).fit(X, Y)
    assert tube_primal(model, X, Y, ones) <= tube_primal(theirs, X, Y, ones) * (1 + 1e-9)
    assert np.allclose(model.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["ones", "weights"])
@pytest.mark.parametrize("nu", [0.01, 0.1, 0.905])
def test_the_ball_is_that_of_all_rows(nu, weight):
    model = PartitionedLinearSVDD(nu, **PARTS).fit(X, sample_weight=weight)
    whole = SVDD(kernel="linear", nu=nu, tol=1e-11).fit(X, sample_weight=weight)
    found, best = model.certificate_, whole.certificate_
    assert model.statuses_ == [Status.OPTIMAL]
    assert abs(found.objective - best.objective) <= 1e-9 * abs(best.objective)
    assert ball_primal(model, X, np.ones(len(X)) if weight is None else weight) == pytest.approx(-found.objective)
    assert model.radius_ == found.radius
    assert np.allclose(model.center_, whole.center_, atol=1e-4)
    assert found.quadratic == pytest.approx(best.quadratic, rel=1e-5)
    assert model.radius_ == pytest.approx(whole.radius_, rel=1e-4)
    assert found.multiplier == pytest.approx(best.multiplier, rel=1e-4)
    assert np.mean(model.predict(X) == whole.predict(X)) > 0.99


def test_weights_count_rows():
    weight = RNG.integers(0, 4, size=900).astype(float)
    rows = np.repeat(np.arange(900), weight.astype(int))
    for kind in (PartitionedLinearSVR, PartitionedLinearSVDD):
        weighted, repeated = kind(**PARTS).fit(X, Y, weight), kind(**PARTS).fit(X[rows], Y[rows])
        assert weighted.certificate_.objective == pytest.approx(repeated.certificate_.objective, rel=1e-9)


def test_many_rows_are_solved_by_samples(monkeypatch):
    # Few rows are allowed, so that a sample follows another one.
    monkeypatch.setattr("dualflow.cascade.linear.NUMBERS_SENT", 20_000)
    points, values = drawn(20_000)
    given = {"partitions": 7, "partitioner": "given"}
    for model, whole in (
        (PartitionedLinearSVR(**given).fit(points, values), SVR(kernel="linear", tol=1e-11).fit(points, values)),
        (PartitionedLinearSVDD(**given).fit(points), SVDD(kernel="linear", nu=0.1, tol=1e-11).fit(points)),
    ):
        best = whole.certificate_.objective
        assert abs(model.certificate_.objective - best) <= 1e-9 * abs(best)
        assert len(model.rounds_) <= 8  # steps over all rows would be more
        assert max(row.points for row in model.rounds_) <= 5000


def test_parts_of_any_kind_give_the_same_bits(tmp_path):
    """Arrays, a memory map, parts of one's own with words for y, dask arrays, and joblib's processes."""
    given = {"partitions": 3, "partitioner": "given", "tol": 1e-6}
    value, ball = PartitionedLinearSVR(**given).fit(X, Y), PartitionedLinearSVDD(**given).fit(X)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    cuts = [slice(0, 300), slice(300, 600), slice(600, 900)]
    of_words = [Fixed(X[rows], np.full(300, "word")) for rows in cuts]
    others = [(PartitionedLinearSVR(**given).fit(mapped, Y), PartitionedLinearSVDD(**given).fit(mapped))]
    own = [Fixed(X[rows], Y[rows]) for rows in cuts]
    others.append((PartitionedLinearSVR(**given).fit(own), PartitionedLinearSVDD(**given).fit(of_words)))
    array = pytest.importorskip("dask.array")
    chunked = [array.from_array(one, chunks=300) for one in (X, Y)]
    others.append((PartitionedLinearSVR(**given).fit(*chunked), PartitionedLinearSVDD(**given).fit(chunked[0])))
    for regression, description in others:
        assert np.array_equal(regression.coef_, value.coef_)
        assert np.array_equal(description.center_, ball.center_)
        assert description.certificate_.gap == ball.certificate_.gap
    assert np.array_equal(others[-1][0].predict(chunked[0]).compute(), value.predict(X))
    assert np.array_equal(others[-1][1].predict(chunked[0]).compute(), ball.predict(X))
    assert others[-1][0].score(*chunked) == pytest.approx(value.score(X, Y), rel=1e-12)


def test_models_pickle_and_are_not_saved():
    for model in (PartitionedLinearSVR(**PARTS, engine="joblib", n_jobs=1), PartitionedLinearSVDD(**PARTS)):
        model.fit(X, Y)
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.predict(X), model.predict(X))
        with pytest.raises(ProblemError, match="Pickle the model"):
            model.save("model")
        with pytest.raises(AttributeError, match="stay with the parts"):
            _ = model.support_vectors_


def test_data_that_do_not_fit_are_named():
    words = [Fixed(X, np.full(900, "word"))]
    with pytest.raises(ProblemError, match=r"part 0: y holds <U4; numbers are needed"):
        PartitionedLinearSVR().fit(words)
    with pytest.raises(ProblemError, match="part 0: y contains NaN"):
        PartitionedLinearSVR().fit([Fixed(X, np.where(Y > 4, np.nan, Y))])
    with pytest.raises(ProblemError, match="the parts hold no rows"):
        PartitionedLinearSVDD().fit([Fixed(X[:0], Y[:0])])
    with pytest.raises(ProblemError, match="sample_weight is zero for every point"):
        PartitionedLinearSVDD().fit([Fixed(X, Y, np.zeros(900))])
    with pytest.raises(ProblemError, match="nu"):
        PartitionedLinearSVDD(None).fit(X)
    with pytest.raises(ProblemError, match="epsilon"):
        PartitionedLinearSVR(epsilon=-1.0).fit(X, Y)


def test_far_rows_and_constant_columns():
    """Values far from 0, whose digits a kernel that is not centred would lose, and a column without spread."""
    far = np.column_stack([X + 1e6, np.ones(900)])
    model = PartitionedLinearSVR(**PARTS).fit(far, Y + 1e6)
    assert model.certificate_.relative_gap <= 1e-6
    here = PartitionedLinearSVR(**PARTS).fit(X, Y)
    assert np.allclose(model.coef_[0, :-1], here.coef_[0], atol=1e-4)
    ball = PartitionedLinearSVDD(**PARTS).fit(far)
    assert ball.radius_ == pytest.approx(PartitionedLinearSVDD(**PARTS).fit(X).radius_, rel=1e-6)


def test_a_part_that_changes_gets_no_certificate():
    class Shuffled(Fixed):
        turn = 0

        def load(self):
            self.turn += 1
            order = np.random.default_rng(self.turn).permutation(len(X))
            return X[order], Y[order]

    for kind in (PartitionedLinearSVR, PartitionedLinearSVDD):
        with pytest.raises(ProblemError, match="part changed between two reads"):
            kind().fit([Shuffled()])


def test_a_limit_without_time_is_an_error():
    with pytest.raises(FitError, match="time_limit"):
        PartitionedLinearSVR(time_limit=1e-9).fit(X, Y)
