"""A figure that grows as a power of n, through the sizes at which it was counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Growth"]


@dataclass(frozen=True)
class Growth:
    """constant + factor·n^power."""

    constant: float
    factor: float
    power: float

    @classmethod
    def through(cls, rows: Sequence[Any], name: str) -> Growth:
        """Through the last three rows, where n grows by one factor; else a power alone, through two."""
        n, f = [row.n for row in rows], [getattr(row, name) or 0.0 for row in rows]
        if f[-1] == f[-2]:
            return cls(f[-1], 0.0, 0.0)
        if len(rows) > 2 and n[-1] * n[-3] == n[-2] ** 2 and 0 < f[-2] - f[-3] < f[-1] - f[-2]:
            power = math.log((f[-1] - f[-2]) / (f[-2] - f[-3])) / math.log(n[-1] / n[-2])
            factor = (f[-1] - f[-2]) / (n[-1] ** power - n[-2] ** power)
            return cls(f[-1] - factor * n[-1] ** power, factor, power)
        power = math.log(f[-1] / f[-2]) / math.log(n[-1] / n[-2]) if f[-2] > 0 else 1.0
        return cls(0.0, f[-1] / n[-1] ** power, power)

    def at(self, n: int) -> float:
        return self.constant + self.factor * float(n) ** self.power

    def __str__(self) -> str:
        power = f"{self.power:.2g}"
        return ("growing as n" + f"^{power}" * (power != "1")) if self.factor else "the same at every n"
