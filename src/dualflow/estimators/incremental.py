"""The classifier that learns and forgets a point at a time, exactly (Cauwenberghs & Poggio 2001)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from ..exceptions import ProblemError
from ..online.leave_one_out import LeaveOneOut, left_out
from ..online.remembering import Model, Stream
from ..problems import _check_positive
from ._ids import check_count
from ._incremental import IncrementalMachine
from ._labels import encode

__all__ = ["IncrementalSVC"]


class IncrementalSVC(ClassifierMixin, IncrementalMachine):
    """Support vector classifier that learns and forgets exactly, a point at a time.

    After every `partial_fit` and every `forget` the model is the optimum of the C-SVM over the points it remembers,
    whatever the order in which they came: what `SVC` with the same kernel width finds in one batch.

    Parameters
    ----------
    C : float > 0, default=1.0
        As in `SVC`; finite.
    kernel : {"linear", "poly", "rbf"} or callable, default="rbf"
        Positive semidefinite. A callable is ``kernel(A, B) -> array of shape (len(A), len(B))``.
    gamma : {"scale", "auto"} or float ≥ 0, default="scale"
        "scale" is computed from the points of `fit`, or of the first `partial_fit`, and stays.
    degree, coef0 : float, default=3, 0.0
        Of the kernel "poly".
    reserve : float > 0, optional
        Of the points without weight remember only those with a margin yf − 1 below this (CP section 2.3). Less memory,
        and no longer exact once a point that was let go would have come back. None remembers all.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        As in `SVC`, for more than two classes.
    predict_dtype : {"float64", "float32"}, default="float64"
        Precision of kernel values in prediction.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    ids_ : array of shape (n,)
        Names of the points that are remembered.
    next_id_ : int
        The name that the next point gets by default.
    support_ids_ : array of shape (n_SV,)
        Names of the support vectors, by class and then in the order of arrival.
    support_vectors_, n_support_, dual_coef_, intercept_
        As in `SVC`, with two classes.
    certificate_, certificates_
        Made when asked for, over all points that are remembered.
    drift_, n_pivots_
        How far the inverse ever was off where it was used, and how many breakpoints were passed.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Where α itself is unique (positive definite kernel, distinct points), forgetting gives the α of a model that never
    saw the points, up to round-off. Where it is not (duplicates, linear kernels of low rank) decision function,
    objective and margins are those, and α is one of the optimal ones.

    Memory is that of the points, and one column of the kernel matrix for each point on the margin.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import IncrementalSVC
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [1.4]]), np.array([0, 0, 1, 1, 1])
    >>> model = IncrementalSVC(kernel="linear", C=10).partial_fit(X, y)
    >>> round(float(model.decision_function([[1.2]])[0]), 6)
    0.0
    >>> round(float(model.forget([4]).decision_function([[1.5]])[0]), 6)
    0.0
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        reserve: float | None = None,
        decision_function_shape: str = "ovr",
        predict_dtype: str = "float64",
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reserve = reserve
        self.decision_function_shape = decision_function_shape
        self.predict_dtype = predict_dtype

    def _model(self) -> Model:
        return Model("hinge", _check_positive(self.C, "C", finite=True))

    def fit(self, X: ArrayLike, y: ArrayLike) -> IncrementalSVC:
        """Forget everything, and learn these points; their ids are 0, 1, 2, …

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n,)
            Labels of at least two classes.

        Raises
        ------
        ProblemError
            Data or parameters are out of range; the model is what it was.
        """
        with self._all_or_nothing():
            points, labels = self._check_batch(X, y, least=2)
            classes, codes = encode(labels)
            if len(classes) < 2:
                raise ProblemError(f"y holds a single class, {classes[0]!r}; at least two classes are needed")
            self.classes_, self._declared = classes, False
            self._learn(points, codes, None, True)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, ids: ArrayLike | None = None
    ) -> IncrementalSVC:
        """Learn more points, one after the other.

        Parameters
        ----------
        X : array of shape (k, n_features)
        y : array of shape (k,)
        classes : array of shape (n_classes,), optional
            All classes there will ever be; needed in the first call unless its y holds them all.
        ids : integer array of shape (k,), optional
            Names to forget the points by; `next_id_`, `next_id_` + 1, … by default.

        Raises
        ------
        ProblemError
            Data, labels or ids are out of range; the model is what it was.
        """
        first = not self.__sklearn_is_fitted__()
        with self._all_or_nothing():
            points, labels = self._check_batch(X, y, reset=first)
            if first:
                self.classes_ = encode(labels)[0] if classes is None else np.unique(np.asarray(classes))
                self._declared = classes is not None
                if len(self.classes_) < 2:
                    raise ProblemError(
                        f"the first y holds a single class, {self.classes_[0]!r}: give all there will be as classes"
                    )
            elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
                raise ProblemError(f"classes differs from those of the first call, {self.classes_.tolist()}")
            self._learn(points, self._codes(labels), ids, first)
        return self

    def _codes(self, labels: NDArray) -> NDArray:
        codes = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        if (strange := labels[self.classes_[codes] != labels]).size:
            raise ProblemError(f"y holds {strange[0]!r}, which is none of the classes {self.classes_.tolist()}")
        return codes

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.classes_)), 2))

    def _deal(self, targets: NDArray) -> list[tuple[NDArray, NDArray]]:
        if len(self.classes_) == 2:
            return [(np.arange(len(targets)), np.where(targets == 1, 1.0, -1.0))]
        dealt = []
        for i, j in self._pairs:
            rows = np.flatnonzero((targets == i) | (targets == j))
            dealt.append((rows, np.where(targets[rows] == i, 1.0, -1.0)))
        return dealt

    def _collect(self) -> tuple[NDArray, NDArray, NDArray]:
        parts = []
        for stream, (i, j) in zip(self._streams, self._pairs, strict=True):
            positive, negative = (j, i) if len(self._streams) == 1 else (i, j)
            parts.append((stream.ids, stream.gram.X, np.where(stream.targets > 0, positive, negative)))
        ids, X, codes = (np.concatenate([part[k] for part in parts]) for k in range(3))
        ids, where = np.unique(ids, return_index=True)
        return ids, X[where], codes[where]

    # --- reading -------------------------------------------------------------------------------

    def _pair_values(self, X: ArrayLike) -> NDArray:
        points = self._check_new_data(X)
        return np.column_stack([self._values(points, s, s.coefficients) + s.bias for s in self._streams])

    def decision_function(self, X: ArrayLike) -> NDArray:
        """Decision values, as `SVC.decision_function`: shape (n_new,), or (n_new, n_classes or n_pairs)."""
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ProblemError(f"decision_function_shape={self.decision_function_shape!r} is not one of 'ovr', 'ovo'")
        values = self._pair_values(X)
        if len(self.classes_) == 2:
            return values[:, 0]
        if self.decision_function_shape == "ovo":
            return values
        return _ovr_decision_function(values < 0, -values, len(self.classes_))

    def predict(self, X: ArrayLike) -> NDArray:
        """Labels, shape (n_new,): by the sign for two classes, by votes of the pairs for more."""
        values = self._pair_values(X)
        if len(self.classes_) == 2:
            return self.classes_[(values[:, 0] >= 0).astype(int)]
        votes = np.zeros((len(values), len(self.classes_)), dtype=int)
        for k, (i, j) in enumerate(self._pairs):
            votes[:, i] += values[:, k] > 0
            votes[:, j] += values[:, k] <= 0
        return self.classes_[np.argmax(votes, axis=1)]

    def suggest(self, X_pool: ArrayLike, k: int = 1) -> NDArray:
        """Which k of some points to have labelled next: those nearest to the decision boundary (CP section 5).

        Parameters
        ----------
        X_pool : array of shape (n_pool, n_features)
        k : int

        Returns
        -------
        integer array of shape (k,)
            Rows of ``X_pool``, the nearest first, by |f(x)|; with several classes by the least of the pairs.
        """
        values = np.abs(self._pair_values(X_pool)).min(axis=1)
        return np.argsort(values, kind="stable")[: check_count(k, len(values))]

    def leave_one_out(self, method: str = "exact") -> LeaveOneOut:
        """What the model without it says of every point that is remembered (CP section 3).

        Parameters
        ----------
        method : {"exact", "first_segment"}
            "exact" unlearns every support vector in turn (other points change nothing). "first_segment" takes all
            other margin points to stay where they are: hardly any work, and an approximation.

        Raises
        ------
        ProblemError
            There are more than two classes, or the method is unknown.
        """
        if method not in ("exact", "first_segment"):
            raise ProblemError(f"method={method!r} is not one of 'exact', 'first_segment'")
        return left_out(self._only_stream("leave_one_out"), method)

    def _support(self) -> tuple[Stream, NDArray]:
        stream, support = super()._support()
        return stream, support[np.argsort(stream.targets[support], kind="stable")]

    @property
    def n_support_(self) -> NDArray:  # type: ignore[override]
        """Support vectors of each class, shape (2,)."""
        stream, support = self._support()
        return np.array([(stream.targets[support] < 0).sum(), (stream.targets[support] > 0).sum()])

    @property
    def intercept_(self) -> NDArray:
        """b of each pair of classes."""
        check_is_fitted(self)
        return np.array([stream.bias for stream in self._streams])

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = super()._pack()
        return arrays | {"classes": self.classes_.copy()}, facts | {"declared": self._declared}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        classes = arrays["classes"]
        if classes.ndim != 1 or len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
            raise ValueError("its classes are not two or more, in order")
        if len(facts["streams"]) != len(classes) * (len(classes) - 1) // 2:
            raise ValueError("it does not hold one stream for each pair of classes")
        self.classes_, self._declared = classes.copy(), bool(facts["declared"])
        super()._unpack(arrays, facts)
