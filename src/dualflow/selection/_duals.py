"""Many duals over one kernel matrix: every fold of a cross-validation and every C is a box around the same variables.

A point that a fold leaves out has the box [0, 0]. So no fold needs a matrix of its own, and the gradient of all folds
at once is one product, in float64 and from scratch, that says three things: how far each answer is from its optimum
(the dual bound of `core.bounds`), its bias, and the decision values of the points left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import gaps
from ..core.forks import cached_property
from ..online.state import PathError
from ..working_set._pairs import solve_pairs
from ._boxes import free_ones, is_inside
from ._left_out import LeftOut, left_out_by
from ._newton import Newton
from ._rough import ROUGH_FROM, Rough

__all__ = ["Duals", "Fits"]

#: KKT violation to end at, in units of the largest |p|; what of it a gradient from scratch may show; and the part of
#: it to go on to while the gap asked for is not reached.
END, FOUND, FINER = 1e-6, 2.0, 1e-2
#: Pair updates a call, for a variable; calls; and gradients from scratch. Where they are used up, the gap says so.
UPDATES, CALLS, LOOKS = 20, 25, 6
#: How near to a bound a variable is at it, as a part of its box. Where none is free the bias is any of an interval;
#: one that rounding left an ulp inside would make it an end of it instead of LIBSVM's middle.
AT_BOUND = 1e-9
#: Folds at a time, and folds and variables from which the model of all points is worth its price as a start.
AT_ONCE, SEED_FROM, SEED_VARIABLES = 32, 3, 512


@dataclass(frozen=True)
class Fits:
    """Answers for one C, a row a fold.

    Attributes
    ----------
    number : int
        Which C.
    folds : int array of shape (k,)
    beta, gradient : arrays of shape (k, v)
        β = eα, and Mβ − ep.
    bias, gap, seconds : arrays of shape (k,)
        ``gap`` is the certified relative gap, ``seconds`` each fold's own time.
    """

    number: int
    folds: NDArray
    beta: NDArray
    gradient: NDArray
    bias: NDArray
    gap: NDArray
    seconds: NDArray


@dataclass
class _Seed:
    """The model of all points: β, its gradient and bias, and what leads from it to models without one of them."""

    beta: NDArray
    gradient: NDArray
    bias: float
    left_out: LeftOut | bool | None = None


class Duals:
    """Minimise ½βᵀKβ − (ep)ᵀβ within a box, with Σβ = 0 if there is an intercept.

    Parameters
    ----------
    K : array of shape (n, n)
        Row-major and symmetric; its largest diagonal entry is 1, and so is the largest |p|.
    target : array of shape (n,)
        Labels ±1, or numbers where there is a tube: then every variable is there twice, for α and α*.
    tube : float, optional
        ε.
    intercept : bool
    check : callable
        Called between pieces of work; may raise.
    """

    def __init__(
        self, K: NDArray, target: NDArray, tube: float | None, intercept: bool, check: Callable[[], None]
    ) -> None:
        n = len(K)
        self.K, self.n, self.intercept, self.check = K, n, intercept, check
        if tube is None:
            self.rows, self.e, self.ep = K, target, target
        else:
            self.rows = np.concatenate([K, K], axis=1)
            self.e, self.ep = np.repeat([1.0, -1.0], n), np.concatenate([target - tube, target + tube])
        self.v = len(self.e)
        self.slots = np.tile(np.arange(n, dtype=np.int64), self.v // n)
        self.diag = K.diagonal()[self.slots]

    @cached_property
    def _rough(self) -> Rough:
        return Rough(self.rows, self.slots, self.diag)

    def boxes(self, upper: NDArray) -> tuple[NDArray, NDArray]:
        """Bounds of β from those of α, shape (…, v)."""
        return np.where(self.e > 0, 0.0, -upper), np.where(self.e > 0, upper, 0.0)

    def expansion(self, beta: NDArray) -> NDArray:
        """Kβ at all points, shape (k, n), from scratch."""
        net = beta if self.v == self.n else beta[:, : self.n] + beta[:, self.n :]
        product: NDArray = net @ self.K
        return product

    def gradient(self, beta: NDArray) -> NDArray:
        """Mβ − ep, shape (k, v), from scratch."""
        product = self.expansion(beta)
        return (product if self.v == self.n else np.concatenate([product, product], axis=1)) - self.ep

    # --- one C after the other -------------------------------------------------------------------

    def path(self, weight: NDArray, weights: NDArray, costs: Sequence[float], tol: float) -> Iterator[Fits]:
        """The answers of all folds for each C of an ascending sequence, some folds at a time.

        The model of all points is a fold's start: what the fold leaves out is taken away, and most of what is left
        stays. A fold none of whose boxes is met has the same answer for every larger C.

        Parameters
        ----------
        weight, weights : arrays of shape (v,) and (folds, v)
            Upper bounds of α, of all points and fold by fold, in units of C; 0 takes a variable out.
        costs : sequence of float
        tol : float
            Relative gap asked for.
        """
        seeds: list[_Seed] = []
        seeding = len(weights) >= SEED_FROM and (self.v > SEED_VARIABLES or len(weights) > AT_ONCE)
        for start in range(0, len(weights), AT_ONCE):
            folds = np.arange(start, min(start + AT_ONCE, len(weights)))
            part, last = weights[folds], None
            for number, cost in enumerate(costs):
                began = perf_counter()
                sofar = costs[: number + 1]
                if seeding and number == len(seeds):
                    seeds.append(self._whole(seeds, weight, sofar, tol))
                beta = self._starts(seeds[number] if seeds else None, last, weight, part, sofar)
                newton = self._newton(free_ones(seeds[number].beta, cost * weight)) if seeds else None
                answer = self.settle(beta, cost * part, tol, newton)
                shared = (perf_counter() - began - float(answer.seconds.sum())) / len(folds)
                last = replace(answer, number=number, folds=folds, seconds=answer.seconds + shared)
                yield last

    def _whole(self, seeds: list[_Seed], weight: NDArray, costs: Sequence[float], tol: float) -> _Seed:
        """The model of all points for the last C, from that for the one before."""
        start = np.zeros(self.v)
        if seeds:
            beta = seeds[-1].beta
            stays = is_inside(beta[None], costs[-2] * weight[None])[0]
            start = beta if stays else beta * (costs[-1] / costs[-2])
        answer = self.settle(start[None].copy(), costs[-1] * weight[None], tol, self._newton())
        return _Seed(answer.beta[0], answer.gradient[0], float(answer.bias[0]))

    def _newton(self, free: NDArray | None = None) -> Newton | None:
        """Steps over free sets near a reference, where there are such."""
        return Newton(self.K, free) if self.v == self.n and self.intercept else None

    def _starts(
        self, seed: _Seed | None, last: Fits | None, weight: NDArray, part: NDArray, costs: Sequence[float]
    ) -> NDArray:
        """Where folds begin: where they were for the last C if no box was met there, else near the seed, or at 0; those
        that leave one point out where `LeftOut` leads."""
        if seed is None:
            beta = np.zeros_like(part)
        else:
            beta = self._seeded(seed.beta, seed.gradient, *self.boxes(costs[-1] * part))
        stays = np.zeros(len(part), dtype=bool)
        if last is not None:
            stays = is_inside(last.beta, costs[-2] * part)
            beta[stays] = last.beta[stays]
        if seed is not None and self.v == self.n and (weight > 0).all():
            out = left_out_by(weight, part)
            asked = np.flatnonzero((out >= 0) & (seed.beta[out] != 0) & ~stays)
            if len(asked) and (model := self._left_out(seed, costs[-1] * weight)) is not None:
                for row in asked:
                    self.check()
                    led = model.without(int(out[row]))
                    beta[row] = beta[row] if led is None else led
        return beta

    @cached_property
    def signed(self) -> NDArray:
        """The matrix of the dual in α."""
        product: NDArray = self.K * self.e
        product *= self.e[:, None]
        return product

    def _left_out(self, seed: _Seed, upper: NDArray) -> LeftOut | None:
        """That of a seed, made once; None where its points have no such path."""
        if seed.left_out is None:
            try:
                found: LeftOut | bool = LeftOut(
                    self.signed, self.e, upper, seed.beta, seed.bias, intercept=self.intercept
                )
            except (PathError, np.linalg.LinAlgError):
                found = False
            seed.left_out = found
        return seed.left_out if isinstance(seed.left_out, LeftOut) else None

    def _seeded(self, seed: NDArray, gradient: NDArray, low: NDArray, high: NDArray) -> NDArray:
        """A feasible start of each fold from the model of all points: who moves most easily makes up for what went."""
        beta = np.clip(seed, low, high)
        if not self.intercept:
            return beta
        missing = -beta.sum(axis=1)
        rising = np.argsort(gradient, kind="stable")
        for row in np.flatnonzero(np.abs(missing) > 1e-15 * np.abs(beta).sum(axis=1)):
            rises = missing[row] > 0
            order = rising if rises else rising[::-1]
            room = (high[row] - beta[row] if rises else beta[row] - low[row])[order]
            taken = np.clip(abs(missing[row]) - (np.cumsum(room) - room), 0.0, room)
            beta[row, order] += taken if rises else -taken
        return beta

    # --- some boxes ------------------------------------------------------------------------------

    def settle(self, beta: NDArray, upper: NDArray, tol: float, newton: Newton | None = None) -> Fits:
        """From feasible starts to the optimum of each row; β is changed in place."""
        low, high = self.boxes(upper)
        gradient = self.gradient(beta) if beta.any() else np.tile(-self.ep, (len(beta), 1))
        bias, gap, seconds = np.zeros(len(beta)), np.full(len(beta), np.inf), np.zeros(len(beta))
        if self.v >= ROUGH_FROM:
            moved = np.zeros(len(beta), dtype=bool)
            for k in range(len(beta)):
                began = perf_counter()
                self.check()
                moved[k] = self._rough.approach(beta[k], gradient[k], low[k], high[k], self.intercept)
                seconds[k] = perf_counter() - began
            gradient[moved] = self.gradient(beta[moved])
        aim = np.full(len(beta), END)
        todo = np.arange(len(beta))
        for look in range(LOOKS + 1):
            rows = slice(None) if len(todo) == len(beta) else todo
            if look:
                gradient[rows] = self.gradient(beta[rows])
            violation, bias[rows], gap[rows] = self.certify(
                beta[rows], gradient[rows], low[rows], high[rows], upper[rows]
            )
            near, wide = violation <= FOUND * aim[rows], gap[rows] > tol
            aim[todo[near & wide]] *= FINER
            todo = todo[~near | wide]
            if not len(todo) or look == LOOKS:
                break
            for row in todo:
                began = perf_counter()
                self.descend(beta[row], gradient[row], low[row], high[row], aim[row], newton)
                seconds[row] += perf_counter() - began
        return Fits(0, todo, beta, gradient, bias, gap, seconds)

    def descend(
        self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, aim: float, newton: Newton | None = None
    ) -> None:
        """β and G of one row to a violation, in place: the one place where a problem is solved to its end. Whoever has
        a faster way over a matrix that is there puts it here."""
        is_near = self.v >= ROUGH_FROM or aim < END  # `Rough`, or a look before, brought it there
        if newton is not None and is_near and newton.pays and newton.solve(beta, G, low, high, aim):
            return
        limit = UPDATES * self.v if newton is None else self.v
        for _ in range(CALLS):
            self.check()
            box = (beta, low, high)
            moved, violation, _ = solve_pairs(
                self.rows, self.slots, self.n, G, self.diag, *box, self.intercept, aim, limit
            )
            if violation <= aim or moved < limit:
                return
            if newton is not None and newton.pays and newton.solve(beta, G, low, high, aim):
                return
            limit = min(2 * limit, UPDATES * self.v)

    def certify(
        self, beta: NDArray, gradient: NDArray, low: NDArray, high: NDArray, upper: NDArray
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Worst KKT violation, bias and relative gap of each row, from its gradient.

        Any multiplier ν gives a lower bound of f, −½ αᵀQα + Σ min(0, uρ) with ρ = h − νe (`core.certificate`). Here ν
        is halfway between the variables that want to rise and to fall most: LIBSVM's bias, and the best ν at the
        optimum.
        """
        edge = AT_BOUND * upper
        rise = np.where(beta < high - edge, -gradient, -np.inf).max(axis=1)
        fall = np.where(beta > low + edge, gradient, -np.inf).max(axis=1)
        if self.intercept:
            violation, bias = rise + fall, 0.5 * (rise - fall)
        else:
            violation, bias = np.maximum(rise, fall), np.zeros(len(beta))
        linear = beta @ self.ep
        quadratic = np.einsum("ij,ij->i", beta, gradient) + linear
        lost = (np.minimum(self.e * (gradient + bias[:, None]), 0.0) * upper).sum(axis=1)
        objective, bound = 0.5 * quadratic - linear, lost - 0.5 * quadratic
        gap = np.array([gaps(float(f), float(d))[1] for f, d in zip(objective, bound, strict=True)])
        return np.maximum(violation, 0.0), bias, gap
