"""The checkpoint of a cascade: for each pair of classes the rows in the pool and their multipliers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..core.runtime.warn import warn_user
from ..driver import checkpoint as checkpoint_module
from ..driver.checkpoint import Checkpoint, Saved
from ..exceptions import ProblemError
from .records import PairState

#: Parameters that must be equal for a checkpoint to be resumed.
_KEY_PARAMETERS = (
    "C",
    "loss",
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "fit_intercept",
    "tol",
    "max_invaders",
    "partitioner",
)


@dataclass(frozen=True)
class RoundsState:
    """The states of all pairs that were begun."""

    pairs: dict[str, PairState]


def run_key(model: Any, data: dict[str, Any], parts: int, seed: int) -> dict[str, Any]:
    """Return the facts that must be equal for a checkpoint to be resumed."""
    seeded = seed if model.random_state is not None else None
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    parameters = {name: getattr(model, name) for name in _KEY_PARAMETERS}
    return {"solver": "cascade", **parameters, "seed": seeded, "parts": parts, "data": f"digest {digest}"}


@dataclass
class CascadeCheckpoint:
    """The checkpoint file of a fit, or none."""

    path: Path | None
    key: dict[str, Any]  # a file with another key is refused
    pairs: dict[str, PairState] = field(default_factory=dict)  # the states, by the number of the pair as text

    @classmethod
    def of(cls, checkpoint: str | Path | Checkpoint | None, key: dict[str, Any]) -> CascadeCheckpoint:
        """Return the checkpoint that the user names; its file is read if it exists."""
        if checkpoint is None:
            return cls(None, key)
        path = Path((checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)).path)
        checkpoint_module.check_writable(path)
        pairs = dict(checkpoint_module.load(path, key, RoundsState).state.pairs) if path.exists() else {}
        parts = int(key["parts"])
        for state in pairs.values():
            _check_state(path, state, parts)
        return cls(path, key, pairs)

    def state(self, pair: int) -> PairState | None:
        """Return the stored state of a pair, or None."""
        return self.pairs.get(str(pair))

    def saver(self, pair: int) -> Callable[[PairState], None]:
        """Return a function that stores a pair's state; a write error is a warning, so that the run goes on."""

        def save(state: PairState) -> None:
            self.pairs[str(pair)] = state
            if self.path is None:
                return
            steps = sum(one.steps for one in self.pairs.values())
            try:
                checkpoint_module.save(Saved(self.path, RoundsState(self.pairs), steps, 0.0, {}), self.key)
            except OSError as error:
                warn_user(f"checkpoint {self.path} could not be written: {error}; the run goes on")

        return save


def _check_state(path: Path, state: PairState, parts: int) -> None:
    """Raise `ProblemError` for a state that no run could have stored."""
    n = len(state.alpha)
    has_valid_types = state.part.dtype.kind == state.row.dtype.kind == "i" and state.alpha.dtype.kind == "f"
    is_valid = has_valid_types and state.part.shape == state.row.shape == state.alpha.shape == (n,) and n > 0
    if is_valid:
        apart, next_row = np.diff(state.part), np.diff(state.row)
        order = (apart > 0) | ((apart == 0) & (next_row > 0))
        inside = state.part.min() >= 0 and state.part.max() < parts and state.row.min() >= 0
        is_valid = bool(order.all() and inside and (state.alpha >= 0).all() and state.alpha.max() < float("inf"))
    if not (is_valid and state.width > 0 and state.own_tol > 0 and state.steps >= 0):
        raise ProblemError(f"checkpoint {path} holds a state that is not one of a cascade; delete the file")
