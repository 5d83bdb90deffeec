"""The state of `working-set`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class WorkingSetState:
    """State of a run. Gradient and kernel rows are not part of it: a resumed run recomputes them, to the same bits.

    Attributes
    ----------
    alpha : array of shape (n,)
    order : int array
        Order of the points in which levels take them; empty if there is one level.
    depth : int
        Levels still to come.
    single : bool
        Whether the level is in float32.
    violation : float
        KKT violation.
    blocks, updates : int
        Blocks and pair updates so far.
    best : float
        Least estimated gap of this level and precision (violation, where the gap is not finite).
    stalled : int
        Steps since ``best`` last fell by a tenth.
    anchor : array of shape (n,)
        α where this level began.
    replay : int
        Blocks since then, which a resumed run repeats.
    done : bool
        Whether the run has ended.
    offered : bool
        Whether float32, or float64, can do no more: a certificate decides whether this α is accurate enough.
    """

    alpha: NDArray
    order: NDArray
    depth: int
    single: bool
    violation: float
    blocks: int
    updates: int
    best: float
    stalled: int
    anchor: NDArray
    replay: int
    done: bool = False
    offered: bool = False


def restarted(state: WorkingSetState, **changes: Any) -> WorkingSetState:
    """Return the state with changes, at the start of another level or precision, or at the end of the run."""
    anchor = changes.get("alpha", state.alpha)
    return replace(state, **changes | {"best": np.inf, "stalled": 0, "anchor": anchor, "replay": 0})
