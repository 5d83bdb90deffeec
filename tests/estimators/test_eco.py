"""EcoSVC and EcoSVDD: exact if no point is forgotten, Howell's and FISVDD's rules otherwise, bounded memory."""

import json
import pickle
import signal
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_digits, make_blobs, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import dualflow
from dualflow import SVC, SVDD, EcoSVC, EcoSVDD, ProblemError, Status, load
from dualflow.estimators import FitError, _ecology, eco_svc
from dualflow.online import stream as engine
from tests.combinations import covering


def moons(n=150, seed=0):
    X, y = make_moons(n, noise=0.25, random_state=seed)
    return X, y


def stream(model, X, y=None, batch=7, order=None, **kw):
    """Learn in small batches, in an order."""
    order = np.arange(len(X)) if order is None else order
    for start in range(0, len(X), batch):
        J = order[start : start + batch]
        model.partial_fit(X[J], *(() if y is None else (y[J],)), **kw)
    return model


def state(model):
    """The packed state as bytes."""
    arrays, facts = model._pack()
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}, json.dumps(facts)


def through_a_file(model):
    """What `load` makes of what `save` wrote."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return dualflow.load(Path(folder) / "model")


# --- exact if no point is forgotten -------------------------------------------------------------


def doubled():
    X, y = moons(60)
    X = np.concatenate([X, X[:30], X[:10]])
    return X, np.concatenate([y, y[:30], 1 - y[:10]])  # duplicates, and some that contradict


def grid():
    X = np.random.default_rng(3).integers(-3, 4, (120, 3)).astype(float)
    return X, (X.sum(axis=1) + np.tile([0, 1, 0, -2], 30) > 0).astype(int)


SETS = {
    "moons": moons,
    "classification": lambda: make_classification(150, random_state=1),
    "doubled": doubled,
    "grid": grid,
    "late": lambda: (moons()[0][np.argsort(moons()[1])], np.sort(moons()[1])),
}


@pytest.mark.parametrize(("name", "C"), covering(list(SETS), [0.1, 1.0, 100.0], together=1))
def test_remembering_all_points_gives_the_batch_optimum_in_any_order(name, C):
    X, y = SETS[name]()
    kernel = {"kernel": "linear"} if name == "grid" else {"gamma": 0.7}
    exact = SVC(C=C, **kernel).fit(X, y)
    for seed in (None, 0, 1):
        order = None if seed is None else np.random.default_rng(seed).permutation(len(X))
        model = stream(EcoSVC(C=C, reserve=np.inf, **kernel), X, y, 7, order, classes=[0, 1])
        whole = model.certify(X, y)
        assert whole.relative_gap <= 1e-9
        assert whole.objective == pytest.approx(exact.certificate_.objective, rel=1e-9)
        assert model.certificate_.relative_gap <= 1e-9
        assert len(model.survivors_) + len(model.reserve_) == len(X) == model.n_seen_


def test_decision_values_are_libsvms():
    X, y = moons()
    model = stream(EcoSVC(C=5, gamma=0.7, reserve=np.inf), X, y, classes=[0, 1])
    peer = svm.SVC(C=5, gamma=0.7, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


def test_more_classes_weights_and_no_bias_are_those_of_the_batch():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16, y[:200] % 4
    weight = np.random.default_rng(0).uniform(0.5, 2, 200)
    weight[:20] = 0
    names = np.array(["north", "east", "south", "west"])
    for kw in ({}, {"fit_intercept": False}):
        exact = SVC(C=3, gamma=0.05, **kw).fit(X, names[y], weight)
        model = EcoSVC(C=3, gamma=0.05, reserve=np.inf, **kw)
        for J in np.array_split(np.arange(200), 9):
            model.partial_fit(X[J], names[y[J]], names, weight[J])
        for name in ("dual_coef_", "intercept_", "support_", "n_support_", "support_vectors_"):
            np.testing.assert_allclose(getattr(model, name), getattr(exact, name), atol=1e-9, err_msg=name)
        np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-9)
        assert (model.predict(X) == exact.predict(X)).all()
        assert max(c.relative_gap for c in model.certify(X, names[y], weight)) <= 1e-9
        assert len(model.certificates_) == 6
        assert model.certificate_.relative_gap == max(found.relative_gap for found in model.certificates_)
        copy = through_a_file(model)
        assert (copy.classes_ == model.classes_).all()
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    ("nu", "kernel"),
    covering(
        [None, 0.05, 0.5, 1.0],
        [{"gamma": 0.5}, {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 1.0}],
        together=1,
    ),
)
def test_the_ball_is_the_batch_ball_while_its_bounds_fall(nu, kernel):
    X, _ = moons(120)
    exact = SVDD(nu=nu, **kernel).fit(X)
    for seed in (None, 0, 1):
        order = None if seed is None else np.random.default_rng(seed).permutation(len(X))
        model = stream(EcoSVDD(nu=nu, reserve=np.inf, **kernel), X, None, 7, order)
        assert model.certify(X).relative_gap <= 1e-9
        assert model.radius_ == pytest.approx(exact.radius_, rel=1e-6)
        np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-6)
    # At nu = 1 every point has the weight of its bound, and any radius up to the farthest point's is as good.
    assert nu == 1.0 or (model.predict(X) == exact.predict(X)).mean() > 0.97


def test_one_point_at_a_time_and_single_points_first():
    X, y = moons(60)
    model = EcoSVC(gamma=1.0, reserve=np.inf)
    for k in range(60):
        model.partial_fit(X[k : k + 1], y[k : k + 1], classes=[0, 1])
        assert np.isfinite(model.decision_function(X)).all()
    assert model.certify(X, y).relative_gap <= 1e-9
    ball = EcoSVDD(gamma=1.0, nu=None).partial_fit(X[:1])
    assert ball.radius_ == 0.0
    assert ball.predict(X[:2]).tolist() == [1, -1]


def test_hard_margin_until_the_stream_is_inseparable():
    X = np.random.default_rng(0).uniform(size=(300, 2))
    X = X[np.abs(X[:, 0] - 0.5) > 0.02]
    y = (X[:, 0] < 0.5).astype(int)
    exact = SVC(C=np.inf, kernel="linear").fit(X, y)
    for reserve in (0, np.inf):
        model = stream(EcoSVC(C=np.inf, kernel="linear", reserve=reserve), X, y, 10, classes=[0, 1])
        # In two dimensions the hull's corners are the survivors, and Howell's rule loses nothing that matters here.
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=0.2 if reserve == 0 else 1e-8)
        assert model.score(X, y) == 1.0
    assert model.certify(X, y).relative_gap <= 1e-9
    before = state(model)
    with pytest.raises(FitError, match=r"C=inf.*not separable") as caught:
        model.partial_fit([[0.1, 0.5]], [0])
    assert caught.value.solution.witness is not None
    assert state(model) == before


# --- the rules of invasion ----------------------------------------------------------------------


def kernel_matrix(A, B, gamma=None):
    if gamma is None:
        return A @ B.T
    return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def test_a_point_invades_if_its_margin_is_below_one():
    """Howell 17, 19: t₀f(x₀) < 1, f with its αᵢ, summed here by hand."""
    X, y = moons(300)
    model = EcoSVC(C=2.0, gamma=1.0, reserve=0).partial_fit(X[:40], y[:40], classes=[0, 1])
    invaded = []
    for k in range(40, 300):
        sign = 2 * y[k] - 1
        f = kernel_matrix(X[k : k + 1], model.support_vectors_, 1.0) @ model.dual_coef_[0] + model.intercept_[0]
        before, survivors = model.n_invasions_, model.survivors_
        model.partial_fit(X[k : k + 1], y[k : k + 1])
        invaded.append(sign * f[0] < 1)
        assert model.n_invasions_ - before == int(sign * f[0] < 1)
        assert invaded[-1] or (model.survivors_ == survivors).all()
        assert model.certificate_.relative_gap <= 1e-9
    assert 20 < sum(invaded) < 200


@pytest.mark.parametrize("nu", [None, 0.05])
def test_fisvdds_rule_for_a_constant_diagonal(nu):
    """Howell 30: outside ⇔ Σαᵢk(x,xᵢ) is below its value at the free survivors; survivors are those of a batch solve
    of the earlier ones with the new point (FISVDD's rule for points to keep), by cvxopt."""
    X = np.random.default_rng(1).normal(size=(150, 2))
    model = EcoSVDD(nu=nu, gamma=0.4, reserve=0, n_init=20).partial_fit(X[:20])
    count = 0
    for k in range(20, 150):
        alpha, S = model.dual_coef_[0], model.support_vectors_
        K = kernel_matrix(S, S, 0.4)
        bound = np.inf if nu is None else 1 / (nu * k)
        free = (alpha > 0) & (alpha < bound * (1 - 1e-9))
        level = (K @ alpha)[free]
        assert np.ptp(level) < 1e-9
        outside = kernel_matrix(X[k : k + 1], S, 0.4) @ alpha < level.mean()
        before, kept = model.n_invasions_, model.survivors_
        model.partial_fit(X[k : k + 1])
        if nu is None:  # otherwise the falling bounds give weight to some points inside
            assert model.n_invasions_ - before == int(outside[0])
            joint = np.append(kept, k) if outside[0] else kept
            batch = dualflow.solve(dualflow.problems.svdd(dualflow.Gram(X[joint], gamma=0.4)), "cvxopt", refine=True)
            assert model.survivors_.tolist() == joint[batch.support].tolist()
        elif outside[0]:
            assert model.n_invasions_ > before
        count += int(outside[0])
    assert 5 < count < 100


def test_outside_the_sphere_for_a_diagonal_that_varies():
    """Howell 28 with the factor 2 that the published script lacks."""
    X = np.random.default_rng(2).normal(size=(200, 3))
    model = EcoSVDD(nu=None, kernel="linear", reserve=0, n_init=20).partial_fit(X[:20])
    for k in range(20, 200):
        distance, before = float(np.linalg.norm(X[k] - model.center_)), model.n_invasions_
        radius = float(np.linalg.norm(model.support_vectors_ - model.center_, axis=1).max())
        model.partial_fit(X[k : k + 1])
        assert model.n_invasions_ - before == int(distance > radius * (1 + 1e-12))
    assert model.n_extinctions_ > 0


def test_invasions_less_extinctions_are_the_survivors():
    X, y = moons(300)
    for reserve in (0, 5, 1.0, np.inf):
        model = stream(EcoSVC(gamma=1.0, reserve=reserve), X, y, 11, classes=[0, 1])
        assert model.n_invasions_ - model.n_extinctions_ == len(model.survivors_)
        assert model.n_extinctions_ > 0
        assert (model.dual_coef_ != 0).all()
        np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


@pytest.mark.parametrize("make", [lambda **kw: EcoSVC(C=3, **kw), lambda **kw: EcoSVDD(nu=0.1, **kw)])
def test_the_flow_finds_the_same_equilibria(make):
    X, y = moons(200)
    labels = (y,) if isinstance(make(), EcoSVC) else ()
    exact = make(gamma=1.0).fit(X, *labels)
    flown = make(gamma=1.0, reequilibrate="lotka-volterra").fit(X, *labels)
    assert flown.certify(X, *labels).relative_gap <= 1e-7
    assert len(np.setxor1d(flown.survivors_, exact.survivors_)) <= 2
    np.testing.assert_allclose(flown.decision_function(X), exact.decision_function(X), atol=1e-3)


# --- memory -------------------------------------------------------------------------------------


def test_a_forced_small_reserve_never_grows_beyond_it():
    X, y = moons(400)
    model = EcoSVC(gamma=1.0, reserve=3, n_init=10)
    for start in range(0, 400, 9):
        model.partial_fit(X[start : start + 9], y[start : start + 9], classes=[0, 1])
        if start >= 9:
            assert len(model.reserve_) <= 3
        (community,) = model._communities
        assert len(community.X) == len(model.survivors_) + len(model.reserve_)
    model = stream(EcoSVC(gamma=1.0, reserve=0.5), X, y, 9, classes=[0, 1])
    assert 0 < len(model.reserve_) <= 0.5 * len(model.survivors_)


def test_memory_is_bounded_by_survivors_and_reserve():
    X, y = make_blobs(20_000, centers=[[0, 0], [4, 4]], cluster_std=0.7, random_state=0)
    model = EcoSVC(gamma=0.3, C=1.0, reserve=10, n_init=50)
    sizes = []
    for start in range(0, 20_000, 4000):
        J = slice(start, start + 4000)
        model.partial_fit(X[J], y[J], classes=[0, 1])
        points = len(model.survivors_) + len(model.reserve_)
        sizes.append(len(pickle.dumps(model)) / points)
        arrays, _ = model._pack()
        assert sum(a.nbytes for a in arrays.values()) <= points * (2 + 5) * 8 + 8 * len(model.classes_)
    assert points < 300
    assert max(sizes) < 2.0 * min(sizes)


def test_a_class_that_does_not_come_keeps_no_more_than_the_first_points():
    X, y = moons(300)
    model = EcoSVC(gamma=1.0, reserve=5, n_init=20)
    for start in range(0, 100, 10):
        X0 = X[y == 0][start : start + 10]
        model.partial_fit(X0, np.zeros(len(X0)), classes=[0, 1])
    assert len(model.reserve_) == 20
    assert len(model.survivors_) == 0
    assert (model.predict(X) == 0).all()
    stream(model, X, y, 50)
    assert model.score(X, y) > 0.9


def test_classes_that_never_came_get_no_votes():
    X, y = moons(80)
    model = EcoSVC(gamma=1.0).partial_fit(X, np.array(["a", "c"])[y], classes=["a", "b", "c", "d"])
    assert set(model.predict(X)) == {"a", "c"}
    assert len(model.certificates_) == 5  # the pair (b, d) has no points


def test_the_reserve_is_those_nearest_to_the_margin():
    X, y = moons(300)
    model = EcoSVC(gamma=1.0, reserve=12).fit(X, y)
    margin = (2 * y - 1) * model.decision_function(X)
    idle = np.setdiff1d(np.arange(300), model.survivors_)
    assert set(model.reserve_) == set(idle[np.argsort(margin[idle])[:12]])
    ball = EcoSVDD(gamma=1.0, reserve=12).fit(X)
    distance = -ball.score_samples(X)
    idle = np.setdiff1d(np.arange(300), ball.survivors_)
    assert set(ball.reserve_) == set(idle[np.argsort(-distance[idle])[:12]])


@pytest.mark.parametrize("kernel", ["rbf", lambda A, B: kernel_matrix(A, B, 1.0)])  # in one batch, and by invasion
def test_the_blocks_of_one_call_are_as_good_as_calls(kernel, monkeypatch):
    X, y = moons(300)
    whole = stream(EcoSVC(kernel=kernel, gamma=1.0, C=3, reserve=4), X, y, 50, classes=[0, 1])
    for room in (eco_svc, engine):
        monkeypatch.setattr(room, "MAX_POINTS_PER_BLOCK", 50)
    blocks = EcoSVC(kernel=kernel, gamma=1.0, C=3, reserve=4).partial_fit(X, y, classes=[0, 1])
    assert (blocks.survivors_ == whole.survivors_).all()
    assert (blocks.reserve_ == whole.reserve_).all()
    np.testing.assert_allclose(blocks.dual_coef_, whole.dual_coef_, atol=1e-9)
    assert blocks.certificate_.relative_gap <= 1e-9


def test_the_first_call_fixes_the_width_of_the_kernel():
    X, y = moons(200)
    model = EcoSVC(reserve=np.inf).partial_fit(X[:50], y[:50], classes=[0, 1])
    model.partial_fit(X[50:100] * 3, y[50:100])
    X[50:100] *= 3
    exact = SVC(gamma=1 / (2 * X[:50].var())).fit(X[:100], y[:100])
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-8)
    model.fit(X[100:], y[100:])
    exact.set_params(gamma="scale").fit(X[100:], y[100:])
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-8)


