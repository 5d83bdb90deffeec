"""The trajectory of a run as it comes about: its states, and what is certified of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .core.certificate import Certificate
from .core.solution import Trajectory

__all__ = ["Record", "number"]

#: What a file keeps of it: nothing that a certificate says.
_STORED = ("t", "alpha", "multiplier")


class Record:
    """Rows of a `Trajectory`: of each state its flow time, its α, and the solver's own multiplier if it has one."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, NDArray, float, tuple[float, float, float]]] = []

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def t(self) -> list[float]:
        return [row[0] for row in self.rows]

    @property
    def alpha(self) -> list[NDArray]:
        return [row[1] for row in self.rows]

    @property
    def multiplier(self) -> list[float]:
        return [row[2] for row in self.rows]

    def add(self, t: float, alpha: ArrayLike, multiplier: float | None, certificate: Certificate) -> None:
        """The next state, and its certificate: whole or, where Ctrl-C comes, not at all."""
        own = (number(certificate.multiplier), certificate.objective, number(certificate.relative_gap))
        self.rows.append((t, np.array(alpha), number(multiplier), own))

    def saved(self) -> dict[str, NDArray]:
        """What a file keeps of it."""
        return {name: np.array(values) for name in _STORED if (values := getattr(self, name))}

    @classmethod
    def restored(cls, rows: Mapping[str, NDArray], steps: int, certify: Callable[[ArrayLike], Certificate]) -> Record:
        """The record of so many steps that was saved, certified anew; ValueError where it is none."""
        if set(rows) != set(_STORED) or any(array.dtype != np.float64 for array in rows.values()):
            raise ValueError(f"its rows are not {', '.join(_STORED)}")
        record, (t, alpha, multiplier) = cls(), (rows[name] for name in _STORED)
        if not t.shape == multiplier.shape == alpha.shape[:1] == (steps + 1,) or not np.isfinite(t).all():
            raise ValueError(f"its rows are not those of {steps} steps")
        for k in range(len(t)):
            record.add(float(t[k]), alpha[k], float(multiplier[k]), certify(alpha[k]))
        return record

    def trajectory(self) -> Trajectory:
        """What a solution holds of it."""
        own, alpha = np.array(self.multiplier), np.array(self.alpha)
        multiplier, objective, gap = np.array([row[3] for row in self.rows]).reshape(-1, 3).T
        size = np.abs(alpha).max(axis=1, initial=0.0, keepdims=True)
        return Trajectory(
            t=np.array(self.t),
            alpha=alpha,
            multiplier=np.where(np.isnan(own), multiplier, own),
            survivors=(np.abs(alpha) > 1e-8 * size).sum(axis=1),
            objective=np.ascontiguousarray(objective),
            gap=np.ascontiguousarray(gap),
        )


def number(value: float | None) -> float:
    """NaN for what does not exist."""
    return np.nan if value is None else float(value)
