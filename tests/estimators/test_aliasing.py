"""A fitted model holds no alias of the caller's arrays, which may be read-only, and changed afterwards."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons

from dualflow import SVC, SVDD, SVR, EcoSVC, EcoSVDD, IncrementalSVC, IncrementalSVDD, IncrementalSVR

X, Y = make_moons(60, noise=0.25, random_state=0)
BLOBS, FOUR = make_blobs(60, centers=4, n_features=2, cluster_std=3.0, random_state=1)
K = (1.0 + X @ X.T) ** 2
WEIGHT = np.random.default_rng(0).uniform(0.5, 2.0, 60)
Z = np.random.default_rng(1).normal(size=(30, 2))


def plain(A, B):
    return A @ B.T + 1.0


#: Models, and what they are fitted to: X, y, weights.
MODELS = {
    "SVC": (SVC(random_state=0), (X, Y, WEIGHT)),
    "SVC, four classes": (SVC(kernel="linear", random_state=0), (BLOBS, FOUR, WEIGHT)),
    "SVC, squared hinge": (SVC(loss="squared_hinge", random_state=0), (X, Y.astype(float), WEIGHT)),
    "SVC, precomputed": (SVC(kernel="precomputed", random_state=0), (K, Y)),
    "SVC, callable": (SVC(kernel=plain, random_state=0), (X, Y)),
    "SVDD": (SVDD(random_state=0), (X, None, WEIGHT)),
    "SVDD, precomputed": (SVDD(kernel="precomputed", random_state=0), (K,)),
    "SVR": (SVR(), (X, X[:, 0] * X[:, 1], WEIGHT)),
    "SVR, precomputed": (SVR(kernel="precomputed"), (K, X[:, 0] * X[:, 1])),
    "EcoSVC": (EcoSVC(n_init=10, reserve=5), (X, Y, WEIGHT)),
    "EcoSVC, four classes": (EcoSVC(n_init=10, kernel="linear", reserve=np.inf), (BLOBS, FOUR, WEIGHT)),
    "EcoSVDD": (EcoSVDD(n_init=10, reserve=5), (X,)),
    "EcoSVDD, callable": (EcoSVDD(n_init=10, kernel=plain), (X,)),
    "IncrementalSVC": (IncrementalSVC(), (X, Y)),
    "IncrementalSVC, four classes": (IncrementalSVC(kernel="linear"), (BLOBS, FOUR)),
    "IncrementalSVC, callable": (IncrementalSVC(kernel=plain), (X, Y)),
    "IncrementalSVDD": (IncrementalSVDD(nu=None), (X,)),
    "IncrementalSVR": (IncrementalSVR(), (X, X[:, 0] * X[:, 1])),
}
STREAMS = [name for name, (model, _) in MODELS.items() if hasattr(model, "partial_fit")]


def own(name, rows=slice(None)):
    """Return plain arrays of the caller, which skip scikit-learn's validation and its copies."""
    return [None if array is None else np.array(array[rows]) for array in MODELS[name][1]]


def spoil(arrays):
    for array in arrays:
        if array is not None:
            array[:] = array[::-1].copy() * 2 + 1


def outputs(model, new):
    """Return all public results of a model."""
    found = [model.predict(new), model.support_, model.support_vectors_, model.n_support_, model.dual_coef_]
    if hasattr(model, "decision_function"):
        found.append(model.decision_function(new))
    found += [np.atleast_1d(getattr(model, name)) for name in ("intercept_", "offset_") if hasattr(model, name)]
    for solution in model.solutions_:
        found += [solution.alpha, solution.coefficients, solution.problem.p, solution.problem.upper]
        found += [np.array([solution.certificate.objective, solution.certificate.relative_gap])]
    return found


def same(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def new_points(name):
    return K if "precomputed" in name else Z


@pytest.mark.parametrize("name", MODELS)
def test_data_changed_after_a_fit_change_nothing(name):
    arrays = own(name)
    model = clone(MODELS[name][0]).fit(*arrays)
    expected = outputs(clone(MODELS[name][0]).fit(*own(name)), new_points(name))
    before = pickle.dumps(model)
    spoil(arrays)
    assert pickle.dumps(model) == before  # not a byte of all that hangs on the model
    same(outputs(model, new_points(name)), expected)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on_as_if_earlier_batches_had_not_been_changed(name):
    model, other = clone(MODELS[name][0]), clone(MODELS[name][0])
    for part in (slice(0, 30), slice(30, 31), slice(31, 60)):
        arrays, options = own(name, part), options_of(model, name, part)
        model.partial_fit(*arrays[:2], **options)
        before = pickle.dumps(model)
        spoil([*arrays, *options.values()])
        assert pickle.dumps(model) == before
        other.partial_fit(*own(name, part)[:2], **options_of(other, name, part))
    same(outputs(model, Z), outputs(other, Z))


def options_of(model, name, part):
    """Return the further arguments of `partial_fit`."""
    options = {"ids": np.arange(60)[part]} if "Incremental" in type(model).__name__ else {}
    if hasattr(model, "decision_function_shape"):
        options["classes"] = np.unique(MODELS[name][1][1])
    if len(arrays := own(name, part)) > 2:
        options["sample_weight"] = arrays[2]
    return options


@pytest.mark.parametrize("name", MODELS)
def test_data_that_cannot_be_written_to_will_do(name):
    locked = own(name)
    for array in locked:
        if array is not None:
            array.flags.writeable = False
    new = new_points(name).copy()
    new.flags.writeable = False
    model = clone(MODELS[name][0]).fit(*locked)
    same(outputs(model, new), outputs(clone(MODELS[name][0]).fit(*own(name)), new_points(name)))
    if name in STREAMS:
        model.partial_fit(*locked[:2])
    same([array for array in locked if array is not None], [array for array in own(name) if array is not None])


@pytest.mark.parametrize("name", MODELS)
def test_prediction_does_not_change_new_points_or_the_model(name):
    model = clone(MODELS[name][0]).fit(*own(name))
    new, first = new_points(name).copy(), outputs(model, new_points(name))
    same(outputs(model, new), first)
    np.testing.assert_array_equal(new, new_points(name))
    values = model.predict(new)
    spoil([new])
    np.testing.assert_array_equal(values, first[0])
