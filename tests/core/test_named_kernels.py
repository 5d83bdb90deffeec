"""A kernel that is added to the table of named kernels works in every place that reads kernels."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold

from dualflow import SVC, SVDD, SVR, IncrementalSVC, ProblemError, SVCSearchCV, load
from dualflow.core.gram import Gram
from dualflow.core.named_kernels import KERNELS, NamedKernel
from dualflow.interchange import to_libsvm

GAMMA, COEF0 = 0.2, 0.1
X, y = make_classification(80, 4, random_state=3)


def values(A, B):
    return np.exp(GAMMA * (A @ B.T) + COEF0)


@pytest.fixture(autouse=True)
def exponential(monkeypatch):
    """Add exp(γ⟨x, z⟩ + coef0), which is positive semidefinite for any points."""
    entry = NamedKernel(
        parameters=("gamma", "coef0"),
        of_products=lambda inner, gamma, coef0, degree: np.exp(gamma * inner + coef0),
        is_psd=lambda degree, coef0: True,
        libsvm="",
    )
    monkeypatch.setitem(KERNELS, "exponential", entry)


NAMED = {"kernel": "exponential", "gamma": GAMMA, "coef0": COEF0}


@pytest.mark.parametrize("estimator", [SVC, SVR, SVDD, IncrementalSVC])
def test_a_fit_is_that_of_the_callable(estimator):
    ours, theirs = (estimator(**kernel).fit(X, y) for kernel in (NAMED, {"kernel": values}))
    method = "predict" if estimator is SVR else "decision_function"
    assert np.allclose(getattr(ours, method)(X), getattr(theirs, method)(X), rtol=1e-6, atol=1e-7)


def test_it_is_certified_without_eigenvalues():
    assert Gram(X, **NAMED).is_psd_by_kernel
    assert not Gram(X, **NAMED).is_translatable
    assert SVC(**NAMED).fit(X, y).certificate_.relative_gap <= 1e-9


def test_a_search_scores_as_single_fits_do():
    splits = list(StratifiedKFold(3).split(X, y))
    search = SVCSearchCV(SVC(**NAMED), {"C": [0.1, 1.0, 10.0]}, cv=splits).fit(X, y)
    for k, C in enumerate([0.1, 1.0, 10.0]):
        for fold, (train, test) in enumerate(splits):
            score = SVC(C=C, **NAMED).fit(X[train], y[train]).score(X[test], y[test])
            assert search.cv_results_[f"split{fold}_test_score"][k] == score


def test_a_saved_model_predicts_the_same(tmp_path):
    model = SVC(**NAMED).fit(X, y)
    model.save(tmp_path / "model.dualflow")
    assert np.array_equal(load(tmp_path / "model.dualflow").decision_function(X), model.decision_function(X))


def test_files_that_do_not_know_it_refuse_it(tmp_path):
    with pytest.raises(ProblemError, match="LIBSVM files have only the kernels"):
        to_libsvm(SVC(**NAMED).fit(X, y), tmp_path / "model")


def test_an_unknown_name_lists_the_table():
    with pytest.raises(ProblemError, match="linear, poly, rbf, sigmoid, precomputed, exponential or a callable"):
        SVC(kernel="exponentia").fit(X, y)
