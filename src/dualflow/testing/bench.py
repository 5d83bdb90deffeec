"""The `Bench` of the checks: runs of one solver on the zoo, judged by plain numpy and not by the package."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..core.shot_floor import encoding_of, sampled
from ..core.solution import Solution
from ..core.workspace import Workspace
from ..driver.solve import solve
from ..solvers import Solver
from .specimen import ZooProblem

#: Largest relative gap of each accuracy class.
CLASS_GAP = {"exact": 1e-8, "iterative": 1e-4}
#: Tolerance of the runs of each accuracy class.
CLASS_TOL = {"exact": 1e-9, "iterative": 1e-5, "sampled": 1e-9}
#: Largest gap of a sampled state, as a multiple of the gap of the exact optimum sampled with the shots of one circuit.
MAX_CIRCUIT_FLOOR_RATIO = 3.0
#: Largest gap of a finished sampled run, as a multiple of the gap of the optimum sampled with all its shots. The aim is
#: 3, which most problems of the zoo reach; the largest ratio of a solver of the catalogue was 5.9.
MAX_RUN_FLOOR_RATIO = 8.0
#: Number of samples of the exact optimum for the bounds of answers that are read index by index.
BOX_DRAWS = 128
#: Relative accuracy of the zoo's f*.
REFERENCE_ACCURACY = 2e-9


@dataclass
class Bench:
    """One solver and its problems; runs are cached, so that checks share them."""

    solver: Solver[Any, Any]
    problems: list[ZooProblem]
    seeds: int
    time_limit_s: float
    runs: dict[tuple[str, int], Solution] = field(default_factory=dict)
    gaps: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    margins: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def accuracy(self) -> str:
        """The solver's accuracy class."""
        return self.solver.accuracy_class()

    @property
    def claimed(self) -> list[ZooProblem]:
        """The problems of the kinds that the solver claims, without those that it refuses for another reason.

        A kind of which it refuses every problem is claimed without reason: its problems stay, and the checks fail.
        """
        ours = [z for z in self.problems if z.kind in self.solver.kinds]
        kinds = {z.kind for z in ours if self.solver.mismatch(z.problem) is None}
        return [z for z in ours if z.kind not in kinds or self.solver.mismatch(z.problem) is None]

    @property
    def with_optimum(self) -> list[ZooProblem]:
        """The claimed problems that have an optimum."""
        return [z for z in self.claimed if z.has_answer]

    @property
    def two_a_kind(self) -> list[ZooProblem]:
        """Two problems of each kind for checks of behaviour: the smallest computed one and the largest by hand."""
        chosen = []
        for kind in Kind:
            ours = sorted((z for z in self.with_optimum if z.kind is kind), key=lambda z: z.n)
            computed = [z for z in ours if z.why.startswith("computed")][:1]
            by_hand = [z for z in ours if not z.why.startswith("computed")]
            chosen += computed + by_hand[-(2 - len(computed)) :]
        return chosen

    def open(self, z: ZooProblem, workspace: Workspace | None = None) -> Any:
        """Return a context of the solver, opened as the driver does."""
        return self.solver.open(copy(z.problem), workspace or Workspace(z.problem))

    def solve(self, z: ZooProblem, **arguments: Any) -> Solution:
        """Return a raw run at the tolerance of the accuracy class."""
        settings = {"tol": CLASS_TOL[self.accuracy], "random_state": 0, "time_limit": self.time_limit_s} | arguments
        return solve(z.problem, self.solver, refine=False, **settings)

    def run(self, z: ZooProblem, seed: int = 0) -> Solution:
        """Return the run with a seed, from the cache if there is one."""
        if (z.name, seed) not in self.runs:
            self.runs[z.name, seed] = self.solve(z, random_state=seed)
        return self.runs[z.name, seed]

    def allowed_gap(self, z: ZooProblem, spent: int | None = None) -> float:
        """Return the largest (f − f*)/|f*| that the accuracy class allows on a problem.

        For a finished sampled run it follows from all shots that the run has ``spent``.
        """
        if self.accuracy != "sampled":
            return CLASS_GAP[self.accuracy] + REFERENCE_ACCURACY
        shots, encoding = spent or self.shots, getattr(self.solver, "encoding", None)
        factor = MAX_RUN_FLOOR_RATIO if spent else MAX_CIRCUIT_FLOOR_RATIO
        floor = sampled_floor(z, shots, max(16, self.seeds), encoding)
        if (encoding or encoding_of(z.problem)) == "simplex":
            return factor * floor + REFERENCE_ACCURACY
        gaps = _sampled_gaps(z, shots, BOX_DRAWS, encoding)
        if np.median(_sampled_gaps(z, self.shots, BOX_DRAWS, encoding) if spent else gaps) >= 1.0:
            return np.inf  # α = 0 has a smaller gap than the optimum sampled by one circuit, which shows no answer
        # Noise that violates the equality costs more in one direction than in the other, and the median of a few seeds
        # can fall on either side: samples of the exact optimum must pass.
        medians = np.median(np.random.default_rng(20261121).choice(gaps, (1000, self.seeds)), axis=1)
        return max(factor * floor, float(np.quantile(medians, 0.99))) + REFERENCE_ACCURACY

    def allowed_violation(self, z: ZooProblem) -> float:
        """Return the largest relative violation of a raw sampled answer: three standard deviations of sampling."""
        encoding = getattr(self.solver, "encoding", None)
        of_distribution = 3.0 * np.sqrt(z.n / self.shots)
        if (encoding or encoding_of(z.problem)) == "simplex":
            return float(of_distribution)
        of_optimum = [relative_violation(z, draw) for draw in _samples(z, self.shots, BOX_DRAWS, encoding)]
        padded = 2.0 ** np.ceil(np.log2(z.n)) / z.n  # indices beyond n take shots too
        return float(max(of_distribution, 3.0 * np.sqrt(padded * np.mean(np.square(of_optimum)))))

    @property
    def shots(self) -> int:
        """Shots of each circuit of a sampled solver."""
        shots = getattr(self.solver, "shots", None)
        require(shots, "accuracy_class() is 'sampled' but the solver has no option 'shots' to compute a floor from")
        return int(shots or 0)


