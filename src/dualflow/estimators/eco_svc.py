"""`EcoSVC`, the classifier that learns from a stream by invasion, and its updates by blocks of points.

A block of new points is checked in one product: if a new point violates its KKT condition, all remembered points are
solved again together with it (`BatchUpdates`).
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
from ..online.hinge_updates import CommunityModel, Equilibrium, equilibrium_of
from ..online.invasion import best_multiplier, largest_value
from ..online.stream import MAX_POINTS_PER_BLOCK, Community, are_distinct, learn_in_one_batch
from ..problems.classification import C_RULE, hinge
from ._base import read_lazily
from ._classifier import PairClassifier, join_support
from ._ecology import Ecology
from ._ids import as_ids
from ._validation import (
    check_same_classes,
    checked_weight,
    classes_with_weight,
    codes_of,
    encode,
    exact_labels,
    require_two_classes,
    stream_class_weights,
)
from ._verify import check_point_identity, known_classes, stored

#: Up to this many violating new points are added one by one along the path of the optimum, where the problem has no
#: intercept and so no compiled call that starts from the current α. With more, solving again is faster.
MAX_PATH_CANDIDATES = 8


class BatchUpdates(Ecology):
    """Base class of the ecologies in which a new point leaves the bounds of the others as they are.

    A new point that satisfies its KKT condition at α = 0 therefore leaves the equilibrium as it is. If one violates it,
    all remembered points are solved again, from their current α, by the compiled call that solves two classes for
    `SVC`, which is faster than adding even one point along the path. A problem without intercept has no such call: up
    to `MAX_PATH_CANDIDATES` violators are added along the path. `Ecology` handles what neither of them solves.
    """

    #: A cache of the community last updated: what it depends on, and its state as an update needs it.
    _standing: tuple[tuple[Any, ...], CommunityModel]
    #: The kernel's parameters in the last call, with which the stored gradients were computed.
    _kernel_then: tuple[Any, ...]

    def _begin(self, X: NDArray, count: int) -> None:
        if not self.__sklearn_is_fitted__():
            self.__dict__.pop("_standing", None)  # it belongs to another stream
        super()._begin(X, count)
        if self.__dict__.get("_kernel_then", self._kernel_now()) != self._kernel_now():
            self._communities = [self._with_current_kernel(c) if len(c.X) else c for c in self._communities]
        self._kernel_then = self._kernel_now()

    def _kernel_now(self) -> tuple[Any, ...]:
        """Return the current parameters that the stored gradients depend on."""
        params = self._as_fitted
        return params.kernel, params.degree, params.coef0, self._sum_is_fixed()

    def _with_current_kernel(self, c: Community) -> Community:
        """Return a community at the equilibrium of the current kernel, if that changed since the last call."""
        c = replace(c, h=self._pose(c.X, c.sign, c.cap, c.seen).gradient(c.alpha))
        found = None
        if self._takes_batch_updates():
            found = self._batch_update(c, c.X[:0], c.sign[:0], c.cap[:0], c.ids[:0])
        return c if found is None else found

    def _learn_block(self, c: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community:
        if not self._takes_batch_updates():
            return super()._learn_block(c, X, sign, cap, ids)
        for start in range(0, len(X), MAX_POINTS_PER_BLOCK):
            part = slice(start, start + MAX_POINTS_PER_BLOCK)
            batch = X[part], sign[part], cap[part], ids[part]
            found = self._batch_update(c, *batch)
            c = super()._learn_block(c, *batch) if found is None else found
        return c

    def _takes_batch_updates(self) -> bool:
        """Whether blocks are checked in one batch: for a named kernel and exact equilibria."""
        return not callable(self._as_fitted.kernel) and self.reequilibrate == "working-set"

    def _batch_update(self, c: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community | None:
        """Return the community after a block of new points; None if it must be learned point by point."""
        return learn_in_one_batch(
            c,
            X,
            sign,
            cap,
            ids,
            model_of=self._model_of,
            optimum=self._solve_remembered,
            max_path_violators=0 if self._sum_is_fixed() else MAX_PATH_CANDIDATES,
            reserve=self._reserve_size,
            n_init=self._first_points(),
        )

    def _model_of(self, c: Community) -> CommunityModel:
        """Return the state of a community as an update needs it, from the cache if that is current."""
        facts = (*self._kernel_now(), self.tol)
        known, state = self.__dict__.get("_standing", (None, None))
        if state is None or known != facts or state.alpha is not c.alpha:
            is_same_kernel = state is not None and known[:-1] == facts[:-1]
            gram = KeptGram.of(state.gram, c.X) if is_same_kernel else self._kernel_of(c.X)
            state = CommunityModel(gram, c.sign, c.cap, c.alpha, c.h, **self._equilibrium_rule())
            self._standing = facts, state
        return state

    def _equilibrium_rule(self) -> dict[str, Any]:
        """Return the arguments that say what counts as an equilibrium: the constraint on Σσα, and the tolerance."""
        return {"bordered": self._sum_is_fixed(), "gap_tol": 0.1 * self.tol}

    def _solve_remembered(self, c: Community) -> Equilibrium | None:
        """Return the equilibrium of all remembered points, by one compiled call or a run.

        None if it cannot be certified, or if points occur more than once: `Ecology` then distributes their weights.
        """
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
        if alpha is None:  # from 0: a run from another start computes all gradients first, which costs what it saves
            alpha = self._equilibrate(self._pose(c.X, c.sign, c.cap, c.seen), np.zeros(len(c.X)))
        if sums is None:
            h = c.sign * gram.matvec(c.sign * alpha) - 1.0
        else:
            h = np.empty(len(order))
            h[order] = c.sign[order] * sums - 1.0
        return equilibrium_of(alpha, h, c.sign, c.cap, largest_value(gram), **self._equilibrium_rule())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_standing"}  # only a cache

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        self.__dict__.pop("_standing", None)  # only a cache, which is made again with the same bits
        return super()._pack()

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        super()._unpack(arrays, facts)
        self._kernel_then = self._kernel_now()


#: Public attributes that are computed from the communities on access: computing them takes as long as learning a point.
PUBLIC_ATTRIBUTES = ("support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_")
#: All attributes computed on access, in the order in which `EcoSVC._read_now` returns them.
LAZY_ATTRIBUTES = (*PUBLIC_ATTRIBUTES, "_pair_coef", "_support_gram", "_constants")


class EcoSVC(PairClassifier, BatchUpdates):
    """Support vector classifier that learns from a stream and remembers its survivors (Howell's EcoSVM, 13-19).

    Survivors are the points with positive weight. A new point invades if t₀f(x₀) < 1 (17, 19; the test includes the
    αᵢ, which the published scripts leave out). The other weights then move to a new equilibrium, and a point whose
    weight becomes 0 is extinct. Forgotten points do not come back: unless ``reserve=np.inf`` the model depends on the
    order of the stream. It is the optimum over the points it remembers, certified by `certificate_`; `certify` returns
    its distance from the optimum over all points.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the loss, as in `SVC`. With ``np.inf``, the hard margin (6-7), the first point that makes the
        remembered points inseparable raises `FitError`.
    kernel, gamma, degree, coef0
        As in `SVC`, without "precomputed". ``gamma="scale"`` is computed from the points of the first call and stays
        fixed.
    fit_intercept : bool, default=True
        Whether the model has a bias.
    reequilibrate : {"working-set", "lotka-volterra"}, default="working-set"
        How the remembered points reach their new equilibrium: exactly by the solver "working-set", or by the flow (16)
        to a relative gap of ``tol``.
    n_init : int, optional
        Number of points of a pair of classes that are solved as a batch before any point is forgotten (Howell's N_s).
        By default 30, or the number of features plus one if that is more. A value below the number of features warns.
    reserve : int or float ≥ 0, default=1.0
        How many points without weight a pair of classes remembers, those nearest to the margin: an integer is their
        number, a float is relative to the number of survivors. 0 is Howell's EcoSVM; ``np.inf`` forgets no point and
        makes the model exact.
    tol : float > 0, default=1e-6
        Relative gap at which the flow ends, and above which an exact equilibrium warns.
    class_weight : dict, optional
        Factors of C by label, above 0, as in `SVC`; 1 for labels that it does not name. "balanced" is not possible: the
        balance of a stream changes with every point, and with it all bounds.
    decision_function_shape, break_ties, predict_dtype
        As in `SVC`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels.
    survivors_, reserve_ : int arrays
        Remembered points with weight, and without weight, as numbers in the stream from 0 over all calls.
    n_seen_ : int
        Number of points learned.
    n_invasions_, n_extinctions_ : int
        How often a point gained weight, and how often one lost it, over all pairs of classes. Their difference is the
        number of survivors.
    solutions_, certificates_ : list of Solution, list of Certificate
        One for each pair of classes that has points, over the points it remembers; made on access.
    solution_, certificate_ : Solution, Certificate
        The only solution of a model of two classes, and the worst certificate.
    support_ : array of shape (n_SV,)
        `survivors_`, by class and then ascending.
    support_vectors_, n_support_, dual_coef_, intercept_, n_features_in_, feature_names_in_
        As in `SVC`.

    Notes
    -----
    Memory holds the survivors and the reserve of each pair; learning also needs what a fit of these and of a block of
    1024 new points takes. Changed parameters count from the next call on, but ``gamma`` from the next `fit`, and C and
    ``class_weight`` for new points only. While a pair has points of one class only, no point has weight, and
    ``n_init`` points or the reserve stay.

    Examples
    --------
    >>> from dualflow import EcoSVC
    >>> model = EcoSVC(kernel="linear", C=10, n_init=2).partial_fit([[0.0], [3.0]], ["a", "b"], classes=["a", "b"])
    >>> model.partial_fit([[1.0], [2.0]], ["a", "b"]).survivors_.tolist(), model.n_extinctions_
    ([2, 3], 2)
    """

    _rules = {"C": C_RULE, "fit_intercept": Flag()}
    _kept = (*BatchUpdates._kept, "C", "class_weight", "fit_intercept")
    support_, support_vectors_, n_support_, dual_coef_, intercept_ = map(read_lazily, PUBLIC_ATTRIBUTES)
    _pair_coef, _support_gram, _constants = map(read_lazily, LAZY_ATTRIBUTES[5:])

    C: float
    class_weight: dict[Any, float] | None
    fit_intercept: bool

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
        class_weight: dict[Any, float] | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        predict_dtype: str = "float64",
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget all points and learn X as a stream, in its order; arguments and errors are those of `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._learn(X, y, None, sample_weight, is_fit=True)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn one or more new points.

        Parameters
        ----------
        X : array of shape (n, n_features)
            n ≥ 1 points.
        y : array of shape (n,)
            Their labels, all among the classes.
        classes : array of shape (n_classes,), optional
            All labels that the stream will have. Required in the first call; in later ones the same, or left out.
        sample_weight : array of shape (n,), optional
            Multiplies C, point by point, in addition to ``class_weight``. A point of weight 0 is counted in ``n_seen_``
            and otherwise ignored.

        Returns
        -------
        EcoSVC
            The estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range, or a label is not among the classes. After any error, and after
            Ctrl-C, the model is as it was before the call.

        Warns
        -----
        UserWarning
            ``n_init`` is smaller than the number of features.
        ConvergenceWarning
            An equilibrium was not reached to ``tol``.
        """
        with self._transaction():
            self._learn(X, y, classes, sample_weight, is_fit=False)
        return self

    def forget(self, ids: ArrayLike, record: bool = False) -> Self:
        """Remove points: the model becomes the optimum over the other points that it remembers.

        A point that the stream has dropped already has no weight and is not stored. It may still have decided which
        other points were dropped; only with ``reserve=np.inf`` is the model that of a stream without them. ``tol``,
        ``reequilibrate``, ``reserve`` and ``n_init`` that have changed since the last call count, those of the model do
        not.

        Parameters
        ----------
        ids : array of int, or int
            Numbers of the points in the stream, from 0 over all calls (`survivors_`, `reserve_`).
        record : bool, default=False
            Whether to keep what `certificate_of_removal` needs: a digest and a certificate of the model as it was.

        Returns
        -------
        EcoSVC
            The estimator itself.

        Raises
        ------
        ProblemError
            A number is not below ``n_seen_``, or occurs twice. No point is removed then.

        Warns
        -----
        ConvergenceWarning
            The new equilibrium was not reached to ``tol``.
        """
        self._check_fitted()
        forgotten = as_ids(ids)
        unknown = forgotten[(forgotten < 0) | (forgotten >= self.n_seen_)]
        if len(unknown):
            raise ProblemError(f"ids: {unknown[:5].tolist()} are no numbers of points learned, which are below n_seen_")
        removal = self._before_removal(ids, False, record)
        with self._transaction():
            self._check_parameters()
            self._keep_removal(removal)
            self._communities = [self._without(c, forgotten) for c in self._communities]
            self._read()
        return self

    def _without(self, c: Community, forgotten: NDArray) -> Community:
        """Return a community without some points, at the equilibrium of the others that it remembers."""
        is_gone = np.isin(c.ids, forgotten)
        kept = np.flatnonzero(~is_gone)
        if not is_gone.any():
            return c
        before = len(c.survivors)
        X, sign, cap, ids = (array[kept] for array in (c.X, c.sign, c.cap, c.ids))
        if not c.alpha[is_gone].any():  # the equilibrium stays
            return replace(c, X=X, sign=sign, cap=cap, alpha=c.alpha[kept], h=c.h[kept], ids=ids)
        empty = replace(Community.empty(c.X.shape[1]), seen=c.seen - len(kept))
        found = self._learn_block(empty, X, sign, cap, ids) if len(kept) else replace(empty, seen=c.seen)
        change = len(found.survivors) - before
        return replace(found, invasions=c.invasions + max(0, change), extinctions=c.extinctions + max(0, -change))

    def certify(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Certificate | list[Certificate]:
        """Return how far the model is from the optimum over all points it has learned, which must be given again.

        Parameters
        ----------
        X : array of shape (n, n_features)
            All points that were learned, in any order. Kernel values are computed block by block.
        y : array of shape (n,)
            Their labels.
        sample_weight : array of shape (n,), optional
            The weights with which they were learned.

        Returns
        -------
        Certificate, or list of Certificate
            The certificate of the problem of all points; with more than two classes, one for each pair.

        Raises
        ------
        ProblemError
            A survivor is not among the rows of X.
        """
        self._check_fitted()
        points, labels = self._check_batch(X, y)
        codes = codes_of(labels, self.classes_)
        weight = (
            checked_weight(sample_weight, points)
            * stream_class_weights(self._as_fitted.class_weight, self.classes_)[codes]
        )
        found = []
        for k in range(len(self._pairs)):
            rows, sign = self._part_of_pair(codes, weight, k)
            found.append(self._certify_all(k, points[rows], sign, self._as_fitted.C * weight[rows]))
        return found[0] if len(found) == 1 else found

    # --- learning --------------------------------------------------------------------------------

    def _learn(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None, is_fit: bool
    ) -> None:
        self._take_parameters()
        points, labels = self._check_batch(X, y, least=2 if is_fit else 1)
        if is_fit:
            self._set_classes(encode(labels)[0], "y")
        else:
            self._set_classes(classes, "classes")
        weight, codes = checked_weight(sample_weight, points), codes_of(labels, self.classes_)
        if self.class_weight is not None:
            weight = weight * stream_class_weights(self.class_weight, self.classes_)[codes]
        if is_fit:
            classes_with_weight(np.bincount(codes, weight > 0, minlength=len(self.classes_)), self.classes_)
        pairs = range(len(self._pairs))
        self._begin(points, len(pairs))
        ids, communities = self.n_seen_ + np.arange(len(points)), []
        for k in pairs:
            rows, sign = self._part_of_pair(codes, weight, k)
            communities.append(
                self._learn_block(self._communities[k], points[rows], sign, self.C * weight[rows], ids[rows])
            )
        self._communities, self.n_seen_ = communities, self.n_seen_ + len(points)
        self._keep_removal(None)
        self._read()

    def _remembered_ids(self) -> NDArray:
        return np.unique(np.concatenate([c.ids for c in self._communities]))

    def _parts(self) -> list[tuple[NDArray, NDArray, NDArray]]:
        C = self._as_fitted.C
        return [(c.X, c.sign, c.cap / C if np.isfinite(C) else np.ones(len(c.X))) for c in self._communities]

    def _set_classes(self, classes: ArrayLike | None, name: str) -> None:
        """Set the classes in the first call, and check them in later ones; ``name`` is the argument in errors."""
        first = not self.__sklearn_is_fitted__()
        if classes is None:
            if first:
                raise ProblemError("classes must be given in the first call of partial_fit: all labels that will come")
            return
        if not first and isinstance(classes, (list, tuple)) and list(classes) == self.classes_.tolist():
            return  # equal Python lists need no sort, which saves time in each call
        given = encode(np.asarray(exact_labels(classes, "classes")))[0]
        if first:
            require_two_classes(given, name)
            self.classes_ = given
        else:
            check_same_classes(given, self.classes_)

    def _part_of_pair(self, codes: NDArray, weight: NDArray, k: int) -> tuple[NDArray | slice, NDArray]:
        """Return the rows of a pair of classes with positive weight, and their signs."""
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
        """Return all lazy attributes, computed from the communities."""
        parts, points = [], []
        for k, c in enumerate(self._communities):
            J, (positive, negative) = c.survivors, self._sides(k)
            parts.append((c.ids[J], np.where(c.sign[J] > 0, positive, negative), c.sign[J] * c.alpha[J]))
            points.append(c.X[J])
        joint, X = join_support(len(self.classes_), parts), np.concatenate(points)
        X = X[joint.first]
        gram, constants = KeptGram(self._kernel_of(X)) if len(X) else None, np.zeros(len(parts))
        if gram is not None:
            constants = np.array([gram.constant(weights) for weights in joint.pair_coef.T])
        intercept = np.array([self._bias(c) for c in self._communities]) - constants
        found = (joint.support, X, joint.n_support, joint.dual_coef, intercept, joint.pair_coef, gram, constants)
        return dict(zip(LAZY_ATTRIBUTES, found, strict=True))

    def _sum_is_fixed(self) -> bool:
        return bool(self._as_fitted.fit_intercept)

    def _bias(self, c: Community) -> float:
        """Return the bias b = −ν of a community's equilibrium."""
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
        check_point_identity(
            (c.ids, c.X, np.where(c.sign > 0, *classes)) for c, classes in zip(self._communities, positive, strict=True)
        )