def test_bounds_of_the_ball_are_those_of_all_points_met():
    X, _ = moons(300)
    ball = stream(EcoSVDD(gamma=1.0, nu=0.1, reserve=0), X, None, 10)
    assert ball.dual_coef_.max() == pytest.approx(1 / 30, rel=1e-12)
    assert 30 <= len(ball.survivors_) < 60
    assert ball.dual_coef_.sum() == pytest.approx(1, abs=1e-12)


# --- the first points ---------------------------------------------------------------------------


def test_the_first_points_are_solved_as_a_batch():
    X, y = moons(120)
    model = EcoSVC(gamma=1.0, reserve=0, n_init=60)
    for k in range(0, 60, 5):
        assert k == 0 or len(model.survivors_) + len(model.reserve_) == k
        model.partial_fit(X[k : k + 5], y[k : k + 5], classes=[0, 1])
    assert model.certify(X[:60], y[:60]).relative_gap <= 1e-9
    assert len(model.reserve_) == 0


def test_an_exact_equilibrium_is_not_changed_by_snapping():
    """A point near the origin has a curvature near 0; its round-off once moved the other points to their bounds."""
    for seed in (10, 12):
        X = np.random.default_rng(seed).normal(size=(156, 1))
        X[0] = 1e-4
        model = EcoSVDD(nu=0.0104, kernel="poly", degree=4, gamma=0.95, n_init=156, reserve=156).fit(X)
        assert model.certificate_.relative_gap < 1e-9


