"""Interior-point steps in the dimension of the features, O(n r²) each, over stretches of rows.

With F of shape (N, r) and K + c = FFᵀ, and with w as an independent variable, the dual's optimality conditions are

    w = Fᵀσα,  eᵀα = d,  sσ(Fw) + rα − p − νe = z − y,  αz = (u − α)y = 0,  z, y ≥ 0

(Ferris & Munson 2002; Fine & Scheinberg 2001). Newton's step of them, with q = 1/(z/α + y/(u − α) + r), is

    [ s + s²Fᵀdiag(q)F    −sFᵀσqe ] (Δw)   ( s(Fᵀσα − w + Fᵀσqρ) )
    [     −s(σqe)ᵀF         Σ q   ] (Δν) = ( d − eᵀα − Σ e q ρ   ),     Δα = q(ρ − sσFΔw + eΔν)

where ρ is the right side after z and y are eliminated. A second equality, 1ᵀα = total (ν-SVC, ν-SVR), is one more
border column: −sFᵀσq beside the first, with Σ q and Σ e q in its corner, and its multiplier μ stands beside νe.
Predictor and corrector are Mehrotra's (1992). Only F is larger than n, and it is used in sums over its rows only:
`PassRows` computes those of a stretch in three passes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.bounds import vanishing
from ..core.features import Features
from ..core.problem import DualProblem
from ..core.runtime.threads import ONE_THREAD, share, stretches
from . import _passes
from ._passes import PassRows
from .crossover import at_bounds
from .state import InteriorState, has_ended, inside

_EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)
#: Multiplications of a stretch of rows: a few milliseconds.
PRODUCTS_PER_STRETCH = 1 << 24
#: Largest number of stretches, because each has a Gram matrix.
MAX_STRETCHES = 64
#: If the points have up to this many numbers (8 MB), a centred copy is made. With more, each pass subtracts the centre.
MAX_CENTERED = 1 << 20
#: A step goes this share of the way to the nearest bound.
STEP_TO_BOUND = 0.995
#: Up to this relative gap, the answer with exact bounds is preferred to the last iterate.
EXACT_GAP = 1e-10
#: A start by least squares has a μ/u of this many times the mean slope.
LEAST_SQUARES_MU = 1.0
#: If any start αᵢ is below this share of uᵢ (very unequal classes), start by least squares instead.
MIN_EVEN_SHARE = 0.05
#: Largest relative gap at which the iteration tests whether the multipliers identify the active bounds.
TRY_GAP = 1e-3
#: After an attempt at exact bounds, the next one waits until the gap has fallen to this share.
RETRY_SHARE = 1e-2
#: If the multiplier of a variable is at most this many μ/u, the variable may be free.
MAX_FREE_MULTIPLIER = 10.0
#: A row whose weight is below this share of the largest adds nothing to a Gram matrix in float64.
MIN_ROW_SHARE = 1e-20


class LowRank:
    """The iteration of one problem.

    Parameters
    ----------
    problem : DualProblem
        Of any kind with lower bounds.
    features : Features
        Of its Gram matrix.
    fixed_rows : array of shape (r,), optional
        The part of Fᵀσα of variables outside of the problem, which are fixed.
    fixed_p : float, default=0
        The part of pᵀα of these variables.
    crosses : bool, default=True
        Whether the iteration ends with a step to exact bounds (`crossover`); else with its last iterate.
    """

    def __init__(
        self,
        problem: DualProblem,
        features: Features,
        fixed_rows: NDArray | None = None,
        fixed_p: float = 0.0,
        crosses: bool = True,
    ) -> None:
        self.problem, self.features, self.fixed_p, self.crosses = problem, features, fixed_p, crosses
        self.copies = copies_of(problem)
        center = features.center
        if self.copies:
            points = np.ascontiguousarray(features.points)
            if center is not None and points.size <= MAX_CENTERED:
                points, center = points - center, None
        else:
            points = np.ascontiguousarray(features.points[problem.idx])
            if center is not None:
                points -= center  # in place: it is a copy
                center = None
        self.copies = self.copies or 1
        p = problem
        self.rows = PassRows(
            points, center, np.sqrt(p.offset), self.copies, p.upper, p.ridge, p.p, p.sigma, p.e, p.scale
        )
        self.live = problem.upper > 0
        self.count = int(self.live.sum()) + int((self.live & np.isfinite(problem.upper)).sum())
        width = self.rows.width
        self.fixed_rows = np.zeros(width) if fixed_rows is None else fixed_rows
        height = max(PRODUCTS_PER_STRETCH // max(1, width * width), -(-self.rows.n // MAX_STRETCHES), 1)
        self.parts = stretches(self.rows.n, height)

    # --- sums over all rows ----------------------------------------------------------------------

    def run_parallel(self, work: Callable[[int, int, int], None]) -> None:
        """Call ``work(number, start, stop)`` for every stretch, in as many threads as allowed."""
        numbered = list(enumerate(self.parts))
        share(lambda part: work(part[0], part[1].start, part[1].stop), numbered, blas=True)

    def values(self, w: NDArray) -> NDArray:
        """Return F w, shape (N,)."""
        out = np.empty(self.rows.n)
        self.run_parallel(lambda k, start, stop: self.rows.values(start, stop, w, out))
        return out

    def weighted_rows(self, alpha: NDArray) -> NDArray:
        """Return Fᵀσα, with the part of fixed variables, shape (r,)."""
        signed = (self.problem.sigma * alpha).reshape(self.copies, -1).sum(axis=0)
        sums = np.zeros((len(self.parts), self.rows.width))
        self.run_parallel(lambda k, start, stop: self.rows.gather(start, stop, signed, sums[k]))
        found: NDArray = self.fixed_rows + sums.sum(axis=0)
        return found

    def slopes(self, state: InteriorState) -> NDArray:
        """Return sσ(Fw) + rα − p − νe − μ of a state, shape (n,)."""
        return self.slopes_at(state.values, state.nu, state.alpha, state.level)

    def slopes_at(self, values: NDArray, nu: float, alpha: NDArray, level: float = 0.0) -> NDArray:
        """Return the slopes for given values F w, multipliers and α."""
        problem = self.problem
        slopes: NDArray = np.tile(values, self.copies)
        slopes *= problem.sigma
        if problem.scale != 1:
            slopes *= problem.scale
        if problem.has_ridge:
            slopes += problem.ridge * alpha
        slopes -= problem.p
        if problem.e is not None:
            slopes -= nu * problem.e
        if level:
            slopes -= level
        return slopes

    @property
    def borders(self) -> int:
        """Number of equalities."""
        return (self.problem.e is not None) + (self.problem.total is not None)

    def equality_residuals(self, *sums: float) -> NDArray:
        """Return d − eᵀα and total − 1ᵀα from these two sums, for as many equalities as there are."""
        problem = self.problem
        totals = (problem.d, 0.0 if problem.total is None else problem.total)
        return np.subtract(totals, sums)[: self.borders]

    def free_step(self, free: NDArray) -> _FreeStep:
        """Return Newton's step over the free variables alone."""
        F = np.empty((len(free), self.rows.width))
        r = self.features.rank
        points = self.features.points[free if self.problem.idx is None else self.problem.idx[free]]
        F[:, :r] = points if self.features.center is None else points - self.features.center
        F[:, r:] = np.sqrt(self.problem.offset)
        return _FreeStep(self, free, F)

    def relative_gap(self, state: InteriorState, slopes: NDArray | None = None) -> float:
        """Return the gap between f at α and the bound that w and ν give, as a part of |f|.

        An infinite upper bound counts as the largest α. ``slopes`` are those of the state, if they are known.
        """
        problem, alpha, slopes = self.problem, state.alpha, self.slopes(state) if slopes is None else slopes
        w_alpha = self.weighted_rows(alpha)
        missing = w_alpha - state.w
        room = np.where(np.isfinite(problem.upper), problem.upper - alpha, float(alpha.max()))
        room[problem.upper == 0] = 0.0
        s, ridges = problem.scale, float(problem.ridge @ alpha**2)
        objective = 0.5 * s * float(w_alpha @ w_alpha) + 0.5 * ridges - float(problem.p @ alpha) - self.fixed_p
        left = float(alpha @ np.maximum(slopes, 0.0)) + float(room @ np.maximum(-slopes, 0.0))
        left += 0.5 * s * float(missing @ missing)
        left += 0.0 if problem.e is None else abs(state.nu * (problem.d - float(problem.e @ alpha)))
        left += 0.0 if problem.total is None else abs(state.level * (problem.total - float(alpha.sum())))
        return left / max(abs(objective), vanishing(problem, alpha, s * float(w_alpha @ w_alpha) + ridges), TINY)

    # --- the iteration ---------------------------------------------------------------------------

    def start(self, warm: NDArray | None) -> InteriorState:
        """Return the start: w = 0 and α as far from its bounds as the equality allows, or that of least squares."""
        problem, live = self.problem, self.live
        begun = self._start_at(inside(problem, warm))
        if (
            warm is not None
            or problem.e is None
            or problem.total is not None
            or not problem.e.min() < 0 < problem.e.max()
        ):
            return begun
        uneven = bool((begun.alpha < MIN_EVEN_SHARE * problem.upper)[live].any())
        varies = bool(problem.p.min() < problem.p.max())
        bounded = bool(np.isfinite(problem.upper).all()) and not problem.has_ridge
        return self._start_by_least_squares(begun) if bounded and (uneven or varies) else begun

    def _start_at(self, alpha: NDArray) -> InteriorState:
        """Return the start with w = 0 and a given α between its bounds."""
        problem, live = self.problem, self.live
        size = float(np.abs(problem.p).mean())
        if not size:
            w = self.weighted_rows(alpha)
            size = problem.scale * float(w @ w) / float(alpha.sum()) or 1.0
        capped = live & np.isfinite(problem.upper)
        room = np.where(capped, problem.upper - alpha, 1.0)
        low = np.where(live, np.maximum(-problem.p, 0.0) + size, 0.0)
        high = np.where(capped, np.maximum(problem.p, 0.0) + size, 0.0)
        at = np.stack([np.where(live, alpha, 0.0), room, low, high])
        return InteriorState(at, np.zeros(self.rows.width), np.zeros(self.rows.n), 0.0)

    def _start_by_least_squares(self, begun: InteriorState) -> InteriorState:
        """Return the point of the central path for the weights that make all slopes least, in weighted squares.

        The weights are q of the given start, which are small where the equality leaves α little room.
        """
        q, rho = np.empty((2, self.problem.n))
        G, (by_e, by_rho, *_), totals = self._weigh(begun, begun.at, q, rho)
        borders = self.borders
        system = System(G, [by_e][:borders], [[totals[_passes.SUM_Q]]], self.problem.scale)
        w, nu, _ = system.solve(by_rho, -np.array([totals[_passes.SUM_EQR]])[:borders])
        slopes = self.slopes_at(self.values(w), nu, begun.alpha)
        return self.start_around(w, nu, LEAST_SQUARES_MU * float(np.abs(slopes[self.live]).mean()))

    def start_around(self, w: NDArray, nu: float, mu: float) -> InteriorState:
        """Return a point for given weights and ν, as if (w, ν) were on the central path with parameter μu.

        For slopes g it is the solution of αz = (u − α)y = μu and z − y = g; all upper bounds are finite, and there are
        no ridges.
        """
        upper, values = self.problem.upper, self.values(w)
        g = self.slopes_at(values, nu, upper)
        size, mu = np.abs(g), max(mu, TINY)
        near = upper * (2.0 * mu / (size + 2.0 * mu + np.hypot(g, 2.0 * mu)))  # the distance from the nearer bound
        far, low = upper - near, g >= 0
        alpha, room = np.where(low, near, far), np.where(low, far, near)
        with np.errstate(invalid="ignore", divide="ignore"):
            at = np.stack([alpha, room, mu * upper / alpha, mu * upper / room])
        at[:, ~self.live] = 0.0
        return InteriorState(at, w, values, nu)

    @np.errstate(over="ignore", invalid="ignore")  # numbers that are not finite end the iteration; they are checked for
    def step(self, state: InteriorState, systems: Callable[..., System] | None = None) -> InteriorState:
        """Return the state after one predictor and corrector step, or the last one if the gap is reached.

        ``systems`` makes the step's linear system in place of `System`, from the same arguments.
        """
        # One stretch is not shared among threads: limit BLAS to one thread once for the step, not for each pass.
        with ONE_THREAD if len(self.parts) == 1 else contextlib.nullcontext():
            return self._step(state, systems or System)

    def _step(self, state: InteriorState, systems: Callable[..., System]) -> InteriorState:
        """Return the state after one predictor and corrector step, or the last one."""
        problem, rows, s = self.problem, self.rows, self.problem.scale
        at, w, width, parts = np.array(state.at), state.w, self.rows.width, len(self.parts)
        borders = self.borders
        q, rho = np.empty((2, problem.n))
        G, (by_e, by_rho, w_alpha, *by_one), totals = self._weigh(state, at, q, rho)
        sum_q, e_q = totals[_passes.SUM_Q], totals[_passes.SUM_EQ]
        e_rho, sum_rho = totals[_passes.SUM_EQR], totals[_passes.SUM_QR]
        e_alpha, sum_alpha = totals[_passes.SUM_EA], totals[_passes.SUM_A]
        products, residual = totals[_passes.SUM_PRODUCTS], totals[_passes.SUM_RESIDUAL]
        p_alpha, ridges = totals[_passes.SUM_PA], totals[_passes.SUM_RAA]
        w_alpha = w_alpha + self.fixed_rows
        missing, shortfall = w_alpha - w, self.equality_residuals(e_alpha, sum_alpha)
        objective = 0.5 * s * float(w_alpha @ w_alpha) + 0.5 * ridges - p_alpha - self.fixed_p
        left = products + residual + 0.5 * s * float(missing @ missing)
        left += float(np.abs(shortfall) @ np.abs([state.nu, state.level][:borders]))
        vanishes = vanishing(problem, state.alpha, s * float(w_alpha @ w_alpha) + ridges)
        gap = left / max(abs(objective), vanishes, TINY)
        has_fallen = gap < 0.9 * state.best
        stalled = 0 if has_fallen else state.stalled + 1
        known: dict[str, Any] = {
            "gap": gap,
            "best": min(gap, state.best),
            "stalled": stalled,
            "largest": float(q.max()),
        }
        if has_ended(gap, stalled):
            return self.finish(state.changed(**known), q)
        mu = products / self.count
        if self._identifies_bounds(state, gap, mu):
            crossed = self._crossed(state.changed(**known), q, quick=True)
            if crossed.gap <= EXACT_GAP:
                return crossed
            known["tried"] = gap
        system = systems(G, [by_e, *by_one][:borders], [[sum_q, e_q], [e_q, sum_q]], s)
        # Predictor.
        dw, d_nu, d_level = system.solve(missing + by_rho, shortfall - [e_rho, sum_rho][:borders])
        changes, change = np.empty((3, problem.n)), np.empty(rows.n)
        vectors, sums = np.zeros((parts, 2, width)), np.zeros((parts, _passes.AHEAD))

        def predict(k: int, start: int, stop: int) -> None:
            rows.predict(start, stop, at, dw, d_nu, d_level, q, rho, changes[0], vectors[k], sums[k])

        self.run_parallel(predict)
        (fixed, free), totals = vectors.sum(axis=0), sums[:, : _passes.MOST_INVERSE].sum(axis=0)
        border_fixed = totals[[_passes.SUM_FIXED, _passes.SUM_QFIXED]][:borders]
        border_free = totals[[_passes.SUM_FREE, _passes.SUM_QFREE]][:borders]
        first, second = float(totals[_passes.SUM_FIRST]), float(totals[_passes.SUM_SECOND])
        k = min(1.0, 1.0 / max(float(sums[:, _passes.MOST_INVERSE].max()), 1e-300))
        ahead = max(products + k * first + k * k * second, 0.0)
        goal = (ahead / products) ** 3 * mu
        # Corrector.
        dw, d_nu, d_level = system.solve(missing + fixed + goal * free, shortfall - border_fixed - goal * border_free)
        inverse_steps = np.zeros(parts)

        def correct(k: int, start: int, stop: int) -> None:
            inverse_steps[k] = rows.correct(start, stop, at, dw, d_nu, d_level, goal, q, rho, changes, change)

        self.run_parallel(correct)
        k = min(1.0, STEP_TO_BOUND / max(float(inverse_steps.max()), 1e-300))
        if not (np.isfinite(k) and np.isfinite(dw).all() and np.isfinite([d_nu, d_level]).all()) or k < 1e-12:
            return self.finish(state.changed(**known), q)
        after = np.empty_like(at)
        self.run_parallel(lambda _, start, stop: rows.advance(start, stop, at, changes, k, after))
        nu, level = state.nu + k * d_nu, state.level + k * d_level
        return state.changed(at=after, w=w + k * dw, values=state.values + k * change, nu=nu, level=level, **known)

    def _weigh(
        self, state: InteriorState, at: NDArray, q: NDArray, rho: NDArray
    ) -> tuple[NDArray, NDArray, list[float]]:
        """Run the first pass, which computes q and ρ, and add up its sums.

        Returns
        -------
        G : array of shape (r, r)
            Fᵀdiag(q)F.
        vectors : array of shape (3 or 4, r)
            Rows times qe, qρ, α and, with two equalities, q.
        totals : list of float
            The sums that `_passes` names.
        """
        width, parts, least = self.rows.width, len(self.parts), MIN_ROW_SHARE * state.largest
        grams, sums = np.zeros((parts, width, width)), np.zeros((parts, _passes.SUMS))
        vectors = np.zeros((parts, 4 if self.borders > 1 else 3, width))

        def weigh(k: int, start: int, stop: int) -> None:
            given = state.values, state.nu, state.level, least
            self.rows.weigh(start, stop, at, *given, q, rho, grams[k], vectors[k], sums[k])

        self.run_parallel(weigh)
        half = grams.sum(axis=0)  # the lower triangle
        G = half + half.T
        G.flat[:: width + 1] = half.diagonal()
        return G, vectors.sum(axis=0), sums[:, : _passes.SUM_BOUND].sum(axis=0).tolist()

    def _identifies_bounds(self, state: InteriorState, gap: float, mu: float) -> bool:
        """Whether the multipliers identify the active bounds: the linear system has as many rows as may be free."""
        if not (self.crosses and gap <= min(TRY_GAP, RETRY_SHARE * state.tried)) or self.problem.total is not None:
            return False
        alpha, room, low, high = state.at
        upper = self.problem.upper
        free = (np.abs(low - high) * np.minimum(upper, alpha + room) <= MAX_FREE_MULTIPLIER * mu) & self.live
        return int(np.count_nonzero(free)) <= self.rows.width + self.borders

    def finish(self, state: InteriorState, q: NDArray) -> InteriorState:
        """Return the last state, at the bounds that the multipliers identify if that is as accurate."""
        state = state.changed(values=self.values(state.w), done=True)
        before = self.relative_gap(state)
        if not self.crosses:
            return state.changed(gap=before)
        crossed = self._crossed(state, q)
        return crossed if crossed.gap <= max(before, EXACT_GAP) else state.changed(gap=before)

    def _crossed(self, state: InteriorState, q: NDArray, quick: bool = False) -> InteriorState:
        """Return the last state, with variables at the bounds that their multipliers identify."""
        crossed = at_bounds(self, state.changed(values=self.values(state.w), done=True), q, quick)
        return crossed.changed(gap=self.relative_gap(crossed), exact=True)


