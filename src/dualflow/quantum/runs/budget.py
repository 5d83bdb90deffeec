"""The plan of a run's shots: how many each circuit gets, within a budget."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.options import Number
from ...exceptions import ProblemError
from .laboratory import Account

#: Value of ``shots`` for a number that grows from step to step.
ADAPTIVE = "adaptive"
#: Rule of the option ``shots``.
SHOTS_RULE = Number(at_least=1, whole=True, powers=True, words=(ADAPTIVE,), none=True, note="for exact")
#: Rule of options that are whole numbers or None.
COUNT_RULE = Number(at_least=1, whole=True, powers=True, none=True)
#: Steps of the default budget of adaptive shots.
DEFAULT_BUDGET_STEPS = 40
#: Shots of each circuit in the default budget, and of the final circuit.
DEFAULT_SHOTS = 10_000
#: Fewest shots of a circuit with adaptive shots.
MIN_SHOTS = 100
#: Largest noise of f at a state, as a share of the expected decrease of f. An expected decrease that is only noise is
#: about as large as the noise, so the share must be well below 1.
MAX_NOISE_SHARE = 0.25
#: Factor of the shots from one step to the next if the noise is larger. Shots never decrease: a step with fewer shots
#: would undo the last ones.
SHOT_GROWTH = 1.5


@dataclass(frozen=True)
class ShotPlan:
    """Plans the shots of a run: fixed, adaptive or none, within a budget.

    Parameters
    ----------
    shots : int ≥ 1, "adaptive" or None
        Of each circuit; None for exact distributions.
    final_shots : int ≥ 1, optional
        Of the final state's own circuit.
    budget : int ≥ 1, optional
        Shots of the full run.

    Raises
    ------
    ProblemError
        The budget is too small; or a budget or final shots were set without shots.
    """

    shots: int | str | None
    final_shots: int | None = None
    budget: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("final_shots", self.final_shots), ("shot_budget", self.budget)):
            if value is not None and self.shots is None:
                raise ProblemError(f"{name} needs shots; with shots=None every distribution is exact")
        if self.budget is not None and self.first is not None and self.budget < self.first + (self.final or 0):
            raise ProblemError(
                f"shot_budget={self.budget} does not hold the first circuit ({self.first} shots) and the final one "
                f"({self.final or 0}); raise it or use fewer shots"
            )

    @property
    def adaptive(self) -> bool:
        return self.shots == ADAPTIVE

    @property
    def first(self) -> int | None:
        """Shots of the first circuits."""
        return MIN_SHOTS if self.adaptive else None if self.shots is None else int(self.shots)

    @property
    def final(self) -> int | None:
        """Shots of the final state's own circuit, or None if it has none."""
        return DEFAULT_SHOTS if self.adaptive and self.final_shots is None else self.final_shots

    def check_start(self, circuits: int, preparation: int) -> None:
        """Raise `ProblemError` unless the budget holds the first step and the final circuit.

        Parameters
        ----------
        circuits : int
            Circuits of the first step.
        preparation : int
            Shots of checks and calibrations before it.
        """
        start = preparation + circuits * (self.first or 0)
        if self.budget is not None and self.budget < start + (self.final or 0):
            raise ProblemError(
                f"shot_budget={self.budget} does not hold the first step ({circuits} circuits of {self.first} shots"
                + (f", and before it {preparation} shots of calibration" if preparation else "")
                + f") and the final circuit ({self.final or 0}); raise it, or use fewer shots or circuits a step"
            )

    def next_shots(self, shots: int, fall: float, variance: float, account: Account, circuits: int) -> int | None:
        """Return the shots of each circuit of the next step.

        Parameters
        ----------
        shots : int
            With which the present state was measured.
        fall : float
            Expected decrease of f by the step.
        variance : float
            V, where V/S is the noise in f of a state measured with S shots.
        account : Account
            Of the run so far.
        circuits : int
            Circuits of a step.
        """
        if not self.adaptive:
            return self.first
        wanted = shots * SHOT_GROWTH if variance > MAX_NOISE_SHARE * fall * shots else shots
        return int(max(MIN_SHOTS, min(wanted, self.shots_left(account, circuits) / circuits)))

    def total_shots(self, circuits: int) -> float:
        """Return the shots of the full run if each step has ``circuits`` circuits; infinite without a budget."""
        if self.budget is not None:
            return self.budget
        return DEFAULT_BUDGET_STEPS * DEFAULT_SHOTS * circuits if self.adaptive else float("inf")

    def shots_left(self, account: Account, circuits: int) -> float:
        """Return the shots that are left for steps of ``circuits`` circuits each."""
        return self.total_shots(circuits) - account.shots - (self.final or 0)

    def averages(self, step: int, last: int | None, account: Account, circuits: int) -> bool:
        """Return whether the states of step ``step``, counted from 0, are part of the averaged result.

        They are in the second half of the steps, of which ``last`` is the last one, or of the budget.
        """
        if self.first is None:
            return False
        return (last is not None and step >= last // 2) or 2 * account.shots >= self.total_shots(circuits)

    def is_exhausted(self, shots: int, account: Account, circuits: int) -> bool:
        """Return whether another step with ``shots`` for each circuit exceeds the budget."""
        return self.shots_left(account, circuits) < shots * circuits
