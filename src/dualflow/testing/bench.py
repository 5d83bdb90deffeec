"""What the checks share: runs of one solver on the zoo, measured by plain numpy instead of by the package."""

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

__all__ = [
    "Bench",
    "digest",
    "feasible",
    "objective",
    "require",
    "require_finite",
    "sampled_floor",
]

#: Largest relative gap of each accuracy class, and the tolerance a run is started with to get there.
CLASS_GAP = {"exact": 1e-8, "iterative": 1e-4}
CLASS_TOL = {"exact": 1e-9, "iterative": 1e-5, "sampled": 1e-9}
#: A sampled answer may be this many times worse than the exact optimum sampled with the shots of one circuit; one that
#: is on its way may, until it tells something.
FLOOR_FACTOR = 3.0
#: Where a run ends, it may be this many times worse than the optimum sampled with all its shots: 3 is what is wanted,
#: and reached in most of the zoo, 5.9 the most that a solver of the catalogue ended with.
RUN_FACTOR = 8.0
#: Samples of the exact optimum behind the bounds of answers read index by index.
BOX_DRAWS = 128
#: Accuracy of the references themselves, relative.
REFERENCE = 2e-9


@dataclass
class Bench:
    """One solver and the problems it is checked on; runs are kept, so that checks can share them."""

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
        return self.solver.accuracy_class()

    @property
    def claimed(self) -> list[ZooProblem]:
        """Problems of the kinds the solver claims."""
        return [z for z in self.problems if z.kind in self.solver.kinds]

    @property
    def answered(self) -> list[ZooProblem]:
        """Those that have an optimum."""
        return [z for z in self.claimed if z.has_answer]

    @property
    def few(self) -> list[ZooProblem]:
        """Two a kind, for checks of behaviour: the smallest computed one and the largest by hand."""
        chosen = []
        for kind in Kind:
            ours = sorted((z for z in self.answered if z.kind is kind), key=lambda z: z.n)
            computed = [z for z in ours if z.why.startswith("computed")][:1]
            by_hand = [z for z in ours if not z.why.startswith("computed")]
            chosen += computed + by_hand[-(2 - len(computed)) :]
        return chosen

    def open(self, z: ZooProblem, workspace: Workspace | None = None) -> Any:
        """A context of the solver's, as the driver asks for one."""
        return self.solver.open(copy(z.problem), workspace or Workspace(z.problem))

    def solve(self, z: ZooProblem, **arguments: Any) -> Solution:
        """A raw run at the tolerance of the accuracy class."""
        settings = {"tol": CLASS_TOL[self.accuracy], "random_state": 0, "time_limit": self.time_limit_s} | arguments
        return solve(z.problem, self.solver, refine=False, **settings)

    def run(self, z: ZooProblem, seed: int = 0) -> Solution:
        """The run for a seed, made once."""
        if (z.name, seed) not in self.runs:
            self.runs[z.name, seed] = self.solve(z, random_state=seed)
        return self.runs[z.name, seed]

    def allowed_gap(self, z: ZooProblem, spent: int | None = None) -> float:
        """Largest (f − f*)/|f*| the accuracy class allows on this problem; of a sampled run that is over, by all the
        shots it has ``spent``."""
        if self.accuracy != "sampled":
            return CLASS_GAP[self.accuracy] + REFERENCE
        shots, encoding = spent or self.shots, getattr(self.solver, "encoding", None)
        factor = RUN_FACTOR if spent else FLOOR_FACTOR
        floor = sampled_floor(z, shots, max(16, self.seeds), encoding)
        if (encoding or encoding_of(z.problem)) == "simplex":
            return factor * floor + REFERENCE
        gaps = _sampled_gaps(z, shots, BOX_DRAWS, encoding)
        if np.median(_sampled_gaps(z, self.shots, BOX_DRAWS, encoding) if spent else gaps) >= 1.0:
            return np.inf  # α = 0 lies nearer than the optimum sampled by one circuit: it cannot show an answer
        # Noise that breaks the equality one way costs more than the other way, and a median over a few seeds falls
        # on either side: whoever samples the exact optimum itself must pass.
        medians = np.median(np.random.default_rng(20261121).choice(gaps, (1000, self.seeds)), axis=1)
        return max(factor * floor, float(np.quantile(medians, 0.99))) + REFERENCE

    def allowed_violation(self, z: ZooProblem) -> float:
        """Largest infeasibility of a raw sampled answer, relative to its size: three standard deviations."""
        encoding = getattr(self.solver, "encoding", None)
        of_distribution = 3.0 * np.sqrt(z.n / self.shots)
        if (encoding or encoding_of(z.problem)) == "simplex":
            return float(of_distribution)
        of_optimum = [feasible(z, draw) for draw in _samples(z, self.shots, BOX_DRAWS, encoding)]
        padded = 2.0 ** np.ceil(np.log2(z.n)) / z.n  # a register of qubits spends shots on indices beyond n
        return float(max(of_distribution, 3.0 * np.sqrt(padded * np.mean(np.square(of_optimum)))))

    @property
    def shots(self) -> int:
        """Of each circuit of a sampled solver."""
        shots = getattr(self.solver, "shots", None)
        require(shots, "accuracy_class() is 'sampled' but the solver has no option 'shots' to compute a floor from")
        return int(shots or 0)