def test_fewer_first_points_than_features_warn():
    X, y = load_digits(n_class=2, return_X_y=True)
    with pytest.warns(UserWarning, match="n_init=10 is smaller than the 64 features"):
        EcoSVC(n_init=10).fit(X, y)
    with pytest.warns(UserWarning, match="n_init=10"):
        EcoSVDD(n_init=10).partial_fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EcoSVC().fit(X, y)
        EcoSVC(n_init=64).fit(X, y).partial_fit(X[:5], y[:5])


# --- certificates, files ------------------------------------------------------------------------


def test_certify_needs_all_survivors_and_bounds_the_loss():
    X, y = moons(300)
    model = stream(EcoSVC(gamma=1.0, reserve=0), X, y, 5, classes=[0, 1])
    assert model.certificate_.relative_gap <= 1e-9
    whole, best = model.certify(X[::-1], y[::-1]), SVC(gamma=1.0).fit(X, y).certificate_.objective
    assert whole.lower_bound <= best * (1 - 1e-12)
    assert whole.objective - best <= whole.gap
    assert whole.relative_gap > 1e-6
    gone = model.survivors_[0]
    with pytest.raises(ProblemError, match=r"1 of \d+ survivors"):
        model.certify(np.delete(X, gone, axis=0), np.delete(y, gone))
    with pytest.raises(ProblemError, match="survivors"):
        model.certify(X, 1 - y)


