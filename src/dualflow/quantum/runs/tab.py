"""One account over many runs: what a solver measures on one is added to what others before it have measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike, NDArray

from ..circuits import ParametricCircuit
from .laboratory import Account, Laboratory

__all__ = ["Tab"]


class Tab(Laboratory):
    """A laboratory whose new accounts go on from one that there is.

    Parameters
    ----------
    lab : Laboratory
        Whose device, journal and budget are used, and shared.
    base : Account
        What an account without any circuit is taken for, but for its random generator.
    """

    def __init__(self, lab: Laboratory, base: Account) -> None:
        # No laboratory of its own: journal and budget are one run's.
        self._lab, self._base = lab, base

    def __getattr__(self, name: str) -> Any:
        if name in ("_lab", "_base"):  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self._lab, name)

    def measure(
        self, account: Account, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None
    ) -> tuple[NDArray, Account]:
        if account.circuits == 0:
            account = replace(self._base, rng=account.rng)
        return self._lab.measure(account, circuit, theta, shots)