def require(holds: object, message: str) -> None:
    """Raise AssertionError unless something holds; a statement ``assert`` would vanish under ``python -O``."""
    if not holds:
        raise AssertionError(message)


def require_finite(alpha: NDArray, z: ZooProblem) -> None:
    """Raise AssertionError unless α is a finite float64 vector of the problem's length."""
    require(alpha.shape == (z.n,), f"shape {alpha.shape}, not ({z.n},)")
    require(alpha.dtype == np.float64, f"dtype {alpha.dtype}, not float64")
    require(np.isfinite(alpha).all(), "NaN or infinity")


def objective(z: ZooProblem, alpha: NDArray) -> float:
    """f(α) from dense matrices, by the definition of Q, without the problem's own products."""
    problem = z.problem
    K = _kernel(problem)
    if problem.idx is not None:
        K = K[np.ix_(problem.idx, problem.idx)]
    Q = problem.scale * problem.sigma[:, None] * (K + problem.offset) * problem.sigma + np.diag(problem.ridge)
    return float(0.5 * alpha @ Q @ alpha - problem.p @ alpha)


def _kernel(problem: DualProblem) -> NDArray:
    gram, X = problem.gram, problem.gram.X
    if gram.kernel == "precomputed":
        return X
    if gram.kernel == "linear":
        return X @ X.T
    if gram.kernel == "rbf":
        return np.exp(-gram.gamma * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    return gram.full()  # kernels the zoo does not use, on problems of the caller's


def feasible(z: ZooProblem, alpha: NDArray) -> float:
    """Largest violation of a bound or of the equality, relative to the size of α."""
    problem = z.problem
    size = max(1e-300, float(np.abs(alpha).max()), abs(problem.d))
    worst = max(float((problem.lower - alpha).max()), float((alpha - problem.upper).max()), 0.0)
    if problem.e is not None:
        worst = max(worst, abs(float(problem.e @ alpha) - problem.d))
    if problem.total is not None:
        worst = max(worst, abs(float(alpha.sum()) - problem.total))
    return worst / size


def sampled_floor(z: ZooProblem, shots: int, seeds: int, encoding: str | None = None) -> float:
    """Median gap (f − f*)/|f*| of the exact optimum sampled with ``shots`` shots (`core.shot_floor`).

    The sample is projected, as a certificate does with any answer.
    """
    return float(np.median(_sampled_gaps(z, shots, seeds, encoding)))


def _sampled_gaps(z: ZooProblem, shots: int, seeds: int, encoding: str | None) -> NDArray:
    draws = _samples(z, shots, seeds, encoding)
    return np.array([(objective(z, z.problem.project(draw)) - z.optimum) / abs(z.optimum) for draw in draws])


def _samples(z: ZooProblem, shots: int, seeds: int, encoding: str | None) -> list[NDArray]:
    assert z.alpha is not None  # for the type checker: these problems have one
    generators = [np.random.default_rng([seed, 20261121]) for seed in range(seeds)]
    return [sampled(z.problem, z.alpha, shots, rng, encoding) for rng in generators]


def digest(value: Any) -> str:
    """Hash of a state, or of all that a solver finds in a problem: its numbers and its matrices, kept or not."""
    found = hashlib.sha256()
    _feed(found, value)
    if isinstance(value, DualProblem):
        _feed(found, (value.gram.X, value.gram.diag(), value.gram.full(), value.dense()))
    return found.hexdigest()


def _feed(found: Any, value: Any) -> None:
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
