"""Batches before they are sent: what a run will ask of a device, booked as a laboratory would book it.

One account over many runs: what a solver measures on one is added to what others before it have measured.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..circuits import ParametricCircuit
from ..devices import Limits
from ..devices.bit_order import SHOTS as ORDER_SHOTS
from ..devices.bit_order import basis_states
from .laboratory import Account, Laboratory
from .mitigation import CALIBRATION_SHOTS, calibrations

__all__ = ["Batch", "Schedule", "Tab"]


@dataclass(frozen=True)
class Batch:
    """So many bindings of a circuit, with so many shots each; None for exact distributions."""

    circuit: ParametricCircuit
    circuits: int
    shots: int | None

    def split(self, limits: Limits) -> list[Batch]:
        """The jobs it takes where one may hold no more than that."""
        parts = limits.parts(self.circuits, self.shots)
        return [Batch(self.circuit, rows.stop - rows.start, shots) for rows, shots in parts]


class Schedule:
    """What the steps of a run send, for solvers that know it before anything is measured.

    Attributes
    ----------
    steps : list of lists of Batch
        Of the start, and then of each step.
    account : Account
        With all of it booked: what a plan of shots asks for.
    """

    def __init__(self, lab: Laboratory) -> None:
        self.mitigation, self.device = lab.mitigation, lab.device
        self.steps: list[list[Batch]] = []
        self.account = Account.opened(np.random.default_rng(0))

    def batches(self, steps: int | None = None) -> Counter[Batch]:
        """All batches, each with how often it is sent; of the start and so many steps."""
        return Counter(batch for step in self.steps[: None if steps is None else 1 + steps] for batch in step)

    def step(self, circuit: ParametricCircuit, circuits: int, shots: int) -> None:
        """One more step, of one batch; a circuit's first one is preceded by the check of its bits, where the device
        wants that, and with mitigation by its calibration."""
        batches = [Batch(circuit, circuits, shots)]
        known, ordered = self.account.calibrations, self.account.ordered
        if self.mitigation is not None and repr(circuit) not in known:
            ends = calibrations(self.mitigation, circuit)
            batches[:0] = [Batch(run, len(bindings), max(shots, CALIBRATION_SHOTS)) for run, bindings in ends]
            known = known | {repr(circuit): None}
        if self.device.wants_check(circuit) and repr(circuit) not in ordered:
            states, jobs = basis_states(circuit)
            batches[:0] = [Batch(states, len(bindings), ORDER_SHOTS) for bindings in jobs]
            ordered = (*ordered, repr(circuit))
        self.steps.append(batches)
        self.account = replace(
            self.account,
            circuits=self.account.circuits + sum(batch.circuits for batch in batches),
            shots=self.account.shots + sum(batch.circuits * (batch.shots or 0) for batch in batches),
            calibrations=known,
            ordered=ordered,
        )


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
