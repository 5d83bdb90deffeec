"""Feature maps from PennyLane functions: their states, and their gates for devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError
from ..circuits.decompose import pennylane_steps, pennylane_tape
from ..circuits.fidelity import Step
from .maps import FeatureMap, digest


class PennyLaneMap(FeatureMap):
    """A function of (x, wires) that applies PennyLane's operations; wire k is qubit k.

    The states are `pennylane.state` of default.qubit, one tape for each point. For other devices every tape is
    decomposed into rotations, H, X, CNOT and CZ; the gates must be the same for all points.
    """

    def __init__(self, function: Callable[..., Any], n_features: int, n_qubits: int) -> None:
        self.function, self.n_features, self.n_qubits = function, n_features, n_qubits
        self.name = "".join(c if c.isalnum() else "_" for c in getattr(function, "__name__", "pennylane"))

    def _tape(self, x: NDArray) -> Any:
        """Return the tape of a point; raise `ProblemError` if it ends in a measurement other than the state."""
        wires = range(self.n_qubits)
        way_out = "of a QNode give the function it was made of (its attribute func), without its measurements"
        tape = pennylane_tape(lambda: self.function(x, wires), self.n_qubits, "feature_map", way_out)
        for measurement in tape.measurements:
            kind = type(measurement).__name__.removesuffix("MP")
            if kind != "State":
                raise ProblemError(
                    f"feature_map: the function ends in a PennyLane measurement ({kind}), which a kernel of states "
                    "would ignore. Give a function with the operations only"
                )
        return tape

    def states(self, X: NDArray) -> NDArray:
        import pennylane

        device = pennylane.device("default.qubit", wires=self.n_qubits)
        tapes = [pennylane.tape.QuantumScript(self._tape(x).operations, [pennylane.state()]) for x in X]
        found = pennylane.execute(tapes, device, diff_method=None)
        states = np.array([np.asarray(state, dtype=complex).reshape(-1) for state in found])
        # PennyLane's first wire is the most significant bit of the index; here it is the least significant one.
        bits = states.reshape(len(X), *[2] * self.n_qubits)
        return bits.transpose(0, *range(self.n_qubits, 0, -1)).reshape(len(X), -1)

    def _steps(self, x: NDArray) -> tuple[tuple[Step, ...], list[float]]:
        way_out = "device='emulator' takes any operation that acts on a state"
        return pennylane_steps(self._tape(x), "feature_map", way_out)

    def gates(self, X: NDArray) -> tuple[str, tuple[Step, ...], NDArray]:
        points, where = np.unique(X, axis=0, return_inverse=True)
        taken = [self._steps(x) for x in points]
        steps = taken[0][0]
        if any(other != steps for other, _ in taken):
            raise ProblemError(
                "feature_map: the function applies other gates to other points; a device takes one circuit with all "
                "bindings. Use device='emulator', or gates whose angles only depend on x"
            )
        angles = np.array([values for _, values in taken])[where.reshape(-1)]
        return f"{self.name}_{digest(steps)}", steps, angles
