"""Circuits in Aer's own form, made once and run many times: angles are bound as arrays, without Python for each gate.

`AerSimulator.run` converts every instruction of a circuit to C++ in every call, which takes ten times as long as the
simulation of a circuit of up to ten qubits. The functions of Aer that convert and run circuits are not part of its
documented interface: where they are missing or differ, `assembled` returns None and `AerSimulator.run` is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from .bound_angles import index_and_factor

if TYPE_CHECKING:
    from qiskit import QuantumCircuit


class AssembledCircuit:
    """A circuit of Aer that saves its probabilities.

    Parameters
    ----------
    circuit : QuantumCircuit
        In the simulator's gates, with ``save_probabilities`` at its end; angles are numbers or multiples of a
        parameter.
    simulator : qiskit_aer.AerSimulator
        Made by dualflow.
    noise : qiskit_aer.noise.NoiseModel, optional

    Raises
    ------
    ValueError
        An angle is another function of the parameters.
    """

    def __init__(self, circuit: QuantumCircuit, simulator: Any, noise: Any = None) -> None:
        from qiskit_aer.backends.aer_compiler import assemble_circuits, generate_aer_config

        (self._native,), (positions,) = assemble_circuits([circuit])
        self._native.circ_id = 0
        self._config, self._circuit = generate_aer_config, circuit
        self._simulator, self._noise = simulator, noise
        index = {parameter: k for k, parameter in enumerate(circuit.parameters)}
        #: Position of an operation and of its angle, index of the parameter, and its factor.
        self._slots: list[tuple[tuple[int, int], int, float]] = []
        for k, instruction in enumerate(circuit.data):
            for place, angle in enumerate(instruction.operation.params):
                if getattr(angle, "parameters", None):
                    self._slots.append(((positions[k], place), *index_and_factor(angle, index)))

    def probabilities(self, values: NDArray) -> NDArray:
        """Return the distributions, shape (k, 2^q), at the circuit's own parameters, shape (k, P), in one call of Aer.

        Raises
        ------
        DeviceError
            Aer reports a failure.
        """
        columns = values.T.tolist()
        bound = [
            [where, columns[k] if factor == 1.0 else (factor * values[:, k]).tolist()]
            for where, k, factor in self._slots
        ]
        options = {"parameterizations": [bound]} if bound else {}
        config = self._config([self._circuit], self._simulator.options, shots=1, **options)
        output = self._simulator._execute_circuits([self._native], self._noise, config)
        if not output.get("success", False):
            raise DeviceError(f"Aer failed on circuit {self._circuit.name!r}: {output.get('status')}")
        found = np.array([result["data"]["probabilities"] for result in output["results"]], dtype=float)
        return found if bound else np.repeat(found, len(values), axis=0)


def assembled(circuit: QuantumCircuit, simulator: Any, noise: Any = None) -> AssembledCircuit | None:
    """Return the circuit in Aer's own form, or None where this version of Aer, or an angle, does not allow it."""
    if not hasattr(simulator, "_execute_circuits"):
        return None
    try:
        return AssembledCircuit(circuit, simulator, noise)
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
