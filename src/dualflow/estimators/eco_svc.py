"""The classifier that learns from a stream by invasion.

Newcomers to a community of the hinge, met a block at a time: who wants in makes all who are there be solved anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.certificate import Certificate
from ..core.kernel_cache import KeptGram
from ..core.options import Flag
from ..core.problem import DualProblem
from ..direct.pairs import solve_pair
from ..exceptions import ProblemError
from ..online.invasion import best_multiplier
from ..online.newcomers import Equilibrium, Standing, equilibrium_of
from ..online.stream import BLOCK, Community, are_distinct, meet_at_once
from ..problems.classification import COST, hinge
from ._base import read_when_asked
from ._classifier import PairClassifier, joined
from ._ecology import Ecology
from ._validation import checked_weight, classes_with_weight, codes_of, encode, exact_labels, same, several
from ._verify import check_one_world, known_classes, stored

__all__ = ["EcoSVC", "MeetsAtOnce"]


#: How many newcomers who want in are sooner led in one by one, where no compiled call goes on from where others are.
LEAD = 8


class MeetsAtOnce(Ecology):
    """Base of those whose newcomers leave the others' bounds alone: who stays out leaves an equilibrium one.

    Where one wants in, all who are there are solved by the compiled call that solves two classes for `SVC`, from where
    they are: sooner done than leading in a single one. Without an intercept there is none, and few are led in. What
    neither finds is left to invasion.
    """

    #: The community that was met last as newcomers find it, and what it was made of: a function of these, for speed.
    _standing: tuple[tuple[Any, ...], Standing]
    #: What the kernel was in the last call, which made the gradients.
    _kernel_then: tuple[Any, ...]

    def _begin(self, X: NDArray, count: int) -> None:
        if not self.__sklearn_is_fitted__():
            self.__dict__.pop("_standing", None)  # of another stream
        super()._begin(X, count)
        if self.__dict__.get("_kernel_then", self._kernel_now()) != self._kernel_now():
            self._communities = [self._under_this_kernel(c) if len(c.X) else c for c in self._communities]
        self._kernel_then = self._kernel_now()

    def _kernel_now(self) -> tuple[Any, ...]:
        kept = self._as_fitted
        return kept.kernel, kept.degree, kept.coef0, self._sum_is_fixed()

    def _under_this_kernel(self, c: Community) -> Community:
        """A community whose equilibrium is another kernel's."""
        c = replace(c, h=self._pose(c.X, c.sign, c.cap, c.seen).gradient(c.alpha))
        found = None
        if self._meets_at_once():
            found = self._meet_at_once(c, c.X[:0], c.sign[:0], c.cap[:0], c.ids[:0])
        return c if found is None else found

    def _meet(self, c: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community:
        if not self._meets_at_once():
            return super()._meet(c, X, sign, cap, ids)
        for start in range(0, len(X), BLOCK):
            part = slice(start, start + BLOCK)
            newcomers = X[part], sign[part], cap[part], ids[part]
            found = self._meet_at_once(c, *newcomers)
            c = super()._meet(c, *newcomers) if found is None else found
        return c

    def _meets_at_once(self) -> bool:
        return not callable(self._as_fitted.kernel) and self.reequilibrate == "working-set"

    def _meet_at_once(self, c: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community | None:
        return meet_at_once(
            c,
            X,
            sign,
            cap,
            ids,
            standing=self._standing_of,
            optimum=self._optimum,
            lead=0 if self._sum_is_fixed() else LEAD,
            reserve=self._room,
            n_init=self._first_points(),
        )

    def _standing_of(self, c: Community) -> Standing:
        """A community as newcomers find it."""
        facts = (*self._kernel_now(), self.tol)
        known, at = self.__dict__.get("_standing", (None, None))
        if at is None or known != facts or at.alpha is not c.alpha:
            same = at is not None and known[:-1] == facts[:-1]  # what is known of a kernel need not be asked again
            gram = KeptGram.of(at.gram, c.X) if same else self._kernel_of(c.X)
            at = Standing(gram, c.sign, c.cap, c.alpha, c.h, **self._rests())
            self._standing = facts, at
        return at

    def _rests(self) -> dict[str, Any]:
        """What an equilibrium is."""
        return {"bordered": self._sum_is_fixed(), "enough": 0.1 * self.tol}

    def _optimum(self, c: Community) -> Equilibrium | None:
        """Of all who are there, by one compiled call or a run; None where many are the same, whose weights are found
        together by invasion, or nobody can say that it is one."""
        gram = self._kernel_of(c.X)
        negative, positive = np.flatnonzero(c.sign < 0), np.flatnonzero(c.sign > 0)
        if not (gram.is_psd_by_kernel and np.isfinite(c.cap).all() and len(negative) and len(positive)):
            return None
        if not are_distinct(c.X, c.sign, gram.squares):
            return None
        alpha = sums = None
        if self._sum_is_fixed():
            groups, order = (negative, positive), np.concatenate([negative, positive])
            pair = solve_pair(gram, groups, c.cap[order], 0.1 * self.tol, start=c.alpha[order])
            if pair is not None:
                alpha = np.empty(len(order))
                alpha[order] = pair.point
                sums = pair.sums
        if alpha is None:  # from nothing: a run that begins elsewhere looks at all first, which takes what it saves
            alpha = self._equilibrate(self._pose(c.X, c.sign, c.cap, c.seen), np.zeros(len(c.X)))
        if sums is None:
            h = c.sign * gram.matvec(c.sign * alpha) - 1.0
        else:
            h = np.empty(len(order))
            h[order] = c.sign[order] * sums - 1.0
        return equilibrium_of(alpha, h, c.sign, c.cap, float(gram.diag().max()), **self._rests())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_standing"}  # as `_pack`

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        self.__dict__.pop("_standing", None)  # it is made again, to the same bits
        return super()._pack()

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        super()._unpack(arrays, facts)
        self._kernel_then = self._kernel_now()


#: What prediction needs of the communities; made when it is asked for, which takes as long as learning a point.
SHOWN = ("support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_")
READ = (*SHOWN, "_pair_coef", "_support_gram", "_constants")


class EcoSVC(PairClassifier, MeetsAtOnce):
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
    degree, coef0
        As in `SVC`.
    fit_intercept : bool, default=True
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
    solutions_, certificates_ : list of Solution, list of Certificate
        Of the points remembered, one a pair of classes that met any; made when asked for.
    solution_, certificate_ : Solution, Certificate
        Two classes only.
    support_ : array of shape (n_SV,)
        `survivors_`, by class and then ascending.
    support_vectors_, n_support_, dual_coef_, intercept_, n_features_in_, feature_names_in_
        As in `SVC`.

    Notes
    -----
    Memory: the survivors and the reserve of each pair, and while learning what a fit of these and of a block of 1024
    new points takes. Parameters that are changed count from the next call on, ``gamma`` at the next `fit`, C for new
    points.
    While only one of a pair's classes has been met nobody has weight, and ``n_init`` points or the reserve stay.

    Examples
    --------
    >>> from dualflow import EcoSVC
    >>> model = EcoSVC(kernel="linear", C=10, n_init=2).partial_fit([[0.0], [3.0]], ["a", "b"], classes=["a", "b"])
    >>> model.partial_fit([[1.0], [2.0]], ["a", "b"]).survivors_.tolist(), model.n_extinctions_
    ([2, 3], 2)
    """

    _rules = {"C": COST, "fit_intercept": Flag()}
    _kept = (*MeetsAtOnce._kept, "C", "fit_intercept")
    support_, support_vectors_, n_support_, dual_coef_, intercept_ = map(read_when_asked, SHOWN)
    _pair_coef, _support_gram, _constants = map(read_when_asked, READ[5:])

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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn X as a stream, in its order; arguments and errors as in `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._learn(X, y, None, sample_weight, whole=True)
        return self

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
        with self._transaction():
            self._learn(X, y, classes, sample_weight, whole=False)
        return self

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
        self._check_fitted()
        points, labels = self._check_batch(X, y)
        codes, weight = codes_of(labels, self.classes_), checked_weight(sample_weight, points)
        found = []
        for k in range(len(self._pairs)):
            rows, sign = self._part_of_pair(codes, weight, k)
            found.append(self._certify_all(k, points[rows], sign, self._as_fitted.C * weight[rows]))
        return found[0] if len(found) == 1 else found

    # --- learning --------------------------------------------------------------------------------

    def _learn(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None, whole: bool
    ) -> None:
        self._take_parameters()
        points, labels = self._check_batch(X, y, least=2 if whole else 1)
        if whole:
            self._set_classes(encode(labels)[0], "y")
        else:
            self._set_classes(classes, "classes")
        weight, codes = checked_weight(sample_weight, points), codes_of(labels, self.classes_)
        if whole:
            classes_with_weight(np.bincount(codes, weight > 0, minlength=len(self.classes_)), self.classes_)
        pairs = range(len(self._pairs))
        self._begin(points, len(pairs))
        ids, communities = self.n_seen_ + np.arange(len(points)), []
        for k in pairs:
            rows, sign = self._part_of_pair(codes, weight, k)
            communities.append(self._meet(self._communities[k], points[rows], sign, self.C * weight[rows], ids[rows]))
        self._communities, self.n_seen_ = communities, self.n_seen_ + len(points)
        self._read()

    def _set_classes(self, classes: ArrayLike | None, name: str) -> None:
        first = not self.__sklearn_is_fitted__()
        if classes is None:
            if first:
                raise ProblemError("classes must be given in the first call of partial_fit: all labels that will come")
            return
        if not first and isinstance(classes, (list, tuple)) and list(classes) == self.classes_.tolist():
            return  # the same labels, as Python has them: without a sort a call
        given = encode(np.asarray(exact_labels(classes, "classes")))[0]
        if first:
            several(given, name)
            self.classes_ = given
        else:
            same(given, self.classes_)

    def _part_of_pair(self, codes: NDArray, weight: NDArray, k: int) -> tuple[NDArray | slice, NDArray]:
        """Rows of a pair of classes, and their signs."""
        positive, negative = self._sides(k)
        rows: NDArray | slice = slice(None)
        if len(self.classes_) > 2 or not weight.all():
            rows = np.flatnonzero(((codes == positive) | (codes == negative)) & (weight > 0))
        return rows, np.where(codes[rows] == positive, 1.0, -1.0)

    def _pose(self, X: NDArray, sign: NDArray, cap: NDArray, seen: int) -> DualProblem:
        return hinge(self._kernel_of(X), sign, cap, fit_intercept=self._as_fitted.fit_intercept)

    def _read(self) -> None:
        self._reading: dict[str, Any] = {}

    def _read_now(self) -> dict[str, Any]:
        parts, points = [], []
        for k, c in enumerate(self._communities):
            J, (positive, negative) = c.survivors, self._sides(k)
            parts.append((c.ids[J], np.where(c.sign[J] > 0, positive, negative), c.sign[J] * c.alpha[J]))
            points.append(c.X[J])
        joint, X = joined(len(self.classes_), parts), np.concatenate(points)
        X = X[joint.first]
        gram, constants = KeptGram(self._kernel_of(X)) if len(X) else None, np.zeros(len(parts))
        if gram is not None:
            constants = np.array([gram.constant(weights) for weights in joint.pair_coef.T])
        intercept = np.array([self._bias(c) for c in self._communities]) - constants
        found = (joint.support, X, joint.n_support, joint.dual_coef, intercept, joint.pair_coef, gram, constants)
        return dict(zip(READ, found, strict=True))

    def _sum_is_fixed(self) -> bool:
        return bool(self._as_fitted.fit_intercept)

    def _bias(self, c: Community) -> float:
        """b = −ν of a community's equilibrium."""
        return -best_multiplier(c.h, c.sign, c.cap, 0.0) if self._as_fitted.fit_intercept else 0.0

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = super()._pack()
        return arrays | {"classes_": self.classes_}, facts

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        self.classes_ = known_classes(stored(arrays, "classes_", "biufUSmMO", (None,)))
        if len(facts["communities"]) != len(self._pairs):
            raise ValueError(f"it has {len(facts['communities'])} pairs of its {len(self.classes_)} classes")
        super()._unpack(arrays, facts)
        positive = [(j, i) if len(self._pairs) == 1 else (i, j) for i, j in self._pairs]
        check_one_world(
            (c.ids, c.X, np.where(c.sign > 0, *classes)) for c, classes in zip(self._communities, positive, strict=True)
        )
