"""SVC against scikit-learn's SVC (LIBSVM) and LinearSVC, against cvxopt, and against itself."""

import copy
import inspect
import pickle

import cvxopt
import numpy as np
import pandas as pd
import pytest
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dualflow
from dualflow import SVC
from dualflow.core.gram import KernelMatrix

BINARY = make_classification(80, 6, n_informative=4, random_state=3)
BLOBS, BLOB_LABELS = make_blobs(90, centers=4, n_features=3, cluster_std=4.0, random_state=1)
FOUR = BLOBS / 5.0, BLOB_LABELS
KERNELS = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "poly", "degree": 2, "gamma": 0.2, "coef0": 1.0},
]

# LIBSVM keeps kernel values in float32: its answers are good to about 1e-6 of the decision's scale, and at
# C ≥ 1000 the reference is cvxopt instead.


# --- against LIBSVM --------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [BINARY, FOUR], ids=["binary", "four classes"])
@pytest.mark.parametrize("C", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
def test_the_model_is_that_of_scikit_learn(data, C, kernel):
    X, y = data
    ours, theirs = SVC(C=C, **kernel).fit(X, y), svm.SVC(C=C, tol=1e-10, **kernel).fit(X, y)
    # What float32 kernel values cost LIBSVM; our certified relative gap is below 1e-12 in every case.
    atol = 3e-6 * max(1.0, C) if kernel["kernel"] == "rbf" else 1.5e-5 * max(1.0, C)
    assert max(solution.certificate.relative_gap for solution in ours.solutions_) < 1e-12
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=0, atol=atol)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=atol)
    for shape in ("ovr", "ovo"):
        values = [model.set_params(decision_function_shape=shape).decision_function(X) for model in (ours, theirs)]
        np.testing.assert_allclose(*values, rtol=0, atol=atol)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    if kernel["kernel"] == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=atol)


@pytest.mark.parametrize("load", [load_iris, load_digits], ids=["iris", "digits"])
def test_many_classes_on_real_data(load):
    X, y = load(return_X_y=True)
    X, y, Z = X[::4], y[::4], X[1::7]
    for parameters in ({"C": 2.0}, {"kernel": "linear"}):
        ours, theirs = SVC(**parameters).fit(X, y), svm.SVC(tol=1e-10, **parameters).fit(X, y)
        for shape in ("ovr", "ovo"):
            values = [model.set_params(decision_function_shape=shape).decision_function(Z) for model in (ours, theirs)]
            np.testing.assert_allclose(*values, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(ours.predict(Z), theirs.predict(Z))
        assert len(ours.solutions_) == len(ours.intercept_) == len(theirs.intercept_)


def test_break_ties():
    X, y = make_blobs(60, centers=5, cluster_std=3.0, random_state=6)
    ours, theirs = (SVC(break_ties=True).fit(X, y), svm.SVC(break_ties=True, tol=1e-10).fit(X, y))
    Z = np.random.default_rng(0).uniform(X.min(), X.max(), size=(1000, 2))
    np.testing.assert_array_equal(ours.predict(Z), theirs.predict(Z))
    assert (ours.predict(Z) != clone(ours).set_params(break_ties=False).fit(X, y).predict(Z)).any()


@pytest.mark.parametrize("data", [BINARY, FOUR], ids=["binary", "four classes"])
def test_sample_and_class_weights_as_in_scikit_learn(data):
    X, y = data
    weight = np.random.default_rng(0).uniform(0.2, 3.0, size=len(y))
    weight[::9] = 0.0
    for class_weight in (None, "balanced", {0: 2.0, 1: 0.5}):
        ours = SVC(class_weight=class_weight).fit(X, y, sample_weight=weight)
        theirs = svm.SVC(class_weight=class_weight, tol=1e-10).fit(X, y, sample_weight=weight)
        # LIBSVM drops points of weight 0 and numbers the rest; our indices are rows of X.
        np.testing.assert_array_equal(ours.support_, np.flatnonzero(weight)[theirs.support_])
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=0, atol=1e-5)
        np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=0, atol=1e-5)
        np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)
        assert not np.isin(ours.support_, np.flatnonzero(weight == 0)).any()


def test_six_points():
    """scikit-learn's exact example: two support vectors at ±(1, 1)."""
    X, y, Z = [[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1]], [1, 1, 1, 2, 2, 2], [[-1, -1], [2, 2], [3, 2]]
    model = SVC(kernel="linear").fit(X, y)
    np.testing.assert_array_equal(model.support_, [1, 3])
    np.testing.assert_array_equal(model.support_vectors_, [[-1, -1], [1, 1]])
    np.testing.assert_allclose(model.dual_coef_, [[-0.25, 0.25]], atol=1e-12)
    np.testing.assert_allclose(model.intercept_, [0.0], atol=1e-12)
    np.testing.assert_allclose(model.coef_, [[0.5, 0.5]], atol=1e-12)
    np.testing.assert_array_equal(model.predict(Z), [1, 2, 2])
    assert model.certificate_.objective == pytest.approx(-0.25, abs=1e-12)


