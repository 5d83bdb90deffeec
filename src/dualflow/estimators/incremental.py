"""`IncrementalSVC`, `IncrementalSVDD` and `IncrementalSVR`, which learn and forget one point at a time, exactly.

They follow the path of the optimum while a point is added or removed (Cauwenberghs & Poggio 2001, CP below).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ..core.options import OneOf
from ..exceptions import ProblemError
from ..online.leave_one_out import LeaveOneOut, leave_one_out_margins
from ..problems import Growing, GrowingBall, GrowingHinge, GrowingTube
from ..problems.classification import FINITE_C_RULE
from ..problems.regression import EPSILON_RULE
from ._base import fitted, nearest, unavailable
from ._chunks import by_chunks
from ._classifier import Joint, PairClassifier, join_support
from ._incremental import IncrementalMachine
from ._one_class import Ball, sphere
from ._validation import (
    check_same_classes,
    checked_weight,
    classes_with_weight,
    codes_of,
    encode,
    exact_labels,
    label_text,
    require_two_classes,
    stream_class_weights,
)
from ._verify import check_point_identity, known_classes, stored


class IncrementalSVC(PairClassifier, IncrementalMachine):
    """Support vector classifier that learns and forgets one point at a time, exactly.

    After each `partial_fit` and each `forget` the model is the optimum of the C-SVM over the points it remembers,
    independent of their order: the same model that `SVC` with the same kernel width finds in one batch.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the loss, as in `SVC`; it must be finite.
    kernel : {"linear", "poly", "rbf"} or callable, default="rbf"
        A positive semidefinite kernel. A callable ``kernel(A, B)`` returns an array of shape (len(A), len(B)).
    gamma : {"scale", "auto"} or float ≥ 0, default="scale"
        Kernel width. "scale" is computed from the points of `fit`, or of the first `partial_fit`, and stays fixed.
    degree, coef0 : float, default=3, 0.0
        Parameters of the kernel "poly".
    reserve : float > 0, optional
        Remember points without weight only if their margin yf − 1 is below this value (CP section 2.3). That saves
        memory; the model is no longer exact once a dropped point would have gained weight. None remembers all points.
    class_weight : dict, optional
        Factors of C by label, above 0, as in `SVC`; 1 for labels that it does not name. "balanced" is not possible: the
        balance of a stream changes with every point, and with it all bounds.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        As in `SVC`, for more than two classes.
    predict_dtype : {"float64", "float32"}, default="float64"
        Precision of kernel values in prediction, as in `SVC`.

    Attributes
    ----------
    classes_, class_weight_ : array of shape (n_classes,)
        The class labels, and the factors of C for them.
    ids_ : array of shape (n,)
        Ids of the remembered points.
    next_id_ : int
        The id that the next point gets by default; with names, the number of points learned.
    support_ : array of shape (n_SV,)
        Ids of the support vectors, by class and then ascending; `support_ids_` is another name for it.
    support_vectors_, n_support_, dual_coef_, intercept_, coef_
        As in `SVC`.
    solutions_, certificates_ : list of Solution, list of Certificate
        One for each pair of classes that has points, over all remembered points; made on access.
    solution_, certificate_ : Solution, Certificate
        The only solution of a model of two classes, and the worst certificate.
    drift_ : float
        Largest relative residual of the stored inverse where it was used.
    n_pivots_ : int
        Number of breakpoints of the path.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Where α is unique (positive definite kernel, distinct points), forgetting points gives the α of a model that never
    saw them, up to round-off. Where it is not (equal points, linear kernels of low rank), the decision function, the
    objective and the margins are those of such a model, and α is one of several optimal ones.

    Memory holds the points, and one column of the kernel matrix for each point on the margin.

    A changed ``reserve`` counts from the next `partial_fit`. With another C, ``class_weight`` or kernel the points
    learned so far would have another optimum: `partial_fit` then raises ProblemError, and `fit` starts again.

    The loss is the hinge. The squared hinge and least squares have a ridge for each point on the diagonal of Q instead
    of bounds; the path has only bounds. Fit ``SVC(loss="squared_hinge")`` or `LSSVC` again for these.

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

    _rules = {"C": FINITE_C_RULE}
    _kept = (*IncrementalMachine._kept, "C", "class_weight")

    C: float
    class_weight: dict[Any, float] | None
    class_weight_: NDArray

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        reserve: float | None = None,
        class_weight: dict[Any, float] | None = None,
        decision_function_shape: str = "ovr",
        predict_dtype: str = "float64",
    ) -> None:
        self._set_parameters(locals())

    def _model(self) -> Growing:
        return GrowingHinge(self._as_fitted.C)

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget all points, and learn new ones, whose ids are 0, 1, 2, …

        Parameters
        ----------
        X : array of shape (n, n_features)
            Finite numbers.
        y : array of shape (n,)
            Labels of at least two classes.
        sample_weight : array of shape (n,), optional
            Factors of C, as in `partial_fit`.

        Returns
        -------
        IncrementalSVC
            The estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range. The model is then as it was.
        """
        with self._transaction():
            self._forget_everything()
            points, labels = self._check_batch(X, y, least=2)
            classes, codes = encode(labels)
            require_two_classes(classes, "y")
            self.classes_, self._declared = classes, False
            weight = self._point_weights(sample_weight, points, codes, True)
            classes_with_weight(np.bincount(codes, weight > 0, minlength=len(classes)), classes)
            self._learn(points, codes, weight, None, True)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn new points, one after the other.

        Parameters
        ----------
        X : array of shape (k, n_features)
            Finite numbers.
        y : array of shape (k,)
            Labels of the points.
        classes : array of shape (n_classes,), optional
            All labels that the stream will have. Required in the first call, unless its y holds them all.
        ids : array or list of length k, optional
            Ids by which `forget` names the points: whole numbers ≥ 0, by default `next_id_`, `next_id_` + 1, …; or
            names, which are hashable values such as text. The first call chooses one of these two kinds.
        sample_weight : array of shape (k,), optional
            Factors of C, ≥ 0 and not all 0, in addition to ``class_weight``. They stay with their points: forgetting
            another point is exact with them. A point of weight 0 is remembered and has no influence.

        Returns
        -------
        IncrementalSVC
            The estimator itself.

        Raises
        ------
        ProblemError
            Data, labels or ids are out of range. The model is then as it was.
        """
        first = not self.__sklearn_is_fitted__()
        with self._transaction():
            points, labels = self._check_batch(X, y)
            given = None if classes is None else np.unique(np.asarray(exact_labels(classes, "classes")))
            if first:
                self.classes_, self._declared = encode(labels)[0] if given is None else given, given is not None
                if len(self.classes_) < 2:
                    raise ProblemError(
                        f"the first y holds a single class, {label_text(self.classes_[0])}: give all labels that will "
                        "come as classes"
                    )
            elif given is not None:
                check_same_classes(given, self.classes_)
            codes = codes_of(labels, self.classes_)
            self._learn(points, codes, self._point_weights(sample_weight, points, codes, first), ids, first)
        return self

    def _point_weights(self, sample_weight: ArrayLike | None, X: NDArray, codes: NDArray, first: bool) -> NDArray:
        """Return the factor of C of each point; in the ``first`` batch, set those of the classes."""
        if first:
            self.class_weight_ = stream_class_weights(self.class_weight, self.classes_)
        return checked_weight(sample_weight, X) * self.class_weight_[codes]

    def _deal(self, targets: NDArray) -> list[tuple[NDArray, NDArray]]:
        if len(self.classes_) == 2:
            return [(np.arange(len(targets)), np.where(targets == 1, 1.0, -1.0))]
        dealt = []
        for positive, negative in map(self._sides, range(len(self._pairs))):
            rows = np.flatnonzero((targets == positive) | (targets == negative))
            dealt.append((rows, np.where(targets[rows] == positive, 1.0, -1.0)))
        return dealt

    def _codes_of_pair(self, k: int) -> NDArray:
        """Return the classes of the points of pair k."""
        return np.where(self._streams[k].targets > 0, *self._sides(k))

    def _collect(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        parts = [(s.ids, s.gram.X, self._codes_of_pair(k), s.weights) for k, s in enumerate(self._streams)]
        ids, X, codes, weights = (np.concatenate([part[k] for part in parts]) for k in range(4))
        ids, where = np.unique(ids, return_index=True)
        return ids, X[where], codes[where], weights[where]

    # --- fitted attributes ---------------------------------------------------------------------

    def _joint(self) -> tuple[Joint, NDArray]:
        """Return the joint support vectors of all pairs, and their points."""
        parts, points = [], []
        for k, stream in enumerate(self._streams):
            weights = stream.coefficients
            (J,) = np.nonzero(weights)
            parts.append((stream.ids[J], self._codes_of_pair(k)[J], weights[J]))
            points.append(stream.gram.X[J])
        joint = join_support(len(self.classes_), parts)
        return joint, np.concatenate(points)[joint.first]

    def _support(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        joint, X = self._joint()
        return joint.support, X, joint.dual_coef, joint.n_support

    @property
    def _pair_coef(self) -> NDArray:  # type: ignore[override]
        return self._joint()[0].pair_coef

    @fitted
    def intercept_(self) -> NDArray:
        """Bias of each pair of classes, shape (n_pairs,)."""
        return np.array([stream.bias - stream.moved for stream in self._streams])

    @fitted
    def coef_(self) -> NDArray:
        """Weights of the features, shape (n_pairs, n_features); linear kernel only."""
        if self._as_fitted.kernel != "linear" or self._kernel_center is None:
            return super().coef_
        joint, X = self._joint()
        weights: NDArray = joint.pair_coef.T @ (X - self._kernel_center)  # Σ pair_coef = 0, so this saves digits only
        return weights

    @property
    def _constants(self) -> NDArray:  # type: ignore[override]
        return np.array([stream.moved for stream in self._streams])

    def suggest(self, X_pool: ArrayLike, k: int = 1) -> NDArray:
        """Return the k points of a pool to label next: those nearest to the decision boundary (CP section 5).

        Parameters
        ----------
        X_pool : array of shape (n_pool, n_features)
            Points without labels.
        k : int, default=1
            Number of points to suggest.

        Returns
        -------
        integer array of shape (k,)
            Rows of ``X_pool`` with the smallest |f(x)|, the smallest first; with several classes by the smallest of
            all pairs.
        """
        return nearest(np.abs(self._pair_values(X_pool)).min(axis=1), k)

    def leave_one_out(self, method: str = "exact") -> LeaveOneOut:
        """Return the decision value of every remembered point by the model without it (CP section 3).

        Parameters
        ----------
        method : {"exact", "first_segment"}, default="exact"
            "exact" unlearns each support vector in turn (leaving out other points changes nothing). "first_segment"
            assumes that all other points stay in their sets: a fast approximation.

        Returns
        -------
        LeaveOneOut

        Raises
        ------
        ProblemError
            There are more than two classes, or the method is unknown.
        """
        OneOf(words=("exact", "first_segment")).check("method", method)
        found = leave_one_out_margins(self._only_stream("leave_one_out"), method)
        return replace(found, ids=self._public_ids(found.ids))

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = super()._pack()
        if self._as_fitted.class_weight is not None:
            arrays["class_weight"] = self.class_weight_.copy()
        return arrays | {"classes": self.classes_.copy()}, facts | {"declared": self._declared}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        self.classes_ = known_classes(stored(arrays, "classes", "biufUSmMO", (None,)))
        if len(facts["streams"]) != len(self._pairs) or type(facts["declared"]) is not bool:
            raise ValueError("it does not hold one stream for each pair of classes")
        self._declared, self.class_weight_ = facts["declared"], np.ones(len(self.classes_))
        if "class_weight" in arrays:
            self.class_weight_ = stored(arrays, "class_weight", "f", (len(self.classes_),))
            if not (self.class_weight_ > 0).all():
                raise ValueError(f"its class weights are {self.class_weight_.tolist()}, not all above 0")
        super()._unpack(arrays, facts)
        positive = [(j, i) if len(self._pairs) == 1 else (i, j) for i, j in self._pairs]
        check_point_identity(
            (s.ids, s.gram.X, np.where(s.targets > 0, *classes))
            for s, classes in zip(self._streams, positive, strict=True)
        )


class IncrementalSVDD(Ball, IncrementalMachine):
    """Support vector data description that learns and forgets one point at a time, exactly (Howell eq. 21-24, CP).

    Parameters
    ----------
    nu : float in (0, 1] or None, default=0.1
        Upper bound on the share of remembered points outside the ball, as in `SVDD`. None is the hard ball.
    kernel, gamma, degree, coef0, reserve, predict_dtype
        As in `IncrementalSVC`; ``reserve`` is in units of the squared distance to the sphere.

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
    With a ν, each new point lowers all bounds, w/(νΣw) for a point of weight w. The path is therefore followed in
    α' = νΣw α, whose bounds stay w and whose sum grows. `partial_fit` refuses changed parameters, as in
    `IncrementalSVC`.

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
        self._set_parameters(locals())

    def _model(self) -> Growing:
        return GrowingBall(self._as_fitted.nu)

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget all points, and learn the points X, shape (n, n_features); errors are those of `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._absorb(X, None, sample_weight)
        return self

    def partial_fit(
        self, X: ArrayLike, y: Any = None, ids: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn new points X, shape (k, n_features); ``ids`` and errors are those of `IncrementalSVC.partial_fit`.

        ``sample_weight``, shape (k,), multiplies the bounds of the points, as in `SVDD`: with it ν is a share of the
        weight. Without ν it only matters where it is 0: the ball does not depend on such a point.
        """
        with self._transaction():
            self._absorb(X, ids, sample_weight)
        return self

    def _absorb(self, X: ArrayLike, ids: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        (points,) = self._check_batch(X)
        weight = checked_weight(sample_weight, points)
        self._learn(points, np.ones(len(points)), weight, ids, not self.__sklearn_is_fitted__())

    # --- fitted attributes ---------------------------------------------------------------------

    def _ball(self) -> tuple[float, float]:
        """Return αᵀKα and R², from the gradient and without kernel values."""
        (stream,) = self._streams
        alpha, engine = stream.coefficients, stream.engine
        if not alpha.any():
            raise ProblemError("all points are forgotten; there is no ball: learn some")
        (J,) = np.nonzero(alpha)
        # The engine's gradient is unit·(2Kα − diag K) + b.
        fields = (engine.g - engine.b) / stream.unit
        quadratic = float(alpha[J] @ (fields[J] + stream.gram.diag()[J])) / 2.0
        if self._as_fitted.nu is None:
            squared = float((quadratic - fields[stream.weights > 0]).max())
        else:
            squared = quadratic + stream.bias / stream.unit
        return quadratic, max(0.0, squared)

    @property
    def _center_square(self) -> float:  # type: ignore[override]
        return self._ball()[0]

    @fitted
    def radius_(self) -> float:
        """R, in feature space; `AttributeError` once all points are forgotten."""
        self._check_has_points("radius_")
        return float(np.sqrt(self._ball()[1]))

    @fitted
    def offset_(self) -> float:
        """−R² less a slack for round-off: decision_function = score_samples − offset_; the sphere counts as inside."""
        self._check_has_points("offset_")
        quadratic, squared = self._ball()
        return sphere(squared, self._streams[0].gram.diag(), quadratic)[1]

    def _values_of_part(self, X: NDArray, k: int) -> NDArray:
        return self.decision_function(X)

    def _self_kernel(self, X: NDArray) -> NDArray:
        with np.errstate(over="ignore"):
            return self._streams[0].gram.self_kernel(X)

    def suggest(self, X_pool: ArrayLike, k: int = 1) -> NDArray:
        """Return the rows of the k points of a pool nearest to the sphere, the nearest first."""
        return nearest(np.abs(self.decision_function(X_pool)), k)


class IncrementalSVR(RegressorMixin, IncrementalMachine):
    """ε-insensitive support vector regression that learns and forgets one point at a time, exactly.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the loss; it must be finite.
    epsilon : float ≥ 0, default=0.1
        Half the width of the tube within which residuals have no loss, in units of y.
    kernel, gamma, degree, coef0, reserve, predict_dtype
        As in `IncrementalSVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_
        As in `IncrementalSVC`; dual_coef_ holds α − α*, in one row.
    solution_, solutions_, certificate_, certificates_
        As in `IncrementalSVC`, for the dual in (α, α*).
    ids_, next_id_, support_ids_, drift_, n_pivots_, n_features_in_, feature_names_in_
        As in `IncrementalSVC`.

    Examples
    --------
    >>> from dualflow import IncrementalSVR
    >>> line = IncrementalSVR(C=100, epsilon=0.0, kernel="linear").fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 9.0])
    >>> round(float(line.forget([2]).predict([[2.0]])[0]), 6)
    5.0
    """

    _rules = {"C": FINITE_C_RULE, "epsilon": EPSILON_RULE}

    offset_: ClassVar[Any] = unavailable("intercept_")
    radius_: ClassVar[Any] = unavailable("intercept_")

    _kept = (*IncrementalMachine._kept, "C", "epsilon")

    C: float
    epsilon: float

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
        self._set_parameters(locals())

    def _model(self) -> Growing:
        return GrowingTube(self._as_fitted.C, self._as_fitted.epsilon)

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget all points, and learn X, shape (n, n_features), with values y, shape (n,); errors as `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._absorb(X, y, None, sample_weight)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn new points with numbers y; parameters and errors are those of `IncrementalSVC.partial_fit`."""
        with self._transaction():
            self._absorb(X, y, ids, sample_weight)
        return self

    def _absorb(self, X: ArrayLike, y: ArrayLike, ids: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        points, values = self._check_batch(X, y, numeric=True)
        weight = checked_weight(sample_weight, points)
        self._learn(points, values.astype(float), weight, ids, not self.__sklearn_is_fitted__())

    @by_chunks
    def predict(self, X: ArrayLike) -> NDArray:
        """Return the predicted values of new points, shape (n_new,)."""
        return self._expanded(X)[:, 0] + self._streams[0].bias

    @fitted
    def intercept_(self) -> NDArray:
        """The bias, shape (1,)."""
        return np.array([self._streams[0].bias - self._streams[0].moved])
