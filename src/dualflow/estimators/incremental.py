"""The classifier that learns and forgets a point at a time, exactly (Cauwenberghs & Poggio 2001).

The data description that learns and forgets a point at a time, exactly.

Regression that learns and forgets a point at a time, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ..core.options import OneOf
from ..exceptions import ProblemError
from ..online.leave_one_out import LeaveOneOut, left_out
from ..problems import Growing, GrowingBall, GrowingHinge, GrowingTube
from ..problems.classification import FINITE_COST
from ..problems.regression import TUBE
from ._base import fitted, nearest, refused
from ._classifier import Joint, PairClassifier, joined
from ._incremental import IncrementalMachine
from ._one_class import Ball, sphere
from ._validation import codes_of, encode, exact_labels, same, several, shown
from ._verify import check_one_world, known_classes, stored

__all__ = ["IncrementalSVC", "IncrementalSVDD", "IncrementalSVR"]


class IncrementalSVC(PairClassifier, IncrementalMachine):
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
        Precision of kernel values in prediction, as in `SVC`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    ids_ : array of shape (n,)
        Names of the points that are remembered.
    next_id_ : int
        The name that the next point gets by default.
    support_ : array of shape (n_SV,)
        Names of the support vectors, by class and then ascending; `support_ids_` is another name for it.
    support_vectors_, n_support_, dual_coef_, intercept_, coef_
        As in `SVC`.
    solutions_, certificates_ : list of Solution, list of Certificate
        Over all points that are remembered, one a pair of classes that has any; made when asked for.
    solution_, certificate_ : Solution, Certificate
        Two classes only.
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

    Of parameters that are changed ``reserve`` counts at the next `partial_fit`. With another C or kernel the points so
    far would have another optimum: `partial_fit` raises ProblemError then, and `fit` begins anew.

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

    _rules = {"C": FINITE_COST}
    _kept = (*IncrementalMachine._kept, "C")

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

    def _model(self) -> Growing:
        return GrowingHinge(self._as_fitted.C)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
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
        with self._transaction():
            self._forget_everything()
            points, labels = self._check_batch(X, y, least=2)
            classes, codes = encode(labels)
            several(classes, "y")
            self.classes_, self._declared = classes, False
            self._learn(points, codes, None, True)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, ids: ArrayLike | None = None
    ) -> Self:
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
        with self._transaction():
            points, labels = self._check_batch(X, y)
            given = None if classes is None else np.unique(np.asarray(exact_labels(classes, "classes")))
            if first:
                self.classes_, self._declared = encode(labels)[0] if given is None else given, given is not None
                if len(self.classes_) < 2:
                    raise ProblemError(
                        f"the first y holds a single class, {shown(self.classes_[0])}: give all there will be as "
                        "classes"
                    )
            elif given is not None:
                same(given, self.classes_)
            self._learn(points, codes_of(labels, self.classes_), ids, first)
        return self

    def _deal(self, targets: NDArray) -> list[tuple[NDArray, NDArray]]:
        if len(self.classes_) == 2:
            return [(np.arange(len(targets)), np.where(targets == 1, 1.0, -1.0))]
        dealt = []
        for positive, negative in map(self._sides, range(len(self._pairs))):
            rows = np.flatnonzero((targets == positive) | (targets == negative))
            dealt.append((rows, np.where(targets[rows] == positive, 1.0, -1.0)))
        return dealt

    def _owners(self, k: int) -> NDArray:
        """The classes of the points of pair k."""
        return np.where(self._streams[k].targets > 0, *self._sides(k))

    def _collect(self) -> tuple[NDArray, NDArray, NDArray]:
        parts = [(stream.ids, stream.gram.X, self._owners(k)) for k, stream in enumerate(self._streams)]
        ids, X, codes = (np.concatenate([part[k] for part in parts]) for k in range(3))
        ids, where = np.unique(ids, return_index=True)
        return ids, X[where], codes[where]

    # --- reading -------------------------------------------------------------------------------

    def _joint(self) -> tuple[Joint, NDArray]:
        """The support vectors of all pairs, and their points."""
        parts, points = [], []
        for k, stream in enumerate(self._streams):
            weights = stream.coefficients
            (J,) = np.nonzero(weights)
            parts.append((stream.ids[J], self._owners(k)[J], weights[J]))
            points.append(stream.gram.X[J])
        joint = joined(len(self.classes_), parts)
        return joint, np.concatenate(points)[joint.first]

    def _support(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        joint, X = self._joint()
        return joint.support, X, joint.dual_coef, joint.n_support

    @property
    def _pair_coef(self) -> NDArray:  # type: ignore[override]
        return self._joint()[0].pair_coef

    @fitted
    def intercept_(self) -> NDArray:
        """b of each pair of classes."""
        return np.array([stream.bias - stream.moved for stream in self._streams])

    @fitted
    def coef_(self) -> NDArray:
        """Weights of the features, shape (n_pairs, n_features); linear kernel only."""
        if self._as_fitted.kernel != "linear" or self._kernel_center is None:
            return super().coef_
        joint, X = self._joint()
        weights: NDArray = joint.pair_coef.T @ (X - self._kernel_center)  # they sum to 0, but for their last digits
        return weights

    @property
    def _constants(self) -> NDArray:  # type: ignore[override]
        return np.array([stream.moved for stream in self._streams])

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
        return nearest(np.abs(self._pair_values(X_pool)).min(axis=1), k)

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
        OneOf(words=("exact", "first_segment")).check("method", method)
        return left_out(self._only_stream("leave_one_out"), method)

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = super()._pack()
        return arrays | {"classes": self.classes_.copy()}, facts | {"declared": self._declared}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        self.classes_ = known_classes(stored(arrays, "classes", "biufUSmMO", (None,)))
        if len(facts["streams"]) != len(self._pairs) or type(facts["declared"]) is not bool:
            raise ValueError("it does not hold one stream for each pair of classes")
        self._declared = facts["declared"]
        super()._unpack(arrays, facts)
        positive = [(j, i) if len(self._pairs) == 1 else (i, j) for i, j in self._pairs]
        check_one_world(
            (s.ids, s.gram.X, np.where(s.targets > 0, *classes))
            for s, classes in zip(self._streams, positive, strict=True)
        )


class IncrementalSVDD(Ball, IncrementalMachine):
    """Support vector data description that learns and forgets exactly, a point at a time (Howell eq. 21-24, CP).

    Parameters
    ----------
    nu : float in (0, 1] or None, default=0.1
        As in `SVDD`: at most this fraction of the points that are remembered lies outside. None is the hard ball.
    kernel, gamma, degree, coef0, reserve, predict_dtype
        As in `IncrementalSVC`; ``reserve`` counts in units of the squared distance to the sphere.

    Attributes
    ----------
    radius_, offset_, support_vectors_, n_support_, dual_coef_
        As in `SVDD`.
    support_, solution_, solutions_, certificate_, certificates_
        As in `IncrementalSVC`.
    ids_, next_id_, support_ids_, drift_, n_pivots_, n_features_in_, feature_names_in_
        As in `IncrementalSVC`.

    Notes
    -----
    With ν all bounds 1/(νn) shrink when a point comes. Followed is the same problem in α' = νnα: bounds stay at 1, and
    the sum νn grows. Changed parameters are refused by `partial_fit` as in `IncrementalSVC`.

    Examples
    --------
    >>> from dualflow import IncrementalSVDD
    >>> ball = IncrementalSVDD(nu=None, kernel="linear").fit([[0.0, 0.0], [2.0, 0.0], [8.0, 0.0]])
    >>> round(ball.radius_, 9), round(ball.forget([2]).radius_, 9)
    (4.0, 1.0)
    """

    _kept = (*IncrementalMachine._kept, "nu")

    def __init__(
        self,
        nu: float | None = 0.1,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        reserve: float | None = None,
        predict_dtype: str = "float64",
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reserve = reserve
        self.predict_dtype = predict_dtype

    def _model(self) -> Growing:
        return GrowingBall(self._as_fitted.nu)

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Forget everything, and learn these points, shape (n, n_features); errors as `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._absorb(X, None)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None, ids: ArrayLike | None = None) -> Self:
        """Learn more points, shape (k, n_features); ``ids`` and errors as in `IncrementalSVC.partial_fit`."""
        with self._transaction():
            self._absorb(X, ids)
        return self

    def _absorb(self, X: ArrayLike, ids: ArrayLike | None) -> None:
        (points,) = self._check_batch(X)
        self._learn(points, np.ones(len(points)), ids, not self.__sklearn_is_fitted__())

    # --- reading -------------------------------------------------------------------------------

    def _ball(self) -> tuple[float, float]:
        """αᵀKα and R²; no kernel value is needed for them."""
        (stream,) = self._streams
        alpha, engine = stream.coefficients, stream.engine
        if not alpha.any():
            raise ProblemError("all points are forgotten; there is no ball: learn some")
        (J,) = np.nonzero(alpha)
        # g = 2Kα − k + b, in units.
        fields = (engine.g - engine.b) / stream.unit
        quadratic = float(alpha[J] @ (fields[J] + stream.gram.diag()[J])) / 2.0
        squared = (
            float((quadratic - fields).max()) if self._as_fitted.nu is None else quadratic + stream.bias / stream.unit
        )
        return quadratic, max(0.0, squared)

    @property
    def _center_square(self) -> float:  # type: ignore[override]
        return self._ball()[0]

    @fitted
    def radius_(self) -> float:
        """R, in feature space; no attribute once all points are forgotten."""
        self._there_is("radius_")
        return float(np.sqrt(self._ball()[1]))

    @fitted
    def offset_(self) -> float:
        """−R² (less round-off, so that the sphere counts as inside): decision_function = score_samples − offset_."""
        self._there_is("offset_")
        quadratic, squared = self._ball()
        return sphere(squared, self._streams[0].gram.diag(), quadratic)[1]

    def _self_kernel(self, X: NDArray) -> NDArray:
        with np.errstate(over="ignore"):
            return self._streams[0].gram.self_kernel(X)

    def suggest(self, X_pool: ArrayLike, k: int = 1) -> NDArray:
        """Rows of the k points of a pool that lie nearest to the sphere, the nearest first; as `IncrementalSVC`'s."""
        return nearest(np.abs(self.decision_function(X_pool)), k)


