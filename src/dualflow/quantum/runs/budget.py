"""How many shots each circuit of a run gets."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.options import Number
from ...exceptions import ProblemError
from .laboratory import Account

__all__ = ["COUNT", "SHOTS", "ShotPlan"]

ADAPTIVE = "adaptive"
#: Rules of the options: shots of a circuit, and whole numbers that may be left out.
SHOTS = Number(at_least=1, whole=True, powers=True, words=(ADAPTIVE,), none=True, note="for exact")
COUNT = Number(at_least=1, whole=True, powers=True, none=True)
#: A budget that nobody gave is one of 40 steps with 10 000 shots a circuit.
USUAL_STEPS, USUAL_SHOTS = 40, 10_000
#: Adaptive: fewest shots of a circuit; the noise in f that a state may have, as a share of the fall its step promises
#: (a promise made of noise alone is about as large as the noise, so the share is well below 1); and the growth of the
#: shots from step to step where it has more. Shots never fall again: a step with fewer would undo the last ones.
FEWEST, NOISE_SHARE, GROWTH = 100, 0.25, 1.5


@dataclass(frozen=True)
class ShotPlan:
    """Shots of a run: fixed, adaptive or none, within a budget; the rules above are those of the numbers.

    Parameters
    ----------
    shots : int ≥ 1, "adaptive" or None
        Of each circuit; None for exact distributions.
    final_shots : int ≥ 1, optional
        Of the final state's own circuit.
    budget : int ≥ 1, optional
        Shots of the whole run.

    Raises
    ------
    ProblemError
        They do not go together: a budget too small, or either of the two without shots.
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
                f"({self.final or 0}); raise it or ask for fewer shots"
            )

    @property
    def adaptive(self) -> bool:
        return self.shots == ADAPTIVE

    @property
    def first(self) -> int | None:
        """Shots of the start's circuits."""
        return FEWEST if self.adaptive else None if self.shots is None else int(self.shots)

    @property
    def final(self) -> int | None:
        """Shots of the final state's own circuit, or None if it has none."""
        return USUAL_SHOTS if self.adaptive and self.final_shots is None else self.final_shots

    def check_start(self, circuits: int, preparation: int) -> None:
        """Raise `ProblemError` unless the budget holds a start of so many circuits, the shots that go before it, and
        the final circuit."""
        start = preparation + circuits * (self.first or 0)
        if self.budget is not None and self.budget < start + (self.final or 0):
            raise ProblemError(
                f"shot_budget={self.budget} does not hold the first step ({circuits} circuits of {self.first} shots"
                + (f", and before it {preparation} shots of calibration" if preparation else "")
                + f") and the final circuit ({self.final or 0}); raise it, or ask for fewer shots or circuits a step"
            )

    def next(self, shots: int, fall: float, variance: float, account: Account, circuits: int) -> int | None:
        """Shots of the circuits of the next step.

        Parameters
        ----------
        shots : int
            Behind the present state.
        fall : float
            What the step from it promises to take off f.
        variance : float
            V, where V/S is the noise in f of a state measured with S shots.
        account : Account
            What has been spent.
        circuits : int
            Circuits of a step.
        """
        if not self.adaptive:
            return self.first
        wanted = shots * GROWTH if variance > NOISE_SHARE * fall * shots else shots
        return int(max(FEWEST, min(wanted, self.left(account, circuits) / circuits)))

    def whole(self, circuits: int) -> float:
        """Shots of the whole run, if its steps take so many circuits; infinite where no budget ends it."""
        if self.budget is not None:
            return self.budget
        return USUAL_STEPS * USUAL_SHOTS * circuits if self.adaptive else float("inf")

    def left(self, account: Account, circuits: int) -> float:
        """Shots left for steps of so many circuits."""
        return self.whole(circuits) - account.shots - (self.final or 0)

    def averages(self, step: int, last: int | None, account: Account, circuits: int) -> bool:
        """Whether what step ``step`` measures, from 0 on, counts in the answer.

        It does in the second half of the steps that end with ``last``, or of the budget: the way there is forgotten.
        """
        if self.first is None:
            return False
        return (last is not None and step >= last // 2) or 2 * account.shots >= self.whole(circuits)

    def exhausted(self, shots: int, account: Account, circuits: int) -> bool:
        """Whether another step with so many shots a circuit does not fit into the budget."""
        return self.left(account, circuits) < shots * circuits
