"""The state of `working-set`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class WorkingSetState:
    """State of a run. Gradient and kernel rows are not part of it: a resumed run recomputes them, to the same bits."""

    alpha: NDArray  # shape (n,)
    order: NDArray  # order of the points in which levels take them; empty if there is one level; int array
    depth: int  # levels still to come
    single: bool  # whether the level is in float32
    violation: float  # KKT violation
    #: blocks, updates: blocks and pair updates so far.
    blocks: int
    updates: int
    best: float  # least estimated gap of this level and precision (violation, where the gap is not finite)
    stalled: int  # steps since ``best`` last fell by a tenth
    anchor: NDArray  # α where this level began; shape (n,)
    replay: int  # blocks since then, which a resumed run repeats
    done: bool = False  # whether the run has ended
    #: Whether float32, or float64, can do no more: a certificate decides whether this α is accurate enough.
    offered: bool = False


def restarted(state: WorkingSetState, **changes: Any) -> WorkingSetState:
    """Return the state with changes, at the start of another level or precision, or at the end of the run."""
    anchor = changes.get("alpha", state.alpha)
    return replace(state, **changes | {"best": np.inf, "stalled": 0, "anchor": anchor, "replay": 0})
