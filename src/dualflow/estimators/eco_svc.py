"""The classifier that learns from a stream by invasion."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..core.certificate import Certificate
from ..core.problem import DualProblem
from ..exceptions import ProblemError
from ..online.stream import Community
from ._ecology import Ecology
from ._labels import encode
from ._packing import stored
from .svc import SVC

__all__ = ["EcoSVC"]


class EcoSVC(ClassifierMixin, Ecology):
    """Support vector classifier that learns from a stream and remembers its survivors (Howell's EcoSVM, 13-19).

    A newcomer invades if t₀f(x₀) < 1 (17, 19; with the αᵢ that the published scripts leave out of the test); the
    others then find a new equilibrium, and who loses its weight goes extinct. What is forgotten cannot come back:
    unless ``reserve=np.inf`` the model depends on the order of the stream, and is the optimum over the points it
    remembers, certified by `certificate_`. `certify` says how far it is from the optimum over all.

    Parameters
    ----------
    C : float > 0, default=1.0
        As in `SVC`. ``np.inf`` is the hard margin (6-7): the first point that makes the remembered ones inseparable
        raises `FitError`.
    kernel : {"linear", "poly", "rbf", "sigmoid"} or callable, default="rbf"
    gamma : {"scale", "auto"} or float ≥ 0, default="scale"
        "scale" is that of the first call of `partial_fit`, for good.
    degree, coef0, fit_intercept
        As in `SVC`.
    reequilibrate : {"working-set", "lotka-volterra"}, default="working-set"
        How those present find their new equilibrium: exactly, or by the flow (16) to a relative gap of ``tol``.
    n_init : int, optional
        Nobody is forgotten before a pair of classes has met so many points: the first ones are solved as a batch
        (Howell's N_s). By default 30, or one more than the features if that is more; less than the features warns.
    reserve : int or float ≥ 0, default=1.0
        How many points nearest to the margin are remembered beside the survivors: an integer is a number, a float so
        many times the survivors, for each pair. 0 is Howell's EcoSVM; ``np.inf`` forgets nobody and is exact.
    tol : float > 0, default=1e-6
        Relative gap of an equilibrium by the flow, and above which an exact one warns.
    decision_function_shape, break_ties, predict_dtype
        As in `SVC`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    survivors_, reserve_ : int arrays
        Which points of the stream are remembered, counted from 0 over all calls: with weight, without.
    n_seen_, n_invasions_, n_extinctions_ : int
        Points met; points that got in, points that went (over all pairs). Invasions − extinctions = survivors.
    certificate_, certificates_ : Certificate, list of Certificate
        On the points remembered, one a pair of classes that met any; made when asked for.
    support_ : array of shape (n_SV,)
        `survivors_`, by class.
    support_vectors_, n_support_, dual_coef_, intercept_, n_features_in_, feature_names_in_
        As in `SVC`.

    Notes
    -----
    Memory: the survivors and the reserve of each pair, and while learning a block of 1024 newcomers with their kernel
    rows. While only one of a pair's classes has been met nobody has weight, and ``n_init`` points or the reserve stay.

    Examples
    --------
    >>> from dualflow import EcoSVC
    >>> model = EcoSVC(kernel="linear", C=10, n_init=2).partial_fit([[0.0], [3.0]], ["a", "b"], classes=["a", "b"])
    >>> model.partial_fit([[1.0], [2.0]], ["a", "b"]).survivors_.tolist(), model.n_extinctions_
    ([2, 3], 2)
    """

    classes_: NDArray

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        reequilibrate: str = "working-set",
        n_init: int | None = None,
        reserve: float = 1.0,
        tol: float = 1e-6,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        predict_dtype: str = "float64",
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.reequilibrate = reequilibrate
        self.n_init = n_init
        self.reserve = reserve
        self.tol = tol
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.predict_dtype = predict_dtype

    # Decision values are those of `SVC`, from the same attributes.
    _check_shape = SVC._check_shape
    _pair_values = SVC._pair_values
    decision_function = SVC.decision_function
    predict = SVC.predict
    coef_ = SVC.coef_

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn X as a stream, in its order; arguments and errors as in `partial_fit`."""
        return self._as_a_whole(lambda: self._learn(X, y, None, sample_weight, whole=True), afresh=True)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn more points, one or many.

        Parameters
        ----------
        X : array of shape (n, n_features)
            n ≥ 1 points.
        y : array of shape (n,)
            Their labels, all among the classes.
        classes : array of shape (n_classes,), optional
            All labels that will ever come; needed in the first call, the same or left out in later ones.
        sample_weight : array of shape (n,), optional
            Multiplies C, point by point; a point of weight 0 is counted and not looked at.

        Returns
        -------
        EcoSVC
            The estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range, or a label is not among the classes. Whatever is raised (Ctrl-C
            included), the model stays as it was before the call.

        Warns
        -----
        UserWarning
            ``n_init`` is smaller than the number of features.
        ConvergenceWarning
            An equilibrium was not reached to ``tol``.
        """
        return self._as_a_whole(lambda: self._learn(X, y, classes, sample_weight, whole=False))

    def certify(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Certificate | list[Certificate]:
        """How far the model is from the optimum over all points it has met, which must be given again.

        Parameters
        ----------
        X, y, sample_weight
            Everything that was learned, in any order; kernel values are made a block at a time.

        Returns
        -------
        Certificate, or list of Certificate
            Of the whole problem; one a pair of classes if there are more than two.

        Raises
        ------
        ProblemError
            A survivor is not among the rows of X.
        """
        check_is_fitted(self)
        points, labels = self._check_batch(X, y)
        codes, weight = self._codes(labels), self._check_weight(sample_weight, points)
        found = []
        for k, (i, j) in enumerate(self._pairs()):
            rows, sign = self._part_of_pair(codes, weight, i, j)
            found.append(self._certify_all(k, points[rows], sign, self.C * weight[rows]))
        return found[0] if len(found) == 1 else found

    # --- learning --------------------------------------------------------------------------------

    def _learn(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None, whole: bool
    ) -> None:
        self._check_shape()
        if isinstance(self.C, bool) or not isinstance(self.C, (int, float, np.number)) or not self.C > 0:
            raise ProblemError(f"C={self.C!r} must be a number > 0")
        points, labels = self._check_batch(X, y, least=2 if whole else 1)
        if whole:
            self._set_classes(encode(labels)[0], "y")
        else:
            self._set_classes(classes, "classes")
        weight, codes = self._check_weight(sample_weight, points), self._codes(labels)
        present = np.bincount(codes, weight > 0, minlength=len(self.classes_)) > 0
        if whole and not present.all():
            raise ProblemError(f"sample_weight: no point of class {self.classes_[~present][0]!r} has a positive weight")
        pairs = self._pairs()
        self._begin(points, len(pairs))
        ids, communities = self.n_seen_ + np.arange(len(points)), []
        for k, (i, j) in enumerate(pairs):
            rows, sign = self._part_of_pair(codes, weight, i, j)
            communities.append(self._meet(k, points[rows], sign, self.C * weight[rows], ids[rows]))
        self._communities, self.n_seen_ = communities, self.n_seen_ + len(points)
        self._read()

    def _set_classes(self, classes: ArrayLike | None, name: str) -> None:
        if classes is None:
            if not hasattr(self, "classes_"):
                raise ProblemError("classes must be given in the first call of partial_fit: all labels that will come")
            return
        given = encode(np.asarray(classes))[0]
        if hasattr(self, "classes_"):
            if not np.array_equal(given, self.classes_):
                raise ProblemError(f"classes={given.tolist()} are not those of earlier calls, {self.classes_.tolist()}")
            return
        if len(given) < 2:
            raise ProblemError(f"{name} holds only one class, {given[0]!r}; at least two classes are needed")
        self.classes_ = given

    def _codes(self, labels: NDArray) -> NDArray:
        """Which class each label is."""
        codes = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        strange = self.classes_[codes] != labels
        if strange.any():
            raise ProblemError(
                f"y holds {np.unique(labels[strange]).tolist()}, which are not among classes={self.classes_.tolist()}"
            )
        return codes

    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.classes_)), 2))

    def _part_of_pair(self, codes: NDArray, weight: NDArray, i: int, j: int) -> tuple[NDArray, NDArray]:
        """Rows of a pair of classes, and their signs (as in `SVC`)."""
        rows = np.flatnonzero(((codes == i) | (codes == j)) & (weight > 0))
        return rows, np.where(codes[rows] == (j if len(self.classes_) == 2 else i), 1.0, -1.0)

    def _limits(self, community: Community) -> tuple[NDArray | None, NDArray]:
        return community.sign if self.fit_intercept else None, community.cap

    def _pose(self, X: NDArray, sign: NDArray, cap: NDArray, seen: int) -> DualProblem:
        return DualProblem(
            self._kernel_of(X),
            p=np.ones(len(X)),
            lower=np.zeros(len(X)),
            upper=cap,
            e=sign if self.fit_intercept else None,
            sigma=sign,
            model="hinge",
        )

    def _read(self) -> None:
        communities, pairs = self._communities, self._pairs()
        alive = [c.survivors for c in communities]
        positive = [j if len(pairs) == 1 else i for i, j in pairs]
        ids = np.concatenate([c.ids[J] for c, J in zip(communities, alive, strict=True)])
        X = np.concatenate([c.X[J] for c, J in zip(communities, alive, strict=True)])
        owner = np.concatenate(
            [
                np.where(c.sign[J] > 0, first, i + j - first)
                for c, J, (i, j), first in zip(communities, alive, pairs, positive, strict=True)
            ]
        )
        ids, first_of, place = np.unique(ids, return_index=True, return_inverse=True)
        order = np.argsort(owner[first_of], kind="stable")
        rank = np.empty(len(order), dtype=np.intp)
        rank[order] = np.arange(len(order))
        X, codes, place = X[first_of][order], owner[first_of][order].astype(np.intp), rank[place]
        self._pair_coef = np.zeros((len(X), len(pairs)))
        self.dual_coef_ = np.zeros((len(self.classes_) - 1, len(X)))
        start = 0
        for k, ((i, j), c, J) in enumerate(zip(pairs, communities, alive, strict=True)):
            at = place[start : start + len(J)]
            start += len(J)
            self._pair_coef[at, k] = c.sign[J] * c.alpha[J]
            self.dual_coef_[np.where(codes[at] == i, j - 1, i), at] = c.sign[J] * c.alpha[J]
        self.n_support_ = np.bincount(codes, minlength=len(self.classes_))
        self.intercept_ = np.array([-self._multiplier(c) for c in communities])
        self._certificates = None
        if len(X):
            self._keep_support(X, self._kernel_of(X), np.arange(len(X)))
        self.support_ = ids[order]
        self.support_vectors_ = X

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = super()._pack()
        return arrays | {"classes_": self.classes_}, facts

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        self.classes_ = stored(arrays, "classes_", "biufUSmMO", (None,))
        if len(facts["communities"]) != len(self._pairs()) or not len(self._pairs()):
            raise ValueError(f"it has {len(facts['communities'])} pairs of its {len(self.classes_)} classes")
        super()._unpack(arrays, facts)
