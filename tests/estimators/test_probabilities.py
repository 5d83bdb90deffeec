"""Probabilities of `SVC` and `NuSVC`: leave-one-out values against refits, calibrators and coupling by definition."""

import copy
import pickle

import numpy as np
import pytest
import sklearn.svm
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

import dualflow
from dualflow import SVC, NuSVC, ProblemError, SVCSearchCV
from dualflow.estimators import _left_out
from dualflow.estimators._calibration import Calibrator, coupled, sigmoid_of, venn_abers
from dualflow.persistence import container

METHODS = ("sigmoid", "isotonic", "venn-abers")
IRIS, SPECIES = load_iris(return_X_y=True)


def two(n=40, seed=5):
    return make_classification(n, 4, flip_y=0.2, class_sep=0.7, random_state=seed)


def refits(model, X, y, **changes):
    """Decision values of each point by a tight fit of dualflow to the others."""
    values = np.empty(len(y))
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        fitted = model(**changes, tol=1e-12).fit(X[rest], y[rest])
        values[i] = fitted.decision_function(X[i : i + 1])[0]
    return values


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 1.0, "gamma": 0.5},
        {"C": 50.0, "gamma": 0.5},
        {"C": 1.0, "kernel": "linear"},
        {"C": 1.0, "gamma": 0.5, "loss": "squared_hinge"},
        {"C": 1.0, "gamma": 0.5, "fit_intercept": False},
    ],
    ids=str,
)
def test_values_are_those_of_refits(parameters):
    X, y = two()
    (calibrator,) = SVC(probability=True, **parameters).fit(X, y).calibration_
    assert calibrator.is_exact
    np.testing.assert_allclose(calibrator.values, refits(SVC, X, y, **parameters), rtol=0, atol=1e-6)


def test_values_are_those_of_scikit_learns_refits():
    """LIBSVM's kernel values are float32; a linear kernel on whole numbers has none that are not exact."""
    X, y = two()
    X = np.round(4 * X)
    (calibrator,) = SVC(C=0.1, kernel="linear", probability=True).fit(X, y).calibration_
    theirs = refits(sklearn.svm.SVC, X, y, C=0.1, kernel="linear")
    np.testing.assert_allclose(calibrator.values, theirs, rtol=0, atol=1e-6)


def test_values_of_nu_svc_have_the_c_of_its_decision_function():
    X, y = two()
    model = NuSVC(nu=0.5, gamma=0.5, probability="sigmoid", tol=1e-10).fit(X, y)
    C = 1.0 / model.certificate_.level
    np.testing.assert_allclose(model.calibration_[0].values, refits(SVC, X, y, C=C, gamma=0.5), rtol=0, atol=1e-6)


def test_points_without_weight_that_set_an_end_of_the_bias_are_left_out_too():
    """No variable is free, and the bias interval has length above 0."""
    X, y = two()
    model = SVC(C=1e-3, gamma=0.5, probability=True).fit(X, y)
    values = refits(SVC, X, y, C=1e-3, gamma=0.5)
    np.testing.assert_allclose(model.calibration_[0].values, values, rtol=0, atol=1e-6)


