"""Fronts that no C-path gives: NSGA-II over α in the box [0, C], started from what solvers find."""

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
from .path import Path, Task, bounded, ladder

__all__ = ["check_pymoo", "searched"]

#: Points within this of margin 1 count as content while searching; what is handed out is scaled until they are.
SLACK = 1e-6
#: So much more than 1, relative, and no content margin of a scaled α is below 1 in the last bits of a product Qα.
ROUNDING = 1e-13
#: The same for large α: so many units of round-off of its largest terms.
ULPS = 4.0
#: Relative difference in ‖w‖² that is none.
SAME = 1e-9
#: Most turns of `Search.polish`.
ROUNDS = 20


def check_pymoo() -> None:
    """Raise `SolverUnavailable` with the pip line where pymoo is missing."""
    if importlib.util.find_spec("pymoo") is None:
        raise SolverUnavailable("this front needs NSGA-II from pymoo: pip install 'dualflow[evolution]'")


@dataclass
class Search:
    """Both criteria of whole populations, and the run of NSGA-II (Deb, Pratap, Agarwal, Meyarivan, IEEE Trans. Evol.
    Comput. 6 (2002) 182-197).

    Parameters
    ----------
    task : Task
    errors : {"hinge", "zero-one"}
    majorant : array of shape (n, n), optional
        Of an indefinite kernel (with its bias, if inside) the one that has the eigenvalues' absolute values: `flipped`.
    """

    task: Task
    errors: str
    majorant: NDArray | None = None

    def __post_init__(self) -> None:
        self.problem, y = self.task.problem(float(self.task.C[-1])), self.task.signs
        self.Q = self.problem.dense()
        self.norm = self.Q if self.majorant is None else y[:, None] * self.majorant * y
        self.upper = float(self.task.C[-1])
        self.round_off = ULPS * float(np.finfo(float).eps * np.abs(self.Q).max())

    def values(self, alpha: NDArray, bias: float) -> NDArray:
        """y·f of the training points, shape (n,); a bias inside the kernel is in Qα already."""
        return self.Q @ alpha + (0.0 if self.problem.e is None else bias * self.task.signs)

    def evaluate(self, A: NDArray) -> tuple[NDArray, NDArray]:
        """Criteria of shape (m, 2) and biases of shape (m,), the best for each, of a population (m, n)."""
        y = self.task.signs
        G = A @ self.Q
        norms = np.maximum(np.einsum("ij,ij->i", A, G if self.norm is self.Q else A @ self.norm), 0.0)
        biases = np.zeros(len(A))
        if self.problem.e is not None:
            given = G * y
            biases = best_hinge_thresholds(given, y) if self.errors == "hinge" else best_thresholds(given, y, SLACK)
        values = G + biases[:, None] * y
        if self.errors == "hinge":
            second = np.maximum(0.0, 1.0 - values).sum(axis=1)
        else:
            second = np.count_nonzero(values < 1.0 - SLACK, axis=1).astype(float)
        return np.column_stack([norms, second]), biases

    def outward(self, scales: NDArray | float, A: NDArray) -> NDArray:
        """Scales of coefficients (…, n) with room for round-off, so that a margin of 1 is none below 1."""
        room = self.round_off * scales * np.abs(A).sum(axis=-1)
        return np.asarray(scales * (1.0 + np.maximum(ROUNDING, room)))

    def run(
        self, seeds: NDArray, population: int, generations: int, rng: np.random.Generator
    ) -> tuple[NDArray, FrontStatus]:
        """The last population of shape (m, n), and what ended the run."""
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
            if self.task.late():
                status = FrontStatus.TIME_LIMIT
                break
            algorithm.next()
            found = algorithm.pop.get("X")
        return np.asarray(found, dtype=float), status

    def population(self, seeds: NDArray, size: int, rng: np.random.Generator) -> NDArray:
        """A first population of shape (size, n): seeds, evenly thinned to half of it, and scaled mixtures of two."""
        kept = seeds[np.unique(np.linspace(0, len(seeds) - 1, min(len(seeds), size // 2)).astype(int))]
        count = size - len(kept)
        pairs = seeds[rng.integers(len(seeds), size=(count, 2))]
        t = rng.random((count, 1))
        mixed = (t * pairs[:, 0] + (1 - t) * pairs[:, 1]) * rng.uniform(0.5, 2.0, (count, 1))
        return np.clip(np.concatenate([kept, mixed]), 0.0, self.upper)

    def points(self, A: NDArray) -> tuple[ParetoPoint, ...]:
        """The classifiers of a population that are not dominated; for the number of points at every scale."""
        if self.errors == "zero-one":
            return self.trimmed(A)
        F, biases = self.evaluate(A)
        return merged(self.all_of([(A[k], float(biases[k])) for k in nondominated(F)]))

    def trimmed(self, A: NDArray) -> tuple[ParetoPoint, ...]:
        """For each number of points given up the widest margin along any α of a population (m, n)."""
        y, biased = self.task.signs, self.problem.e is not None
        G, norms = (A @ self.Q) * y, np.einsum("ij,ij->i", A, A @ self.norm)
        gaps = widest_gaps(G, y, biased)
        open_gap = gaps > 0
        with np.errstate(over="ignore"):  # square roots first: of tiny kernels the gap's square is 0
            scaled = (2.0 * np.sqrt(np.maximum(norms, 0.0))[:, None] / np.where(open_gap, gaps, 1.0)) ** 2
        scaled = np.where(open_gap, scaled, np.inf)
        best = np.argmin(scaled, axis=0)
        counts = np.arange(scaled.shape[1])
        F = np.column_stack([scaled[best, counts], counts])
        given_up = np.array([k for k in nondominated(F) if np.isfinite(F[k, 0])], dtype=int)
        rows = best[given_up]
        scales = self.outward(2.0 / gaps[rows, given_up], A[rows])
        middles = [threshold_of(G[row], y, int(k)) if biased else 0.0 for row, k in zip(rows, given_up, strict=True)]
        zeros = [(np.zeros(len(y)), float(sign)) for sign in ((1, -1) if biased else (0,))]
        scaled_rows = zip(scales[:, None] * A[rows], -scales * np.array(middles), strict=True)
        return merged(self.all_of([*zeros, *scaled_rows]))

    def point(self, alpha: NDArray, bias: float, certificate: Certificate | None = None) -> ParetoPoint:
        """One classifier."""
        return self.all_of([(alpha, bias)], certificate)[0]

    def all_of(
        self, classifiers: Sequence[tuple[NDArray, float]], certificate: Certificate | None = None
    ) -> list[ParetoPoint]:
        """Classifiers (α, b), evaluated by one or two matrix products."""
        A, biases = np.stack([alpha for alpha, _ in classifiers]), np.array([bias for _, bias in classifiers])
        G = A @ self.Q
        norms = np.einsum("ij,ij->i", A, G if self.norm is self.Q else A @ self.norm)
        values = G + (0.0 if self.problem.e is None else biases[:, None] * self.task.signs)
        return [
            self._made(alpha, float(bias), float(norm), row, certificate)
            for alpha, bias, norm, row in zip(A, biases, norms, values, strict=True)
        ]

    def _made(
        self, alpha: NDArray, bias: float, norm: float, values: NDArray, certificate: Certificate | None
    ) -> ParetoPoint:
        if self.problem.offset:
            bias = self.problem.offset * float(self.task.signs @ alpha)
        counted = self.errors == "zero-one"
        error = float(np.count_nonzero(values < 1.0) if counted else np.maximum(0.0, 1.0 - values).sum())
        return self.task.point(alpha, bias, norm, error, values, certificate)

    def polish(self, points: tuple[ParetoPoint, ...]) -> tuple[tuple[ParetoPoint, ...], FrontStatus]:
        """In turns, until nothing new comes: the widest margin for whom each point keeps content, and for each number
        of points given up the best choice of them along these α. No count's ‖w‖² rises, but for round-off.
        """
        known: set[bytes] = set()
        for _ in range(ROUNDS):
            fresh = [point for point in points if self.content(point).tobytes() not in known]
            if not fresh:
                break
            for point in fresh:
                if self.task.late():
                    return points, FrontStatus.TIME_LIMIT
                known.add(self.content(point).tobytes())
                points = merged([*(other for other in points if other is not point), self.widest(point)])
            along = self.trimmed(np.stack([point.alpha for point in points]))
            points = merged([*points, *(new for new in along if not any(_as_good(old, new) for old in points))])
        return points, FrontStatus.SEARCHED

    def content(self, point: ParetoPoint) -> NDArray:
        """Which training points have a margin of at least 1, shape (n,)."""
        return np.asarray(self.values(point.alpha, point.bias) >= 1.0)

    def widest(self, point: ParetoPoint) -> ParetoPoint:
        """The largest margin that keeps content whoever the point does: a hard margin, certified.

        The point itself where that is no better, or, with a bias, where a single class is content: w = 0 does that.
        """
        task, kept = self.task, self.content(point)
        classes = len(np.unique(task.signs[kept]))
        if classes < (2 if task.fit_intercept else 1):
            return point
        problem = task.problem(np.inf, kept.astype(float))
        solution = solve(problem, refine=True, tol=1e-9, time_limit=task.time_left())
        certificate = solution.certificate
        alpha, bias = certificate.alpha, certificate.bias
        least = float(self.values(alpha, bias)[kept].min())
        if not least > 0:
            return point
        scale = max(1.0, float(self.outward(1.0 / least, alpha)))
        better = self.point(scale * alpha, scale * bias, certificate)
        return better if _as_good(better, point) else point


def _as_good(one: ParetoPoint, other: ParetoPoint) -> bool:
    """Whether one is as good as another in both criteria, up to round-off: else it would beat a certified twin."""
    return one.error <= other.error and one.squared_norm <= (1.0 + SAME) * other.squared_norm


def merged(points: list[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """Those that none dominates, by rising norm."""
    F = np.array([[point.squared_norm, point.error] for point in points])
    return tuple(points[k] for k in nondominated(F))


def searched(
    task: Task,
    errors: str,
    path: Path,
    population: int,
    generations: int,
    rng: np.random.Generator,
    majorant: NDArray | None = None,
) -> ParetoFront:
    """A front by search; ``path`` is that of the kernel, or of the flipped one, ``majorant``, if it is indefinite."""
    search = Search(task, errors, majorant)
    convex = search.problem.psd.is_psd
    start = np.vstack([np.zeros((1, len(task.signs))), *path.alphas])
    found, status = start, path.status
    if not path.stopped:
        if not convex:
            start = np.vstack([start, *stationary(task)])
        found, status = search.run(start, population, generations, rng)
    points = search.points(np.vstack([start, found]))
    if errors == "zero-one" and convex and status is FrontStatus.SEARCHED:
        points, status = search.polish(points)
    if errors == "zero-one":
        return ParetoFront(points, errors, status, None, task.fit_intercept)
    return bounded(task, path, points, status)


def stationary(task: Task) -> list[NDArray]:
    """Where the default solver comes to rest on an indefinite kernel, at rising C: each α of shape (n,)."""
    found: list[NDArray] = []
    rungs = ladder(task.C)
    for before, C in zip([rungs[0], *rungs], rungs, strict=False):
        if task.late():
            break
        warm = found[-1] * (C / before) if found else None
        solution = solve(task.problem(C), tol=1e-6, max_steps=2000, warm=warm, time_limit=task.time_left())
        found.append(solution.alpha)
    return found