@pytest.mark.parametrize("kw", [{}, {"reserve": 0}, {"reserve": np.inf}, {"reequilibrate": "lotka-volterra"}])
def test_a_model_read_back_goes_on_to_the_same_bits(kw):
    X, y = moons(240)
    for model, labels in ((EcoSVC(C=3, **kw), (y,)), (EcoSVDD(nu=0.1, **kw), ())):
        first = {"classes": [0, 1]} if labels else {}
        model.partial_fit(X[:100], *(a[:100] for a in labels), **first)
        copy = through_a_file(model)
        assert state(copy) == state(model)
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
        for J in (slice(100, 101), slice(101, 150), slice(150, 240)):
            for m in (model, copy):
                m.partial_fit(X[J], *(a[J] for a in labels))
            assert state(copy) == state(model)
            np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


# --- errors leave the model as it was -----------------------------------------------------------


def test_a_new_stream_has_a_kernel_of_its_own():
    X, y = moons()
    used = stream(EcoSVC(C=10, n_init=10), X, y, batch=1, classes=[0, 1])
    used.fit(3.0 * X[:40], y[:40])
    fresh = EcoSVC(C=10, n_init=10).fit(3.0 * X[:40], y[:40])
    for model in (used, fresh):  # one has learned a point with another width before
        for k in range(40, 100):
            model.partial_fit(3.0 * X[k : k + 1], y[k : k + 1])
    np.testing.assert_array_equal(used.survivors_, fresh.survivors_)
    np.testing.assert_array_equal(used._communities[0].alpha, fresh._communities[0].alpha)


