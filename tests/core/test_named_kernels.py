"""Kernels that are added to the table of named kernels work in every place that reads kernels."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import StratifiedKFold

from dualflow import SVC, SVDD, SVR, CascadeSVC, IncrementalSVC, ProblemError, SVCSearchCV, compare, load, solve
from dualflow.cli.options import check_kernel
from dualflow.comparison.models import model_kernels
from dualflow.core.advice import advice_on
from dualflow.core.gram import Gram
from dualflow.core.named_kernels import KERNELS, NamedKernel
from dualflow.core.status import Status
from dualflow.estimators._verify import entry_round_off
from dualflow.interchange import to_c, to_libsvm, to_onnx
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
        largest=lambda square, gamma, coef0, degree: np.exp(gamma * square + coef0),
    )
    laplacian = NamedKernel(
        parameters=("gamma",),
        of_products=None,
        is_psd=always,
        libsvm="",
        largest=lambda square, gamma, coef0, degree: 1.0,
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
    monkeypatch.setitem(KERNELS, "exponential", replace(KERNELS["exponential"], is_exported=True))
    with pytest.raises(ProblemError, match="kernel='exponential' is listed for export"):
        export(SVC(**NAMED).fit(X, y))


def test_the_command_line_takes_it_and_its_errors_list_it():
    check_kernel("laplacian")
    for wrong, words in (("precomputed", "sigmoid, exponential or laplacian"), ("gauss", "sigmoid, exponential, lap")):
        with pytest.raises(ProblemError, match=words):
            check_kernel(wrong)


def test_a_comparison_scores_models_of_the_kernels_that_both_packages_have(monkeypatch):
    assert model_kernels() == ["linear", "poly", "rbf", "sigmoid"]
    with pytest.raises(ProblemError, match=r"models=True needs kernel linear or poly or rbf or sigmoid, .*laplacian"):
        compare(X, y, models=True, **LAPLACIAN)
    monkeypatch.setitem(KERNELS, "laplacian", replace(KERNELS["laplacian"], libsvm="laplacian"))
    assert "laplacian" in model_kernels()


def test_an_exporter_refuses_a_kernel_that_is_not_exported_and_lists_the_others(monkeypatch):
    with pytest.raises(ProblemError, match=r"fit with one of linear, poly, rbf, sigmoid$"):
        to_c(SVC(**NAMED).fit(X, y))
    monkeypatch.setitem(KERNELS, "sigmoid", replace(KERNELS["sigmoid"], is_exported=False))
    with pytest.raises(ProblemError, match=r"fit with one of linear, poly, rbf$"):
        to_c(SVC(**NAMED).fit(X, y))


def test_the_round_off_of_its_entries_is_by_its_own_bound(monkeypatch):
    """Reference: |exp(γ⟨x, z⟩ + c)| ≤ exp(γ max‖x‖² + c), in units of the tolerance of a kernel with values ≤ 1."""
    labels = np.where(y > 0, 1.0, -1.0)
    tolerances = [entry_round_off(svc(Gram(X, **kernel), labels, 1.0)) for kernel in (NAMED, LAPLACIAN)]
    gram = Gram(X, **NAMED)
    assert tolerances[0] / tolerances[1] == pytest.approx(np.exp(GAMMA * gram.squares.max() + COEF0))
    assert tolerances[0] / tolerances[1] >= gram.full().max()
    monkeypatch.setitem(KERNELS, "exponential", replace(KERNELS["exponential"], largest=None))
    with pytest.raises(ProblemError, match="kernel='exponential' has no bound on its values"):
        entry_round_off(svc(gram, labels, 1.0))


def test_a_cascade_asks_the_table_whether_a_kernel_is_positive_semidefinite(monkeypatch):
    monkeypatch.setitem(KERNELS, "linear", replace(KERNELS["linear"], is_psd=lambda degree, coef0: False))
    with pytest.raises(ProblemError, match=r"kernel='linear' .*not positive semidefinite, and has no bound over parts"):
        CascadeSVC(kernel="linear").fit(X, y)


def test_advice_on_far_points_is_for_every_function_of_inner_products():
    far, labels = X + 1e6, np.where(y > 0, 1.0, -1.0)
    said = {}
    for name in ("exponential", "laplacian"):
        gram = Gram(far, kernel=name, gamma=1e-13)
        problem = svc(gram, labels, 1.0)
        certificate = solve(problem, "gradient-flow", max_steps=1, refine=False).certificate
        said[name] = advice_on(problem, certificate, Status.STEP_LIMIT, False, 0, 1, {})
    assert "kernel='exponential' has lost the digits" in said["exponential"]
    assert "centre the features" not in said["laplacian"]
