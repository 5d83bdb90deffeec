"""Each point judged by the model that never saw it, and the path along which a model came about (CP sections 3, 5).

The certified models of a problem without each of its points in turn.

What is left of an optimum without some of its variables: its linear response, followed until nothing is violated.

At the optimum the free variables S and the multiplier b answer linearly to all else (CP eq. 3 to 7). The matrix of that
answer, the principal pivot of [0 eᵀ; e Q] on S, is made once. A problem without a point differs from the one with it in
a few sets only: who changed sets is a system of so few equations, whose entries stand in that matrix. Violations are
exchanged all at once (block principal pivoting: Portugal, Júdice and Vicente 1994); where that does not lessen them,
as with kernels of low rank, there is no answer here, and the path (`Unlearning`) has to be followed.

The optimum without one of its variables, for one after the other: exact unlearning from where all are at rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.certificate import Certificate, Certifier
from ..core.decision import coefficients
from ..core.gram import KernelMatrix
from ..core.problem import DualProblem
from .bordered import bordered_inverse
from .incremental import Engine
from .newcomers import Dense, seat
from .remembering import Stream
from .state import PathError

__all__ = [
    "LARGEST",
    "LeaveOneOut",
    "Optimum",
    "Path",
    "Response",
    "Unlearning",
    "Without",
    "each_without",
    "left_out",
    "recorded",
]


#: The certificate of the optimum of a problem, from a start nearby if one is known.
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
        Points that were in fact taken out; of the others the answer is known without.
    """

    ids: NDArray
    margins: NDArray
    method: str
    unlearned: int

    @property
    def errors(self) -> NDArray:
        """Whether each point is misclassified by the model without it, shape (n,)."""
        return self.margins < -1.0

    @property
    def error_rate(self) -> float:
        """The leave-one-out estimate of the generalisation error."""
        return float(self.errors.mean())


@dataclass(frozen=True)
class Path:
    """Trajectories while points are learned one after the other (CP Figures 3 to 5), one row a breakpoint.

    Attributes
    ----------
    ids : array of shape (n,)
        In the order in which the points were learned.
    learning : array of shape (k,)
        The id of the point that was on its way.
    coefficients : array of shape (k, n)
        α (classifier, data description) or α − α* (regression).
    margins : array of shape (k, n), or (k, n, 2) for the two variables of a regression point
        g; NaN before a point was seen.
    bias : array of shape (k,)
        The multiplier b along the way.
    """

    ids: NDArray
    learning: NDArray
    coefficients: NDArray
    margins: NDArray
    bias: NDArray


def left_out(stream: Stream, method: str) -> LeaveOneOut:
    """The margin of every point in the model without it; a classifier's stream only."""
    stream = stream.twin()  # predictions may be asked of the other meanwhile
    engine = stream.engine
    shift = stream.bias - engine.b
    margins = engine.g + shift * engine.e
    weighty = np.flatnonzero(engine.alpha > 0)
    if method == "first_segment":
        slopes = _slopes(engine)
        known = np.isfinite(slopes)
        margins[known] -= slopes[known] * engine.alpha[known]
        weighty = weighty[~known[weighty]]
    kept = engine.snapshot()
    # One path from each snapshot: choosing the near variables anew seldom pays.
    engine.near_from = 16 * engine.near_from
    for k in weighty:
        engine.unlearn(int(k))
        margins[k] = engine.g[k] + (stream.bias - engine.b) * engine.e[k]
        engine.restore(kept)
    return LeaveOneOut(stream.ids.copy(), margins, method, len(weighty))


def _slopes(engine: Engine) -> NDArray:
    """γ_c of every point with weight, with all other margin points staying: g_c falls by γ_c for each unit of α_c that
    goes (CP 12, 21). NaN where none stays."""
    slopes = np.full(engine.n, np.nan)
    slopes[engine.alpha <= 0] = 0.0
    S = engine.margin
    if len(S) == 0:
        return slopes
    bounded = np.flatnonzero((engine.alpha > 0) & ~np.isin(np.arange(engine.n), S))
    right = np.vstack([engine.e[bounded], engine.pool.rows[engine.member_slots[: len(S)]][:, bounded]])
    reach = engine.diag[bounded] - np.einsum("ij,ij->j", right, engine.times_inverse(right))
    slopes[bounded] = np.maximum(reach, 0.0)
    if len(S) > 1:
        slopes[S] = 1.0 / np.diag(engine.inverse)[1 : len(S) + 1]
    return slopes


