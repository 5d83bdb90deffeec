"""Fronts that are not C-paths: NSGA-II over α in the box [0, C], started from solutions of the solvers."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..driver.solve import solve
from ..evolution.fronts import best_hinge_thresholds, best_thresholds, nondominated, threshold_of, widest_gaps
from ..exceptions import SolverUnavailable
from .front import FrontStatus, ParetoFront, ParetoPoint
from .path import FrontTask, Path, bounded, weight_ladder

#: Slack of margin 1 within which a point keeps its margin during the search; results are scaled until it is 1.
MARGIN_SLACK = 1e-6
#: Relative excess of a scale over 1 that keeps all margins at 1 or above in spite of the round-off of a product Qα.
MIN_SCALE_EXCESS = 1e-13
#: The same for large α, in units of the round-off of its largest terms.
SCALE_EXCESS_ULPS = 4.0
#: Relative difference in ‖w‖² that counts as round-off.
SAME_NORM = 1e-9
#: Maximum number of rounds of `Search.polish`.
MAX_ROUNDS = 20


def check_pymoo() -> None:
    """Raise `SolverUnavailable` with the pip line if pymoo is not installed."""
    if importlib.util.find_spec("pymoo") is None:
        raise SolverUnavailable("this front needs NSGA-II from pymoo: pip install 'dualflow[evolution]'")


@dataclass
class Search:
    """The criteria of whole populations, and the run of NSGA-II.

    NSGA-II is by Deb, Pratap, Agarwal, Meyarivan, IEEE Trans. Evol. Comput. 6 (2002) 182-197.
    """

    task: FrontTask
    errors: str  # {"hinge", "zero-one"}
    #: For an indefinite kernel (with a penalised bias) the one with absolute eigenvalues, as in `flipped`; shape (n,
    #: n), optional.
    majorant: NDArray | None = None

    def __post_init__(self) -> None:
        self.problem, y = self.task.problem(float(self.task.C[-1])), self.task.signs
        self.Q = self.problem.dense()
        self.norm = self.Q if self.majorant is None else y[:, None] * self.majorant * y
        self.upper = float(self.task.C[-1])
        self.round_off = SCALE_EXCESS_ULPS * float(np.finfo(float).eps * np.abs(self.Q).max())

    def values(self, alpha: NDArray, bias: float) -> NDArray:
        """Return y·f of the training points, shape (n,); a penalised bias is part of Qα."""
        return self.Q @ alpha + (0.0 if self.problem.e is None else bias * self.task.signs)

    def evaluate(self, A: NDArray) -> tuple[NDArray, NDArray]:
        """Return the criteria of a population (m, n), shape (m, 2), and the best bias of each, shape (m,)."""
        y = self.task.signs
        G = A @ self.Q
        norms = np.maximum(np.einsum("ij,ij->i", A, G if self.norm is self.Q else A @ self.norm), 0.0)
        biases = np.zeros(len(A))
        if self.problem.e is not None:
            given = G * y
            biases = (
                best_hinge_thresholds(given, y) if self.errors == "hinge" else best_thresholds(given, y, MARGIN_SLACK)
            )
        values = G + biases[:, None] * y
        if self.errors == "hinge":
            second = np.maximum(0.0, 1.0 - values).sum(axis=1)
        else:
            second = np.count_nonzero(values < 1.0 - MARGIN_SLACK, axis=1).astype(float)
        return np.column_stack([norms, second]), biases

    def enlarged(self, scales: NDArray | float, A: NDArray) -> NDArray:
        """Return scales of coefficients (…, n), enlarged so that round-off leaves no margin of 1 below 1."""
        room = self.round_off * scales * np.abs(A).sum(axis=-1)
        return np.asarray(scales * (1.0 + np.maximum(MIN_SCALE_EXCESS, room)))

    def run(
        self, seeds: NDArray, population: int, generations: int, rng: np.random.Generator
    ) -> tuple[NDArray, FrontStatus]:
        """Return the last population of shape (m, n), and the status of the run."""
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.problem import Problem

        search = self

        class Criteria(Problem):
            def _evaluate(self, x: NDArray, out: dict, *args: object, **kwargs: object) -> None:
                F = search.evaluate(x)[0]
                # Crowding is measured in the criteria: ‖w‖ spreads the points better than its square.
                out["F"] = np.column_stack([np.sqrt(F[:, 0]), F[:, 1]])

        n = len(self.task.signs)
        algorithm = NSGA2(pop_size=population, sampling=self.population(seeds, population, rng))
        algorithm.setup(
            Criteria(n_var=n, n_obj=2, xl=0.0, xu=self.upper),
            seed=int(rng.integers(2**31)),
            termination=("n_gen", generations),
            verbose=False,
        )
        found, status = seeds, FrontStatus.SEARCHED
        while algorithm.has_next():
            if self.task.is_late():
                status = FrontStatus.TIME_LIMIT
                break
            algorithm.next()
            found = algorithm.pop.get("X")
        return np.asarray(found, dtype=float), status

    def population(self, seeds: NDArray, size: int, rng: np.random.Generator) -> NDArray:
        """Return a first population of shape (size, n): seeds, thinned evenly to half of it, and scaled mixtures."""
        kept = seeds[np.unique(np.linspace(0, len(seeds) - 1, min(len(seeds), size // 2)).astype(int))]
        count = size - len(kept)
        pairs = seeds[rng.integers(len(seeds), size=(count, 2))]
        t = rng.random((count, 1))
        mixed = (t * pairs[:, 0] + (1 - t) * pairs[:, 1]) * rng.uniform(0.5, 2.0, (count, 1))
        return np.clip(np.concatenate([kept, mixed]), 0.0, self.upper)

    def points(self, A: NDArray) -> tuple[ParetoPoint, ...]:
        """Return the nondominated classifiers of a population; for the number of points at every scale."""
        if self.errors == "zero-one":
            return self.best_left_out(A)
        F, biases = self.evaluate(A)
        return merged(self.points_of([(A[k], float(biases[k])) for k in nondominated(F)]))

    def best_left_out(self, A: NDArray) -> tuple[ParetoPoint, ...]:
        """Return for each number of points left out the widest margin along any α of a population (m, n)."""
        y, biased = self.task.signs, self.problem.e is not None
        G, norms = (A @ self.Q) * y, np.einsum("ij,ij->i", A, A @ self.norm)
        gaps = widest_gaps(G, y, biased)
        open_gap = gaps > 0
        with np.errstate(over="ignore"):  # square roots first, since the square of a tiny gap is 0
            scaled = (2.0 * np.sqrt(np.maximum(norms, 0.0))[:, None] / np.where(open_gap, gaps, 1.0)) ** 2
        scaled = np.where(open_gap, scaled, np.inf)
        best = np.argmin(scaled, axis=0)
        counts = np.arange(scaled.shape[1])
        F = np.column_stack([scaled[best, counts], counts])
        left_out = np.array([k for k in nondominated(F) if np.isfinite(F[k, 0])], dtype=int)
        rows = best[left_out]
        scales = self.enlarged(2.0 / gaps[rows, left_out], A[rows])
        middles = [threshold_of(G[row], y, int(k)) if biased else 0.0 for row, k in zip(rows, left_out, strict=True)]
        zeros = [(np.zeros(len(y)), float(sign)) for sign in ((1, -1) if biased else (0,))]
        scaled_rows = zip(scales[:, None] * A[rows], -scales * np.array(middles), strict=True)
        return merged(self.points_of([*zeros, *scaled_rows]))

    def point(self, alpha: NDArray, bias: float, certificate: Certificate | None = None) -> ParetoPoint:
        """Return one classifier."""
        return self.points_of([(alpha, bias)], certificate)[0]

    def points_of(
        self, classifiers: Sequence[tuple[NDArray, float]], certificate: Certificate | None = None
    ) -> list[ParetoPoint]:
        """Return the points of classifiers (α, b), evaluated by one or two matrix products."""
        A, biases = np.stack([alpha for alpha, _ in classifiers]), np.array([bias for _, bias in classifiers])
        G = A @ self.Q
        norms = np.einsum("ij,ij->i", A, G if self.norm is self.Q else A @ self.norm)
        values = G + (0.0 if self.problem.e is None else biases[:, None] * self.task.signs)
        return [
            self._point(alpha, float(bias), float(norm), row, certificate)
            for alpha, bias, norm, row in zip(A, biases, norms, values, strict=True)
        ]

    def _point(
        self, alpha: NDArray, bias: float, norm: float, values: NDArray, certificate: Certificate | None
    ) -> ParetoPoint:
        """Return the point of a classifier with its values on the training points."""
        if self.problem.offset:
            bias = self.problem.offset * float(self.task.signs @ alpha)
        counted = self.errors == "zero-one"
        error = float(np.count_nonzero(values < 1.0) if counted else np.maximum(0.0, 1.0 - values).sum())
        return self.task.point(alpha, bias, norm, error, values, certificate)

    def polish(self, points: tuple[ParetoPoint, ...]) -> tuple[tuple[ParetoPoint, ...], FrontStatus]:
        """Widen the margins of points, and choose again the points left out, in turn until nothing improves.

        The first step gives each point the widest margin for the training points that it keeps, the second each number
        of points left out the best choice along these α. No ‖w‖² of a count rises, except by round-off.
        """
        known: set[bytes] = set()
        for _ in range(MAX_ROUNDS):
            new_points = [point for point in points if self.keeps(point).tobytes() not in known]
            if not new_points:
                break
            for point in new_points:
                if self.task.is_late():
                    return points, FrontStatus.TIME_LIMIT
                known.add(self.keeps(point).tobytes())
                points = merged([*(other for other in points if other is not point), self.widest(point)])
            candidates = self.best_left_out(np.stack([point.alpha for point in points]))
            points = merged([*points, *(new for new in candidates if not any(is_as_good(old, new) for old in points))])
        return points, FrontStatus.SEARCHED

    def keeps(self, point: ParetoPoint) -> NDArray:
        """Return which training points have a margin of at least 1, shape (n,)."""
        return np.asarray(self.values(point.alpha, point.bias) >= 1.0)

    def widest(self, point: ParetoPoint) -> ParetoPoint:
        """Return the largest margin for the training points that the point keeps: a hard margin, certified.

        The point itself is returned if that is no better or, with a bias, if it keeps points of one class only, for
        which w = 0 is enough.
        """
        task, kept = self.task, self.keeps(point)
        classes = len(np.unique(task.signs[kept]))
        if classes < (2 if task.fit_intercept else 1):
            return point
        problem = task.problem(np.inf, kept.astype(float))
        solution = solve(problem, refine=True, tol=1e-9, time_limit=task.time_left())
        certificate = solution.certificate
        alpha, bias = certificate.alpha, certificate.bias
        smallest = float(self.values(alpha, bias)[kept].min())
        if not smallest > 0:
            return point
        scale = max(1.0, float(self.enlarged(1.0 / smallest, alpha)))
        better = self.point(scale * alpha, scale * bias, certificate)
        return better if is_as_good(better, point) else point


def is_as_good(one: ParetoPoint, other: ParetoPoint) -> bool:
    """Return whether one is as good as another in both criteria, up to round-off of a certified equal point."""
    return one.error <= other.error and one.squared_norm <= (1.0 + SAME_NORM) * other.squared_norm


def merged(points: list[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """Return the nondominated points, by rising norm."""
    F = np.array([[point.squared_norm, point.error] for point in points])
    return tuple(points[k] for k in nondominated(F))


def searched(
    task: FrontTask,
    errors: str,
    path: Path,
    population: int,
    generations: int,
    rng: np.random.Generator,
    majorant: NDArray | None = None,
) -> ParetoFront:
    """Return a front by search; ``path`` is of the kernel, or of the flipped one, ``majorant``, if it is indefinite."""
    search = Search(task, errors, majorant)
    convex = search.problem.psd.is_psd
    start = np.vstack([np.zeros((1, len(task.signs))), *path.alphas])
    found, status = start, path.status
    if not path.is_stopped:
        if not convex:
            start = np.vstack([start, *stationary(task)])
        found, status = search.run(start, population, generations, rng)
    points = search.points(np.vstack([start, found]))
    if errors == "zero-one" and convex and status is FrontStatus.SEARCHED:
        points, status = search.polish(points)
    if errors == "zero-one":
        return ParetoFront(points, errors, status, None, task.fit_intercept)
    return bounded(task, path, points, status)


def stationary(task: FrontTask) -> list[NDArray]:
    """Return the solver's stationary points for an indefinite kernel at rising C, each α of shape (n,)."""
    found: list[NDArray] = []
    weights = weight_ladder(task.C)
    for before, C in zip([weights[0], *weights], weights, strict=False):
        if task.is_late():
            break
        warm = found[-1] * (C / before) if found else None
        solution = solve(task.problem(C), tol=1e-6, max_steps=2000, warm=warm, time_limit=task.time_left())
        found.append(solution.alpha)
    return found