# --- other losses and bounds -----------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_squared_hinge_is_linear_svc(C, fit_intercept):
    X, y = BINARY
    ours = SVC(loss="squared_hinge", C=C, kernel="linear", fit_intercept=fit_intercept).fit(X, y)
    # dual=False: its Newton method on the primal ends at 1e-8; the coordinate descent of dual=True may not.
    theirs = svm.LinearSVC(C=C, loss="squared_hinge", intercept_scaling=1, dual=False, tol=1e-12, max_iter=10**5)
    theirs.set_params(fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=0, atol=1e-6)


def test_squared_hinge_with_weights_is_linear_svc():
    X, y = BINARY
    weight = np.random.default_rng(1).uniform(0.1, 2.0, size=len(y))
    weight[:7], class_weight = 0.0, {0: 0.4, 1: 1.7}
    ours = SVC(loss="squared_hinge", kernel="linear", class_weight=class_weight).fit(X, y, sample_weight=weight)
    theirs = svm.LinearSVC(class_weight=class_weight, tol=1e-12, dual=False).fit(X, y, weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_no_intercept_is_the_box_dual(kernel, C):
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = SVC(fit_intercept=False, kernel=kernel, C=C, gamma=0.7).fit(X, y)
    signs = 2.0 * y - 1
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.7)
    alpha = quadratic_program(signs[:, None] * K * signs, np.ones(60), C)
    np.testing.assert_allclose(model.decision_function(X), K @ (signs * alpha), rtol=0, atol=1e-6 * max(1, C / 10))
    assert model.intercept_.tolist() == [0.0]


@pytest.mark.parametrize("C", [1000.0, 1e5])
def test_large_C_against_cvxopt(C):
    X, y = make_moons(70, noise=0.25, random_state=1)
    model = SVC(C=C, gamma=0.5).fit(X, y)
    signs, K = 2.0 * y - 1, rbf_kernel(X, gamma=0.5)
    alpha = quadratic_program(signs[:, None] * K * signs, np.ones(70), C, equality=signs)
    f0 = K @ (signs * alpha)
    free = (alpha > 1e-6 * C) & (alpha < (1 - 1e-6) * C)
    expected = f0 + np.mean((signs - f0)[free])
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=0, atol=1e-4)
    assert model.certificate_.relative_gap < 1e-8


def quadratic_program(Q, p, C, equality=None):
    """min ½ αᵀQα − pᵀα over 0 ≤ α ≤ C, optionally equalityᵀα = 0, by cvxopt's own interior-point method."""
    n = len(p)
    G, h = np.vstack([-np.eye(n), np.eye(n)]), np.concatenate([np.zeros(n), np.full(n, C)])
    arguments = [cvxopt.matrix(part) for part in (Q + 1e-13 * np.eye(n), -p, G, h)]
    if equality is not None:
        arguments += [cvxopt.matrix(equality[None]), cvxopt.matrix(0.0)]
    options = {"show_progress": False, "abstol": 1e-12, "reltol": 1e-12, "feastol": 1e-12}
    return np.array(cvxopt.solvers.qp(*arguments, options=options)["x"]).ravel()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_hard_margin_is_the_limit_of_large_C(loss):
    X, y = make_blobs(40, centers=[[-3, 0], [3, 1]], random_state=5)
    hard, soft = (SVC(C=C, kernel="linear", loss=loss, tol=1e-5).fit(X, y) for C in (np.inf, 1e10))
    np.testing.assert_allclose(hard.coef_, soft.coef_, rtol=1e-6)
    np.testing.assert_allclose(hard.intercept_, soft.intercept_, rtol=1e-6, atol=1e-9)
    margins = (2 * y - 1) * hard.decision_function(X)
    assert margins.min() == pytest.approx(1.0, abs=1e-9)
    assert hard.fit_status_ == 0


# --- the estimator itself --------------------------------------------------------------------------


