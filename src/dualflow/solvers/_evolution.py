"""The base class of `evolution-strategy` and `particle-swarm`: presets, limits, and the check of the box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Flag, Number, OneOf, option
from ..core.problem import DualProblem, Kind
from ..core.solver import Solver, StateT
from ..core.workspace import Workspace

#: Values of the options that are None, for each preset.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {"patience": 100, "generations": 10_000, "memetic": True},
    "paper": {"patience": 5, "generations": 1000, "memetic": False},
}
#: Bounds or kernel values from which f is checked for overflow.
MIN_OVERFLOW_CHECK = 1e100


@dataclass(frozen=True)
class EvolutionarySolver(Solver[Workspace, StateT]):
    """Base of the evolutionary solvers of box problems."""

    preset: str = option("default", OneOf(words=tuple(PRESETS)))
    population: int = option(10, Number(at_least=1, whole=True))
    patience: int | None = option(None, Number(at_least=1, whole=True, none=True))
    generations: int | None = option(None, Number(at_least=1, whole=True, none=True))
    memetic: bool | None = option(None, Flag(none=True, note="for what the preset says"))
    sweeps: int = option(2, Number(at_least=1, whole=True))

    kinds = frozenset({Kind.BOX})
    max_n: ClassVar[int | None] = 8000
    needs_psd: ClassVar[bool] = False
    whole: ClassVar[bool] = True
    default_max_steps: ClassVar[int] = 1_000_000  # ``generations`` is the effective limit

    def chosen(self, name: str) -> Any:
        """Return the value of an option, from the preset if it is None."""
        value = getattr(self, name)
        return PRESETS[self.preset][name] if value is None else value

    @property
    def sweeps_made(self) -> int:
        """Sweeps in the life of an individual, 0 without memetic learning."""
        return int(self.sweeps) if self.chosen("memetic") else 0

    def first(self, problem: DualProblem, warm: NDArray | None) -> NDArray | None:
        """Return the first individual of a random population: a warm start, or α = 0 with memetic learning, or None.

        At large C coordinate descent from a random α does not get below f(0) in a reasonable time.
        """
        return np.zeros(problem.n) if warm is None and self.sweeps_made else warm

    def generations_a_step(self, n: int) -> int:
        """Return the generations of a step: it takes some milliseconds, so that a time limit is kept."""
        size = max(1.0, self.population / 10)
        return max(1, int((min(10, 2000 // n) if self.sweeps_made else min(50, 20_000_000 // n**2)) / size))

    def mismatch(self, problem: DualProblem) -> str | None:
        reason = super().mismatch(problem)
        if reason is None and not np.isfinite(problem.upper).all():
            return f"{self.name!r} draws α from the whole box, and some upper bounds are infinite; give a finite C"
        largest = float(problem.upper.max(initial=0.0))
        if reason is None and max(largest, float(np.abs(problem.diag()).max())) > MIN_OVERFLOW_CHECK:
            with np.errstate(over="ignore", invalid="ignore"):
                bound = np.abs(problem.dense()).sum() * largest * largest + np.abs(problem.p).sum() * largest
            if not np.isfinite(bound):
                reason = (
                    f"{self.name!r} draws α from the whole box, up to {largest:.3g}, and f overflows float64 there; "
                )
                reason += "give a smaller C, or scale the kernel"
        return reason