def require(holds: object, message: str) -> None:
    """Raise AssertionError unless ``holds`` is true; ``python -O`` would remove an ``assert`` statement."""
    if not holds:
        raise AssertionError(message)


def require_finite(alpha: NDArray, z: ZooProblem) -> None:
    """Raise AssertionError unless α is a finite float64 vector of the problem's length."""
    require(alpha.shape == (z.n,), f"shape {alpha.shape}, not ({z.n},)")
    require(alpha.dtype == np.float64, f"dtype {alpha.dtype}, not float64")
    require(np.isfinite(alpha).all(), "NaN or infinity")


def objective(z: ZooProblem, alpha: NDArray) -> float:
    """Return f(α) from dense matrices, by the definition of Q, without the problem's products."""
    problem = z.problem
    K = _kernel(problem)
    if problem.idx is not None:
        K = K[np.ix_(problem.idx, problem.idx)]
    Q = problem.scale * problem.sigma[:, None] * (K + problem.offset) * problem.sigma + np.diag(problem.ridge)
    return float(0.5 * alpha @ Q @ alpha - problem.p @ alpha)


def _kernel(problem: DualProblem) -> NDArray:
    """Return the dense kernel matrix, by plain numpy for the kernels of the zoo."""
    gram, X = problem.gram, problem.gram.X
    if gram.kernel == "precomputed":
        return X
    if gram.kernel == "linear":
        return X @ X.T
    if gram.kernel == "rbf":
        return np.exp(-gram.gamma * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    return gram.full()  # a kernel of a caller's problem that the zoo does not use


def relative_violation(z: ZooProblem, alpha: NDArray) -> float:
    """Return the largest violation of a bound or of an equality, relative to the size of α."""
    problem = z.problem
    size = max(1e-300, float(np.abs(alpha).max()), abs(problem.d))
    worst = max(float((problem.lower - alpha).max()), float((alpha - problem.upper).max()), 0.0)
    if problem.e is not None:
        worst = max(worst, abs(float(problem.e @ alpha) - problem.d))
    if problem.total is not None:
        worst = max(worst, abs(float(alpha.sum()) - problem.total))
    return worst / size


def sampled_floor(z: ZooProblem, shots: int, seeds: int, encoding: str | None = None) -> float:
    """Return the median gap (f − f*)/|f*| of the exact optimum sampled with ``shots`` shots (`core.shot_floor`).

    The samples are projected, as a certificate projects every answer.
    """
    return float(np.median(_sampled_gaps(z, shots, seeds, encoding)))


def _sampled_gaps(z: ZooProblem, shots: int, seeds: int, encoding: str | None) -> NDArray:
    """Return the gaps of samples of the exact optimum, shape (seeds,)."""
    draws = _samples(z, shots, seeds, encoding)
    return np.array([(objective(z, z.problem.project(draw)) - z.optimum) / abs(z.optimum) for draw in draws])


def _samples(z: ZooProblem, shots: int, seeds: int, encoding: str | None) -> list[NDArray]:
    """Return samples of the exact optimum, one for each seed."""
    assert z.alpha is not None  # for the type checker: these problems have an optimal α
    generators = [np.random.default_rng([seed, 20261121]) for seed in range(seeds)]
    return [sampled(z.problem, z.alpha, shots, rng, encoding) for rng in generators]


def digest(value: Any) -> str:
    """Return a hash of a state, or of a problem with its numbers and matrices."""
    found = hashlib.sha256()
    _feed(found, value)
    if isinstance(value, DualProblem):
        _feed(found, (value.gram.X, value.gram.diag(), value.gram.full(), value.dense()))
    return found.hexdigest()


def _feed(found: Any, value: Any) -> None:
    """Add a value, recursively, to the hash ``found``."""
    if is_dataclass(value):
        value = [getattr(value, f.name) for f in fields(value) if f.name != "gram"]
    if isinstance(value, Mapping):
        value = [item for pair in value.items() for item in pair]
    if isinstance(value, (list, tuple)):
        for item in value:
            _feed(found, item)
    elif isinstance(value, np.ndarray):
        found.update(value.tobytes())
    else:
        found.update(repr(value.item() if isinstance(value, np.generic) else value).encode())