def test_what_fails_changes_nothing():
    X, y = moons(100)
    model = EcoSVC(gamma=1.0)
    with pytest.raises(ProblemError, match="classes must be given"):
        model.partial_fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert not hasattr(model, "n_features_in_")
    model.partial_fit(X[:50], y[:50], classes=[0, 1])
    before = state(model)
    holed = X.copy()
    holed[3, 1] = np.nan
    for bad, message in (
        (lambda: model.partial_fit(holed, y), "NaN"),
        (lambda: model.partial_fit(X[:, :1], y), "features"),
        (lambda: model.partial_fit(X, y + 1), r"y holds \[2\]"),
        (lambda: model.partial_fit(X, y[:9]), "inconsistent"),
        (lambda: model.partial_fit(X, y, classes=[0, 2]), "earlier calls"),
        (lambda: model.partial_fit(X, y, sample_weight=-np.ones(100)), "sample_weight"),
        (lambda: model.fit(X, np.zeros(100)), "only one class"),
        (lambda: model.fit(holed, y), "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
        assert state(model) == before
    model.partial_fit(X[50:], y[50:])
    assert model.n_seen_ == 100


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": np.nan}, "C=nan"),
        ({"C": 0}, "C=0"),
        ({"C": True}, "C=True"),
        ({"reserve": -1}, "reserve=-1"),
        ({"reserve": np.nan}, "reserve=nan"),
        ({"n_init": 0}, "n_init=0"),
        ({"n_init": 2.5}, "n_init=2.5"),
        ({"reequilibrate": "smo"}, "reequilibrate='smo'"),
        ({"kernel": "precomputed"}, "stream"),
        ({"kernel": "rbv"}, "did you mean 'rbf'"),
        ({"gamma": -1}, "gamma=-1"),
        ({"tol": 0}, "tol=0"),
        ({"decision_function_shape": "x"}, "decision_function_shape"),
    ],
)
def test_parameters_out_of_range(parameters, message):
    X, y = moons(150)
    with pytest.raises(ProblemError, match=message):
        EcoSVC(**parameters).fit(X[: len(X)] if "kernel" not in parameters else X, y)
    if "C" not in parameters and "decision_function_shape" not in parameters:
        with pytest.raises(ProblemError, match=message):
            EcoSVDD(**parameters).fit(X)