def recorded(stream: Stream) -> Path:
    """Learn the points of a stream anew, in the order of their ids, and write down every breakpoint."""
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
        copy.learn(stream.gram.X[i : i + 1], stream.targets[i : i + 1], stream.ids[i : i + 1])
        note(copy.engine, per * (copy.n - 1))
    margins = np.array([row[2] for row in rows])
    return Path(
        ids=stream.ids[order],
        learning=np.array([row[0] for row in rows]),
        coefficients=np.array([row[1] for row in rows]),
        margins=margins.reshape(len(rows), n, 2) if per == 2 else margins,
        bias=np.array([row[3] for row in rows]),
    )


#: Variables up to which there is a response: two matrices of so many rows (512 MB each). Beyond, each model without a
#: support vector is a solve of its own, which takes about a hundred times as long.
LARGEST = 8000
#: What is at its bound, as a part of it, and what has no weight, as a part of the largest.
NEAR = 1e-12
#: Exchanges in a row that may leave no fewer violations, and variables that may change sets.
PATIENT, MOST = 3, 128

_EPS = float(np.finfo(float).eps)
_LOW, _FREE, _UP = -1, 0, 1


class Response:
    """The optimum of a problem, and what becomes of it when a variable goes and bounds stretch.

    What it says is a proposal: whoever asks certifies it by a product from scratch.

    Parameters
    ----------
    problem : DualProblem
        Positive semidefinite, with the lower bound 0.
    Q : array of shape (n, n)
        The problem's, whole; only read.
    alpha : array of shape (n,)
        Its optimum.

    Raises
    ------
    PathError
        There is no free variable to answer an equality, or their block is singular.
    """

    def __init__(self, problem: DualProblem, Q: NDArray, alpha: NDArray) -> None:
        e, upper = problem.e, problem.upper
        self.upper = upper
        low = (alpha <= NEAR * float(alpha.max(initial=0.0))) | (upper <= 0)
        up = ~low & (alpha >= upper * (1 - NEAR))
        self.free = ~(low | up)
        S, N = np.flatnonzero(self.free), np.flatnonzero(~self.free)
        m = len(S)
        if e is not None and m == 0:
            raise PathError(PathError.UNBOUNDED)
        inverse = bordered_inverse(Q[np.ix_(S, S)], None if e is None else e[S]) if m else np.zeros((1, 1))
        signs = np.zeros(problem.n) if e is None else e
        border = np.vstack([signs[N], Q[np.ix_(S, N)]])
        answer = inverse @ border
        # Row j: what α of S and ρ of all others become for a unit of α_j, or of ρ_j where j is in S.
        self.rows = rows = np.empty((problem.n, problem.n))
        rows[np.ix_(S, S)], rows[np.ix_(S, N)] = inverse[1:, 1:], answer[1:]
        rows[np.ix_(N, S)] = -answer[1:].T
        rows[np.ix_(N, N)] = Q[np.ix_(N, N)] - border.T @ answer
        self.held = np.where(up, upper, 0.0)
        right = np.concatenate([[problem.d if e is not None else 0.0], problem.p[S]])
        self.base = np.empty(problem.n)
        inside = inverse @ (right - border @ self.held[N])
        self.base[S] = inside[1:]
        self.base[N] = Q[np.ix_(N, N)] @ self.held[N] + border.T @ inside - problem.p[N]
        #: What bounds that stretch by a unit do.
        self.stretch = self.held @ rows
        self.where = np.where(up, _UP, np.where(low, _LOW, _FREE)).astype(np.int8)
        self.dead = upper <= 0
        #: Round-off of ρ and α.
        self.floor = 64 * _EPS * (float(Q.diagonal().max()) * float(alpha.sum()) + float(np.abs(problem.p).max()))
        self.little = NEAR * float(alpha.max(initial=0.0))

    def without(self, gone: int | NDArray, stretch: float = 1.0) -> NDArray | None:
        """The optimum without a variable, or some, shape (n,), all bounds ``stretch`` times as large; None if none is
        found.

        Where the free variables are nearly dependent it is no better than their system is known; the certificate says.
        """
        upper, held, base = self.upper, self.held, self.base
        if stretch != 1.0:
            upper, held, base = stretch * upper, stretch * held, base + (stretch - 1.0) * self.stretch
        # What α of S and ρ of all others may be where they are.
        low = np.where(self.free, -self.little, np.where(self.where == _LOW, -self.floor, -np.inf))
        high = np.where(self.free, upper + self.little, np.where(self.where == _UP, self.floor, np.inf))
        low[self.dead], high[self.dead] = -np.inf, np.inf
        away: list[int] = np.atleast_1d(gone).tolist()
        low[away], high[away] = -np.inf, np.inf
        over = dict.fromkeys(away, _LOW)  # who is elsewhere than in the optimum of all, and where
        least, waited = MOST + 1, 0
        while waited <= PATIENT:
            changed, where = np.fromiter(over, np.intp), np.fromiter(over.values(), np.int8)
            at = np.where(where == _UP, upper[changed], 0.0)
            known = ~self.free[changed] & (where != _FREE)
            here, open_ = base, changed[~known]
            if known.any():
                here = base + (at - held[changed])[known] @ self.rows[changed[known]]
            by = _solved(self.rows, open_, at[~known], here)
            if by is None:
                return None
            found = here + by @ self.rows[open_] if len(open_) else here
            # Those who changed: the free ones' α and the others' ρ.
            moved = np.zeros(len(changed))
            moved[known], moved[~known] = found[changed[known]], by
            entered = ~self.free[changed] & (where == _FREE)
            moved[entered] += held[changed[entered]]
            outside = (found < low) | (found > high)
            outside[changed] = False
            if np.count_nonzero(outside) > MOST:
                return None
            bad = {int(i): self._exchanged(int(i), found[i] > 0) for i in np.flatnonzero(outside)}
            for i, is_at, value in zip(changed.tolist(), where.tolist(), moved.tolist(), strict=True):
                if i in away:
                    continue
                if is_at == _FREE and not -self.little <= value <= upper[i] + self.little:
                    bad[i] = _LOW if value < 0 else _UP
                elif is_at != _FREE and is_at * value > self.floor:
                    bad[i] = _FREE
            if not bad:
                alpha = np.where(self.free, found, held)
                alpha[changed] = np.where(where == _FREE, moved, at)
                return np.clip(alpha, 0.0, upper)
            least, waited = (len(bad), 0) if len(bad) < least else (least, waited + 1)
            for i, place in bad.items():
                over.pop(i, None)
                if place != self.where[i]:
                    over[i] = place
        return None

    def _exchanged(self, i: int, above: bool) -> int:
        """Where a variable goes that is outside of what it may be."""
        return (_UP if above else _LOW) if self.free[i] else _FREE


