"""Duals of all folds and all C of a cross-validation, solved over one kernel matrix.

Each fold and each C is a box for the same variables; a point that a fold leaves out has the box [0, 0]. No fold needs a
matrix of its own, and one product in float64 gives the gradients of all folds from scratch. The gradient gives the gap
(the dual bound of `core.bounds`), the bias, and the decision values of the points left out.

`Duals` solves the folds by pair updates, and uses three faster methods where they apply:

- `LeftOutPoints` starts a fold that leaves out one point at its optimum, by exact unlearning from the model of all
  points.
- `Newton` solves linear systems over a fold's free variables. With A = [[K_FF, 1], [1ᵀ, 0]] for a reference set F,
  whose inverse H = A⁻¹ is computed once, a step over F without D and with N needs products with H and a system of
  |D| + |N| unknowns. Free sets are updated after every step (a primal-dual active set). This ends in a few rounds at
  the exact optimum or is given up; it may be tried again after further pair updates.
- `Float32Descent` makes the first pair updates in float32, where an update costs half as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, lapack

from ..core.bounds import gaps
from ..core.reading import Reading
from ..core.runtime.memory import arena_array
from ..core.runtime.threads import cached_property
from ..online.leave_one_out import Unlearning
from ..online.state import PathError
from ..working_set._pairs import solve_pairs


def is_inside(beta: NDArray, upper: NDArray) -> NDArray:
    """Return for each row whether no variable is at its upper bound; a larger bound then gives the same optimum."""
    inside: NDArray = ((np.abs(beta) < upper) | (upper == 0)).all(axis=1)
    return inside


def free_variables(beta: NDArray, upper: NDArray) -> NDArray:
    """Return the variables strictly between their bounds."""
    return np.flatnonzero((beta != 0) & (np.abs(beta) < upper))


class LeftOutPoints:
    """The optimum of all points but one, for one point after another.

    An answer is not certified; the caller must check it by a gradient from scratch.

    Parameters
    ----------
    Q : array of shape (n, n)
        The kernel matrix times the labels of its rows and columns; it is not changed.
    sign, upper : arrays of shape (n,)
        Labels ±1, and bounds of α above 0.
    beta : array of shape (n,)
        eα of the model of all points.
    bias : float
    intercept : bool
    """

    def __init__(
        self, Q: NDArray, sign: NDArray, upper: NDArray, beta: NDArray, bias: float, *, intercept: bool
    ) -> None:
        self.sign, e = sign, sign if intercept else None
        self.paths = Unlearning(Q, np.ones(len(Q)), e, 0.0, upper, np.abs(beta), -bias)

    def without(self, k: int) -> NDArray | None:
        """Return β without point k, shape (n,); None if the path breaks off."""
        alpha = self.paths.without(k)
        return None if alpha is None else self.sign * alpha


def left_out_variable(weight: NDArray, weights: NDArray) -> NDArray:
    """Return for each row of ``weights``, shape (k, n), the only variable that it leaves out of ``weight``, or −1.

    A row that differs from ``weight`` in more than the variable left out gets −1.
    """
    other = weights != weight
    alone = (other.sum(axis=1) == 1) & ((weights == 0) & other).any(axis=1)
    found: NDArray = np.where(alone, other.argmax(axis=1), -1)
    return found


#: With more free variables, pair updates are faster than Newton steps.
MAX_FREE_NEWTON = 640
#: With fewer free variables, pair updates are faster.
MIN_FREE_NEWTON = 8
#: Maximum number of rounds of one solve.
MAX_ROUNDS = 8
#: Largest size of a change of the free set, as a fraction of the reference set; 20 more are always allowed.
MAX_CHANGES_FRACTION = 0.6
#: Largest ratio of the changes of one round to those of the round before.
MAX_CHANGES_RATIO = 1.0
#: After this many failures, beyond two for each success, Newton steps are no longer tried.
MAX_FAILURES = 6
#: The reference set omits a point whose squared distance in feature space to the span of those before it is below this.
MIN_SQUARED_DISTANCE = 1e-9
#: Shift of the diagonal that keeps the system regular if an added point lies in the span of the others.
DIAGONAL_SHIFT = 1e-10


class Newton:
    """Newton steps over free sets near a reference set, with Σβ = 0.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel matrix with largest diagonal entry 1.
    free : int array, optional
        The reference set; by default the free variables at the first step.
    """

    def __init__(self, K: NDArray, free: NDArray | None = None) -> None:
        self.K, self.free = K, free
        self.hits = self.misses = 0

    @property
    def is_worthwhile(self) -> bool:
        """Whether the reference set has a suitable size, and enough calls have succeeded."""
        fits = self.free is None or MIN_FREE_NEWTON <= len(self.free) <= MAX_FREE_NEWTON
        return fits and self.misses < MAX_FAILURES + 2 * self.hits

    @cached_property
    def _factor(self) -> tuple[NDArray, NDArray, NDArray]:
        """The reference set F without nearly dependent points, its rows of K, and H."""
        assert self.free is not None
        M = self.K[np.ix_(self.free, self.free)] + 1.0  # + 11ᵀ changes no step of given sum, and M is never singular
        half, order, rank, _ = lapack.dpstrf(M, tol=MIN_SQUARED_DISTANCE)
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
        """Move β and its gradient G to the optimum in place; return False, with both unchanged, if it is not found."""
        if self.free is None:
            self.free = np.flatnonzero((beta > low) & (beta < high))
        found = self.is_worthwhile and self._solve(beta, G, low, high, aim)
        self.hits, self.misses = self.hits + found, self.misses + (not found)
        return found

    def _solve(self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, aim: float) -> bool:
        """Run the rounds of `solve`."""
        F, rows, H = self._factor
        f, now, gradient = len(F), beta, G
        moving = (beta > low) & (beta < high)
        before = left = np.inf
        for _ in range(MAX_ROUNDS):
            inside = moving[F]
            D = np.flatnonzero(~inside)
            outside = moving.copy()
            outside[F] = False
            N = np.flatnonzero(outside)
            if len(D) + len(N) > MAX_CHANGES_FRACTION * f + 20:
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
                # Round-off left in the gradient by a nearly singular system becomes smaller with another step.
                left, known = float(np.abs(rho[moving]).max(initial=0.0)), left
                if left <= aim:
                    beta[:], G[:] = now, gradient
                    return True
                if not left <= 0.5 * known:
                    return False
                continue
            changes = len(out) + int(np.count_nonzero(wrong))
            if not changes <= MAX_CHANGES_RATIO * before:
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
        """Return steps of F (0 for D) and of N after which all their gradients are −ν and Σβ is corrected; and ν."""
        f, d = len(F), len(D)
        z = H @ np.append(missing - G[F], missing)
        added = np.empty(0)
        if d or len(N):
            border = np.append(rows[:, N].T + 1.0, np.ones((len(N), 1)), axis=1)
            lifted = border @ H
            corner = lifted @ border.T - self.K[np.ix_(N, N)] - 1.0 - DIAGONAL_SHIFT * np.eye(len(N))
            system = np.block([[H[np.ix_(D, D)], lifted[:, D].T], [lifted[:, D], corner]])
            known = np.linalg.solve(system, np.append(z[D], border @ z - (missing - G[N])))
            z = z - known[:d] @ H[D] - known[d:] @ lifted
            added = known[d:]
        z[D] = 0.0
        return z[:f], added, float(z[f])


#: With at least this many variables, updates in float32 are made first. Fewer rows stay in the cache in float64 too.
MIN_VARIABLES_FLOAT32 = 512
#: KKT violation at which they end.
VIOLATION_FLOAT32 = 1e-3
#: Round-off level of the KKT violation, in units in the last place of the widest box; they end there if it is larger.
NOISE_ULPS = 16
#: Maximum number of updates, for each variable.
UPDATES_PER_VARIABLE_FLOAT32 = 3


class Float32Descent:
    """Pair updates in float32 over the matrix M, with rows of K.

    Parameters
    ----------
    rows : array of shape (n, v)
    slots : int array of shape (v,)
        Row i of M is ``rows[slots[i]]``.
    diag : array of shape (v,)
    """

    def __init__(self, rows: NDArray, slots: NDArray, diag: NDArray) -> None:
        # A search makes one of these for every kernel setting; the memory is reused.
        self.rows = arena_array(rows.shape, np.float32)
        self.rows[...] = rows
        self.slots, self.diag = slots, diag.astype(np.float32)

    def approach(self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, equality: bool) -> bool:
        """Move a feasible β near the optimum.

        Parameters
        ----------
        beta : array of shape (v,)
            Changed in place.
        G : array of shape (v,)
            Its gradient; it is not changed, and is wrong if β moved.
        low, high : arrays of shape (v,)
        equality : bool
            Whether Σβ is kept constant.

        Returns
        -------
        bool
            Whether β moved.
        """
        noise = NOISE_ULPS * float(np.finfo(np.float32).eps) * float((high - low).max())
        box, single = (beta, low, high), G.astype(np.float32)
        limit = UPDATES_PER_VARIABLE_FLOAT32 * len(beta)
        rows = (self.rows, self.slots, len(self.rows))
        moved, *_ = solve_pairs(*rows, single, self.diag, *box, equality, max(VIOLATION_FLOAT32, noise), limit)
        return bool(moved)


#: KKT violation at which a solve ends, in units of the largest |p|.
TARGET_VIOLATION = 1e-6
#: Ratio to that of the violation that a gradient from scratch may still show.
MAX_VIOLATION_RATIO = 2.0
#: Factor of the violation to reach if the gap is still above the tolerance.
VIOLATION_REDUCTION = 1e-2
#: Maximum number of pair updates of one call, for each variable.
UPDATES_PER_VARIABLE = 20
#: Maximum number of calls. If all are used up, the certified gap shows it.
MAX_CALLS = 25
#: Maximum number of gradients from scratch.
MAX_GRADIENTS = 6
#: A variable is at a bound if its distance from it is below this share of the box. If no variable is free, the bias is
#: the middle of an interval, as in LIBSVM; a variable that round-off left an ulp inside its box would shift it.
BOUND_TOLERANCE = 1e-9
#: Folds that are solved in one batch.
FOLDS_PER_BATCH = 32
#: With at least this many folds, the model of all points is solved first, as a start.
MIN_FOLDS_SEED = 3
#: With more variables, it is solved first; with more than one batch of folds it always is.
MIN_VARIABLES_SEED = 512


@dataclass(frozen=True)
class Fits:
    """Solutions for one C, a row for each fold."""

    number: int  # index of C
    folds: NDArray  # int array of shape (k,)
    #: beta, gradient: β = eα, and Mβ − ep; shape (k, v).
    beta: NDArray
    gradient: NDArray
    #: bias, gap, seconds: ``gap`` is the certified relative gap, ``seconds`` the time of each fold; shape (k,).
    bias: NDArray
    gap: NDArray
    seconds: NDArray


@dataclass
class _Seed:
    """The model of all points: β, its gradient and bias, and `LeftOutPoints` (False if there is none)."""

    beta: NDArray
    gradient: NDArray
    bias: float
    left_out: LeftOutPoints | bool | None = None


class Duals:
    """Solver of min ½βᵀKβ − (ep)ᵀβ within boxes, with Σβ = 0 if there is an intercept.

    Parameters
    ----------
    K : array of shape (n, n)
        Row-major and symmetric, with largest diagonal entry 1; the largest |p| is 1 too.
    target : array of shape (n,)
        Labels ±1, or the numbers of a regression; a regression has two variables a point, α and α*.
    tube : float, optional
        ε of a regression.
    intercept : bool
    check : callable
        Called between pieces of work; it may raise.
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
    def _float32(self) -> Float32Descent:
        """The matrix in float32, made once."""
        return Float32Descent(self.rows, self.slots, self.diag)

    def boxes(self, upper: NDArray) -> tuple[NDArray, NDArray]:
        """Return bounds of β from those of α, shape (…, v)."""
        return np.where(self.e > 0, 0.0, -upper), np.where(self.e > 0, upper, 0.0)

    def expansion(self, beta: NDArray) -> NDArray:
        """Return Kβ at all points, shape (k, n), from scratch."""
        net = beta if self.v == self.n else beta[:, : self.n] + beta[:, self.n :]
        product: NDArray = net @ self.K
        return product

    def gradient(self, beta: NDArray) -> NDArray:
        """Return Mβ − ep, shape (k, v), from scratch."""
        product = self.expansion(beta)
        return (product if self.v == self.n else np.concatenate([product, product], axis=1)) - self.ep

    # --- one C after the other -------------------------------------------------------------------

    def path(self, weight: NDArray, weights: NDArray, costs: Sequence[float], tol: float) -> Iterator[Fits]:
        """Yield the solutions of all folds for each C of an ascending sequence, a batch of folds at a time.

        A fold starts from the model of all points: the weights of the points left out are removed. A fold without
        variables at their upper bound has the same solution for every larger C.

        Parameters
        ----------
        weight, weights : arrays of shape (v,) and (folds, v)
            Upper bounds of α of all points and of each fold, in units of C; 0 removes a variable.
        costs : sequence of float
        tol : float
            Relative gap to reach.
        """
        seeds: list[_Seed] = []
        seeding = len(weights) >= MIN_FOLDS_SEED and (self.v > MIN_VARIABLES_SEED or len(weights) > FOLDS_PER_BATCH)
        for start in range(0, len(weights), FOLDS_PER_BATCH):
            folds = np.arange(start, min(start + FOLDS_PER_BATCH, len(weights)))
            part, last = weights[folds], None
            for number, cost in enumerate(costs):
                began = perf_counter()
                sofar = costs[: number + 1]
                if seeding and number == len(seeds):
                    seeds.append(self._seed_of(seeds, weight, sofar, tol))
                beta = self._starts(seeds[number] if seeds else None, last, weight, part, sofar)
                newton = self._newton(free_variables(seeds[number].beta, cost * weight)) if seeds else None
                answer = self.solve_rows(beta, cost * part, tol, newton)
                shared = (perf_counter() - began - float(answer.seconds.sum())) / len(folds)
                last = replace(answer, number=number, folds=folds, seconds=answer.seconds + shared)
                yield last

    def _seed_of(self, seeds: list[_Seed], weight: NDArray, costs: Sequence[float], tol: float) -> _Seed:
        """Return the model of all points for the last C, starting from that for the C before."""
        start = np.zeros(self.v)
        if seeds:
            beta = seeds[-1].beta
            stays = is_inside(beta[None], costs[-2] * weight[None])[0]
            start = beta if stays else beta * (costs[-1] / costs[-2])
        answer = self.solve_rows(start[None].copy(), costs[-1] * weight[None], tol, self._newton())
        return _Seed(answer.beta[0], answer.gradient[0], float(answer.bias[0]))

    def _newton(self, free: NDArray | None = None) -> Newton | None:
        """Return Newton steps near a reference set, or None for duals that they cannot solve."""
        return Newton(self.K, free) if self.v == self.n and self.intercept else None

    def _starts(
        self, seed: _Seed | None, last: Fits | None, weight: NDArray, part: NDArray, costs: Sequence[float]
    ) -> NDArray:
        """Return the starts of folds.

        A fold starts at its solution for the last C if no variable was at its bound there, else near the model of all
        points, or at 0. A fold that leaves one point out starts where `LeftOutPoints` leads.
        """
        if seed is None:
            beta = np.zeros_like(part)
        else:
            beta = self._seeded(seed.beta, seed.gradient, *self.boxes(costs[-1] * part))
        stays = np.zeros(len(part), dtype=bool)
        if last is not None:
            stays = is_inside(last.beta, costs[-2] * part)
            beta[stays] = last.beta[stays]
        if seed is not None and self.v == self.n:
            out = left_out_variable(weight, part)
            candidates = np.flatnonzero((out >= 0) & (seed.beta[out] != 0) & ~stays)
            if len(candidates) and (model := self._left_out(seed, costs[-1] * weight)) is not None:
                for row in candidates:
                    self.check()
                    found = model.without(int(out[row]))
                    beta[row] = beta[row] if found is None else found
        return beta

    @cached_property
    def signed(self) -> NDArray:
        """The matrix of the dual in α."""
        product: NDArray = self.K * self.e
        product *= self.e[:, None]
        return product

    def _left_out(self, seed: _Seed, upper: NDArray) -> LeftOutPoints | None:
        """Return the `LeftOutPoints` of a seed, made once; None if no path starts at its points."""
        if seed.left_out is None:
            try:
                found: LeftOutPoints | bool = LeftOutPoints(
                    self.signed, self.e, upper, seed.beta, seed.bias, intercept=self.intercept
                )
            except (PathError, np.linalg.LinAlgError):
                found = False
            seed.left_out = found
        return seed.left_out if isinstance(seed.left_out, LeftOutPoints) else None

    def _seeded(self, seed: NDArray, gradient: NDArray, low: NDArray, high: NDArray) -> NDArray:
        """Return a feasible start of each fold from the model of all points.

        The sum of the weights removed is given to the variables with the best gradient first.
        """
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

    # --- solves ----------------------------------------------------------------------------------

    def solve_rows(self, beta: NDArray, upper: NDArray, tol: float, newton: Newton | None = None) -> Fits:
        """Solve for each row from a feasible start; β is changed in place."""
        low, high = self.boxes(upper)
        gradient = self.gradient(beta) if beta.any() else np.tile(-self.ep, (len(beta), 1))
        bias, gap, seconds = np.zeros(len(beta)), np.full(len(beta), np.inf), np.zeros(len(beta))
        if self.v >= MIN_VARIABLES_FLOAT32:
            moved = np.zeros(len(beta), dtype=bool)
            for k in range(len(beta)):
                began = perf_counter()
                self.check()
                moved[k] = self._float32.approach(beta[k], gradient[k], low[k], high[k], self.intercept)
                seconds[k] = perf_counter() - began
            gradient[moved] = self.gradient(beta[moved])
        aim = np.full(len(beta), TARGET_VIOLATION)
        todo = np.arange(len(beta))
        for look in range(MAX_GRADIENTS + 1):
            rows = slice(None) if len(todo) == len(beta) else todo
            if look:
                gradient[rows] = self.gradient(beta[rows])
            violation, bias[rows], gap[rows] = self.certify(
                beta[rows], gradient[rows], low[rows], high[rows], upper[rows]
            )
            near, wide = violation <= MAX_VIOLATION_RATIO * aim[rows], gap[rows] > tol
            aim[todo[near & wide]] *= VIOLATION_REDUCTION
            todo = todo[~near | wide]
            if not len(todo) or look == MAX_GRADIENTS:
                break
            for row in todo:
                began = perf_counter()
                self.descend(beta[row], gradient[row], low[row], high[row], aim[row], newton)
                seconds[row] += perf_counter() - began
        return Fits(0, todo, beta, gradient, bias, gap, seconds)

    def descend(
        self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, aim: float, newton: Newton | None = None
    ) -> None:
        """Change β and G of one row in place until the KKT violation is at most ``aim``.

        Faster solvers over a precomputed matrix belong here.
        """
        # Updates in float32 or an earlier solve have brought β near the optimum.
        is_near = self.v >= MIN_VARIABLES_FLOAT32 or aim < TARGET_VIOLATION
        if newton is not None and is_near and newton.is_worthwhile and newton.solve(beta, G, low, high, aim):
            return
        limit = UPDATES_PER_VARIABLE * self.v if newton is None else self.v
        for _ in range(MAX_CALLS):
            self.check()
            box = (beta, low, high)
            moved, violation, _ = solve_pairs(
                self.rows, self.slots, self.n, G, self.diag, *box, self.intercept, aim, limit
            )
            if violation <= aim or moved < limit:
                return
            if newton is not None and newton.is_worthwhile and newton.solve(beta, G, low, high, aim):
                return
            limit = min(2 * limit, UPDATES_PER_VARIABLE * self.v)

    def certify(
        self, beta: NDArray, gradient: NDArray, low: NDArray, high: NDArray, upper: NDArray
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Return the worst KKT violation, the bias and the relative gap of each row, from its gradient.

        Any multiplier ν gives a lower bound of f, −½ αᵀQα + Σ min(0, uρ) with ρ = h − νe (`core.certificate`). Here ν
        is halfway between the largest violations upwards and downwards: LIBSVM's bias, and the best ν at the optimum.
        """
        edge = BOUND_TOLERANCE * upper
        rise = np.where(beta < high - edge, -gradient, -np.inf).max(axis=1)
        fall = np.where(beta > low + edge, gradient, -np.inf).max(axis=1)
        if self.intercept:
            violation, bias = rise + fall, np.asarray(Reading.bias_of((-rise, fall)))
        else:
            violation, bias = np.maximum(rise, fall), np.zeros(len(beta))
        linear = beta @ self.ep
        quadratic = np.einsum("ij,ij->i", beta, gradient) + linear
        lost = (np.minimum(self.e * (gradient + bias[:, None]), 0.0) * upper).sum(axis=1)
        objective, bound = 0.5 * quadratic - linear, lost - 0.5 * quadratic
        gap = np.array([gaps(float(f), float(d))[1] for f, d in zip(objective, bound, strict=True)])
        return np.maximum(violation, 0.0), bias, gap