@pytest.mark.parametrize("fit_intercept", ["penalised", None, 2])
def test_a_stream_has_an_intercept_or_none(fit_intercept):
    with pytest.raises(ProblemError, match="fit_intercept="):
        EcoSVC(fit_intercept=fit_intercept).fit(*moons(40))


@pytest.mark.parametrize("nu", [0, 1.5, True, "a"])
def test_nu_out_of_range(nu):
    with pytest.raises(ProblemError, match="nu="):
        EcoSVDD(nu=nu).fit(moons()[0])


@pytest.mark.parametrize("fit_intercept", [True, False])  # by a compiled call, and by a run
def test_ctrl_c_between_equilibria_leaves_the_model_as_it_was(fit_intercept, monkeypatch):
    X, y = moons(400)
    model = EcoSVC(gamma=1.0, C=10, fit_intercept=fit_intercept).partial_fit(X[:100], y[:100], classes=[0, 1])
    before, loaded = state(model), through_a_file(model)

    def interrupted(*arguments, **keywords):
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it went on")

    for room, name in ((_ecology, "refine"), (_ecology, "solve"), (eco_svc, "solve_pair")):
        monkeypatch.setattr(room, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[100:], y[100:])
    monkeypatch.undo()
    assert state(model) == before
    model.partial_fit(X[100:], y[100:])
    loaded.partial_fit(X[100:], y[100:])
    assert state(model) == state(loaded)


