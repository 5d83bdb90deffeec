"""`DualProblem`, the canonical form of the dual problem of each model in this package.

This file also defines the shapes of feasible sets (`Kind`), the Euclidean projection onto a box with one equality,
exact up to round-off (`project_onto`), and the dense Q of a problem (`dense_matrix`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from . import psd
from ._bound import violation
from .gram import BLOCK_ENTRIES, Gram
from .reading import Reading
from .runtime.arrays import MAX_ENTRIES_CACHED, immutable
from .runtime.clock import check_time
from .runtime.deprecation import old_method
from .runtime.memory import arena_array, check_memory


class Kind(Enum):
    """The shape of a feasible set; a solver declares which of these it can solve.

    Examples
    --------
    >>> from dualflow import Gram, Kind, problems
    >>> gram = Gram([[0.0], [1.0]])
    >>> problems.svc(gram, [-1, 1]).kind is Kind.BOX_EQUALITY, problems.svdd(gram).kind is Kind.SIMPLEX
    (True, True)
    """

    BOX_EQUALITY = "box with equality"  # 0 ≤ α ≤ u < ∞, eᵀα = d: C-SVM, SVR
    BOX = "box"  # 0 ≤ α ≤ u < ∞: C-SVM without bias
    SIMPLEX = "simplex"  # 0 ≤ α, 1ᵀα = d: L2-SVM, hard SVDD
    CAPPED_SIMPLEX = "capped simplex"  # 0 ≤ α ≤ u, 1ᵀα = d: soft SVDD, one-class
    ORTHANT_EQUALITY = "orthant with equality"  # 0 ≤ α, eᵀα = d: hard margin; may be unbounded below
    ORTHANT = "orthant"  # 0 ≤ α: hard margin without bias; may be unbounded below
    TWO_EQUALITIES = "box with two equalities"  # 0 ≤ α ≤ u < ∞, eᵀα = d, 1ᵀα = total: ν-SVC, ν-SVR
    AFFINE = "affine"  # α free, eᵀα = d or not: least squares

    __hash__ = object.__hash__  # not by the name: a solver could overwrite that for all problems

    @property
    def meaning(self) -> str:
        """The feasible set in a formula, and the models that have it, for messages."""
        return _MEANINGS[self]

    @property
    def may_be_unbounded(self) -> bool:
        """Whether f may be unbounded below, which proves that the data are not separable."""
        return self in (Kind.ORTHANT, Kind.ORTHANT_EQUALITY)


#: The feasible set and the models of each kind.
_MEANINGS = {
    Kind.BOX_EQUALITY: "0 ≤ α ≤ u and eᵀα = d: the hinge loss with an intercept, and SVR",
    Kind.BOX: "0 ≤ α ≤ u: the hinge loss without an intercept",
    Kind.SIMPLEX: "α ≥ 0 and 1ᵀα = d: the squared hinge loss, and SVDD without outliers",
    Kind.CAPPED_SIMPLEX: "0 ≤ α ≤ u and 1ᵀα = d: SVDD with outliers, and the one-class SVM",
    Kind.ORTHANT_EQUALITY: "α ≥ 0 and eᵀα = d: C=inf with an intercept",
    Kind.ORTHANT: "α ≥ 0: C=inf without an intercept",
    Kind.TWO_EQUALITIES: "0 ≤ α ≤ u, eᵀα = d and 1ᵀα = total: ν-SVC and ν-SVR",
    Kind.AFFINE: "α without bounds: least squares",
}


def kind_of(lower: NDArray, upper: NDArray, e: NDArray | None, d: float, total: float | None = None) -> Kind:
    """Return the shape of {l ≤ α ≤ u, eᵀα = d, 1ᵀα = total}; without ``e`` or ``total``, without that equality."""
    if total is not None:
        return Kind.TWO_EQUALITIES
    if np.isneginf(lower[0]):
        return Kind.AFFINE
    # An upper bound of 0 (a point of weight 0) does not make a capped simplex: it only removes its variable.
    capped = bool(np.isfinite(upper[upper > 0]).any())
    if e is None:
        return Kind.BOX if capped else Kind.ORTHANT
    if (e == 1).all() and d > 0:
        return Kind.CAPPED_SIMPLEX if capped or (upper == 0).any() else Kind.SIMPLEX
    return Kind.BOX_EQUALITY if capped else Kind.ORTHANT_EQUALITY


_EPS = float(np.finfo(float).eps)
_TINY = float(np.finfo(float).tiny)


def project_onto(alpha: NDArray, lower: NDArray, upper: NDArray, e: NDArray | None, d: float) -> NDArray:
    """Return the nearest point of {l ≤ α ≤ u, eᵀα = d} in the Euclidean norm (entries of ``e`` are ±1).

    If the set is empty, the equality is met as nearly as the bounds allow.
    """
    clipped = np.minimum(np.maximum(alpha, lower), upper)
    if e is None:
        return clipped
    scale = max(abs(d), float(np.abs(clipped).sum()), _TINY)
    missing, round_off = float(e @ clipped) - d, 4 * _EPS * scale
    if abs(missing) <= round_off:
        return clipped
    if abs(missing) <= round_off * len(e) ** 0.5:
        # This is the rounding of the sum. A projection would spread it and move all variables off their bounds.
        return _shift_one(clipped, missing, lower, upper, e)
    if np.isneginf(lower).all() and np.isposinf(upper).all():
        return alpha - e * ((e @ alpha - d) / len(e))
    # S(t) = eᵀclip(α − te) falls with slope −(number of unclipped i): variable i is unclipped from lo to hi.
    ends = e * (alpha - lower), e * (alpha - upper)
    lo, hi = np.minimum(*ends), np.maximum(*ends)
    entering, leaving = lo[np.isfinite(lo)], hi[np.isfinite(hi)]
    knots = np.concatenate([entering, leaving])
    order = np.argsort(knots)
    knots = knots[order]
    unclipped = len(lo) - len(entering) + np.cumsum(np.where(order < len(entering), 1, -1))

    def excess(t: float) -> float:
        return float(e @ np.minimum(np.maximum(alpha - t * e, lower), upper)) - d

    # S at the knots as a sum over its pieces: exact to round-off, which is enough to find the piece with the root.
    falls = np.cumsum(unclipped[:-1] * np.diff(knots))
    first = excess(knots[0])
    left = int(np.searchsorted(falls, first)) if first > 0 else -1
    anchor = knots[max(left, 0)]
    slope = unclipped[left] if left >= 0 else len(lo) - len(entering)
    t = anchor + excess(anchor) / max(1, int(slope))
    out = np.minimum(np.maximum(alpha - t * e, lower), upper)
    return _shift_one(out, float(e @ out) - d, lower, upper, e)


def _shift_one(out: NDArray, residual: float, lower: NDArray, upper: NDArray, e: NDArray) -> NDArray:
    """Subtract a rounding error of eᵀα from the variable farthest from its bounds, so that no variable leaves a bound.

    If none is far enough from both bounds, the variable with the most room in the direction of the shift takes it.
    """
    room = np.minimum(out - lower, upper - out)
    k = int(np.argmax(room))
    if room[k] < abs(residual):
        k = int(np.argmax(np.where(e * residual > 0, out - lower, upper - out)))
    out[k] = np.clip(out[k] - e[k] * residual, lower[k], upper[k])
    return out


def dense_matrix(problem: Any) -> NDArray:
    """Return Q of a `DualProblem`, shape (n, n); a `ProblemError` if it does not fit into memory beside K.

    It is computed a block of rows at a time.
    """
    n, idx = problem.n, problem.idx
    check_memory(n, "the whole Q", matrices=2)
    K, all_variables = problem.gram.full(), np.arange(n)
    is_own = idx is None and not problem.gram.has_dense  # K is not kept by its Gram: Q takes its place
    Q = K if is_own else arena_array((n, n), float)
    height = max(1, BLOCK_ENTRIES // n)
    for start in range(0, n, height):
        check_time()  # the first write to new memory is slow
        part = slice(start, start + height)
        rows = K[part] if idx is None else K[np.ix_(idx[part], idx)]
        problem._signed(rows, problem.sigma[part], all_variables, Q[part])
    Q[np.diag_indices(n)] += problem.ridge
    return Q


#: Default parts of a problem, for `DualProblem.of_parts`.
_DEFAULTS = {"e": None, "d": 0.0, "scale": 1.0, "offset": 0.0, "idx": None}


def paired(n: int) -> tuple[NDArray, NDArray]:
    """Return signs and points of two variables for each of n points, (1, −1) and (0 … n−1) twice, as `immutable`."""
    return _cached_pairs(n) if n <= MAX_ENTRIES_CACHED else _made_pairs(n)


def _made_pairs(n: int) -> tuple[NDArray, NDArray]:
    signs, order = np.ones(2 * n), np.arange(n)
    signs[n:] = -1.0
    return immutable(signs), immutable(np.concatenate([order, order]), np.intp)


_cached_pairs = functools.lru_cache(maxsize=8)(_made_pairs)


@dataclass(frozen=True, eq=False)
class DualProblem:
    """Minimise f(α) = ½ αᵀQα − pᵀα subject to l ≤ α ≤ u and, if ``e`` is given, eᵀα = d; with ``total``, 1ᵀα = total.

    Q = s·diag(σ)(K[idx, idx] + c)diag(σ) + diag(r) is formed only by `dense`. Immutable: its arrays are read-only
    copies, and computed values are not kept; a run caches them in a `Workspace`.

    Parameters
    ----------
    gram : Gram
        The kernel matrix K of the data.
    p : array of shape (n,)
        Linear term. The fitness is g(α) = p − Qα = −∇f.
    lower, upper : array of shape (n,), or a number for all
        Bounds; ``lower`` is 0 or −∞ (least squares), ``upper`` may be ∞.
    e : array of shape (n,) with entries ±1, or None
        Coefficients of the equality eᵀα = d; None without it.
    d : float
        Its right-hand side.
    sigma : array of shape (n,) with entries ±1
        Signs in Q: the labels in classification; all +1 by default.
    scale, offset : float
        s > 0 and c ≥ 0.
    ridge : float or array of shape (n,)
        r ≥ 0.
    idx : integer array of shape (n,), or None (0, 1, …, n−1)
        The point of the Gram that each variable belongs to; points may repeat (SVR).
    reading : Reading
        The model that this is the dual of, with the formulas for bias, radius and coefficients.
    total : float or None
        The right-hand side of a second equality 1ᵀα = total (ν-SVC, ν-SVR), which needs an ``e`` and finite ``upper``.
        With both equalities, the variables with e = +1 sum to (total + d)/2, those with e = −1 to (total − d)/2.

    Raises
    ------
    ProblemError
        Shapes disagree, numbers are not finite, or no point is feasible.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import DualProblem, Gram, solve
    >>> gram = Gram([[0.0], [2.0], [4.0]], "linear")
    >>> nearest = DualProblem(gram, p=np.zeros(3), lower=0.0, upper=np.inf, e=np.ones(3), d=1.0)
    >>> nearest.kind.value, nearest.objective(np.array([0.0, 1.0, 0.0]))  # ½·2²
    ('simplex', 2.0)
    >>> solve(nearest).alpha.round(6)  # the convex combination of the points that is nearest to 0
    array([1., 0., 0.])
    """

    gram: Gram
    p: NDArray
    lower: NDArray
    upper: NDArray
    e: NDArray | None = None
    d: float = 0.0
    sigma: NDArray = field(default_factory=lambda: np.ones(1))
    scale: float = 1.0
    offset: float = 0.0
    ridge: NDArray = field(default_factory=lambda: np.zeros(1))
    idx: NDArray | None = None
    reading: Reading = field(default_factory=Reading)
    total: float | None = None
    #: The shape of the feasible set.
    kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        p = np.asarray(self.p, dtype=float)
        if p.ndim != 1:
            raise ProblemError(f"p must be a vector, found shape {p.shape}")
        n = len(p)

        def vector(value: ArrayLike, name: str) -> NDArray:
            if isinstance(value, np.ndarray) and value.shape == (n,):
                return immutable(value)
            if isinstance(value, float) or (isinstance(value, np.ndarray) and value.size == 1):
                return immutable(np.full(n, float(np.asarray(value).item())))  # a tenth of the time of broadcasting
            try:
                return immutable(np.broadcast_to(np.asarray(value, dtype=float), (n,)))
            except ValueError:
                raise ProblemError(f"{name} has shape {np.shape(value)}, p has shape ({n},)") from None

        values: dict[str, object] = {
            "p": immutable(p),
            "lower": vector(self.lower, "lower"),
            "upper": vector(self.upper, "upper"),
            "sigma": vector(self.sigma, "sigma"),
            "e": None if self.e is None or self.e is self.sigma else vector(self.e, "e"),
            "d": float(self.d),
            "total": None if self.total is None else float(self.total),
        }
        same = np.size(self.ridge) == np.size(self.lower) == 1 and np.array_equal(self.ridge, self.lower)
        values["ridge"] = values["lower"] if same else vector(self.ridge, "ridge")  # zeros are stored once
        values["e"] = values["sigma"] if self.e is self.sigma else values["e"]
        if self.idx is not None:
            values["idx"] = immutable(self.idx, np.intp)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()
        object.__setattr__(self, "kind", kind_of(self.lower, self.upper, self.e, self.d, self.total))

    def _check(self) -> None:
        """Raise a `ProblemError` if the parts disagree or no point is feasible."""
        n, points = self.n, self.gram.n
        if self.idx is None and n != points:
            raise ProblemError(f"p has {n} entries but the Gram has {points} points; give idx if that is intended")
        if self.idx is not None and (self.idx.shape != (n,) or self.idx.min() < 0 or self.idx.max() >= points):
            raise ProblemError(f"idx must have shape ({n},) with entries in 0…{points - 1}")
        # The conditions are written so that NaN fails them.
        if not (np.isfinite(self.p).all() and self.ridge.min() >= 0 and self.ridge.max() < np.inf):
            self._raise("p and ridge must be finite, and ridge ≥ 0")
        if not (self.scale > 0 and np.isfinite(self.scale)) or not (self.offset >= 0 and np.isfinite(self.offset)):
            raise ProblemError(f"scale must be > 0 and offset ≥ 0, found {self.scale} and {self.offset}")
        if not (np.abs(self.sigma) == 1).all():
            self._raise("sigma must hold +1 and −1 only")
        least, most = self.lower.min(), self.lower.max()
        free = bool(most == -np.inf)
        if not free and not least == most == 0:
            self._raise("lower must be 0 everywhere or −∞ everywhere")
        if not self.upper.min() >= 0 or (free and not np.isposinf(self.upper).all()):
            self._raise("upper must be ≥ 0, and ∞ where lower is −∞")
        if self.e is None:
            if self.total is not None:
                raise ProblemError("total is the right side of a second equality; give the first one, e")
            return
        if self.e is not self.sigma and not (np.abs(self.e) == 1).all():
            self._raise("e must hold +1 and −1 only")
        max_sums = float(self.upper[self.e > 0].sum()), float(self.upper[self.e < 0].sum())
        least, largest = -max_sums[1], max_sums[0]
        if not free and not least * (1 + 1e-12) <= self.d <= largest * (1 + 1e-12):
            raise ProblemError(f"no α is feasible: eᵀα can be {least:.6g}…{largest:.6g}, and d = {self.d:.6g}")
        if self.total is None:
            return
        if free or not np.isfinite(self.upper).all() or not np.isfinite(self.total):
            raise ProblemError("total needs finite bounds: lower = 0, upper < ∞, and must be finite itself")
        sums = 0.5 * (self.total + self.d), 0.5 * (self.total - self.d)
        if not all(0 <= wanted <= most * (1 + 1e-12) for wanted, most in zip(sums, max_sums, strict=True)):
            raise ProblemError(
                f"no α is feasible: variables with e = +1 can sum to {max_sums[0]:.6g} and those with e = −1 to "
                f"{max_sums[1]:.6g}, and d and total require {sums[0]:.6g} and {sums[1]:.6g}"
            )

    def _raise(self, message: str) -> NoReturn:
        """Raise a `ProblemError` with this message, or one that names an array that contains NaN."""
        for name in ("p", "lower", "upper", "ridge", "sigma", "e"):
            if (value := getattr(self, name)) is not None and np.isnan(value).any():
                message = f"{name} contains NaN"
        raise ProblemError(message)

    def __setstate__(self, state: dict[str, object]) -> None:
        arrays = {name: immutable(v, v.dtype) for name, v in state.items() if isinstance(v, np.ndarray)}
        self.__dict__.update(state | arrays)

    def frozen_copy(self) -> DualProblem:
        """Return an immutable problem equal to this one: itself, unless it or its Gram has caches or can grow."""
        if type(self) is DualProblem and isinstance(self.gram, Gram):
            return self
        given = {f.name: getattr(self, f.name) for f in fields(DualProblem) if f.init}
        return DualProblem(**given | {"gram": self.gram if isinstance(self.gram, Gram) else self.gram.frozen_copy()})

    def centred(self) -> DualProblem:
        """Return the problem with its points less their mean, if kernel and model allow it, else itself.

        f and the feasible set are the same; the multiplier is smaller by s times the `constant` of the Gram.
        """
        if not (isinstance(self.gram, Gram) and self.is_translatable):
            return self
        gram = self.gram.centred()
        return self if gram is self.gram else self._with(gram=gram, p=immutable(self.reading.linear_term(self, gram)))

    @property
    def is_translatable(self) -> bool:
        """Whether kernel and model allow a translation of the points."""
        return self.gram.is_translatable and self.reading.is_translatable(self)

    def with_upper(self, upper: NDArray) -> DualProblem:
        """Return the problem with other upper bounds ≥ 0; that a feasible point remains is not checked."""
        return self._with(upper=immutable(upper), kind=kind_of(self.lower, upper, self.e, self.d, self.total))

    value, within = old_method("value", "frozen_copy"), old_method("within", "with_upper")

    def at_level(self, level: float) -> DualProblem:
        """Return the problem with the second equality replaced by its multiplier μ, the ``level``: p becomes p + μ.

        At the right μ it has the same optimum, where f is smaller by μ·total. A ν-SVC at a level is the C-SVC with
        C = 1/μ, in units of μ; a ν-SVR is the ε-SVR with ε = −μ (Chang and Lin 2001).
        """
        upper = self.upper
        return self._with(p=immutable(self.p + level), total=None, kind=kind_of(self.lower, upper, self.e, self.d))

    @classmethod
    def of_parts(cls, gram: Gram, **parts: Any) -> DualProblem:
        """Return a problem without checks of its parts.

        ``kind``, ``lower``, ``ridge`` and the other vectors are among the parts; arrays must be `immutable`. Parts not
        given have the default values.
        """
        problem = object.__new__(cls)
        problem.__dict__.update(_DEFAULTS | parts, gram=gram)
        return problem

    def _with(self, **parts: object) -> DualProblem:
        """Return a copy with some parts replaced, without checks."""
        other = object.__new__(DualProblem)
        other.__dict__.update(self.__dict__ | parts)
        return other

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.p)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.reading.model

    def __repr__(self) -> str:
        return f"DualProblem(model={self.model!r}, n={self.n}, kind={self.kind.value!r}, {self.gram!r})"

    @property
    def is_hard_margin(self) -> bool:
        """Whether the model requires separable data, so that an `inseparability_witness` may exist."""
        return self.reading.demands_separation(self)

    @property
    def has_ridge(self) -> bool:
        """Whether a ridge is above 0."""
        return self.ridge is not self.lower and bool(self.ridge.any())  # one array of zeros may be both

    @property
    def effective_upper(self) -> NDArray:
        """Upper bounds, and αᵢ ≤ d if all terms of eᵀα = d are non-negative."""
        if self.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX):
            return np.minimum(self.upper, self.d)
        return self.upper

    @property
    def groups(self) -> list[tuple[NDArray, float]]:
        """With ``total``: the variables with e = +1 and those with e = −1, and the sum of each group."""
        if self.e is None or self.total is None:
            return []
        plus, minus = np.flatnonzero(self.e > 0), np.flatnonzero(self.e < 0)
        return [(plus, 0.5 * (self.total + self.d)), (minus, 0.5 * (self.total - self.d))]

    def screened(self) -> psd.SpectrumEvidence:
        """Return `psd`, or for `MIN_POINTS_SCREENED` points and more what `psd.screen` finds in O(n²), if it does."""
        if self.gram.is_psd_by_kernel or not psd.MIN_POINTS_SCREENED <= self.gram.n <= psd.MAX_POINTS_CHECKED:
            return self.psd
        found = psd.screen(self.gram.full())
        return self.psd if found is None else self._evidence_of(found)

    def _evidence_of(self, found: psd.SpectrumEvidence) -> psd.SpectrumEvidence:
        """Return the evidence on Q, from that on K."""
        if found.smallest_eigenvalue is None:
            return found
        # Signs change no eigenvalue, m copies of each point multiply them by m, and a ridge adds to them.
        times = np.ones(1) if self.idx is None else np.bincount(self.idx, minlength=self.gram.n)
        smallest = self.scale * float(times.max()) * found.smallest_eigenvalue
        ridge = float(self.ridge.max())
        if self.offset == 0.0 and times.min() == times.max() and ridge == self.ridge.min() and 2 * ridge < -smallest:
            return psd.SpectrumEvidence("indefinite", smallest + ridge)
        return psd.examine(self.dense())

    @property
    def psd(self) -> psd.SpectrumEvidence:
        """Evidence that Q is positive semidefinite, computed at each call, for up to `MAX_POINTS_CHECKED` points."""
        if self.gram.is_psd_by_kernel:
            return psd.SpectrumEvidence("by kernel")
        if self.gram.n > psd.MAX_POINTS_CHECKED:
            return psd.SpectrumEvidence("unknown")
        # Signs, repeated points, an offset and a ridge keep a matrix positive semidefinite, and K is smaller than Q.
        return self._evidence_of(psd.examine(self.gram.full()))

    # --- parts of Q, and products --------------------------------------------------------------

    def _points(self, J: NDArray) -> NDArray:
        """Return the points of variables J."""
        return J if self.idx is None else self.idx[J]

    def diag(self) -> NDArray:
        """Return Qᵢᵢ, shape (n,)."""
        which = slice(None) if self.idx is None else self.idx
        return self.scale * (self.gram.diag()[which] + self.offset) + self.ridge

    def columns(self, J: ArrayLike) -> NDArray:
        """Return columns J of Q, shape (n, len(J))."""
        J = np.asarray(J, dtype=np.intp)
        K = self.gram.columns(self._points(J))
        K = K if self.idx is None else K[self.idx]
        Q = self._signed(K, self.sigma, J)
        Q[J, np.arange(len(J))] += self.ridge[J]
        return Q

    def block(self, rows: ArrayLike, J: ArrayLike) -> NDArray:
        """Return the block Q[rows, J], shape (len(rows), len(J))."""
        rows, J = np.asarray(rows, dtype=np.intp), np.asarray(J, dtype=np.intp)
        Q = self.plain_block(rows, J)
        Q *= self.sigma[rows][:, None]
        Q *= self.sigma[J]
        return Q

    def plain_block(self, rows: NDArray, J: NDArray) -> NDArray:
        """Return the block [rows, J] of s(K + c) + diag(r), Q without its signs; the caller may write to it."""
        K = self.gram.block(self._points(rows), self._points(J))
        if self.offset:
            K += self.offset
        if self.scale != 1:
            K *= self.scale
        if self.has_ridge:
            place = np.full(self.n, -1, dtype=np.intp)
            place[J] = np.arange(len(J))
            common = place[rows] >= 0
            K[np.flatnonzero(common), place[rows[common]]] += self.ridge[rows[common]]
        return K

    def _signed(self, K: NDArray, row_signs: NDArray, J: NDArray, out: NDArray | None = None) -> NDArray:
        """Return the block of Q, without the ridge, of rows with these signs and columns J, given their K."""
        block: NDArray = np.multiply((self.scale * row_signs)[:, None], K + self.offset if self.offset else K, out=out)
        block *= self.sigma[J]
        return block

    def matvec(self, v: ArrayLike) -> NDArray:
        """Return Q v, shape (n,); only columns where v is not zero are computed."""
        return self.product(np.asarray(v, dtype=float))

    def product(self, v: NDArray, rows: NDArray | None = None, dtype: type = float) -> NDArray:
        """Return the entries ``rows`` of Q v (all if None). A radial kernel is evaluated in precision ``dtype``."""
        signed, which = self.sigma * v, slice(None) if rows is None else rows
        if self.idx is None:
            Kv = self.gram.matvec(signed, rows, dtype)
        else:
            weights = np.bincount(self.idx, signed, minlength=self.gram.n)
            if rows is None:
                Kv = self.gram.matvec(weights, None, dtype)[self.idx]
            else:  # one sum for each point serves all its variables
                points, of = np.unique(self.idx[rows], return_inverse=True)
                Kv = self.gram.matvec(weights, points, dtype)[of]
        plain = self.scale * self.sigma[which] * (Kv + self.offset * signed.sum())
        return plain + self.ridge[which] * v[which]

    def dense(self) -> NDArray:
        """Return the dense Q, shape (n, n); a `ProblemError` if it does not fit into memory."""
        return dense_matrix(self)

    # --- f and the feasible set ----------------------------------------------------------------

    def objective(self, alpha: NDArray) -> float:
        """Return f(α) = ½ αᵀQα − pᵀα, absolute."""
        return float(0.5 * alpha @ self.matvec(alpha) - self.p @ alpha)

    def gradient(self, alpha: NDArray) -> NDArray:
        """Return ∇f(α) = Qα − p = −g(α), shape (n,)."""
        return self.matvec(alpha) - self.p

    def infeasibility(self, alpha: NDArray) -> float:
        """Return the largest violation of a bound or an equality, absolute."""
        worst = float(violation(np.ascontiguousarray(alpha, dtype=float), self.lower, self.upper))
        if self.total is not None:
            worst = max(worst, abs(float(alpha.sum()) - self.total))
        return worst if self.e is None else max(worst, abs(float(self.e @ alpha) - self.d))

    def project(self, alpha: NDArray) -> NDArray:
        """Return the nearest feasible point in the Euclidean norm, shape (n,).

        With the equality the projection is clip(α − t·e, l, u), and t is the root of a monotone piecewise
        linear function, found exactly by sorting its breakpoints; with two equalities there is one for each sign of e.
        """
        alpha = np.asarray(alpha, dtype=float)
        if self.total is not None:
            out = np.empty(self.n)
            for J, wanted in self.groups:
                out[J] = project_onto(alpha[J], self.lower[J], self.upper[J], np.ones(len(J)), wanted)
            return out
        return project_onto(alpha, self.lower, self.upper, self.e, self.d)
