"""Newcomers who meet a community at rest: nearly all that would be looked at is known, and stays.

Who does not want to grow at the community's ν changes neither the equilibrium nor its certificate, whose value at that
ν has a term max(νe₀ − h₀, 0) u₀ for each point, and this one is 0. Few who do may be led in along the path of the
optimum (`Engine`), from the kernel matrix of those present. What comes of it is judged from scratch, by a product with
the whole matrix, and left to others if it is not an equilibrium.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ._path import BOUND, COUNT, FLOOR, FREE, MULTIPLIER, REST
from .incremental import Engine
from .invasion import INFEASIBLE, best_multiplier
from .state import PathError

__all__ = ["LITTLE", "POINTS", "Dense", "Equilibrium", "Standing", "equilibrium_of", "led_in", "seat"]

#: Points in all up to which whoever wants in is led in along a path, which keeps their whole matrix.
POINTS = 1500
#: The part of a weight that is round-off.
LITTLE = 1e-14

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Equilibrium:
    """Weights at rest and the gradient h = Qα − p of all, with their multiplier ν."""

    alpha: NDArray
    h: NDArray
    nu: float


def equilibrium_of(
    alpha: NDArray, h: NDArray, sign: NDArray, cap: NDArray, largest: float, *, bordered: bool, enough: float
) -> Equilibrium | None:
    """Weights and their gradient, if they are at rest to a relative gap of ``enough``: by the bound at ν, and by what a
    gradient may be wrong by, where kernel values are up to ``largest``."""
    if not np.isfinite(cap).all():
        return None
    nu = best_multiplier(h, sign, cap, 0.0) if bordered else 0.0
    rho = h - nu * sign if bordered else h
    surplus = float(sign @ alpha) if bordered else 0.0
    total = float(alpha.sum())
    objective = 0.5 * (total - float(alpha @ h))
    if not objective > 0 or abs(surplus) > INFEASIBLE * total:
        return None
    gap = float(np.maximum(rho, 0.0) @ alpha) + float(np.maximum(-rho, 0.0) @ (cap - alpha)) + abs(nu * surplus)
    fine = gap + _round_off(largest, total) * float(cap.sum()) <= enough * objective
    return Equilibrium(alpha, h, nu) if fine else None


def _round_off(largest: float, total: float) -> float:
    """What a gradient at weights of this sum may be wrong by."""
    return 8 * _EPS * (largest * total + 1.0)


@dataclass(frozen=True)
class Dense:
    """Q as `Engine` asks for it."""

    Q: NDArray

    def column(self, k: int, start: int, stop: int) -> NDArray:
        return self.Q[start:stop, k]

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        values: NDArray = self.Q[rows[:, None], J]
        return values

    def product(self, alpha: NDArray) -> NDArray:
        return self.Q @ alpha


class Standing:
    """A community of the hinge as newcomers find it; a function of the community and its kernel, and of nothing else.

    Parameters
    ----------
    gram : Gram or KeptGram
        Of the points that are remembered; positive semidefinite.
    sign, cap, alpha, h : arrays of shape (n,)
        As in `Community`.
    bordered : bool
        Whether Σ signᵢαᵢ = 0 is asked for.
    enough : float
        Relative gap up to which weights are an equilibrium.

    Attributes
    ----------
    at_rest : bool
        Whether this is an equilibrium, with weight on both sides and some of it free; only then may others be asked.
    nu : float
        Its multiplier then.
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
        enough: float,
    ) -> None:
        self.gram: KeptGram = gram if isinstance(gram, KeptGram) else KeptGram(gram)
        self.sign, self.cap, self.alpha, self.h = sign, cap, alpha, h
        self.bordered, self.enough = bordered, enough
        self.largest, self.total = float(gram.diag().max()), float(alpha.sum())
        self.weights = sign * alpha
        found = equilibrium_of(alpha, h, sign, cap, self.largest, bordered=bordered, enough=enough)
        self.nu = 0.0 if found is None else found.nu
        is_free = (alpha > 0) & (alpha < cap)
        self.at_rest = found is not None and bool(is_free.any()) and gram.is_psd_by_kernel

    def rows_of(self, X: NDArray) -> NDArray | None:
        """Kernel rows of newcomers, shape (len(X), n); None if they are numbers that a batch refuses."""
        if not self.at_rest or not math.isfinite(np.vdot(X, X)):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self.gram.cross(X)
        return rows if np.isfinite(rows).all() else None

    def gradient_at(self, rows: NDArray, sign: NDArray) -> NDArray:
        """h of newcomers, from their rows."""
        values: NDArray = sign * (rows @ self.weights) - 1.0
        return values

    def keeps_out(self, h: NDArray, sign: NDArray) -> NDArray:
        """Which newcomers do not grow, by more than what h is known to."""
        keeps: NDArray = h - self.nu * sign > _round_off(self.largest, self.total)
        return keeps


