"""What `LSSVC`, `LSSVR` and `LDA` share: which solver they take; of the first two, what a file says of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem

__all__ = ["DEFAULT", "intercept_of", "posed_again"]

#: The working set's blocks want bounds. Where there are none the flow is linear, and one step of it exact.
DEFAULT = "gradient-flow"


def intercept_of(told: Mapping[str, Any]) -> bool | str:
    """What a file says of the intercept."""
    return "penalised" if told["offset"] else bool(told["equality"])


def posed_again(problem: DualProblem, column: Mapping[str, NDArray]) -> DualProblem:
    """The problem of a file, which leaves the ridge open, and no bound."""
    if not np.isposinf(column["upper"]).all() or not (column["ridge"] > 0).all():
        raise ValueError("its bounds or ridges are not those of least squares")
    return replace(problem, ridge=column["ridge"])