def test_the_only_point_of_a_class_has_the_value_of_the_other():
    X, y = np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([0, 0, 0, 1])
    (calibrator,) = SVC(kernel="linear", probability=True).fit(X, y).calibration_
    assert calibrator.values[3] == -1.0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_many_points_take_the_first_segment(monkeypatch, loss):
    """The model without a point for fixed sets: free variables and bias solve the KKT equations."""
    monkeypatch.setattr(_left_out, "MAX_POINTS_EXACT", 100)
    X, y = two(120)
    model = SVC(C=2.0, probability=True, gamma=0.1, loss=loss, tol=1e-10).fit(X, y)
    found, f, sign = model.calibration_[0].values, model.decision_function(X), 2.0 * y - 1.0
    alpha = np.zeros(120)
    alpha[model.support_] = sign[model.support_] * model.dual_coef_[0]
    K = model.solution_.problem.gram.full()
    ridge = 0.0 if loss == "hinge" else 1.0 / (2 * 2.0)
    e = sign if loss == "hinge" else np.zeros(120)
    Q = np.outer(sign, sign) * (K if loss == "hinge" else K + 1.0) + ridge * np.eye(120)
    at_bound = (alpha >= 2.0 * (1 - 1e-12)) if loss == "hinge" else np.zeros(120, dtype=bool)
    for c in range(120):
        S = np.flatnonzero((alpha > 0) & ~at_bound & (np.arange(120) != c))
        E = np.flatnonzero(at_bound & (np.arange(120) != c))
        system = np.block([[np.zeros((1, 1)), e[None, S]], [e[S, None], Q[np.ix_(S, S)]]])
        right = np.concatenate([[-e[E] @ alpha[E]], 1.0 - Q[np.ix_(S, E)] @ alpha[E]])
        b, *inside = np.linalg.lstsq(system, right, rcond=None)[0]
        value = sign[c] * (Q[c, S] @ inside + Q[c, E] @ alpha[E] + e[c] * b)
        np.testing.assert_allclose(found[c], value if alpha[c] > 0 else f[c], rtol=0, atol=1e-6)


# --- calibrators -----------------------------------------------------------------------------------


def scores(n, seed, weights=False):
    rng = np.random.default_rng(seed)
    f = np.round(rng.normal(size=n), 2)  # some are equal
    t = (rng.random(n) < 1 / (1 + np.exp(-2 * f - 0.3))).astype(float)
    return f, t, rng.random(n) + 0.5 if weights else np.ones(n)


@pytest.mark.parametrize("weights", [False, True])
def test_sigmoid_has_the_least_loss(weights):
    f, t, w = scores(200, 0, weights)
    above, below = w @ t, w @ (1 - t)
    target = np.where(t > 0, (above + 0.5) / (above + 1), 0.5 / (below + 1))
    best = minimize(
        lambda x: w @ (np.logaddexp(0, x[0] * f + x[1]) - target * (x[0] * f + x[1])), [1.0, 0.0], tol=1e-14
    )
    np.testing.assert_allclose(sigmoid_of(f, t, w), best.x, atol=1e-5)


def test_sigmoid_never_falls():
    f, t, w = scores(200, 1)
    slope, offset = sigmoid_of(-f, t, w)
    assert slope == 0.0
    np.testing.assert_allclose(1 / (1 + np.exp(-offset)), (w * np.where(t, t.sum() + 0.5, 0.5) / np.where(
        t, t.sum() + 1, (1 - t).sum() + 1)).mean())  # fmt: skip


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_sigmoid_of_separable_values_of_any_size(scale):
    slope, offset = sigmoid_of(scale * np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1.0]), np.ones(4))
    assert slope > 0
    assert np.isfinite([slope, offset]).all()
    values, w = np.zeros(5), np.ones(5)
    assert sigmoid_of(values, np.array([0, 0, 1, 1, 1.0]), w)[0] == 0.0


@pytest.mark.parametrize("weights", [False, True])
def test_venn_abers_is_two_isotonic_regressions(weights):
    f, t, w = scores(60, 2, weights)
    found, table = venn_abers(f, t, w)
    new = np.concatenate([f[:20], [-9.0, 9.0], np.random.default_rng(3).normal(size=20)])
    for value in new:
        column = np.searchsorted(found, value, "left") + np.searchsorted(found, value, "right")
        for label in (0, 1):
            own = IsotonicRegression().fit(np.append(f, value), np.append(t, label), np.append(w, 1.0))
            np.testing.assert_allclose(table[label, column], own.predict([value])[0], rtol=0, atol=1e-12)


def test_venn_abers_is_calibrated():
    """The one of p₀ and p₁ that belongs to the true label is a conditional mean of it, for every distribution.

    The mean of label − p over 400 training sets with 10 new points each is 0 within 4 σ, overall and where p < ½.
    """
    means = []
    for seed in range(400):
        f, t, w = scores(40, seed)
        found, table = venn_abers(f, t, w)
        new, truth, _ = scores(10, 10_000 + seed)
        columns = np.searchsorted(found, new, "left") + np.searchsorted(found, new, "right")
        p = table[truth.astype(int), columns]
        means.append([(truth - p).mean(), np.where(p < 0.5, truth - p, 0.0).mean()])
    sigma = np.std(means, axis=0) / np.sqrt(400)
    assert (np.abs(np.mean(means, axis=0)) <= 4 * sigma).all()
    assert (sigma < 0.01).all()


