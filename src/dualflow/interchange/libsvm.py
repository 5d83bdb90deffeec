"""Write fitted models as LIBSVM model files, which `svm-predict` reads, and read such files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.utils.validation import check_is_fitted

from ..core.options import Number
from ..exceptions import ProblemError
from .libsvm_model import LibsvmModel
from .libsvm_text import BY_LIBSVM, MAX_INT, LibsvmParts, read, write

#: Support vectors with more entries than this (zeros included) stay sparse.
_MAX_DENSE_ENTRIES = 1 << 22


def from_libsvm(path: str | Path, n_features: int | None = None) -> LibsvmModel:
    """Return a model from a file of LIBSVM's `svm_save_model`, `svm-train` or `to_libsvm`.

    Probabilities in the file are ignored. Untrusted files may be read: their content is checked and never executed.

    Parameters
    ----------
    path : str or Path
        A regular file of at most 1 GiB.
    n_features : int, optional
        Number of features of the data; by default the largest index in the file.

    Returns
    -------
    LibsvmModel

    Raises
    ------
    ProblemError
        The file is not a LIBSVM model, or is damaged: the message names the file, the line and the fault.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> from dualflow.interchange import from_libsvm, to_libsvm
    >>> import tempfile, os, numpy as np, dualflow
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> model = dualflow.SVC(kernel="linear").fit(X, y)
    >>> path = os.path.join(tempfile.mkdtemp(), "model")
    >>> to_libsvm(model, path)
    >>> from_libsvm(path).predict([[0.2], [2.7]])
    array([0, 1])
    """
    n_features = Number(at_least=1, whole=True, none=True).check("n_features", n_features)
    parts = read(path)
    found = int(parts.serials.max(initial=0)) if parts.kernel == "precomputed" else parts.vectors.shape[1]
    if n_features is not None and n_features < found:
        raise ProblemError(
            f"n_features={n_features}: {path} has index {found}; give at least that number, or leave it out"
        )
    width = max(1, found) if n_features is None else n_features
    vectors: Any = parts.vectors
    if parts.kernel != "precomputed":
        vectors = sparse.csr_array((vectors.data, vectors.indices, vectors.indptr), shape=(vectors.shape[0], width))
        vectors = (
            vectors.toarray()
            if math.prod(vectors.shape) <= min(_MAX_DENSE_ENTRIES, 16 * vectors.nnz + 1000)
            else vectors
        )
    return LibsvmModel(
        parts.svm_type, parts.kernel, parts.gamma, parts.coef0, parts.degree, np.sort(parts.labels), vectors,
        parts.coefficients.T, -parts.rho, width, parts.labels, parts.counts, parts.serials,
    )  # fmt: skip


def to_libsvm(model: Any, path: str | Path) -> None:
    """Write a fitted model in the format of LIBSVM's `svm_save_model`; an existing file is replaced.

    Parameters
    ----------
    model : estimator or LibsvmModel
        A fitted `SVC`, `SVR`, `NuSVC`, `NuSVR` or one-class model of dualflow or of scikit-learn. An `SVDD` with the
        radial kernel is written as the equivalent one_class, with half its decision values. An incremental model is
        written in its current state.
    path : str or Path

    Raises
    ------
    ProblemError
        LIBSVM does not have this kernel (a callable), these labels (they must be whole numbers), this degree (it must
        be whole), or this model.
    NotFittedError
        The model is not fitted.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dualflow import SVC
    >>> from dualflow.interchange import to_libsvm
    >>> path = Path(tempfile.mkdtemp()) / "model"
    >>> to_libsvm(SVC(kernel="linear").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]), path)
    >>> path.read_text().splitlines()[:3]
    ['svm_type c_svc', 'kernel_type linear', 'nr_class 2']
    """
    write(path, _of_file(model) if isinstance(model, LibsvmModel) else _parts(model))


def _of_file(model: LibsvmModel) -> LibsvmParts:
    return LibsvmParts(
        model.svm_type, model.kernel, -model.intercept_, model.dual_coef_.T, sparse.csr_array(model.support_vectors_),
        model.degree, model.gamma, model.coef0, model._labels, model._counts, model._serials,
    )  # fmt: skip


def _parts(model: Any) -> LibsvmParts:
    check_is_fitted(model)
    name, by_share = type(model).__name__, "nu" in model.get_params(deep=False)
    fitted = getattr(model, "_as_fitted", model)
    kernel = getattr(fitted, "kernel", None)
    if not isinstance(kernel, str) or kernel not in BY_LIBSVM.values() or not hasattr(model, "dual_coef_"):
        raise ProblemError(
            f"{name} with kernel={kernel!r}: LIBSVM files have only the kernels {', '.join(BY_LIBSVM.values())}"
        )
    kept = getattr(model, "_support_gram", None)
    facts: dict[str, Any] = {
        "gamma": float(getattr(model, "_gamma", 0.0) if kept is None else kept.gamma),
        "coef0": float(fitted.coef0),
        "degree": 3,
    }
    if kernel == "poly":
        if fitted.degree != int(fitted.degree) or fitted.degree > MAX_INT:
            raise ProblemError(f"degree={fitted.degree!r}: LIBSVM's degrees are whole numbers")
        facts["degree"] = int(fitted.degree)
    coef: Any = model.dual_coef_
    coef = np.asarray(coef.toarray() if sparse.issparse(coef) else coef, dtype=float)
    order = np.arange(coef.shape[1])
    if is_classifier(model):
        labels = _labels(model.classes_)
        rho = -np.atleast_1d(np.asarray(model.intercept_, dtype=float))
        counts = np.asarray(model.n_support_, dtype=int)
        if len(labels) == 2:  # in LIBSVM the first class is the positive one, and its support vectors come first
            coef, rho = -coef, -rho
            order = np.argsort(coef[0] < 0, kind="stable")
            counts = np.array([(coef[0] >= 0).sum(), (coef[0] < 0).sum()])
        facts |= {"svm_type": "nu_svc" if by_share else "c_svc", "rho": rho, "labels": labels, "counts": counts}
    elif is_regressor(model):
        facts |= {"svm_type": "nu_svr" if by_share else "epsilon_svr", "rho": -np.atleast_1d(model.intercept_)}
    elif is_outlier_detector(model):
        facts |= {"svm_type": "one_class", "rho": np.array([_threshold(model, name)])}
    else:
        raise ProblemError(f"{name}: LIBSVM files hold only SVC, SVR and one-class models")
    vectors, serials = sparse.csr_array((len(order), 0)), np.empty(0, int)
    if kernel == "precomputed":
        serials = np.asarray(model.support_, dtype=int)[order] + 1
    elif len(order):
        vectors = sparse.csr_array(model.support_vectors_)[order]
        vectors.sort_indices()
        vectors.eliminate_zeros()
    return LibsvmParts(kernel=kernel, coefficients=coef.T[order], vectors=vectors, serials=serials, **facts)


def _threshold(model: Any, name: str) -> float:
    """Return rho of a one-class model, or of an SVDD with k(x, x) = 1, which is equivalent to one."""
    if hasattr(model, "intercept_"):
        return -float(np.atleast_1d(model.intercept_)[0])
    if (kernel := model._as_fitted.kernel) != "rbf":
        raise ProblemError(
            f"{name} with kernel={kernel!r} is not a one_class of LIBSVM, because k(x, x) differs between points; use "
            "kernel='rbf'"
        )
    return 0.5 * (1.0 + model._center_square + float(model.offset_))


def _labels(classes: Any) -> NDArray:
    found = np.asarray(classes)
    if found.dtype.kind in "biuf" and (found == np.floor(found)).all() and (np.abs(found) <= MAX_INT).all():
        return found.astype(int)
    raise ProblemError(
        f"classes_ are {', '.join(map(repr, found[:4].tolist()))}{', …' if len(found) > 4 else ''}; LIBSVM labels are "
        "whole numbers: fit on LabelEncoder().fit_transform(y), and keep its classes_ with the file"
    )
