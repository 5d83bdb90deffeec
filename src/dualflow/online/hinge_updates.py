"""The effect of new points on a hinge model that is at its optimum (`EcoSVC`).

A new point with a positive KKT slack at the model's ν changes neither the optimum nor its certificate: in the lower
bound at ν its term max(νe₀ − h₀, 0) u₀ is 0. A few violating points can be added along the path of the optimum
(`Engine`), from the kernel matrix of all retained points. The result is checked by a product with the whole matrix;
if it is not an optimum, None is returned and the caller uses another method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ._path import AT_LOWER, AT_UPPER, COUNT, FLOOR, FREE, MULTIPLIER, combine_rows
from .engine import Engine
from .invasion import MAX_EQUALITY_ERROR, SUM_GROWTH, best_multiplier, largest_value
from .state import PathError

#: Up to this many retained and new points in total, violating points are added along a path, which needs their dense
#: matrix.
MAX_POINTS_PATH = 1500
#: A weight is set to a bound if its distance from it is below this share of the largest weight or of the bound.
ROUND_OFF_RATIO = 1e-14

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Equilibrium:
    """An optimum: the weights α, the gradient h = Qα − p of all points, and the multiplier ν."""

    alpha: NDArray
    h: NDArray
    nu: float


def equilibrium_of(
    alpha: NDArray, h: NDArray, sign: NDArray, cap: NDArray, largest: float, *, bordered: bool, gap_tol: float
) -> Equilibrium | None:
    """Return the weights and their gradient as an optimum, or None if their relative gap exceeds ``gap_tol``.

    The gap is that of the lower bound at the best ν, plus the effect of the gradient's round-off error. ``largest`` is
    that of the kernel values, see `largest_value`.
    """
    if not np.isfinite(cap).all():
        return None
    nu = best_multiplier(h, sign, cap, 0.0) if bordered else 0.0
    rho = h - nu * sign if bordered else h
    residual = float(sign @ alpha) if bordered else 0.0
    total = float(alpha.sum())
    objective = 0.5 * (total - float(alpha @ h))
    if not objective > 0 or abs(residual) > MAX_EQUALITY_ERROR * total:
        return None
    gap = float(np.maximum(rho, 0.0) @ alpha) + float(np.maximum(-rho, 0.0) @ (cap - alpha)) + abs(nu * residual)
    is_optimal = gap + _round_off(largest, total) * float(cap.sum()) <= gap_tol * objective
    return Equilibrium(alpha, h, nu) if is_optimal else None


def _round_off(largest: float, total: float) -> float:
    """Return the round-off error of a gradient at weights with the sum ``total``."""
    return SUM_GROWTH * _EPS * (largest * total + 1.0)


@dataclass(frozen=True)
class DenseMatrix:
    """A dense Q with the methods that `Engine` needs."""

    Q: NDArray

    def column(self, k: int, start: int, stop: int) -> NDArray:
        """Return Q[start:stop, k]."""
        return self.Q[start:stop, k]

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        """Return Q[rows, J]."""
        values: NDArray = self.Q[rows[:, None], J]
        return values

    def product(self, alpha: NDArray) -> NDArray:
        """Return Q α, from the rows where α is not 0."""
        J, out = np.flatnonzero(alpha), np.empty(len(alpha))
        combine_rows(self.Q, J, alpha[J], out)
        return out


class CommunityModel:
    """A hinge model at its optimum, as new points are compared with it.

    It depends on the retained points and the kernel only.

    Parameters
    ----------
    gram : Gram or KeptGram
        Of the retained points; positive semidefinite.
    sign, cap, alpha, h : arrays of shape (n,)
        As in `Community`.
    bordered : bool
        Whether the model has the equality Σ signᵢαᵢ = 0.
    gap_tol : float
        Relative gap up to which weights count as an optimum.

    Attributes
    ----------
    at_rest : bool
        Whether this is an optimum with weight in both classes and at least one free variable. New points can be
        compared with the model only if it is.
    nu : float
        The multiplier, if ``at_rest``; else 0.
    """

    def __init__(
        self,
        gram: Gram | KeptGram,
        sign: NDArray,
        cap: NDArray,
        alpha: NDArray,
        h: NDArray,
        *,
        bordered: bool,
        gap_tol: float,
    ) -> None:
        self.gram: KeptGram = gram if isinstance(gram, KeptGram) else KeptGram(gram)
        self.sign, self.cap, self.alpha, self.h = sign, cap, alpha, h
        self.bordered, self.gap_tol = bordered, gap_tol
        self.largest, self.total = largest_value(gram), float(alpha.sum())
        self.weights = sign * alpha
        found = equilibrium_of(alpha, h, sign, cap, self.largest, bordered=bordered, gap_tol=gap_tol)
        self.nu = 0.0 if found is None else found.nu
        is_free = (alpha > 0) & (alpha < cap)
        self.at_rest = found is not None and bool(is_free.any()) and gram.is_psd_by_kernel

    def rows_of(self, X: NDArray) -> NDArray | None:
        """Return kernel rows of new points, shape (len(X), n); None if their values are too large or not finite."""
        if not self.at_rest or not math.isfinite(np.vdot(X, X)):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self.gram.cross(X)
        return rows if np.isfinite(rows).all() else None

    def gradient_at(self, rows: NDArray, sign: NDArray) -> NDArray:
        """Return h of new points from their kernel rows."""
        values: NDArray = sign * (rows @ self.weights) - 1.0
        return values

    def satisfies_kkt(self, h: NDArray, sign: NDArray) -> NDArray:
        """Return for each new point whether it satisfies its KKT condition at α = 0 by more than round-off."""
        satisfied: NDArray = h - self.nu * sign > _round_off(self.largest, self.total)
        return satisfied


def add_along_path(model: CommunityModel, X: NDArray, rows: NDArray, sign: NDArray, cap: NDArray) -> Equilibrium | None:
    """Return the optimum over the retained and the new points, or None if the path does not reach it.

    Parameters
    ----------
    at : Standing
    X, sign, cap : arrays with one row for each new point
    rows : array of shape (len(X), n)
        `Standing.rows_of` X.
    """
    n_old, n_new = len(model.alpha), len(X)
    n = n_old + n_new
    new_block = Gram.of(model.gram, X).full() if n_new > 1 else model.gram.self_kernel(X)
    if not np.isfinite(new_block).all():
        return None
    sign, cap = np.concatenate([model.sign, sign]), np.concatenate([model.cap, cap])
    Q = np.empty((n, n))
    np.multiply(model.gram.full(), model.sign, out=Q[:n_old, :n_old])
    np.multiply(rows, model.sign, out=Q[n_old:, :n_old])
    np.multiply(new_block, sign[n_old:], out=Q[n_old:, n_old:])
    Q[:n_old, :n_old] *= model.sign[:, None]
    Q[n_old:] *= sign[n_old:, None]
    Q[:n_old, n_old:] = Q[n_old:, :n_old].T
    engine = Engine(DenseMatrix(Q), model.bordered, room=n)
    engine.has_fallback = True
    try:
        engine.append(np.ones(n), cap, sign if model.bordered else np.zeros(n), Q.diagonal())
        start_at_optimum(engine, Q, model.alpha, model.cap, model.nu, all_rows=True)
        for k in range(n_old, n):
            engine.learn(k)
        engine.polish(0.25 * float(engine.figures[FLOOR]))
    except PathError:
        return None
    alpha = np.clip(engine.alpha, 0.0, cap)
    alpha[alpha <= ROUND_OFF_RATIO * float(alpha.max())] = 0.0
    alpha = np.where(cap - alpha <= ROUND_OFF_RATIO * cap, cap, alpha)
    return equilibrium_of(
        alpha, Q @ alpha - 1.0, sign, cap, model.largest, bordered=model.bordered, gap_tol=model.gap_tol
    )


def start_at_optimum(
    engine: Engine, Q: NDArray | None, alpha: NDArray, cap: NDArray, nu: float, *, all_rows: bool
) -> None:
    """Set an engine to an optimum of its first ``len(alpha)`` variables with multiplier ν; the others are not learned.

    If ``all_rows``, all rows of Q are copied to the cache, else those of the margin. If Q is None, the engine's own
    matrix is used.
    """
    n_old = len(alpha)
    engine.alpha[:n_old] = alpha
    engine.where[:n_old] = np.where(alpha <= 0, AT_LOWER, np.where(alpha >= cap, AT_UPPER, FREE))
    S = np.flatnonzero(engine.where == FREE)
    m = len(S)
    engine.counters[COUNT] = m
    engine.make_room()
    if Q is None:
        rows, product = engine.matrix.block(S, np.arange(engine.n)), engine.matrix.product(engine.alpha)
    else:
        rows, product = Q if all_rows else Q[S], Q @ engine.alpha
    engine.pool.take(np.arange(engine.n) if all_rows else S, rows, engine.n)
    engine.members[:m], engine.member_slots[:m] = S, S if all_rows else np.arange(m)
    engine.figures[MULTIPLIER] = -nu
    engine.refactorise(engine)
    engine.g[:] = product - engine.p - nu * engine.e
    engine.update_floor()
    engine.polish(float(engine.figures[FLOOR]))
