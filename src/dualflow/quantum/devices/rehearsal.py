"""A device for dry runs: it takes another device's place, returns the emulator's results and records all batches."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import NDArray

from ..circuits import ParametricCircuit
from .base import Device, Readout
from .emulator import EmulatorDevice
from .local import LocalJob


class RehearsalDevice(EmulatorDevice):
    """The emulator with a record of all batches; it sends nothing to other machines.

    Parameters
    ----------
    target : Device, optional
        The device that it replaces. Checks of the bit order that this device needs are recorded too.

    Attributes
    ----------
    requests : list of (ParametricCircuit, int, int or None)
        For each batch the circuit, the number of bindings, and the shots of each.
    """

    name = "rehearsal"

    def __init__(self, target: Device | None = None) -> None:
        super().__init__()
        self.target, self.checked_circuits = target, set[ParametricCircuit]()
        self.check_bit_order = getattr(target, "check_bit_order", False)
        self.requests: list[tuple[ParametricCircuit, int, int | None]] = []

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        return self.target is not None and self.target.wants_check(circuit) and circuit not in self.checked_circuits

    def check_read(self, circuit: ParametricCircuit, readouts: Sequence[Readout] | None) -> None:
        self.checked_circuits.add(circuit)

    def _submit(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str, seed: int | None
    ) -> LocalJob:
        self.requests.append((circuit, 1 if values.ndim == 1 else len(values), shots))
        return super()._submit(circuit, values, shots, tag, seed)
