"""What must hold of every fit of `SVC` and `SVDD`, on data that hypothesis makes: grids, duplicates, bits, far from the
origin, of one feature or of many."""

import tempfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dualflow import SVC, SVDD, Gram, certify, problems, solve

ours = settings(
    derandomize=True, max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def data_sets(draw, least=6, most=40):
    """Points and signs; both signs are there. Entries are multiples of 1/16, so that sums of few are exact."""
    n, m = draw(st.integers(least, most)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["normal", "grid", "bits", "duplicates", "collinear"]))
    X = np.round(16 * rng.normal(size=(n, m))) / 16
    if kind == "grid":
        X = rng.integers(-2, 3, size=(n, m)).astype(float)
    elif kind == "bits":
        X = (rng.random((n, m)) < 0.3).astype(float)
    elif kind == "duplicates":
        X = X[rng.integers(0, max(2, n // 3), n)]
    elif kind == "collinear":
        X = X[:, :1] * np.arange(1.0, m + 1.0)
    y = np.where(X[:, 0] + draw(st.sampled_from([0.0, 0.5, 2.0])) * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


KERNELS = (
    {"kernel": "rbf", "gamma": 0.5},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 1},
)
kernels = st.sampled_from(KERNELS)
costs = st.sampled_from([1e-3, 0.1, 1.0, 10.0, 1e3])
losses = st.sampled_from(["hinge", "squared_hinge"])


def objective(model):
    return model.certificate_.objective


def same_optimum(one, other, factor=1.0):
    """f within what the two certificates leave open, and round-off."""
    size = max(abs(objective(one)), factor * abs(objective(other)))
    slack = one.certificate_.gap + factor * other.certificate_.gap + 1e-9 * size + 1e-14
    assert abs(objective(one) - factor * objective(other)) <= slack


@ours
@given(data_sets(), kernels, costs, losses, st.randoms(use_true_random=False))
def test_the_order_of_points_does_not_matter(data, kernel, C, loss, random):
    X, y = data
    order = np.array(random.sample(range(len(X)), len(X)))
    same_optimum(SVC(C, loss=loss, **kernel).fit(X, y), SVC(C, loss=loss, **kernel).fit(X[order], y[order]))
    same_optimum(SVDD(0.3, **kernel).fit(X), SVDD(0.3, **kernel).fit(X[order]))


@ours
@given(data_sets(), kernels, costs, losses)
def test_flipped_labels_flip_the_decision(data, kernel, C, loss):
    X, y = data
    one, other = SVC(C, loss=loss, **kernel).fit(X, y), SVC(C, loss=loss, **kernel).fit(X, -y)
    same_optimum(one, other)
    # Of the hinge, w is unique and the bias may not be; of the squared hinge both are.
    flat = 1.0 if loss == "squared_hinge" else 0.0
    values = one.decision_function(X) + other.decision_function(X)
    spread = values - (1.0 - flat) * values.mean()
    norm = np.sqrt(np.abs(one.certificate_.quadratic) + 1.0) * (1.0 + np.abs(X).max() ** 2)
    assert np.abs(spread).max() <= 1e-3 * norm


@ours
@given(data_sets(most=20), kernels, costs, losses)
def test_points_twice_are_points_of_twice_the_weight(data, kernel, C, loss):
    X, y = data
    twice = SVC(C, loss=loss, **kernel).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    weighed = SVC(C, loss=loss, **kernel).fit(X, y, sample_weight=np.full(len(X), 2.0))
    larger_C = SVC(2 * C, loss=loss, **kernel).fit(X, y)
    same_optimum(weighed, larger_C)
    same_optimum(twice, larger_C)
    same_optimum(SVDD(0.3, **kernel).fit(np.tile(X, (2, 1))), SVDD(0.3, **kernel).fit(X))


@ours
@given(data_sets(), costs, st.sampled_from([2.0**-20, 0.25, 2.0, 2.0**20]))
def test_scales_of_the_features_are_scales_of_gamma_and_C(data, C, scale):
    X, y = data
    radial = SVC(C, gamma=0.5).fit(X, y)
    same_optimum(radial, SVC(C, gamma=0.5 / scale**2).fit(scale * X, y))
    # ⟨x, z⟩ grows with the square: α and C shrink with it, and so does f.
    same_optimum(SVC(C, kernel="linear").fit(X, y), SVC(C / scale**2, kernel="linear").fit(scale * X, y), scale**2)
    same_optimum(SVDD(0.3, kernel="linear").fit(scale * X), SVDD(0.3, kernel="linear").fit(X), scale**2)


@ours
@pytest.mark.filterwarnings("error")
@given(
    data_sets(), st.sampled_from([{"kernel": "linear"}, {"kernel": "rbf", "gamma": 0.5}]), costs, st.integers(-20, 20)
)
def test_a_translation_changes_nothing_but_the_bias(data, kernel, C, k):
    X, y = data
    moved = X + np.sign(k) * 2.0 ** abs(k)
    one, other = SVC(C, **kernel).fit(X, y), SVC(C, **kernel).fit(moved, y)
    assert other.certificate_.relative_gap <= 1e-6
    same_optimum(one, other)
    near, far = SVDD(0.3, **kernel).fit(X), SVDD(0.3, **kernel).fit(moved)
    same_optimum(near, far)
    assert abs(near.radius_ - far.radius_) <= 1e-5 * (1.0 + near.radius_)


@ours
@given(data_sets(), kernels, costs, st.sampled_from(["hinge", "squared_hinge", "ball"]), st.booleans())
def test_a_warm_start_ends_where_a_cold_one_does_and_refined_is_not_above_raw(data, kernel, C, model, near):
    X, y = data
    gram = Gram(X, **kernel)
    problem = problems.svdd(gram, 0.3) if model == "ball" else problems.svc(gram, y, C, loss=model)
    cold = solve(problem, refine=True)
    rng = np.random.default_rng(len(X))
    start = cold.alpha * (1.0 + 0.01 * rng.normal(size=problem.n)) if near else rng.uniform(size=problem.n)
    warm = solve(problem, refine=True, warm=start)
    slack = cold.certificate.gap + warm.certificate.gap
    # f is a difference: it is known to the round-off of its terms.
    size = 1e-14 * (cold.alpha.sum() ** 2 * problem.diag().max() + abs(problem.p @ cold.alpha)) + 1e-15
    assert abs(cold.certificate.objective - warm.certificate.objective) <= slack + size
    for solution in (cold, warm):
        assert solution.certificate.objective <= solution.raw_certificate.objective + size


def independent_bound(Q, p, upper, e, d, alpha):
    """The best dual bound of α, by looking at all its kinks: D(ν) = −½ αᵀQα + νd + Σ min(0, uᵢρᵢ)."""
    h = Q @ alpha - p
    return max(-0.5 * alpha @ Q @ alpha + nu * d + (upper * np.minimum(0.0, h - nu * e)).sum() for nu in h * e)


@ours
@given(data_sets(), kernels, costs, st.floats(0, 1))
def test_certificates_are_those_of_a_matrix_made_here(data, kernel, C, spoiled):
    X, y = data
    K = X @ X.T
    if kernel["kernel"] == "rbf":
        K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    elif kernel["kernel"] == "poly":
        K = (0.5 * K + 1.0) ** 2
    gram, n = Gram(X, **kernel), len(X)
    rng = np.random.default_rng(n)
    for problem, Q, p, upper, e, d in (
        (problems.svc(gram, y, C), np.outer(y, y) * K, np.ones(n), np.full(n, C), y, 0.0),
        (problems.svdd(gram, 0.3), 2 * K, np.diag(K), np.full(n, 1 / (0.3 * n)), np.ones(n), 1.0),
    ):
        optimum = solve(problem, refine=True).alpha
        # Not the optimum alone: a certificate is true of any α.
        alpha = problem.project((1 - spoiled) * optimum + spoiled * rng.uniform(0, 1, n) * np.minimum(C, 1.0))
        found = certify(problem, alpha)
        f = 0.5 * alpha @ Q @ alpha - p @ alpha
        size = 1e-9 * (np.abs(alpha).sum() ** 2 * np.abs(Q).max() + np.abs(p @ alpha)) + 1e-12
        assert abs(found.objective - f) <= size
        assert found.lower_bound <= independent_bound(Q, p, upper, e, d, alpha) + size * (1 + upper.sum())
        best = 0.5 * optimum @ Q @ optimum - p @ optimum
        assert found.lower_bound <= best + size
        assert found.gap >= f - best - size


def forms(X):
    """The same numbers in other clothes; all are exact in float32."""
    wide = np.zeros((2 * len(X), 3 * X.shape[1]))
    wide[::2, 1::3] = X
    with tempfile.NamedTemporaryFile() as file:
        mapped = np.memmap(file.name, dtype=float, mode="w+", shape=X.shape)
        mapped[:] = X
        read_only = X.copy()
        read_only.flags.writeable = False
        yield from (X.tolist(), X.astype(np.float32), np.asfortranarray(X), wide[::2, 1::3], mapped, read_only)
        yield pd.DataFrame(X)
        yield np.ascontiguousarray(X[::-1])[::-1]
        try:
            import polars
        except ImportError:
            return
        yield polars.DataFrame({f"column {k}": X[:, k] for k in range(X.shape[1])})


@ours
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@given(data_sets(), kernels, costs)
def test_the_form_of_the_data_does_not_matter(data, kernel, C):
    X, y = data
    model, ball = SVC(C, **kernel).fit(X, y), SVDD(0.3, **kernel).fit(X)
    for form in forms(X):
        again, like = SVC(C, **kernel).fit(form, y), SVDD(0.3, **kernel).fit(form)
        np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
        np.testing.assert_array_equal(again.decision_function(form), model.decision_function(X))
        np.testing.assert_array_equal(like.decision_function(form), ball.decision_function(X))


@ours
@given(data_sets(), kernels, costs, losses)
def test_the_callers_arrays_stay_as_they_are(data, kernel, C, loss):
    X, y = data
    weight = np.linspace(0.5, 1.5, len(X))
    given_, before = (X, y, weight), [array.tobytes() for array in (X, y, weight)]
    model, ball = SVC(C, loss=loss, **kernel).fit(*given_), SVDD(0.3, **kernel).fit(X, sample_weight=weight)
    values = model.decision_function(X), ball.decision_function(X)
    assert [array.tobytes() for array in given_] == before
    read_only = [array.copy() for array in given_]
    for array in read_only:
        array.flags.writeable = False
    twin = (
        SVC(C, loss=loss, **kernel).fit(*read_only),
        SVDD(0.3, **kernel).fit(read_only[0], sample_weight=read_only[2]),
    )
    # What is kept is a copy: writes to the caller's arrays afterwards change no model.
    points = X.copy()
    for array in given_:
        array *= 3
    for one, other, known in zip((model, ball), twin, values, strict=True):
        np.testing.assert_array_equal(one.decision_function(points), known)
        np.testing.assert_array_equal(other.decision_function(points), known)