def test_a_solve_that_is_broken_or_interrupted_does_not_become_a_model(monkeypatch):
    X, y = moons(400)
    model = EcoSVC(gamma=1.0, C=10, fit_intercept=False).partial_fit(X[:100], y[:100], classes=[0, 1])
    before, solve = state(model), _ecology.solve

    def interrupted(*given, **more):
        raise KeyboardInterrupt

    def broken(*given, **more):
        return replace(solve(*given, **more), ended=Status.BROKEN)

    for ends, error in ((interrupted, KeyboardInterrupt), (broken, ProblemError)):
        monkeypatch.setattr(_ecology, "solve", ends)
        with pytest.raises(error):
            model.partial_fit(X[100:], y[100:])
        assert state(model) == before


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("step", [1, 100, 1500])
def test_a_block_is_learned_in_one_batch(kernel, step, monkeypatch):
    X, y = make_classification(1520 if step > 1 else 200, 6, random_state=0)
    monkeypatch.setattr(_ecology, "learn", None)  # invasion, which is not called
    model = EcoSVC(kernel=kernel, C=2.0, gamma=0.2, reserve=np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in np.split(np.arange(len(X)), range(20, len(X), step)):
            model.partial_fit(X[part], y[part], classes=[0, 1])
    exact = svm.SVC(kernel=kernel, C=2.0, gamma=0.2, tol=1e-9).fit(X, y)
    theirs = exact.decision_function(X)  # of kernel values in float32
    np.testing.assert_allclose(model.decision_function(X), theirs, atol=1e-4 * np.abs(theirs).max())
    assert model.certify(X, y).relative_gap <= 1e-9
    assert model.n_invasions_ - model.n_extinctions_ == len(model.survivors_)


def test_an_equilibrium_above_tol_warns(monkeypatch):
    X, y = moons(400)
    solve = _ecology.solve
    monkeypatch.setattr(_ecology, "solve", lambda *a, **k: solve(*a, **(k | {"refine": False, "max_steps": 1})))
    with pytest.warns(ConvergenceWarning, match="new equilibrium"):
        EcoSVC(gamma=1.0, C=100, reequilibrate="lotka-volterra").fit(X, y)


def test_a_callable_kernel_streams():
    X, y = moons(120)
    plain = EcoSVC(gamma=0.8).fit(X, y)
    called = EcoSVC(kernel=lambda A, B: kernel_matrix(A, B, 0.8)).fit(X, y)
    np.testing.assert_allclose(called.decision_function(X), plain.decision_function(X), atol=1e-8)
    with pytest.raises(ZeroDivisionError):
        called.set_params(kernel=lambda A, B: 1 / 0).partial_fit(X, y)


def test_an_indefinite_kernel_warns_and_withholds_the_certificate():
    X, y = moons(100)
    with pytest.warns(ConvergenceWarning, match=r"indefinite.*withheld"):
        model = EcoSVC(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, y)
    assert model.certificate_.gap is None
    assert np.isfinite(model.decision_function(X)).all()


def test_a_fit_needs_weight_in_every_class_and_a_stream_does_not():
    X, y = moons(100)
    with pytest.raises(ProblemError, match=r"no point of class .*1"):
        EcoSVC().fit(X, y, sample_weight=1.0 - y)
    model = EcoSVC(gamma=1.0).partial_fit(X, y, [0, 1], sample_weight=1.0 - y)
    assert model.n_seen_ == 100
    assert (model.predict(X) == 0).all()


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("classes", [2, 3])
def test_forget_is_the_optimum_over_the_points_that_are_left(kernel, classes, tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 3))
    y = (np.arange(150) + (X[:, 0] > 0)) % classes
    model = EcoSVC(C=2.0, kernel=kernel, gamma=0.5, reserve=np.inf, n_init=5)
    model.partial_fit(X[:80], y[:80], classes=range(classes)).partial_fit(X[80:], y[80:])
    gone = np.concatenate([model.survivors_[::7], model.reserve_[:3]])
    rest = np.setdiff1d(np.arange(150), gone)
    model.forget(gone)
    refit = SVC(C=2.0, kernel=kernel, gamma=0.5, tol=1e-9).fit(X[rest], y[rest])
    np.testing.assert_allclose(
        model._pair_values(X), refit._pair_values(X), atol=2e-3 * np.abs(refit._pair_values(X)).max()
    )
    np.testing.assert_array_equal(np.union1d(model.survivors_, model.reserve_), rest)
    assert model.certificate_.relative_gap <= 1e-6
    assert model.n_seen_ == 150
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    before = model.decision_function(X)
    np.testing.assert_array_equal(model.forget(gone[:2]).decision_function(X), before)  # forgotten already
    idle = model.reserve_[:2]
    np.testing.assert_allclose(model.forget(idle).decision_function(X), before, rtol=0, atol=1e-12)
    assert not set(idle) & set(model.reserve_)
    for wrong, words in (([150], "below n_seen_"), ([-1], "below n_seen_"), ([3, 3], "twice"), (["a"], "whole")):
        with pytest.raises(ProblemError, match=words):
            model.forget(wrong)
    assert model.partial_fit(X[gone], y[gone]).n_seen_ == 150 + len(gone)


def test_forget_all_points_and_with_a_bounded_reserve():
    X, y = np.arange(12.0)[:, None], np.arange(12) // 6
    model = EcoSVC(kernel="linear", C=10, n_init=2).partial_fit(X, y, classes=[0, 1])
    assert model.survivors_.tolist() == [5, 6]
    model.forget(5)
    assert 5 not in model.survivors_
    assert model.certificate_.relative_gap <= 1e-6
    remembered = np.union1d(model.survivors_, model.reserve_)
    model.forget(remembered)
    assert len(model.survivors_) == len(model.reserve_) == 0
    assert model.n_invasions_ == model.n_extinctions_
    assert model.partial_fit(X, y).score(X, y) == 1.0