def _solved(rows: NDArray, J: NDArray, at: NDArray, here: NDArray) -> NDArray | None:
    """What must be given to J for their own answers to be ``at``; None where that is singular to float64."""
    if len(J) > MOST:
        return None
    A = rows[np.ix_(J, J)]
    if len(J) <= 1:
        found: NDArray = (at - here[J]) / A.ravel() if A.all() else np.full(1, np.nan)
    else:
        lu, pivots, info = scipy.linalg.lapack.dgetrf(A.T)
        if info != 0:
            return None
        found, _ = scipy.linalg.lapack.dgetrs(lu, pivots, at - here[J])
    return found if np.isfinite(found).all() else None


class Unlearning:
    """The path of the optimum from that of all variables (Cauwenberghs and Poggio, NIPS 13, section 3).

    What it says is a start or a proposal: whoever asks judges it by a gradient from scratch.

    Parameters
    ----------
    Q : array of shape (n, n)
        Only read.
    p, upper : arrays of shape (n,)
        Of the dual problem, whose lower bound is 0.
    e : array of shape (n,), or None
    d : float
        Its right-hand side.
    alpha : array of shape (n,)
        The optimum.
    nu : float
        Its multiplier.

    Raises
    ------
    PathError
        The free variables' block is singular.
    """

    def __init__(
        self, Q: NDArray, p: NDArray, e: NDArray | None, d: float, upper: NDArray, alpha: NDArray, nu: float
    ) -> None:
        self.upper, self.price = upper, p / d if d else p
        self.engine = engine = Engine(Dense(Q), e is not None)
        engine.has_rescue = True
        engine.append(p, upper, np.zeros(len(Q)) if e is None else e, Q.diagonal())
        engine.d = d
        seat(engine, Q, alpha, upper, nu, whole=False)
        self.kept = engine.snapshot()
        engine.near_from = 16 * engine.near_from  # one path from each snapshot: choosing near variables seldom pays

    def without(self, k: int, stretch: float = 1.0) -> NDArray | None:
        """α without variable k, shape (n,), all bounds ``stretch`` times as large; None where the path breaks off."""
        engine = self.engine
        try:
            engine.unlearn(k)
            if stretch != 1.0:  # the same as less to hand out, and at a lower price, within the same bounds
                engine.move_d(engine.d / stretch, self.price)
            found: NDArray = stretch * np.clip(engine.alpha, 0.0, self.upper)
        except PathError:
            return None
        else:
            return found
        finally:
            engine.restore(self.kept)


