"""Many duals over one kernel matrix: every fold of a cross-validation and every C is a box around the same variables.

A point that a fold leaves out has the box [0, 0]. So no fold needs a matrix of its own, and the gradient of all folds
at once is one product, in float64 and from scratch, that says three things: how far each answer is from its optimum
(the dual bound of `core.bounds`), its bias, and the decision values of the points left out.

Where variables are in their boxes.

Folds that leave one point out begin at their optimum: led there from that of all points, by exact unlearning.

One decomposition for all folds: the free variables of the model of all points, factorised once, and every fold's
free set a few changes of it.

With A = [[K_FF, 1], [1ᵀ, 0]] of the reference F and H = A⁻¹, a step over another set, F less D and more N, is that of
A bordered by the unit vectors of D and the columns of N: H times a vector, and a system of |D| + |N| unknowns. The sets
are guessed anew from every step (a primal-dual active set), which ends in a few rounds at the exact optimum, or is
given up: pairs come nearer then, and it may be tried again.

The first part of the way to an optimum, in float32: an update of pairs has half its price there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, lapack

from ..core.bounds import gaps
from ..core.runtime.memory import borrowed
from ..core.runtime.threads import cached_property
from ..online.leave_one_out import Unlearning
from ..online.state import PathError
from ..working_set._pairs import solve_pairs

__all__ = [
    "MOST_FREE",
    "ROUGH_FROM",
    "Duals",
    "Fits",
    "LeftOut",
    "Newton",
    "Rough",
    "free_ones",
    "is_inside",
    "left_out_by",
]


def is_inside(beta: NDArray, upper: NDArray) -> NDArray:
    """Of each row, whether no variable is at its upper bound, shape (k,): then none would be at a larger one."""
    inside: NDArray = ((np.abs(beta) < upper) | (upper == 0)).all(axis=1)
    return inside


def free_ones(beta: NDArray, upper: NDArray) -> NDArray:
    """Who is between its bounds."""
    return np.flatnonzero((beta != 0) & (np.abs(beta) < upper))


class LeftOut:
    """The optimum of all points but one, for one after the other.

    What it says is a start: whoever asks judges it by a gradient from scratch.

    Parameters
    ----------
    Q : array of shape (n, n)
        The kernel matrix times the labels of its rows and columns; only read.
    sign, upper : arrays of shape (n,)
        Labels ±1, and bounds of α above 0.
    beta : array of shape (n,)
        eα of all points.
    bias : float
    intercept : bool
    """

    def __init__(
        self, Q: NDArray, sign: NDArray, upper: NDArray, beta: NDArray, bias: float, *, intercept: bool
    ) -> None:
        self.sign, e = sign, sign if intercept else None
        self.paths = Unlearning(Q, np.ones(len(Q)), e, 0.0, upper, np.abs(beta), -bias)

    def without(self, k: int) -> NDArray | None:
        """β without point k, shape (n,); None where the path breaks off."""
        alpha = self.paths.without(k)
        return None if alpha is None else self.sign * alpha


def left_out_by(weight: NDArray, weights: NDArray) -> NDArray:
    """The only variable that each row of weights, shape (k, n), leaves out, all others being as in ``weight``; −1 where
    there is none."""
    other = weights != weight
    alone = (other.sum(axis=1) == 1) & ((weights == 0) & other).any(axis=1)
    found: NDArray = np.where(alone, other.argmax(axis=1), -1)
    return found


#: Free variables beyond which pairs are the quicker way; and the fewest.
MOST_FREE, LEAST_FREE = 640, 8
#: Rounds at most; the part of the set's size that may change; what of the changes of a round the next may have; and
#: misses before it is no longer tried.
ROUNDS, CHANGES, SHRINK, PATIENCE = 8, 0.6, 1.0, 6
#: Squared distance of a point to those before it, in feature space, below which it is no part of the reference; and
#: what keeps such a point's row apart from theirs.
NEAR, APART = 1e-9, 1e-10


class Newton:
    """Steps over free sets near a reference, with Σβ = 0.

    Parameters
    ----------
    K : array of shape (n, n)
        Its largest diagonal entry is 1.
    free : int array, optional
        The reference; by default who is free where the first step is asked for.
    """

    def __init__(self, K: NDArray, free: NDArray | None = None) -> None:
        self.K, self.free = K, free
        self.hits = self.misses = 0

    @property
    def pays(self) -> bool:
        """Whether the reference is of a size for it, and it has found enough of what it was asked for."""
        fits = self.free is None or LEAST_FREE <= len(self.free) <= MOST_FREE
        return fits and self.misses < PATIENCE + 2 * self.hits

    @cached_property
    def _factor(self) -> tuple[NDArray, NDArray, NDArray]:
        """F without copies and what is nearly their combination, their rows of K, and H."""
        assert self.free is not None
        M = self.K[np.ix_(self.free, self.free)] + 1.0  # + 11ᵀ moves no step of given sum, and is never singular
        half, order, rank, _ = lapack.dpstrf(M, tol=NEAR)
        F = self.free[order[:rank] - 1]
        inverse = lapack.dpotri(half[:rank, :rank])[0]
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        sums = inverse.sum(axis=0)
        total = float(sums.sum())
        H = np.empty((rank + 1, rank + 1))
        H[:rank, :rank] = inverse - np.outer(sums, sums) / total
        H[rank, :rank] = H[:rank, rank] = sums / total
        H[rank, rank] = -1.0 / total
        return F, self.K[F], H

    def solve(self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, aim: float) -> bool:
        """Take β and its gradient G to the optimum, in place; False, and both as they were, if that was not found."""
        if self.free is None:
            self.free = np.flatnonzero((beta > low) & (beta < high))
        found = self.pays and self._solve(beta, G, low, high, aim)
        self.hits, self.misses = self.hits + found, self.misses + (not found)
        return found

    def _solve(self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, aim: float) -> bool:
        F, rows, H = self._factor
        f, now, gradient = len(F), beta, G
        moving = (beta > low) & (beta < high)
        before = left = np.inf
        for _ in range(ROUNDS):
            inside = moving[F]
            D = np.flatnonzero(~inside)
            outside = moving.copy()
            outside[F] = False
            N = np.flatnonzero(outside)
            if len(D) + len(N) > CHANGES * f + 20:
                return False
            try:
                step, added, nu = self._step(F, rows, H, D, N, gradient, -float(now.sum()))
            except LinAlgError:
                return False
            there = now.copy()
            there[F] += step
            there[N] += added
            gradient = gradient + step @ rows
            if len(N):
                gradient += added @ self.K[N]
            rho = gradient + nu
            now = np.clip(there, low, high)
            (out,) = np.nonzero(now != there)
            wrong = ~moving & (((now < high) & (rho < -aim)) | ((now > low) & (rho > aim)))
            if not len(out) and not wrong.any():
                # What a nearly singular system leaves of the gradient is less after another step.
                left, known = float(np.abs(rho[moving]).max(initial=0.0)), left
                if left <= aim:
                    beta[:], G[:] = now, gradient
                    return True
                if not left <= 0.5 * known:
                    return False
                continue
            changes = len(out) + int(np.count_nonzero(wrong))
            if not changes <= SHRINK * before:
                return False
            before = changes
            if len(out):
                gradient += (now - there)[out] @ self.K[out]
            moving[out] = False
            moving |= wrong
        return False

    def _step(
        self, F: NDArray, rows: NDArray, H: NDArray, D: NDArray, N: NDArray, G: NDArray, missing: float
    ) -> tuple[NDArray, NDArray, float]:
        """Steps of F (0 for D) and of N after which their gradients are all −ν and Σβ has what was missing; and ν."""
        f, d = len(F), len(D)
        z = H @ np.append(missing - G[F], missing)
        added = np.empty(0)
        if d or len(N):
            border = np.append(rows[:, N].T + 1.0, np.ones((len(N), 1)), axis=1)
            lifted = border @ H
            corner = lifted @ border.T - self.K[np.ix_(N, N)] - 1.0 - APART * np.eye(len(N))
            system = np.block([[H[np.ix_(D, D)], lifted[:, D].T], [lifted[:, D], corner]])
            known = np.linalg.solve(system, np.append(z[D], border @ z - (missing - G[N])))
            z = z - known[:d] @ H[D] - known[d:] @ lifted
            added = known[d:]
        z[D] = 0.0
        return z[:f], added, float(z[f])


#: Variables from which it pays: fewer rows stay in the cache in float64 too.
ROUGH_FROM = 512
#: KKT violation to end at, or where round-off begins: so many units in the last place of the widest box; and updates
#: for a variable.
ENOUGH, NOISE, UPDATES_ROUGH = 1e-3, 16, 3


class Rough:
    """M in float32, for boxes over it.

    Parameters
    ----------
    rows : array of shape (n, v)
    slots : int array of shape (v,)
        Row i of M is ``rows[slots[i]]``.
    diag : array of shape (v,)
    """

    def __init__(self, rows: NDArray, slots: NDArray, diag: NDArray) -> None:
        # A search makes one for every kernel setting: memory of the last one serves the next.
        self.rows = borrowed(rows.shape, np.float32)
        self.rows[...] = rows
        self.slots, self.diag = slots, diag.astype(np.float32)

    def approach(self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, equality: bool) -> bool:
        """Bring a feasible β near the optimum.

        Parameters
        ----------
        beta : array of shape (v,)
            Changed in place.
        G : array of shape (v,)
            Its gradient; read only, so that it is wrong where β moved.
        low, high : arrays of shape (v,)
        equality : bool
            Whether Σβ stays what it is.

        Returns
        -------
        bool
            Whether β moved.
        """
        noise = NOISE * float(np.finfo(np.float32).eps) * float((high - low).max())
        box, single = (beta, low, high), G.astype(np.float32)
        limit = UPDATES_ROUGH * len(beta)
        rows = (self.rows, self.slots, len(self.rows))
        moved, *_ = solve_pairs(*rows, single, self.diag, *box, equality, max(ENOUGH, noise), limit)
        return bool(moved)


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
