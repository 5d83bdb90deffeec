"""The whole Q of a problem, made a block of rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .clock import look
from .kernel_matrix import BLOCK_ENTRIES
from .memory import check_memory

__all__ = ["whole_matrix"]


def whole_matrix(problem: Any) -> NDArray:
    """Q of a `DualProblem`, shape (n, n); `ProblemError` where it cannot fit into memory beside K."""
    n, idx = problem.n, problem.idx
    check_memory(n, "the whole Q", matrices=2)
    K, everyone = problem.gram.full(), np.arange(n)
    Q: NDArray = np.empty((n, n))
    height = max(1, BLOCK_ENTRIES // n)
    for start in range(0, n, height):
        look()  # fresh memory takes its time
        part = slice(start, start + height)
        rows = K[part] if idx is None else K[np.ix_(idx[part], idx)]
        Q[part] = problem._signed(rows, problem.sigma[part], everyone)
    Q[np.diag_indices(n)] += problem.ridge
    return Q
