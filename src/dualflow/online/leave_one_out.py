"""Each point judged by the model that never saw it, and the path along which a model came about (CP sections 3, 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..core.problem import DualProblem
from .incremental import Engine
from .remembering import Stream

__all__ = ["LeaveOneOut", "Optimum", "Path", "left_out", "recorded"]

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
