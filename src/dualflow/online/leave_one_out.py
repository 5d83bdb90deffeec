"""Models without one of their points: leave-one-out predictions, and the record of a learning path (CP sections 3, 5).

`leave_one_out_margins` unlearns each point of an incremental classifier in turn, and `recorded_path` learns its points
again and stores every breakpoint. `each_without` returns certified optima of a batch problem without each of its
points, which two classes propose:

- `Response` uses the linear response of an optimum to the removal of variables. At the optimum the free variables S and
  the multiplier b depend linearly on all others (CP eq. 3 to 7). The matrix of this map, the principal pivot of
  [0 eᵀ; e Q] on S, is computed once. A problem without a point differs in few sets, so that a small system with entries
  of this matrix gives its solution. All violators change sets in one step (block principal pivoting: Portugal, Júdice
  and Vicente 1994); if that does not reduce their number, as with kernels of low rank, there is no answer.
- `Unlearning` follows the path from the optimum of all variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from ..core.certificate import Certificate, Certifier
from ..core.decision import coefficients
from ..core.gram import KernelMatrix
from ..core.problem import DualProblem
from ..core.runtime.clock import check_time, check_time_cubic
from ._response import optima_without
from .bordered import bordered_inverse
from .engine import Engine
from .growing_problem import Stream
from .hinge_updates import DenseMatrix, start_at_optimum
from .state import PathError

#: Function of a problem and a start (or None) that returns the certificate of the problem's optimum.
Optimum = Callable[[DualProblem, NDArray | None], Certificate]


@dataclass(frozen=True)
class LeaveOneOut:
    """What `IncrementalSVC.leave_one_out` returns.

    Attributes
    ----------
    ids : array of shape (n,)
    margins : array of shape (n,)
        g_c of the model without point c (CP section 3): y f(x) − 1; below −1 is an error.
    method : {"exact", "first_segment"}
    unlearned : int
        Number of points that were unlearned; the margins of the others follow without it.
    """

    ids: NDArray
    margins: NDArray
    method: str
    unlearned: int

    @property
    def errors(self) -> NDArray:
        """Whether the model without a point misclassifies it, for each point, shape (n,)."""
        return self.margins < -1.0

    @property
    def error_rate(self) -> float:
        """Leave-one-out estimate of the generalisation error."""
        return float(self.errors.mean())


@dataclass(frozen=True)
class Path:
    """Trajectories while points are learned one after another (CP Figures 3 to 5), one row for each breakpoint."""

    ids: NDArray  # the points in the order in which they were learned; shape (n,)
    learning: NDArray  # the id of the point that was being learned; shape (k,)
    coefficients: NDArray  # α (classifier, data description) or α − α* (regression); shape (k, n)
    #: g; NaN before a point was added; shape (k, n), or (k, n, 2) for the two variables of a regression point.
    margins: NDArray
    bias: NDArray  # the multiplier b; shape (k,)


def leave_one_out_margins(stream: Stream, method: str) -> LeaveOneOut:
    """Return the margin of every point in the model without it; the stream must be a classifier's."""
    stream = stream.isolated_copy()  # the caller's stream may be read meanwhile
    engine = stream.engine
    shift = stream.bias - engine.b
    margins = engine.g + shift * engine.e
    with_weight = np.flatnonzero(engine.alpha > 0)
    if method == "first_segment":
        slopes = _slopes(engine)
        known = np.isfinite(slopes)
        margins[known] -= slopes[known] * engine.alpha[known]
        with_weight = with_weight[~known[with_weight]]
    kept = engine.snapshot()
    # One path follows each snapshot, so that choosing the near variables anew costs more than it saves.
    engine.min_work_near = 16 * engine.min_work_near
    for k in with_weight:
        engine.unlearn(int(k))
        margins[k] = engine.g[k] + (stream.bias - engine.b) * engine.e[k]
        engine.restore(kept)
    return LeaveOneOut(stream.ids.copy(), margins, method, len(with_weight))


