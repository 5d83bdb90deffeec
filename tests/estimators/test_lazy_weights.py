"""The feature weights of a linear model are made when they are read, and are the same before and after a pickle."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from dualflow import SVC, SVDD, SVR, NuSVC, OneClassSVM

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 3)) + 4.0
VALUES = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=60)
CASES = {
    "SVC": (SVC(kernel="linear"), (VALUES.mean() < VALUES).astype(int)),
    "three classes": (SVC(kernel="linear"), np.digitize(VALUES, np.quantile(VALUES, [0.3, 0.6]))),
    "NuSVC": (NuSVC(kernel="linear"), (VALUES.mean() < VALUES).astype(int)),
    "SVR": (SVR(kernel="linear"), VALUES),
    "SVR poly": (SVR(kernel="poly", degree=1), VALUES),
    "SVC poly": (SVC(kernel="poly", degree=1), (VALUES.mean() < VALUES).astype(int)),
    "OneClassSVM": (OneClassSVM(kernel="linear"), None),
    "SVDD": (SVDD(kernel="linear"), None),
}


def read(model, Z):
    found = {"predict": model.predict(Z)}
    for name in ("decision_function", "coef_"):
        if hasattr(model, name):
            value = getattr(model, name)
            found[name] = value(Z) if callable(value) else value
    return {name: value.toarray() if sparse.issparse(value) else value for name, value in found.items()}


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("name", CASES)
def test_a_pickle_that_was_never_read_gives_the_same_bits(name, form):
    model, y = CASES[name]
    Z = form(RNG.normal(size=(9, 3)) + 4.0)
    unread = pickle.loads(pickle.dumps(model.fit(form(X), y)))
    before = set(vars(model))
    first = read(model, Z)
    assert set(vars(model)) == before or name == "three classes"
    for other in (unread, pickle.loads(pickle.dumps(model)), pickle.loads(pickle.dumps(unread))):
        again = read(other, Z)
        assert first.keys() == again.keys()
        for key, value in first.items():
            np.testing.assert_array_equal(again[key], value, err_msg=key)


@pytest.mark.parametrize("features", [1, 3])
def test_weights_and_constants_are_those_of_the_support_vectors(features):
    model = SVR(kernel="linear").fit(X[:, :features], VALUES)
    own = model.dual_coef_ @ model.support_vectors_
    np.testing.assert_allclose(model.coef_, own, rtol=1e-12)
    np.testing.assert_allclose(
        model.predict(X[:, :features]), X[:, :features] @ own[0] + model.intercept_, rtol=0, atol=1e-12
    )


def test_a_second_fit_has_its_own_weights():
    model = SVC(kernel="linear").fit(X, VALUES.mean() < VALUES)
    first = model.coef_
    second = model.fit(X, VALUES.mean() > VALUES).coef_
    np.testing.assert_allclose(first, -second, rtol=1e-6)
    assert SVC(kernel="rbf").fit(X, VALUES > 0)._linear is None
