"""A rehearsal: a device that answers like the emulator and notes what it was asked for, in another device's place."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import NDArray

from ..circuits import ParametricCircuit
from .base import Device, Readout
from .emulator import EmulatorDevice
from .local import LocalJob

__all__ = ["RehearsalDevice"]


class RehearsalDevice(EmulatorDevice):
    """The emulator with a list of what was asked of it; it sends nothing anywhere.

    Parameters
    ----------
    place : Device, optional
        In whose place it stands: a check of the order of bits that this one wants is asked for, too.

    Attributes
    ----------
    asked : list of (ParametricCircuit, int, int or None)
        Of each batch: the circuit, its bindings, and the shots of each.
    """

    name = "rehearsal"

    def __init__(self, place: Device | None = None) -> None:
        super().__init__()
        self.place, self.checked = place, set[ParametricCircuit]()
        self.check_bit_order = getattr(place, "check_bit_order", False)
        self.asked: list[tuple[ParametricCircuit, int, int | None]] = []

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        return self.place is not None and self.place.wants_check(circuit) and circuit not in self.checked

    def check_read(self, circuit: ParametricCircuit, readouts: Sequence[Readout] | None) -> None:
        self.checked.add(circuit)

    def _submit(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str, seed: int | None
    ) -> LocalJob:
        self.asked.append((circuit, 1 if values.ndim == 1 else len(values), shots))
        return super()._submit(circuit, values, shots, tag, seed)