def _slopes(engine: Engine) -> NDArray:
    """Return γ_c of every point with weight, for fixed margin points; NaN if no margin point remains.

    g_c falls by γ_c per unit that α_c falls (CP 12, 21).
    """
    slopes = np.full(engine.n, np.nan)
    slopes[engine.alpha <= 0] = 0.0
    S = engine.margin
    if len(S) == 0:
        return slopes
    bounded = np.flatnonzero((engine.alpha > 0) & ~np.isin(np.arange(engine.n), S))
    right = np.vstack([engine.e[bounded], engine.pool.rows[engine.member_slots[: len(S)]][:, bounded]])
    complement = engine.diag[bounded] - np.einsum("ij,ij->j", right, engine.times_inverse(right))
    slopes[bounded] = np.maximum(complement, 0.0)
    if len(S) > 1:
        slopes[S] = 1.0 / np.diag(engine.inverse)[1 : len(S) + 1]
    return slopes


def recorded_path(stream: Stream) -> Path:
    """Learn the points of a stream again, in the order of their ids, and return every breakpoint."""
    order = np.argsort(stream.ids, kind="stable")
    copy = stream.empty_copy()
    per, n = stream.model.per, stream.n
    rows: list[tuple[int, NDArray, NDArray, float]] = []

    def note(engine: Engine, k: int) -> None:
        seen = np.full(per * n, np.nan)
        seen[: engine.n] = engine.g
        alpha = np.zeros(per * n)
        alpha[: engine.n] = engine.alpha
        at = int(copy.ids[k // per] if k >= 0 else copy.ids[-1])
        rows.append((at, alpha[::2] - alpha[1::2] if per == 2 else alpha, seen, engine.b))

    copy.engine.on_pivot = note
    for i in order:
        one = slice(i, i + 1)
        copy.learn(stream.gram.X[one], stream.targets[one], stream.ids[one], stream.weights[one])
        note(copy.engine, per * (copy.n - 1))
    margins = np.array([row[2] for row in rows])
    return Path(
        ids=stream.ids[order],
        learning=np.array([row[0] for row in rows]),
        coefficients=np.array([row[1] for row in rows]),
        margins=margins.reshape(len(rows), n, 2) if per == 2 else margins,
        bias=np.array([row[3] for row in rows]),
    )


#: Up to this many variables, `Response` is used. It holds two matrices of this order (512 MB each). With more, each
#: model without a support vector is solved for, which takes about a hundred times as long.
MAX_VARIABLES_RESPONSE = 8000
#: A distance below this share of the bound, or a weight below this share of the largest, is round-off.
MAX_ROUND_OFF_SHARE = 1e-12
#: Multiplications between two checks of the clock: about a tenth of a second.
MAX_PRODUCTS = 1 << 30
#: This many exchanges in a row may fail to reduce the number of violators.
MAX_STALLED_EXCHANGES = 3
#: Largest number of exchanges of a model. About ten are usual, and unlearning takes less time than 100 of them.
MAX_MODEL_EXCHANGES = 24
#: Condition of the free variables' block from which round-off is larger, and the largest factor that is allowed for.
FREE_OF_GROWTH, MAX_GROWTH = 64.0, 1e4
#: Largest number of variables whose set may differ from that at the optimum of all.
MAX_CHANGED = 128
#: Optima between two checks of the clock. Each takes at most some milliseconds.
OPTIMA_PER_CALL = 64
#: A variable counts as independent if its pivot is at least this share of the largest entry of the free variables'
#: block.
MIN_PIVOT = 1e-10

_EPS = float(np.finfo(float).eps)
_LOW, _FREE, _UP, _HELD = -1, 0, 1, 2  # as in `_response`


def _parts(count: int, each: int) -> Iterator[slice]:
    """Yield slices of ``count`` rows that take ``each`` multiplications a row; check the time before each."""
    for start in range(0, count, height := max(1, MAX_PRODUCTS // max(1, each))):
        check_time()
        yield slice(start, start + height)


class Response:
    """The optimum of a problem, and its linear response when variables are removed and bounds grow.

    An answer is not certified; the caller must check it by a product from scratch.

    Parameters
    ----------
    problem : DualProblem
        Positive semidefinite, with the lower bound 0.
    Q : array of shape (n, n)
        The problem's dense matrix; it is not changed.
    alpha : array of shape (n,)
        Its optimum.

    Raises
    ------
    PathError
        No variable can keep the equality.
    """

    def __init__(self, problem: DualProblem, Q: NDArray, alpha: NDArray) -> None:
        e, upper = problem.e, problem.upper
        size, diagonal = float(alpha.max(initial=0.0)), Q.diagonal()
        low = (alpha <= MAX_ROUND_OFF_SHARE * size) | (upper <= 0)
        up = ~low & (alpha >= upper * (1 - MAX_ROUND_OFF_SHARE))
        inside = np.flatnonzero(~(low | up))
        check_time_cubic(len(inside), lambda k: bordered_inverse(np.eye(k), None), "the inverse")
        S = _independent(Q, e, inside)
        if e is not None and not len(S):
            S = _pivot_at_bound(problem, Q @ alpha - problem.p, up)
        m, n = len(S), problem.n
        self.free = np.zeros(n, dtype=bool)
        self.free[S] = True
        # Free variables first: blocks are slices then.
        self.order = order = np.concatenate([S, np.flatnonzero(~self.free)])
        self.place = np.argsort(order)
        where = np.full(n, _HELD, dtype=np.int8)
        where[low], where[up], where[S] = _LOW, _UP, _FREE
        held = np.where(where == _FREE, 0.0, np.where(up, upper, np.where(low, 0.0, alpha)))
        Q, p, self.held, self.where, self.upper = (
            Q.take(order, axis=0).take(order, axis=1),
            problem.p[order],
            held[order],
            where[order],
            upper[order],
        )
        signs = np.zeros(n) if e is None else e[order]
        inverse = bordered_inverse(Q[:m, :m], None if e is None else signs[:m]) if m else np.zeros((1, 1))
        border = np.vstack([signs[m:], Q[:m, m:]])
        response = np.empty_like(border)
        for part in _parts(border.shape[1], (m + 1) ** 2):
            response[:, part] = inverse @ border[:, part]
        # Row j: change of α of S and of ρ of all others per unit of α_j, or per unit of ρ_j if j is in S.
        self.rows = rows = Q
        rows[:m, :m], rows[:m, m:], rows[m:, :m] = inverse[1:, 1:], response[1:], -response[1:].T
        right = np.concatenate([[problem.d if e is not None else 0.0], p[:m]])
        inside = inverse @ (right - border @ self.held[m:])
        self.base = np.concatenate([inside[1:], Q[m:, m:] @ self.held[m:] + border.T @ inside - p[m:]])
        for part in _parts(n - m, (m + 1) * (n - m)):
            rows[m:, m:][part] -= border[:, part].T @ response
        #: Change of ``base`` if all bounds grow by a factor of 2.
        self.stretch = self.held @ rows
        self.is_fixed_at_0 = (self.upper <= 0).astype(np.uint8)
        # The inverse magnifies round-off by about the condition of the free variables' block.
        growth = float(np.abs(inverse[1:, 1:]).max(initial=0.0)) * float(diagonal.max())
        growth = min(max(1.0, growth / FREE_OF_GROWTH), MAX_GROWTH)
        #: Round-off of ρ and α.
        self.rho_tolerance = (
            64 * growth * _EPS * (float(diagonal.max()) * float(alpha.sum()) + float(np.abs(problem.p).max()))
        )
        self.alpha_tolerance = growth * MAX_ROUND_OFF_SHARE * size

    def without(self, removed: int | NDArray, stretch: float = 1.0) -> NDArray | None:
        """Return the optimum without one or several variables, shape (n,), or None if it is not found.

        All bounds are multiplied by ``stretch``. If the free variables are nearly dependent, the answer is only as
        exact as their system; the certificate shows it.
        """
        gone = np.atleast_1d(self.place[removed])
        found, is_found = self._optima(gone, np.array([0, len(gone)]), stretch)
        return found[0] if is_found[0] else None

    def without_each(self, points: NDArray) -> tuple[NDArray, NDArray]:
        """Return the optima without one variable each, shape (k, n), and whether each was found, shape (k,)."""
        found, is_found = np.zeros((len(points), len(self.upper))), np.zeros(len(points), dtype=bool)
        for start in range(0, len(points), OPTIMA_PER_CALL):
            check_time()
            part = slice(start, start + OPTIMA_PER_CALL)
            own = self.place[points[part]]
            found[part], is_found[part] = self._optima(own, np.arange(len(own) + 1), 1.0)
        return found, is_found

    def _optima(self, gone: NDArray, starts: NDArray, stretch: float) -> tuple[NDArray, NDArray]:
        """Return optima as `optima_without` does, in the order of the problem's variables."""
        upper, held, base = self.upper, self.held, self.base
        if stretch != 1.0:
            upper, held, base = stretch * upper, stretch * held, base + (stretch - 1.0) * self.stretch
        found, is_found = optima_without(
            self.rows,
            upper,
            held,
            base,
            self.where,
            self.is_fixed_at_0,
            gone,
            starts,
            self.rho_tolerance,
            self.alpha_tolerance,
            MAX_CHANGED,
            MAX_STALLED_EXCHANGES,
            MAX_MODEL_EXCHANGES,
        )
        return found[:, self.place], is_found


def _independent(Q: NDArray, e: NDArray | None, inside: NDArray) -> NDArray:
    """Return the variables of ``inside`` whose block of [0 eᵀ; e Q] is regular: others depend on them, as copies do."""
    if not len(inside):
        return inside
    A = Q[np.ix_(inside, inside)]
    if e is not None:
        A += float(np.trace(A)) / len(A) * np.outer(e[inside], e[inside])
    _, pivots, rank, _ = dpstrf(A.T, tol=MIN_PIVOT * float(A.diagonal().max()), lower=0, overwrite_a=1)
    return inside if rank == len(inside) else np.sort(inside[pivots[:rank] - 1])


def _pivot_at_bound(problem: DualProblem, slack: NDArray, up: NDArray) -> NDArray:
    """Return a variable at a bound with ρ = 0 at an end of the interval of multipliers, where none is free."""
    assert problem.e is not None
    least = np.where((up == (problem.e > 0)) & (problem.upper > 0), slack * problem.e, -np.inf)
    if np.isneginf(least.max()):
        raise PathError(PathError.UNBOUNDED)
    return np.array([int(least.argmax())])


class Unlearning:
    """Optima without one variable, each by the path from the optimum of all (Cauwenberghs and Poggio, section 3).

    An answer is not certified; the caller must check it by a gradient from scratch.

    Parameters
    ----------
    Q : array of shape (n, n)
        The dense matrix; it is not changed.
    p, upper : arrays of shape (n,)
        Of the dual problem with lower bounds 0.
    e : array of shape (n,), or None
    d : float
        Right-hand side of eᵀα = d.
    alpha : array of shape (n,)
        The optimum.
    nu : float
        Its multiplier ν.

    Raises
    ------
    PathError
        The block of the free variables is singular.
    """

    def __init__(
        self, Q: NDArray, p: NDArray, e: NDArray | None, d: float, upper: NDArray, alpha: NDArray, nu: float
    ) -> None:
        self.upper, self.p_rate = upper, p / d if d else p
        self.engine = engine = Engine(DenseMatrix(Q), e is not None)
        engine.has_fallback = True
        engine.append(p, upper, np.zeros(len(Q)) if e is None else e, Q.diagonal())
        engine.d = d
        start_at_optimum(engine, Q, alpha, upper, nu, all_rows=False)
        self.kept = engine.snapshot()
        # One path follows each snapshot, so that choosing the near variables anew costs more than it saves.
        engine.min_work_near = 16 * engine.min_work_near

    def without(self, k: int, stretch: float = 1.0) -> NDArray | None:
        """Return α without variable k, shape (n,), all bounds times ``stretch``; None if the path breaks off."""
        engine = self.engine
        try:
            engine.unlearn(k)
            # Larger bounds are equivalent to a smaller d and a smaller p within the same bounds.
            if stretch != 1.0:
                engine.move_d(engine.d / stretch, self.p_rate)
            found: NDArray = stretch * np.clip(engine.alpha, 0.0, self.upper)
        except PathError:
            return None
        else:
            return found
        finally:
            engine.restore(self.kept)


#: Models whose products with Q are computed in one batch.
MAX_MODELS_PER_PRODUCT = 128
#: After more failures than this, and more than half of its calls, the response is no longer used.
MAX_RESPONSE_FAILURES = 8


@dataclass(frozen=True)
class Without:
    """A model without point c.

    Attributes
    ----------
    point : int
    problem : DualProblem
        The problem with a centred kernel and the upper bound 0 for c.
    certificate : Certificate
        Of its α, by a product from scratch; biases belong to the points as ``problem`` has them.
    refitted : bool
        Whether the problem had to be solved.
    gram : KernelMatrix
        Gives the problem's kernel values, including those already cached.
    """

    point: int
    problem: DualProblem
    certificate: Certificate
    refitted: bool
    gram: KernelMatrix

    def weights(self) -> NDArray:
        """Return the weight of every point in the expansion, shape (n,)."""
        return coefficients(self.problem, self.certificate)

    def expansion(self, weights: NDArray) -> float:
        """Return the expansion at point c, without bias."""
        (J,) = np.nonzero(weights)
        return float(self.gram.block([self.point], J)[0] @ weights[J])


def each_without(
    problem: DualProblem,
    alpha: NDArray,
    points: NDArray,
    optimum: Optimum,
    tol: float,
    stretches: NDArray | None = None,
) -> Iterator[Without]:
    """Remove points one at a time from a problem with one variable per point, and certify the remaining optimum.

    `Response` proposes an optimum, or else `Unlearning`. All proposals are certified, with one matrix product for many;
    a problem whose gap exceeds the tolerance is solved from the optimum of all points.

    Parameters
    ----------
    problem : DualProblem
        Positive semidefinite, with lower bounds 0, and feasible without any one of the points.
    alpha : array of shape (n,)
        Its optimum.
    points : int array of shape (k,)
    optimum : callable
        Solves a problem from a start.
    tol : float
        Relative gap.
    stretches : array of shape (k,), optional
        Factor of all bounds without each point.
    """
    certifier = Certifier(problem)
    posed, gram = certifier.problem, certifier.workspace.gram
    factors = np.ones(len(points)) if stretches is None else stretches
    Q = certifier.workspace.dense() if posed.n <= MAX_VARIABLES_RESPONSE and len(points) > 1 else None
    proposer = None
    if Q is not None:
        known = certifier.certify(alpha)
        proposer = _Proposer(posed, Q, known.alpha, (known.multiplier or 0.0) - certifier.shift(known.alpha))
    for start in range(0, len(points), MAX_MODELS_PER_PRODUCT):
        part = slice(start, start + MAX_MODELS_PER_PRODUCT)
        problems, proposals = [], []
        for c, factor in zip(points[part].tolist(), factors[part].tolist(), strict=True):
            upper = factor * posed.upper
            upper[c] = 0.0
            problems.append(rest := posed.with_upper(upper))
            check_time()
            found = None if proposer is None else proposer.without(c, factor)
            proposals.append(None if found is None else rest.project(found))
        answered = [found for found in proposals if found is not None]
        products = iter(np.stack(answered) @ Q) if answered and Q is not None else iter(())  # Q is symmetric
        for c, rest, found in zip(points[part].tolist(), problems, proposals, strict=True):
            certificate = None if found is None else certifier.certify_product(found, next(products), rest)
            if refitted := certificate is None or not certificate.reaches(tol):
                certificate = optimum(rest, rest.project(alpha))
            yield Without(c, rest, certificate, refitted, gram)


class _Proposer:
    """Proposes optima without a point: by the linear response, or by unlearning if the response has no answer."""

    def __init__(self, problem: DualProblem, Q: NDArray, alpha: NDArray, nu: float) -> None:
        self.given = Q, problem.p, problem.e, problem.d, problem.upper, alpha, nu
        self.response: Response | None = None
        self.paths: Unlearning | None = None
        self.has_paths, self.calls, self.failed = True, 0, 0
        with suppress(PathError):
            self.response = Response(problem, Q, alpha)

    def without(self, c: int, stretch: float) -> NDArray | None:
        """Return α without variable c, all bounds multiplied by ``stretch``; None if neither method finds it."""
        found = None if self.response is None else self.response.without(c, stretch)
        self.calls, self.failed = self.calls + 1, self.failed + (found is None)
        if self.failed > MAX_RESPONSE_FAILURES and 2 * self.failed > self.calls:
            self.response = None
        if found is None and self.paths is None and self.has_paths:
            try:
                self.paths = Unlearning(*self.given)
            except PathError:
                self.has_paths = False
        return self.paths.without(c, stretch) if found is None and self.paths is not None else found
