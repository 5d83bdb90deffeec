"""Random generators from what users give for one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..exceptions import ProblemError

__all__ = ["generator_of"]


def generator_of(random_state: Any) -> np.random.Generator:
    """numpy's `default_rng`; `ProblemError` names the argument where that cannot be made."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ProblemError(
            f"random_state={random_state!r} must be an integer ≥ 0, a numpy.random.Generator or None"
        ) from None