class _FreeStep:
    """Newton's step over the free variables alone, which also moves w."""

    def __init__(self, form: LowRank, free: NDArray, F: NDArray) -> None:
        self.form, self.free, self.F = form, free, F
        self._known: tuple[NDArray, NDArray] | None = None  # α, and its Fᵀσα
        self._left: tuple[NDArray, NDArray] | None = None  # variables that left since then, and their rows

    def without(self, keep: NDArray) -> _FreeStep:
        """Return the step over the variables ``keep`` only."""
        fewer = _FreeStep(self.form, self.free[keep], self.F[keep])
        if self._known is not None:
            # Variables that leave are at their bounds, and do not move any more.
            fewer._known, fewer._left = self._known, (self.free[~keep], self.F[~keep])
        return fewer

    def _weighted_rows(self, alpha: NDArray) -> NDArray:
        """Return Fᵀσα, updated from the last one by the changes of the free variables and of those that left."""
        if self._known is None:
            total = self.form.weighted_rows(alpha)
        else:
            before, total = self._known
            for J, F in ((self.free, self.F), *(() if self._left is None else (self._left,))):
                total = total + (self.form.problem.sigma[J] * (alpha[J] - before[J])) @ F
        self._known, self._left = (alpha.copy(), total), None
        return total

    def step(self, alpha: NDArray, state: InteriorState, weight: NDArray) -> tuple[NDArray, InteriorState]:
        """Return the change of the free variables, and the state with the new w and multipliers."""
        problem, free, F, w = self.form.problem, self.free, self.F, state.w
        s, sigma, borders = problem.scale, problem.sigma[free], self.form.borders
        e = np.zeros(len(free)) if problem.e is None else problem.e[free]
        rho = problem.p[free] - problem.ridge[free] * alpha[free] - s * sigma * (F @ w) + state.nu * e + state.level
        e_alpha = 0.0 if problem.e is None else float(problem.e @ alpha)
        shortfall = self.form.equality_residuals(e_alpha, float(alpha.sum()))
        root, sum_q, e_q = np.sqrt(weight)[:, None] * F, float(weight.sum()), float(e @ weight)
        columns = [F.T @ (sigma * weight * e), F.T @ (sigma * weight)][:borders]
        system = System(root.T @ root, columns, [[sum_q, e_q], [e_q, sum_q]], s)
        missing, border = self._weighted_rows(alpha) - w, [float(e @ (weight * rho)), float(weight @ rho)]
        dw, d_nu, d_level = system.solve(missing + F.T @ (sigma * weight * rho), shortfall - border[:borders])
        change = weight * (rho - s * sigma * (F @ dw) + d_nu * e + d_level)
        return change, state.changed(w=w + dw, nu=state.nu + d_nu, level=state.level + d_level)


