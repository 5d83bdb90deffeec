"""`LibsvmModel`, a model read from a LIBSVM file, which can predict."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ..core.kernel_functions import as_matrix
from ..core.sparse_points import checked_rows
from ..exceptions import ProblemError


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """A model from a LIBSVM file. It can predict but has no certificate, because the file lacks the training data.

    Attributes
    ----------
    svm_type : {"c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"}
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}
    gamma, coef0 : float
    degree : int
    classes_ : integer array of shape (n_classes,)
        Sorted; empty for a model without classes.
    support_vectors_ : array or CSR of shape (n_SV, n_features)
        Of shape (n_SV, 0) for a precomputed kernel.
    dual_coef_ : array of shape (n_classes − 1, n_SV), or (1, n_SV)
        As in the file, whose classes may be in another order.
    intercept_ : array of shape (n_classes (n_classes − 1)/2,), or (1,)
        −rho, as in the file.
    n_features_in_ : int

    Examples
    --------
    >>> import os, tempfile
    >>> from dualflow import SVR
    >>> from dualflow.interchange import from_libsvm, to_libsvm
    >>> path = os.path.join(tempfile.mkdtemp(), "model")
    >>> to_libsvm(SVR(kernel="linear", C=10.0, epsilon=0.0).fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]), path)
    >>> model = from_libsvm(path)
    >>> model.svm_type, model.predict([[3.0]]).round(6)
    ('epsilon_svr', array([6.]))
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
        """Return the decision values, shape (n_new,), or (n_new, pairs) with more than two classes.

        The signs are those of scikit-learn with decision_function_shape="ovo". With two classes, values are positive
        for the larger label. With more, they are positive for the smaller label of each pair, in the order of
        `itertools.combinations` of ``classes_``. With one_class, they are positive inside. LIBSVM's own values of two
        classes are positive for the first label of the file.

        Parameters
        ----------
        X : array or sparse of shape (n_new, n_features_in_)
            With a precomputed kernel, the kernel values with all training points.

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
        """Return the predictions of `svm-predict`, shape (n_new,).

        They are labels by votes (ties go to the first label of the file), +1 inside and −1 outside, or the values of a
        regression. Errors are those of `decision_function`.
        """
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
        """Return Σ coef·k − rho of the pairs of the file, shape (n_new, pairs)."""
        points: Any = checked_rows(X, "X") if sparse.issparse(X) else as_matrix(X, "X")
        precomputed = self.kernel == "precomputed"
        if points.shape[1] < self.n_features_in_ or (points.shape[1] > self.n_features_in_ and not precomputed):
            raise ProblemError(
                f"X has {points.shape[1]} features, the model {self.n_features_in_}. A file lacks features that are 0 "
                "in all support vectors: give the right number, from_libsvm(path, n_features=…)"
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
        """Return the coefficients of each pair (i, j), shape (n_SV, pairs).

        They are row j−1 of those of class i, and row i of those of class j.
        """
        if not len(self._labels):
            return self.dual_coef_.T
        ends = np.concatenate(([0], np.cumsum(self._counts)))
        weights = np.zeros((self.dual_coef_.shape[1], len(self.intercept_)))
        for k, (one, two) in enumerate(combinations(range(len(self._labels)), 2)):
            own, other = slice(ends[one], ends[one + 1]), slice(ends[two], ends[two + 1])
            weights[own, k], weights[other, k] = self.dual_coef_[two - 1, own], self.dual_coef_[one, other]
        return weights