def test_coupled_minimises_its_objective():
    rng, pairs = np.random.default_rng(0), ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    r = rng.random((5, 6))
    found = coupled(r, pairs, 4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)

    def objective(p, row):
        return sum(((1 - r[row, k]) * p[i] - r[row, k] * p[j]) ** 2 for k, (i, j) in enumerate(pairs))

    for row in range(5):
        sums = {"type": "eq", "fun": lambda p: p.sum() - 1}
        best = minimize(objective, np.full(4, 0.25), (row,), bounds=[(0, 1)] * 4, constraints=sums, tol=1e-14)
        np.testing.assert_allclose(found[row], best.x, atol=1e-4)


def test_coupled_recovers_probabilities_that_agree():
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
    pairs = ((0, 1), (0, 2), (1, 2))
    r = np.column_stack([p[:, i] / (p[:, i] + p[:, j]) for i, j in pairs])
    np.testing.assert_allclose(coupled(r, pairs, 3), p, atol=1e-12)


# --- estimators ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_probabilities_sum_to_one_and_follow_the_decision_values(kind, method):
    X, y = two(80)
    model = kind(probability=method, gamma=0.5).fit(X, np.array(["no", "yes"])[y])
    p, f = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (np.diff(p[np.argsort(f), 1]) >= -1e-15).all()
    assert log_loss(y, p) < log_loss(y, np.full(80, 0.5))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(model.predict_log_proba(X), np.log(p))
    many = kind(probability=method, gamma=0.5, nu=0.2) if kind is NuSVC else kind(probability=method, gamma=0.5)
    p = many.fit(IRIS, SPECIES).predict_proba(IRIS)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p.argmax(axis=1) == SPECIES).mean() > 0.94


def test_isotonic_and_sigmoid_are_scikit_learns_on_the_same_values():
    X, y = two(80)
    model = SVC(probability="isotonic", gamma=0.5).fit(X, y)
    values, f = model.calibration_[0].values, model.decision_function(X)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(values, y).predict(f)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], theirs, atol=1e-12)
    slope, offset = sigmoid_of(values, y.astype(float), np.ones(80))
    found = model.set_params(probability=True).fit(X, y).predict_proba(X)[:, 1]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-slope * f - offset)), atol=1e-12)


def test_weights_count_as_repeated_points():
    X, y = two(40)
    counts = np.random.default_rng(0).integers(1, 4, 40)
    f = np.random.default_rng(1).normal(size=40) + y
    for method in METHODS[:2]:
        whole = Calibrator(method, np.repeat(f, counts), np.repeat(y, counts) > 0, np.ones(counts.sum()))
        found = Calibrator(method, f, y > 0, counts.astype(float))
        if method == "isotonic":
            np.testing.assert_allclose(found(f), whole(f), atol=1e-12)
    model = SVC(probability=True, gamma=0.5).fit(X, y, sample_weight=counts)
    np.testing.assert_array_equal(model.calibration_[0].weight, counts)


def test_classes_without_weight_have_probability_zero():
    weight = (SPECIES != 1).astype(float)
    model = SVC(probability=True).fit(IRIS, SPECIES, sample_weight=weight)
    keep = SPECIES != 1
    alone = SVC(probability=True, gamma=model.solution_.problem.gram.gamma).fit(IRIS[keep], SPECIES[keep])
    p = model.predict_proba(IRIS)
    assert (p[:, 1] == 0).all()
    np.testing.assert_allclose(p[:, [0, 2]], alone.predict_proba(IRIS), atol=1e-6)


def test_class_weights_do_not_shift_probabilities():
    X, y = make_classification(400, 4, weights=[0.8], flip_y=0.1, random_state=0)
    model = SVC(class_weight="balanced", probability=True).fit(X, y)
    assert abs(model.predict_proba(X)[:, 1].mean() - y.mean()) < 0.05
    assert model.predict(X).mean() > y.mean() + 0.02


