"""What a run may spend on a device: shots, its seconds, money. Counted from intent, checked before sending."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.options import Number
from ...exceptions import BudgetSpent, DeviceError
from ..devices import Price

__all__ = ["AMOUNT", "Budget", "Spent"]

#: Rule of the budgets that are no whole numbers.
AMOUNT = Number(at_least=0, none=True)
#: By how much a sum of prices may pass a budget and still be round-off, relatively.
ROUND_OFF = 1e-12


@dataclass(frozen=True)
class Spent:
    """Shots, and what the vendor's formulas make of them; None where a vendor says nothing."""

    shots: int = 0
    qpu_seconds: float | None = 0.0
    cost: float | None = 0.0

    @classmethod
    def of(cls, shots: int, price: Price) -> Spent:
        return cls(shots, price.qpu_seconds, price.cost)

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.shots + other.shots, _sum(self.qpu_seconds, other.qpu_seconds), _sum(self.cost, other.cost))

    def at_least(self, other: Spent) -> Spent:
        """The larger of each of the two, of what is known."""
        return Spent(
            max(self.shots, other.shots),
            max(self.qpu_seconds or 0.0, other.qpu_seconds or 0.0),
            max(self.cost or 0.0, other.cost or 0.0),
        )


@dataclass(frozen=True)
class Budget:
    """What a run may spend, the runs that it resumes included; None is no limit.

    Parameters
    ----------
    max_shots : int ≥ 0, optional
    max_qpu_seconds, max_cost : float ≥ 0, optional
        By the device's own `price`, in its currency.
    """

    max_shots: int | None = None
    max_qpu_seconds: float | None = None
    max_cost: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.max_shots, self.max_qpu_seconds, self.max_cost))

    def check(self, spent: Spent, wanted: Spent, device: str, counted: str = "") -> None:
        """Raise `BudgetSpent` unless what is wanted next fits beside what was spent; nothing has been sent then.

        ``counted`` is said besides, of what was spent.
        """
        for name, limit, before, more in (
            ("max_shots", self.max_shots, spent.shots, wanted.shots),
            ("max_qpu_seconds", self.max_qpu_seconds, spent.qpu_seconds or 0.0, wanted.qpu_seconds),
            ("max_cost", self.max_cost, spent.cost or 0.0, wanted.cost),
        ):
            if limit is None:
                continue
            if more is None:
                raise DeviceError(
                    f"{name}={limit:g} cannot be kept: device {device!r} does not say what a batch takes; "
                    "leave it out, or limit the run by max_shots",
                    sent=False,
                )
            slack = 0.0 if name == "max_shots" else ROUND_OFF * limit
            if more > 0 and before + more > limit + slack:
                raise BudgetSpent(
                    f"{name}={_plain(limit)} does not hold the next batch, which takes {_plain(more)}: "
                    f"{_plain(before)} are spent and {_plain(max(limit - before, 0))} are left; nothing of it was "
                    f"sent. A larger budget goes on from here, with the same journal or checkpoint{counted}",
                    sent=False,
                )


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
