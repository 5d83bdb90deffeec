"""The error of shots alone: the exact optimum, sampled as the read-out of a circuit would sample it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .problem import DualProblem, Kind

#: Draws of which the median excess is taken.
DRAWS = 11
_DISTRIBUTIONS = (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)


def encoding_of(problem: DualProblem) -> str:
    """Return the default read-out of α: as a distribution ("simplex"), or index by index ("box")."""
    return "simplex" if problem.kind in _DISTRIBUTIONS else "box"


def sampled(
    problem: DualProblem, optimum: NDArray, shots: int, rng: np.random.Generator, encoding: str | None = None
) -> NDArray:
    """Return an estimate of an optimal α from ``shots`` shots, shape (n,).

    Parameters
    ----------
    optimum : array of shape (n,)
    encoding : {"simplex", "box"}, optional
        "simplex": α/d is the distribution itself. "box": a uniform index register and an ancilla with P(1|i) = αᵢ/uᵢ
        are measured together, so that each index gets about shots/n shots; an index without any gives 0. By default
        `encoding_of` the problem.
    """
    if (encoding or encoding_of(problem)) == "simplex":
        share = np.maximum(optimum, 0.0)
        counts: NDArray = rng.multinomial(shots, share / share.sum()) * (problem.d / shots)
        return counts
    unit = np.where(np.isfinite(problem.effective_upper), problem.effective_upper, np.abs(optimum).max())
    shots_of = rng.multinomial(shots, np.full(problem.n, 1 / problem.n))
    share = np.clip(np.divide(optimum, unit, where=unit > 0, out=np.zeros(problem.n)), 0.0, 1.0)
    read: NDArray = unit * rng.binomial(shots_of, share) / np.maximum(shots_of, 1)
    return read


def sampled_excess(problem: DualProblem, optimum: NDArray, shots: int) -> float:
    """Return the median of (f − f*)/|f*| over 11 draws of `sampled`, with seeds 0 to 10."""
    best = problem.objective(optimum)
    draws = (sampled(problem, optimum, shots, np.random.default_rng(seed)) for seed in range(DRAWS))
    values = [problem.objective(problem.project(alpha)) for alpha in draws]
    return float(np.median(values) - best) / max(abs(float(best)), 1e-300)