def test_callable_and_precomputed_kernels_equal_the_named_one():
    X, y = FOUR
    Z = X[:20] + 0.1
    named = SVC(gamma=0.2).fit(X, y)
    called = SVC(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.2)).fit(X, y)
    given = SVC(kernel="precomputed").fit(rbf_kernel(X, gamma=0.2), y)
    for model, data in ((called, Z), (given, rbf_kernel(Z, X, gamma=0.2))):
        np.testing.assert_array_equal(model.support_, named.support_)
        np.testing.assert_allclose(model.decision_function(data), named.decision_function(Z), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(called.support_vectors_, X[called.support_])
    assert given.support_vectors_.size == 0


def test_every_point_a_support_vector_with_labels_in_any_order():
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.array([1, 0, 2] * 4)
    ours, theirs = SVC(gamma=50.0, C=0.5).fit(X, y), svm.SVC(gamma=50.0, C=0.5, tol=1e-10).fit(X, y)
    assert len(ours.support_) == 12
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)


def test_coef_of_other_kernels_is_an_attribute_error():
    model = SVC().fit(*BINARY)
    assert not hasattr(model, "coef_")
    assert not hasattr(SVC().fit(*FOUR), "solution_")
    assert model.solution_ is model.solutions_[0]


def test_prediction_in_blocks_equals_prediction_in_one_batch(monkeypatch):
    X, y = FOUR
    model = SVC(kernel="poly", degree=1, coef0=1.0).fit(X, y)  # linear ones predict by their weights
    expected, heights = model.decision_function(X), []
    cross = KernelMatrix.cross
    monkeypatch.setattr("dualflow.core.gram.BLOCK_ENTRIES", 10 * len(model.support_))
    monkeypatch.setattr(KernelMatrix, "cross", lambda *a: heights.append(len(a[1])) or cross(*a))
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=0, atol=1e-10)
    assert heights == [10] * 9


def test_raw_and_refined_stand_side_by_side():
    given = {"gap_tol": 5e-4}  # a problem as small as this is left nothing to refine by default
    model = SVC(C=10.0, tol=1e-3, solver_options=given).fit(*BINARY)
    solution = model.solution_
    assert solution.refined
    assert solution.certificate.relative_gap < 1e-9 < solution.raw_certificate.relative_gap < 1e-3
    raw = SVC(C=10.0, tol=1e-3, refine=False).fit(*BINARY)
    assert not raw.solution_.refined
    signs, K = 2.0 * BINARY[1] - 1, raw.solution_.problem.gram.full()
    expected = K @ (signs * raw.solution_.raw_alpha) + raw.intercept_
    np.testing.assert_allclose(raw.decision_function(BINARY[0]), expected, atol=1e-9)


def test_clone_pickle_pipeline_and_search():
    X, y = BINARY
    model = SVC(C=3.0, solver_options={"kkt_tol": 1e-9}, class_weight="balanced").fit(X, y)
    assert clone(model).get_params() == model.get_params()
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    frame = pd.DataFrame(X).add_prefix("f")
    pipeline = make_pipeline(StandardScaler(), SVC())
    assert cross_val_score(pipeline, frame, y, cv=3).mean() > 0.7
    grid = {"svc__C": [0.1, 10.0], "svc__solver": ["smo", dualflow.SMO(kkt_tol=1e-6)]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(frame, y)
    reference = GridSearchCV(make_pipeline(StandardScaler(), svm.SVC()), {"svc__C": [0.1, 10.0]}, cv=2).fit(frame, y)
    assert search.best_score_ == pytest.approx(reference.best_score_)
    kernels = GridSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 10.0]}, cv=2).fit(X @ X.T, y)
    linear = GridSearchCV(SVC(kernel="linear"), {"C": [0.1, 10.0]}, cv=2).fit(X, y)
    np.testing.assert_allclose(kernels.cv_results_["mean_test_score"], linear.cv_results_["mean_test_score"])


def test_warm_start_begins_at_the_previous_answer():
    X, y = BINARY
    model = SVC(C=10.0, warm_start=True).fit(X, y)
    assert model.n_iter_[0] > 0
    expected = model.decision_function(X)
    assert model.fit(X, y).n_iter_.tolist() == [0]
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)
    assert sound_after_shrinking(model, X[:50], y[:50])


def sound_after_shrinking(model, X, y):
    return np.allclose(model.fit(X, y).decision_function(X), SVC(C=10.0).fit(X, y).decision_function(X), atol=1e-7)


def test_callback_stops_each_pair_and_the_model_is_usable():
    seen = []
    with pytest.warns(ConvergenceWarning, match="callback"):
        model = SVC(C=1e6, refine=False, tol=1e-12, callback=lambda progress: seen.append(progress.step) or True).fit(
            *FOUR
        )
    assert seen == [1] * 6
    assert np.isfinite(model.decision_function(FOUR[0])).all()


