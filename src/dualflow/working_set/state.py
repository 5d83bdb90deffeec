"""The state of `working-set`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WorkingSetState", "afresh"]


@dataclass(frozen=True)
class WorkingSetState:
    """α of shape (n,), the order of the points, and how far the seeding is.

    ``depth`` counts the levels still to come; ``single`` says whether float32 is still in use; ``blocks`` counts.
    ``best`` is the least estimated gap (violation, where no gap is finite) of this level and precision, and
    ``stalled`` the steps since it last fell by a tenth. ``anchor`` is α where this level began and ``replay`` the
    blocks since: gradient and kernel rows are not saved, so a resumed run goes through them again, to the same bits.
    ``offered`` says that float32 came to rest here, or that float64 came to its end: a certificate decides whether that
    is enough.
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


def afresh(state: WorkingSetState, **changes: Any) -> WorkingSetState:
    """The state, with what changed, at the beginning of another level or precision, or at the end."""
    anchor = changes.get("alpha", state.alpha)
    return replace(state, **changes | {"best": np.inf, "stalled": 0, "anchor": anchor, "replay": 0})