#: Models whose products are made together.
AT_ONCE = 128
#: Failures of the response, more than half of what it was asked, after which it is no longer asked.
GIVES_UP = 8


@dataclass(frozen=True)
class Without:
    """A model without point c.

    Attributes
    ----------
    point : int
    problem : DualProblem
        `centred`, with the upper bound 0 for c.
    certificate : Certificate
        Of its α, by a product from scratch; biases are those over points as ``problem`` has them.
    refitted : bool
        Whether it took a solve of its own.
    gram : KernelMatrix
        The problem's, with what is known of it.
    """

    point: int
    problem: DualProblem
    certificate: Certificate
    refitted: bool
    gram: KernelMatrix

    def weights(self) -> NDArray:
        """Weight of every point in the expansion, shape (n,)."""
        return coefficients(self.problem, self.certificate)

    def expansion(self, weights: NDArray) -> float:
        """That at point c, without bias."""
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
    """Take points out one at a time, of a problem with one variable a point, and certify what is left.

    Each is asked of the `Response` first and then of the path (`Unlearning`). Every answer is certified, by one product
    for many; what is not within the tolerance is solved for, from the optimum of all.

    Parameters
    ----------
    problem : DualProblem
        Positive semidefinite, with the lower bound 0; without any of the points something must be feasible.
    alpha : array of shape (n,)
        Its optimum.
    points : int array of shape (k,)
    optimum : callable
        Solves a problem from a start.
    tol : float
        Relative gap.
    stretches : array of shape (k,), optional
        How many times as large all bounds are without each point.
    """
    whole = Certifier(problem)
    posed, gram = whole.problem, whole.workspace.gram
    factors = np.ones(len(points)) if stretches is None else stretches
    Q = whole.workspace.dense() if posed.n <= LARGEST and len(points) > 1 else None
    proposer = None
    if Q is not None:
        known = whole.certify(alpha)
        proposer = _Proposer(posed, Q, known.alpha, (known.multiplier or 0.0) - whole.shift(known.alpha))
    for start in range(0, len(points), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        problems, proposals = [], []
        for c, factor in zip(points[part].tolist(), factors[part].tolist(), strict=True):
            upper = factor * posed.upper
            upper[c] = 0.0
            problems.append(rest := posed.within(upper))
            found = None if proposer is None else proposer.without(c, factor)
            proposals.append(None if found is None else rest.project(found))
        asked = [found for found in proposals if found is not None]
        products = iter(np.stack(asked) @ Q) if asked and Q is not None else iter(())  # Q is symmetric
        for c, rest, found in zip(points[part].tolist(), problems, proposals, strict=True):
            certificate = None if found is None else whole.certify_product(found, next(products), rest)
            if refitted := certificate is None or not certificate.reaches(tol):
                certificate = optimum(rest, rest.project(alpha))
            yield Without(c, rest, certificate, refitted, gram)


class _Proposer:
    """What the linear response says of the optimum without a point, or else the path, if it has no answer either."""

    def __init__(self, problem: DualProblem, Q: NDArray, alpha: NDArray, nu: float) -> None:
        self.given = Q, problem.p, problem.e, problem.d, problem.upper, alpha, nu
        self.response: Response | None = None
        self.paths: Unlearning | None = None
        self.has_paths, self.asked, self.failed = True, 0, 0
        with suppress(PathError):
            self.response = Response(problem, Q, alpha)

    def without(self, c: int, stretch: float) -> NDArray | None:
        found = None if self.response is None else self.response.without(c, stretch)
        self.asked, self.failed = self.asked + 1, self.failed + (found is None)
        if self.failed > GIVES_UP and 2 * self.failed > self.asked:
            self.response = None
        if found is None and self.paths is None and self.has_paths:
            try:
                self.paths = Unlearning(*self.given)
            except PathError:
                self.has_paths = False
        return self.paths.without(c, stretch) if found is None and self.paths is not None else found