class IncrementalSVR(RegressorMixin, IncrementalMachine):
    """ε-insensitive support vector regression that learns and forgets exactly, a point at a time.

    Parameters
    ----------
    C : float > 0, default=1.0
    epsilon : float ≥ 0, default=0.1
        Half the width of the tube within which no loss is paid.
    kernel, gamma, degree, coef0, reserve, predict_dtype
        As in `IncrementalSVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_
        As in `IncrementalSVC`; dual_coef_ holds α − α*, in one row.
    solution_, solutions_, certificate_, certificates_
        As in `IncrementalSVC`, of the dual in (α, α*).
    ids_, next_id_, support_ids_, drift_, n_pivots_, n_features_in_, feature_names_in_
        As in `IncrementalSVC`.

    Examples
    --------
    >>> from dualflow import IncrementalSVR
    >>> line = IncrementalSVR(C=100, epsilon=0.0, kernel="linear").fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 9.0])
    >>> round(float(line.forget([2]).predict([[2.0]])[0]), 6)
    5.0
    """

    _rules = {"C": FINITE_COST, "epsilon": TUBE}

    offset_: ClassVar[Any] = refused("intercept_")
    radius_: ClassVar[Any] = refused("intercept_")

    _kept = (*IncrementalMachine._kept, "C", "epsilon")

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        reserve: float | None = None,
        predict_dtype: str = "float64",
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reserve = reserve
        self.predict_dtype = predict_dtype

    def _model(self) -> Growing:
        return GrowingTube(self._as_fitted.C, self._as_fitted.epsilon)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget everything, and learn these points; errors as `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._absorb(X, y, None)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Learn more points; parameters and errors as in `IncrementalSVC.partial_fit`, y being numbers."""
        with self._transaction():
            self._absorb(X, y, ids)
        return self

    def _absorb(self, X: ArrayLike, y: ArrayLike, ids: ArrayLike | None) -> None:
        points, values = self._check_batch(X, y, numeric=True)
        self._learn(points, values.astype(float), ids, not self.__sklearn_is_fitted__())

    def predict(self, X: ArrayLike) -> NDArray:
        """Values, shape (n_new,)."""
        return self._expanded(X)[:, 0] + self._streams[0].bias

    @fitted
    def intercept_(self) -> NDArray:
        """b, shape (1,)."""
        return np.array([self._streams[0].bias - self._streams[0].moved])