def test_interrupt_keeps_the_state_reached():
    seen = []

    def interrupt_once(progress):
        seen.append(progress.step)
        if len(seen) == 1:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="did not reach tol"):
        model = SVC(C=1e6, tol=1e-12, callback=interrupt_once, on_interrupt="keep").fit(*FOUR)
    assert model.solutions_[0].status is dualflow.Status.INTERRUPTED
    assert model.n_iter_[1:].tolist() == [1] * 5
    assert not any(solution.refined for solution in model.solutions_)
    assert np.isfinite(model.decision_function(FOUR[0])).all()


def test_seeds_are_recorded_and_differ_between_pairs():
    seeds = [s.provenance["seed"] for s in SVC(random_state=7).fit(*FOUR).solutions_]
    assert seeds[0] == 7
    assert len(set(seeds)) == 6
    assert seeds == [s.provenance["seed"] for s in SVC(random_state=7).fit(*FOUR).solutions_]
    drawn = [SVC(random_state=state).fit(*BINARY).solution_.provenance["seed"] for state in (None, None)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("data", [BINARY, FOUR])
def test_a_copy_has_the_seed_before_it_is_drawn(data):
    model = SVC().fit(*data)
    copies = pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model
    first, *others = ([s.provenance["seed"] for s in each.solutions_] for each in copies)
    assert first == others[0] == others[1]


def test_a_broken_solver_never_becomes_a_model(monkeypatch):
    monkeypatch.setattr(dualflow.SMO, "alpha", lambda self, state: state.alpha * (np.nan if state.updates else 1.0))
    with pytest.raises(dualflow.ProblemError, match="NaN or infinity"):
        SVC(solver="smo").fit(*BINARY)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_single_precision_prediction_is_close(kernel):
    X, y = BINARY
    model = SVC(kernel=kernel, C=10.0).fit(X, y)
    exact = model.decision_function(X)
    rough = model.set_params(predict_dtype="float32").decision_function(X)
    assert np.abs(rough - exact).max() <= 1e-4 * np.abs(exact).max()
    far = model.decision_function(np.full((1, X.shape[1]), 1e9))
    assert np.isfinite(far).all()
    with pytest.raises(dualflow.ProblemError, match="predict_dtype"):
        model.set_params(predict_dtype="half").predict(X)


@pytest.mark.parametrize("seed", range(8))
def test_a_margin_one_ulp_below_1_adds_no_gap(seed):
    """At C = 1e10 it would cost more than all the rest: seed 5 had a certified gap of 4.7e-4."""
    X, y = make_blobs(40, centers=[[-3, 0], [3, 1]], random_state=seed)
    assert SVC(C=1e10, kernel="linear", tol=1e-5).fit(X, y).certificate_.relative_gap <= 1e-5


def test_many_classes_of_few_points():
    """A pair of classes is solved in one go; no solve is cut short because its part of the time is milliseconds."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(40, 5))
    X, y = np.repeat(centres, 4, axis=0) + rng.normal(size=(160, 5)), np.repeat(np.arange(40), 4)
    model, peer = SVC(gamma=0.2, time_limit=60.0).fit(X, y), svm.SVC(gamma=0.2, tol=1e-8).fit(X, y)
    assert len(model.solutions_) == 780
    assert not any(solution.refined for solution in model.solutions_)
    assert all(solution.cost.steps == 1 for solution in model.solutions_)
    assert max(solution.certificate.relative_gap for solution in model.solutions_) <= 1e-10
    new = np.repeat(centres, 2, axis=0) + rng.normal(size=(80, 5))
    model.decision_function_shape = peer.decision_function_shape = "ovo"
    np.testing.assert_allclose(model.decision_function(new), peer.decision_function(new), rtol=0, atol=1e-5)


def test_documentation_tools_see_the_parameters_of_the_constructor():
    assert SVC.__signature__ == inspect.signature(SVC.__init__).replace(
        parameters=list(inspect.signature(SVC.__init__).parameters.values())[1:]
    )
    assert next(iter(SVC.__signature__.parameters)) == "C"


def test_an_unknown_parameter_names_the_way_out():
    way = r"SVC has no parameter 'device'; .* solver_options=\{'device': 'aer'\}"
    with pytest.raises(TypeError, match=way):
        SVC(solver="variational-flow", device="aer")
    with pytest.raises(TypeError, match="no parameter 'gama'; did you mean 'gamma'"):
        SVC(gama=1.0)

    class Own(SVC):
        def __init__(self, mine=1, **rest):
            super().__init__(**rest)
            self.mine = mine

    assert (Own(mine=3, C=2).C, Own(mine=3).mine) == (2, 3)