def led_in(at: Standing, X: NDArray, rows: NDArray, sign: NDArray, cap: NDArray) -> Equilibrium | None:
    """The equilibrium of a community and newcomers; None if it is to be looked for in another way.

    Parameters
    ----------
    at : Standing
    X, sign, cap : arrays with a row for each newcomer
    rows : array of shape (len(X), n)
        `Standing.rows_of` them.
    """
    old, new = len(at.alpha), len(X)
    n = old + new
    own = Gram.of(at.gram, X).full() if new > 1 else at.gram.self_kernel(X)
    if not np.isfinite(own).all():
        return None
    sign, cap = np.concatenate([at.sign, sign]), np.concatenate([at.cap, cap])
    Q = np.empty((n, n))
    np.multiply(at.gram.full(), at.sign, out=Q[:old, :old])
    np.multiply(rows, at.sign, out=Q[old:, :old])
    np.multiply(own, sign[old:], out=Q[old:, old:])
    Q[:old, :old] *= at.sign[:, None]
    Q[old:] *= sign[old:, None]
    Q[:old, old:] = Q[old:, :old].T
    engine = Engine(Dense(Q), at.bordered, room=n)
    engine.has_rescue = True
    try:
        engine.append(np.ones(n), cap, sign if at.bordered else np.zeros(n), Q.diagonal())
        seat(engine, Q, at.alpha, at.cap, at.nu, whole=True)
        for k in range(old, n):
            engine.learn(k)
        engine.polish(0.25 * float(engine.figures[FLOOR]))
    except PathError:
        return None
    alpha = np.clip(engine.alpha, 0.0, cap)
    alpha[alpha <= LITTLE * float(alpha.max())] = 0.0
    alpha = np.where(cap - alpha <= LITTLE * cap, cap, alpha)
    return equilibrium_of(alpha, Q @ alpha - 1.0, sign, cap, at.largest, bordered=at.bordered, enough=at.enough)


def seat(engine: Engine, Q: NDArray | None, alpha: NDArray, cap: NDArray, nu: float, *, whole: bool) -> None:
    """Put an engine that knows all variables, of a matrix Q, where the first of them are at rest with a multiplier ν;
    newcomers wait to be learned. Rows of Q are copied: all if ``whole``, else those of
    the margin, which the engine's own matrix gives if Q is None."""
    old = len(alpha)
    engine.alpha[:old] = alpha
    engine.where[:old] = np.where(alpha <= 0, REST, np.where(alpha >= cap, BOUND, FREE))
    S = np.flatnonzero(engine.where == FREE)
    m = len(S)
    engine.counters[COUNT] = m
    engine.make_room()
    if Q is None:
        rows, product = engine.matrix.block(S, np.arange(engine.n)), engine.matrix.product(engine.alpha)
    else:
        rows, product = Q if whole else Q[S], Q @ engine.alpha
    engine.pool.take(np.arange(engine.n) if whole else S, rows, engine.n)
    engine.members[:m], engine.member_slots[:m] = S, S if whole else np.arange(m)
    engine.figures[MULTIPLIER] = -nu
    engine.refactorise(engine)
    engine.g[:] = product - engine.p - nu * engine.e
    engine.measure()
    engine.polish(float(engine.figures[FLOOR]))
