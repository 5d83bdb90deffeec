"""Kernels that are added to the table of named kernels work in every place that reads kernels."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import StratifiedKFold

from dualflow import SVC, SVDD, SVR, IncrementalSVC, ProblemError, SVCSearchCV, load, solve
from dualflow.core.gram import Gram
from dualflow.core.named_kernels import KERNELS, NamedKernel
from dualflow.interchange import onnx_parts, to_c, to_libsvm, to_onnx
from dualflow.problems import svc

GAMMA, COEF0 = 0.2, 0.1
X, y = make_classification(80, 4, random_state=3)


def always(degree, coef0):
    return True


@pytest.fixture(autouse=True)
def added(monkeypatch):
    """Add exp(γ⟨x, z⟩ + coef0), a function of inner products, and exp(−γ‖x − z‖₁), a function of points."""
    exponential = NamedKernel(
        parameters=("gamma", "coef0"),
        of_products=lambda inner, gamma, coef0, degree: np.exp(gamma * inner + coef0),
        is_psd=always,
        libsvm="",
    )
    laplacian = NamedKernel(
        parameters=("gamma",),
        of_products=None,
        is_psd=always,
        libsvm="",
        is_bounded=True,
        of_points=lambda A, B, gamma, coef0, degree: laplacian_kernel(A, B, gamma),
    )
    monkeypatch.setitem(KERNELS, "exponential", exponential)
    monkeypatch.setitem(KERNELS, "laplacian", laplacian)


NAMED = {"kernel": "exponential", "gamma": GAMMA, "coef0": COEF0}
LAPLACIAN = {"kernel": "laplacian", "gamma": GAMMA}
CALLABLES = {
    "exponential": lambda A, B: np.exp(GAMMA * (A @ B.T) + COEF0),
    "laplacian": lambda A, B: laplacian_kernel(A, B, GAMMA),
}
both = pytest.mark.parametrize("kernel", [NAMED, LAPLACIAN], ids=["exponential", "laplacian"])


@both
@pytest.mark.parametrize("estimator", [SVC, SVR, SVDD, IncrementalSVC])
def test_a_fit_is_that_of_the_callable(estimator, kernel):
    given = {"kernel": CALLABLES[kernel["kernel"]]}
    ours, theirs = (estimator(**some).fit(X, y) for some in (kernel, given))
    method = "predict" if estimator is SVR else "decision_function"
    assert np.allclose(getattr(ours, method)(X), getattr(theirs, method)(X), rtol=1e-6, atol=1e-7)


@both
def test_it_is_certified_without_eigenvalues(kernel):
    assert Gram(X, **kernel).is_psd_by_kernel
    assert not Gram(X, **kernel).is_translatable
    assert SVC(**kernel).fit(X, y).certificate_.relative_gap <= 1e-9


@both
@pytest.mark.parametrize("points", [X, csr_array(np.where(abs(X) > 1, X, 0.0))], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", ["working-set", "interior-point", "gradient-flow"])
def test_every_solver_takes_it(solver, points, kernel):
    problem = svc(Gram(points, **kernel), np.where(y > 0, 1.0, -1.0), 1.0)
    assert solve(problem, solver, refine=False).certificate.relative_gap <= 1e-3


@both
def test_a_search_scores_as_single_fits_do(kernel):
    splits = list(StratifiedKFold(3).split(X, y))
    search = SVCSearchCV(SVC(**kernel), {"C": [0.1, 1.0, 10.0]}, cv=splits).fit(X, y)
    for k, C in enumerate([0.1, 1.0, 10.0]):
        for fold, (train, test) in enumerate(splits):
            score = SVC(C=C, **kernel).fit(X[train], y[train]).score(X[test], y[test])
            assert search.cv_results_[f"split{fold}_test_score"][k] == score


@both
def test_a_saved_model_predicts_the_same(kernel, tmp_path):
    model = SVC(**kernel).fit(X, y)
    model.save(tmp_path / "model.dualflow")
    assert np.array_equal(load(tmp_path / "model.dualflow").decision_function(X), model.decision_function(X))


def test_files_that_do_not_know_it_refuse_it(tmp_path):
    with pytest.raises(ProblemError, match="LIBSVM files have only the kernels"):
        to_libsvm(SVC(**NAMED).fit(X, y), tmp_path / "model")


def test_an_unknown_name_lists_the_table():
    with pytest.raises(ProblemError, match="precomputed, exponential, laplacian or a callable"):
        SVC(kernel="exponentia").fit(X, y)


@pytest.mark.parametrize("export", [to_c, to_onnx])
def test_an_exporter_without_a_branch_for_a_kernel_raises(export, monkeypatch):
    if export is to_onnx:
        pytest.importorskip("onnx")
    monkeypatch.setattr(onnx_parts, "KERNELS", (*onnx_parts.KERNELS, "exponential"))
    with pytest.raises(ProblemError, match="kernel='exponential' is listed for export"):
        export(SVC(**NAMED).fit(X, y))
