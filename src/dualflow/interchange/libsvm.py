"""Fitted models to LIBSVM's files, which `svm-predict` reads, and LIBSVM's files to models that predict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.utils.validation import check_is_fitted

from ..core.kept import KeptGram
from ..core.kernel_checks import as_matrix
from ..core.kernels import Gram
from ..core.options import Number
from ..core.sparse_points import checked_rows
from ..exceptions import ProblemError
from .libsvm_text import MOST, Parts, read, write

__all__ = ["LibsvmModel", "from_libsvm", "to_libsvm"]

_KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
#: Fewer entries than this are kept dense, whatever they are.
_DENSE = 1 << 22


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """What a LIBSVM model file says, able to predict. It has no certificate: the training data are not in the file.

    Attributes
    ----------
    svm_type : {"c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"}
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}
    gamma, coef0 : float
    degree : int
    classes_ : integer array of shape (n_classes,)
        Sorted; empty where there are no classes.
    support_vectors_ : array or CSR of shape (n_SV, n_features)
        Of shape (n_SV, 0) for a precomputed kernel.
    dual_coef_ : array of shape (n_classes − 1, n_SV), or (1, n_SV)
        As in the file, whose classes may stand in another order.
    intercept_ : array of shape (n_classes (n_classes − 1)/2,), or (1,)
        −rho, as in the file.
    n_features_in_ : int
    """

    svm_type: str
    kernel: str
    gamma: float
    coef0: float
    degree: int
    classes_: NDArray
    support_vectors_: Any
    dual_coef_: NDArray
    intercept_: NDArray
    n_features_in_: int
    _labels: NDArray
    _counts: NDArray
    _serials: NDArray

    def decision_function(self, X: ArrayLike) -> NDArray:
        """Decision values, shape (n_new,), or (n_new, pairs) with more than two classes.

        Positive is the larger label with two classes, the smaller one of each pair (in the order of
        `itertools.combinations` of ``classes_``) with more, as in scikit-learn with decision_function_shape="ovo";
        inside, with one_class. LIBSVM's own values of two classes are positive for the first label of the file.

        Parameters
        ----------
        X : array or sparse of shape (n_new, n_features_in_)
            With a precomputed kernel the kernel values with all training points.

        Raises
        ------
        ProblemError
            X has another number of features or is not finite, the kernel overflows, or the model is a regression.
        """
        if self.svm_type.endswith("svr"):
            raise ProblemError(f"svm_type {self.svm_type} is a regression, which has no decision values: use predict")
        values = self._values(X)
        if not len(self.classes_):
            return values[:, 0]
        place = {label: k for k, label in enumerate(self._labels.tolist())}
        columns = {pair: k for k, pair in enumerate(combinations(range(len(place)), 2))}
        out = np.empty_like(values)
        for k, (one, two) in enumerate(combinations(self.classes_.tolist(), 2)):
            first, second = place[one], place[two]
            sign = 1.0 if first < second else -1.0
            out[:, k] = sign * values[:, columns[min(first, second), max(first, second)]]
        return -out[:, 0] if len(place) == 2 else out

    def predict(self, X: ArrayLike) -> NDArray:
        """What `svm-predict` says, shape (n_new,): labels by votes (ties go to the first label of the file), +1 inside
        and −1 outside, or the regression's values. Errors as `decision_function`."""
        values = self._values(X)
        if self.svm_type.endswith("svr"):
            return values[:, 0]
        if self.svm_type == "one_class":
            return np.where(values[:, 0] > 0, 1, -1)
        votes = np.zeros((len(values), len(self._labels)), int)
        for k, (first, second) in enumerate(combinations(range(len(self._labels)), 2)):
            votes[np.arange(len(values)), np.where(values[:, k] > 0, first, second)] += 1
        predicted: NDArray = self._labels[votes.argmax(axis=1)]
        return predicted

    def _values(self, X: Any) -> NDArray:
        """Σ coef·k − rho of the file's pairs, shape (n_new, pairs)."""
        points: Any = checked_rows(X, "X") if sparse.issparse(X) else as_matrix(X, "X")
        precomputed = self.kernel == "precomputed"
        if points.shape[1] < self.n_features_in_ or (points.shape[1] > self.n_features_in_ and not precomputed):
            raise ProblemError(
                f"X has {points.shape[1]} features, the model {self.n_features_in_}; what is 0 in all support vectors "
                "is not in the file: from_libsvm(path, n_features=…) says how many features there were"
            )
        weights, rows = self._weights(), np.arange(self.dual_coef_.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            if not len(rows):
                values = np.zeros((points.shape[0], weights.shape[1]))
            elif precomputed:
                values = points[:, self._serials - 1] @ weights
            else:
                gram = Gram(self.support_vectors_, self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)
                values = KeptGram(gram).expand(points, rows, weights)
            values = values + self.intercept_
        if not np.isfinite(values).all():
            raise ProblemError(f"X: kernel={self.kernel!r} overflows float64 on it; scale the features")
        return values

    def _weights(self) -> NDArray:
        """Coefficients of each pair, shape (n_SV, pairs): row j−1 of those of class i, row i of those of class j."""
        if not len(self._labels):
            return self.dual_coef_.T
        ends = np.concatenate(([0], np.cumsum(self._counts)))
        weights = np.zeros((self.dual_coef_.shape[1], len(self.intercept_)))
        for k, (one, two) in enumerate(combinations(range(len(self._labels)), 2)):
            own, other = slice(ends[one], ends[one + 1]), slice(ends[two], ends[two + 1])
            weights[own, k], weights[other, k] = self.dual_coef_[two - 1, own], self.dual_coef_[one, other]
        return weights


def from_libsvm(path: str | Path, n_features: int | None = None) -> LibsvmModel:
    """A model from a file of LIBSVM's `svm_save_model`, `svm-train` or `to_libsvm`.

    Probabilities in the file are left out. Files of strangers may be read: what they claim is checked, and nothing in
    them is run.

    Parameters
    ----------
    path : str or Path
        A regular file of at most 1 GiB.
    n_features : int, optional
        How many features the data had; by default the largest index in the file.

    Returns
    -------
    LibsvmModel

    Raises
    ------
    ProblemError
        It is not such a file, or damaged: the message names file, line and what is wrong.
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
        raise ProblemError(f"n_features={n_features}: {path} has index {found}")
    width = max(1, found) if n_features is None else n_features
    vectors: Any = parts.vectors
    if parts.kernel != "precomputed":
        vectors = sparse.csr_array((vectors.data, vectors.indices, vectors.indptr), shape=(vectors.shape[0], width))
        vectors = vectors.toarray() if math.prod(vectors.shape) <= min(_DENSE, 16 * vectors.nnz + 1000) else vectors
    return LibsvmModel(
        parts.svm_type, parts.kernel, parts.gamma, parts.coef0, parts.degree, np.sort(parts.labels), vectors,
        parts.coefficients.T, -parts.rho, width, parts.labels, parts.counts, parts.serials,
    )  # fmt: skip


def to_libsvm(model: Any, path: str | Path) -> None:
    """Write a fitted model as LIBSVM's `svm_save_model` would; a file that is there is replaced.

    Parameters
    ----------
    model : estimator or LibsvmModel
        A fitted `SVC`, `SVR` or one-class model of dualflow, or one of scikit-learn's; a data description (`SVDD`) with
        the radial kernel, as the one_class it is, its decision values halved. A stream is written as it is now.
    path : str or Path

    Raises
    ------
    ProblemError
        LIBSVM has no such kernel (a callable one), no such labels (they must be whole numbers), no such degree (it must
        be whole), or no such model.
    NotFittedError
        The model is not fitted.
    """
    write(path, _of_file(model) if isinstance(model, LibsvmModel) else _parts(model))


def _of_file(model: LibsvmModel) -> Parts:
    return Parts(
        model.svm_type, model.kernel, -model.intercept_, model.dual_coef_.T, sparse.csr_array(model.support_vectors_),
        model.degree, model.gamma, model.coef0, model._labels, model._counts, model._serials,
    )  # fmt: skip


def _parts(model: Any) -> Parts:
    check_is_fitted(model)
    name = type(model).__name__
    kernel = getattr(model, "kernel", None)
    if kernel not in _KERNELS or not hasattr(model, "dual_coef_"):
        raise ProblemError(f"{name} with kernel={kernel!r}: LIBSVM's files have {', '.join(_KERNELS)} kernels only")
    kept = getattr(model, "_support_gram", None)
    facts: dict[str, Any] = {
        "gamma": float(getattr(model, "_gamma", 0.0) if kept is None else kept.gamma),
        "coef0": float(model.coef0),
        "degree": 3,
    }
    if kernel == "poly":
        if model.degree != int(model.degree) or model.degree > MOST:
            raise ProblemError(f"degree={model.degree!r}: LIBSVM's degrees are whole numbers")
        facts["degree"] = int(model.degree)
    coef: Any = model.dual_coef_
    coef = np.asarray(coef.toarray() if sparse.issparse(coef) else coef, dtype=float)
    order = np.arange(coef.shape[1])
    if is_classifier(model):
        labels = _labels(model.classes_)
        rho = -np.atleast_1d(np.asarray(model.intercept_, dtype=float))
        counts = np.asarray(model.n_support_, dtype=int)
        if len(labels) == 2:  # LIBSVM's first class is the positive one, and its points stand first
            coef, rho = -coef, -rho
            order = np.argsort(coef[0] < 0, kind="stable")
            counts = np.array([(coef[0] >= 0).sum(), (coef[0] < 0).sum()])
        facts |= {"svm_type": "c_svc", "rho": rho, "labels": labels, "counts": counts}
    elif is_regressor(model):
        facts |= {"svm_type": "epsilon_svr", "rho": -np.atleast_1d(model.intercept_)}
    elif is_outlier_detector(model):
        facts |= {"svm_type": "one_class", "rho": np.array([_threshold(model, name)])}
    else:
        raise ProblemError(f"{name}: LIBSVM's files hold SVC, SVR and one-class models only")
    vectors, serials = sparse.csr_array((len(order), 0)), np.empty(0, int)
    if kernel == "precomputed":
        serials = np.asarray(model.support_, dtype=int)[order] + 1
    elif len(order):
        vectors = sparse.csr_array(model.support_vectors_)[order]
        vectors.sort_indices()
        vectors.eliminate_zeros()
    return Parts(kernel=kernel, coefficients=coef.T[order], vectors=vectors, serials=serials, **facts)


def _threshold(model: Any, name: str) -> float:
    """rho of a one-class model, or of a ball whose points all have k(x, x) = 1, where the sphere is a plane."""
    if hasattr(model, "intercept_"):
        return -float(np.atleast_1d(model.intercept_)[0])
    if model.kernel != "rbf":
        raise ProblemError(
            f"{name} with kernel={model.kernel!r} is no one_class of LIBSVM's, as k(x, x) is not the same for all x; "
            "use kernel='rbf'"
        )
    return 0.5 * (1.0 + model._center_square + float(model.offset_))


def _labels(classes: Any) -> NDArray:
    found = np.asarray(classes)
    if found.dtype.kind in "biuf" and (found == np.floor(found)).all() and (np.abs(found) <= MOST).all():
        return found.astype(int)
    raise ProblemError(
        f"classes_ are {', '.join(map(repr, found[:4].tolist()))}{', …' if len(found) > 4 else ''}; labels of LIBSVM "
        "are whole numbers: fit on LabelEncoder().fit_transform(y), and keep its classes_ beside the file"
    )