@pytest.mark.parametrize("method", METHODS)
def test_files_pickles_and_copies(tmp_path, method):
    for X, y in ((IRIS, SPECIES), two(40)):
        model = SVC(probability=method, gamma=0.5).fit(X, y)
        p = model.predict_proba(X)
        model.save(tmp_path / "model")
        for again in (dualflow.load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            np.testing.assert_array_equal(again.predict_proba(X), p)
    assert not hasattr(model.set_params(probability=False).fit(X, y), "predict_proba")


def test_a_file_whose_probabilities_are_too_sure_is_refused(tmp_path):
    X, y = two(40)
    SVC(probability=True, gamma=0.5).fit(X, y).save(tmp_path / "model")
    header, arrays = container.read(tmp_path / "model", 1 << 20)
    del header["members"]
    for name, change in (
        ("values", lambda values: np.abs(values) * (2 * y - 1)),
        ("values", lambda values: values * np.nan),
        ("values", lambda values: values[:-1]),
        ("weight", lambda values: -values),
    ):
        key = f"calibration.{name}"
        container.write(tmp_path / "bad", header, arrays | {key: change(arrays[key])})
        with pytest.raises(ProblemError, match="holds no sound model"):
            dualflow.load(tmp_path / "bad")
    facts = {"facts": header["facts"] | {"calibration": "wish"}}
    container.write(tmp_path / "bad", header | facts, arrays)
    with pytest.raises(ProblemError, match="its calibration is 'wish'"):
        dualflow.load(tmp_path / "bad")


def test_in_a_search():
    X, y = two(60)
    search = SVCSearchCV(SVC(probability=True), {"C": [0.1, 1.0]}, scoring="neg_log_loss", cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict_proba(X).shape == (60, 2)


def test_inside_scikit_learns_calibration_decision_values_count():
    X, y = two(60)
    one, other = (CalibratedClassifierCV(SVC(probability=p), cv=3).fit(X, y).predict_proba(X) for p in (True, False))
    np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [SVC(kernel="precomputed"), NuSVC(kernel="precomputed", nu=0.7)], ids=str)
def test_an_indefinite_kernel_takes_five_folds(model, tmp_path):
    X, y = two(61)
    K = rbf_kernel(X, gamma=0.5) - 0.05 * np.eye(61)
    model = model.set_params(probability=True).fit(K, y)
    (calibrator,) = model.calibration_
    assert model.certificate_.gap is None
    assert not calibrator.is_exact
    C = model.solution_.problem.upper[0] / (model.certificate_.level or 1.0)
    fold = np.empty(len(y), dtype=int)
    for label in (0, 1):
        fold[y == label] = np.arange(np.sum(y == label)) % 5
    for k in range(5):
        rest, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        other = SVC(kernel="precomputed", C=C).fit(K[np.ix_(rest, rest)], y[rest])
        values = other.decision_function(K[np.ix_(held, rest)])
        np.testing.assert_allclose(calibrator.values[held], values, rtol=0, atol=1e-6)
    assert log_loss(y, model.predict_proba(K)) < log_loss(y, np.full((61, 2), 0.5))
    model.save(tmp_path / "model")
    again = dualflow.load(tmp_path / "model")
    assert not again.calibration_[0].is_exact
    np.testing.assert_array_equal(again.predict_proba(K), model.predict_proba(K))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_only_point_of_a_class_is_judged_by_the_other_class():
    X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0]], [1, 2, 2, 2]
    model = SVC(kernel="sigmoid", gamma=1.0, probability=True).fit(X, y)
    assert model.calibration_[0].values[0] == 1.0
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_refused():
    X, y = two()
    with pytest.raises(ProblemError, match="probability='platt' is not one of 'sigmoid'"):
        SVC(probability="platt").fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_without_circuits_only():
    pytest.importorskip("qiskit_aer", reason="pip install 'dualflow[qiskit]'")
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    model = SVC(kernel="linear", loss="squared_hinge", solver="variational-dqc", max_steps=1, probability=True)
    with pytest.raises(ProblemError, match="exact, and this one is what circuits found"):
        model.fit(X, y)
