"""Several classes with a linear kernel: all pairs are solved over shared blocks of kernel values about one centre."""

import numpy as np
import pytest
from sklearn import svm

from dualflow import SVC


def classes_of(n, d, count, apart=1.0, seed=0):
    """Gaussian classes with means about 1 apart, the last one ``apart`` times as far."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % count
    means = rng.standard_normal((count, d))
    means[-1] *= apart
    return rng.standard_normal((n, d)) + means[y] + 3.0, y


@pytest.mark.parametrize(("n", "d", "C"), [(150, 4, 1.0), (150, 300, 1e3), (800, 40, 0.1), (700, 900, 1e3)])
def test_pairs_are_those_of_libsvm(n, d, C):
    """Hundreds of features make the classes separable: all support vectors are free, and margins end at 1 − 1e-16."""
    X, y = classes_of(n, d, 5)
    ours, theirs = SVC(kernel="linear", C=C).fit(X, y), svm.SVC(kernel="linear", C=C, tol=1e-9).fit(X, y)
    size = np.abs(theirs.coef_).max()
    error, reach = 1e-5 * size, np.abs(X).sum(1).max()  # LIBSVM holds kernel values in float32
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=error)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=error * reach)
    for solution in ours.solutions_:
        assert solution.provenance["strategy"] == "batch"
        assert solution.certificate.relative_gap <= 1e-10


def test_pairs_near_each_other_and_far_from_the_rest_have_their_own_centre():
    X, y = classes_of(120, 3, 3, apart=1e4)
    ours = SVC(kernel="linear").fit(X, y)
    alone = SVC(kernel="linear").fit(X[y < 2], y[y < 2])
    assert ours.solutions_[0].provenance["strategy"] != "batch"
    assert max(solution.certificate.relative_gap for solution in ours.solutions_) <= 1e-9
    # A pair among several has y = +1 for its first class.
    np.testing.assert_allclose(-ours.coef_[0], alone.coef_[0], rtol=0, atol=1e-9 * np.abs(alone.coef_).max())
    np.testing.assert_allclose(-ours.intercept_[0], alone.intercept_[0], rtol=1e-9)
