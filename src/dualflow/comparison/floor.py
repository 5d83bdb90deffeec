"""What shots alone cost: the gap of the exact optimum, sampled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certifier
from ..core.problem import DualProblem
from ..core.shot_floor import sampled

__all__ = ["floors_of", "shot_floor"]

#: Draws of the exact optimum whose median gap is the shot floor.
FLOOR_DRAWS = 9


def shot_floor(
    problem: DualProblem, optimum: NDArray, shots: int, random_state: int = 0, encoding: str | None = None
) -> float | None:
    """Relative gap of the exact optimum sampled with ``shots``: median over `FLOOR_DRAWS` draws.

    No measured state can be asked for more than a small multiple of it. ``encoding`` as in `core.shot_floor.sampled`;
    None for kinds that no circuit reads (an infinite box), and where no gap is certified.
    """
    found = floors_of(Certifier(problem), optimum, shots, random_state, encoding)
    return None if found is None else found[0]


def floors_of(
    certifier: Certifier, optimum: NDArray, shots: int, random_state: int, encoding: str | None
) -> tuple[float, float] | None:
    """`shot_floor` by a certifier that is there already, and the median excess (f − f*)/|f*| of the same draws."""
    problem = certifier.problem
    if not np.isfinite(problem.effective_upper).all() or not certifier.psd.is_psd:
        return None
    rng = np.random.default_rng([random_state, shots])
    draws = [certifier.certify(sampled(problem, optimum, shots, rng, encoding)) for _ in range(FLOOR_DRAWS)]
    best = certifier.certify(optimum).objective
    above = float(np.median([draw.objective for draw in draws])) - best
    return float(np.median([draw.relative_gap for draw in draws])), max(0.0, above) / abs(best) if best else 0.0
