"""Planned batches of a run, counted as a laboratory counts them, and a laboratory that continues an account."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..circuits import ParametricCircuit
from ..devices import Limits
from ..devices.bit_order import SHOTS_PER_STATE, basis_states
from .laboratory import Account, Laboratory
from .mitigation import CALIBRATION_SHOTS, calibrations


@dataclass(frozen=True)
class Batch:
    """A number of bindings of a circuit with the shots of each, or None for exact distributions."""

    circuit: ParametricCircuit
    circuits: int
    shots: int | None

    def split(self, limits: Limits) -> list[Batch]:
        """Return the jobs of this batch within a device's limits."""
        parts = limits.parts(self.circuits, self.shots)
        return [Batch(self.circuit, rows.stop - rows.start, shots) for rows, shots in parts]


class Schedule:
    """The batches of a run's steps, for solvers that know them before they measure.

    Attributes
    ----------
    steps : list of lists of Batch
        Batches of the start, and then of each step.
    account : Account
        With all these batches added, as `ShotPlan` needs it.
    """

    def __init__(self, lab: Laboratory) -> None:
        self.mitigation, self.device = lab.mitigation, lab.device
        self.steps: list[list[Batch]] = []
        self.account = Account.opened(np.random.default_rng(0))

    def batches(self, steps: int | None = None) -> Counter[Batch]:
        """Return how often each batch is sent, in the start and the first ``steps`` steps; by default in all steps."""
        return Counter(batch for step in self.steps[: None if steps is None else 1 + steps] for batch in step)

    def step(self, circuit: ParametricCircuit, circuits: int, shots: int) -> None:
        """Add a step of one batch.

        Before a circuit's first batch, add the check of its bit order if the device needs it, and with mitigation its
        calibration.
        """
        batches = [Batch(circuit, circuits, shots)]
        known, ordered = self.account.calibrations, self.account.ordered
        if self.mitigation is not None and repr(circuit) not in known:
            ends = calibrations(self.mitigation, circuit)
            batches[:0] = [Batch(run, len(bindings), max(shots, CALIBRATION_SHOTS)) for run, bindings in ends]
            known = known | {repr(circuit): None}
        if self.device.wants_check(circuit) and repr(circuit) not in ordered:
            states, jobs = basis_states(circuit)
            batches[:0] = [Batch(states, len(bindings), SHOTS_PER_STATE) for bindings in jobs]
            ordered = (*ordered, repr(circuit))
        self.steps.append(batches)
        self.account = replace(
            self.account,
            circuits=self.account.circuits + sum(batch.circuits for batch in batches),
            shots=self.account.shots + sum(batch.circuits * (batch.shots or 0) for batch in batches),
            calibrations=known,
            ordered=ordered,
        )


class ContinuedLaboratory(Laboratory):
    """A laboratory whose new accounts continue an existing account, so that several runs add to one.

    Parameters
    ----------
    lab : Laboratory
        Its device, journal and budget are used and shared.
    base : Account
        Replaces an account without circuits, except for that account's random generator.
    """

    def __init__(self, lab: Laboratory, base: Account) -> None:
        # `Laboratory.__init__` is not called: journal and budget are those of ``lab``.
        self._lab, self._base = lab, base

    def __getattr__(self, name: str) -> Any:
        if name in ("_lab", "_base"):  # copy and pickle read these before they are set
            raise AttributeError(name)
        return getattr(self._lab, name)

    def measure(
        self, account: Account, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None
    ) -> tuple[NDArray, Account]:
        if account.circuits == 0:
            account = replace(self._base, rng=account.rng)
        return self._lab.measure(account, circuit, theta, shots)
