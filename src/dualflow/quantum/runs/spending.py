"""Limits of what a run spends on a device: shots, seconds and money, checked before each batch is sent."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.options import Number
from ...exceptions import BudgetSpent, DeviceError
from ..devices import Price

#: Rule of budgets that may be fractions.
AMOUNT_RULE = Number(at_least=0, none=True)
#: Relative excess of a sum of prices over a budget that counts as round-off.
ROUND_OFF_RTOL = 1e-12


@dataclass(frozen=True)
class Spent:
    """Shots, and their seconds and cost by the vendor's formulas; None where the vendor publishes none."""

    shots: int = 0
    qpu_seconds: float | None = 0.0
    cost: float | None = 0.0

    @classmethod
    def of(cls, shots: int, price: Price) -> Spent:
        return cls(shots, price.qpu_seconds, price.cost)

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.shots + other.shots, _sum(self.qpu_seconds, other.qpu_seconds), _sum(self.cost, other.cost))

    def at_least(self, other: Spent) -> Spent:
        """Return the larger value of each field; unknown values count 0."""
        return Spent(
            max(self.shots, other.shots),
            max(self.qpu_seconds or 0.0, other.qpu_seconds or 0.0),
            max(self.cost or 0.0, other.cost or 0.0),
        )


@dataclass(frozen=True)
class Budget:
    """Limits of what a run may spend, including the runs that it resumes; None is no limit."""

    max_shots: int | None = None  # int ≥ 0, optional
    #: max_qpu_seconds, max_cost: by the device's own `price`, in its currency; float ≥ 0, optional.
    max_qpu_seconds: float | None = None
    max_cost: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.max_shots, self.max_qpu_seconds, self.max_cost))

    def check(self, spent: Spent, batch: Spent, device: str, note: str = "") -> None:
        """Raise `BudgetSpent` if a batch exceeds a limit; it must not have been sent.

        Parameters
        ----------
        spent : Spent
            By the run so far.
        batch : Spent
            By the batch that would be sent next.
        device : str
            Name of the device, for error messages.
        note : str
            Added to the error message: which jobs ``spent`` does not count.
        """
        for name, limit, before, more in (
            ("max_shots", self.max_shots, spent.shots, batch.shots),
            ("max_qpu_seconds", self.max_qpu_seconds, spent.qpu_seconds or 0.0, batch.qpu_seconds),
            ("max_cost", self.max_cost, spent.cost or 0.0, batch.cost),
        ):
            if limit is None:
                continue
            if more is None:
                raise DeviceError(
                    f"{name}={limit:g} cannot be kept: device {device!r} does not report the price of a batch; "
                    "leave it out, or limit the run by max_shots",
                    sent=False,
                )
            slack = 0.0 if name == "max_shots" else ROUND_OFF_RTOL * limit
            if more > 0 and before + more > limit + slack:
                raise BudgetSpent(
                    f"{name}={_plain(limit)} does not hold the next batch, which takes {_plain(more)}: "
                    f"{_plain(before)} are spent and {_plain(max(limit - before, 0))} are left; nothing of it was "
                    f"sent. A larger budget continues from here, with the same journal or checkpoint{note}",
                    sent=False,
                )


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