class System:
    """Newton's system for w and the multipliers, with a border column for each multiplier.

    It is scaled to a unit diagonal and factorised; each solve is refined once.

    Attributes
    ----------
    M : array of shape (m, m)
    scale : array of shape (m,)
        1/√Mᵢᵢ.
    unit : array of shape (m, m)
        M scaled to a unit diagonal, which is raised by as many units of round-off as a factor needs.
    """

    def __init__(self, G: NDArray, columns: list[NDArray], corner: list[list[float]], s: float) -> None:
        r, borders = len(G), len(columns)
        self.r, self.s = r, s
        M = np.zeros((r + borders, r + borders))
        M[:r, :r] = G * (s * s)
        M.flat[: r * len(M) : len(M) + 1] += s
        for k, column in enumerate(columns):
            M[r + k, :r] = M[:r, r + k] = -s * column
            M[r + k, r:] = corner[k][:borders]
            M[r + k, r + k] = M[r + k, r + k] or 1.0
        self.M, self.scale = M, 1.0 / np.sqrt(np.diag(M))
        unit, lift = M * self.scale * self.scale[:, None], 4 * _EPS
        unit.flat[:: len(M) + 1] = 1.0 + lift
        factor, failed = scipy.linalg.lapack.dpotrf(unit, lower=1)
        while failed and lift < 1.0:  # round-off in a Gram matrix with nearly dependent rows
            lift *= 10
            unit.flat[:: len(M) + 1] = 1.0 + lift
            factor, failed = scipy.linalg.lapack.dpotrf(unit, lower=1)
        self.unit, self.factor = unit, factor

    def solve(self, right: NDArray, last: NDArray) -> tuple[NDArray, float, float]:
        """Return Δw, Δν and Δμ; a multiplier without an equality has 0."""
        x = self.solution(np.concatenate([self.s * right, last]))
        d_nu, d_level = np.append(x[self.r :], [0.0, 0.0])[:2].tolist()
        return x[: self.r], d_nu, d_level

    def solution(self, b: NDArray) -> NDArray:
        """Return x with M x = b, shape (m,)."""
        x = self._solve_scaled(b)
        x += self._solve_scaled(b - self.M @ x)
        return x

    def _solve_scaled(self, b: NDArray) -> NDArray:
        """Return the solution by the factor, without refinement."""
        found: NDArray = self.scale * scipy.linalg.lapack.dpotrs(self.factor, self.scale * b, lower=1)[0]
        return found


def copies_of(problem: DualProblem) -> int:
    """Return the number of variables of each point if they are stacked, a block of all points each; else 0."""
    if problem.idx is None:
        return 1
    N = problem.gram.n
    copies = problem.n // N
    tiled = copies * N == problem.n and np.array_equal(problem.idx, np.tile(np.arange(N), copies))
    return copies if tiled else 0
