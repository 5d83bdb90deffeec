"""Noise of simulators: `Noise` by two numbers, and the read-out errors of any noise model of Qiskit Aer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError

#: Qiskit's names of all gates that Aer runs on one qubit; `Noise` gives each of them an error.
ONE_QUBIT_GATES = ("id", "x", "y", "z", "h", "s", "sdg", "sx", "sxdg", "t", "tdg", "r", "rx", "ry", "rz", "p", "u")
#: Qiskit's names of all gates that Aer runs on two qubits; `Noise` gives each of them an error.
TWO_QUBIT_GATES = ("cx", "cy", "cz", "ecr", "swap", "rxx", "ryy", "rzz", "rzx", "cp", "cu", "csx", "crx", "cry", "crz")


@dataclass(frozen=True)
class Noise:
    """Depolarising gate errors and read-out errors, equal for all qubits.

    Parameters
    ----------
    depolarizing : float in [0, 1], default=1e-3
        Probability that a gate on one or two qubits leaves them in the maximally mixed state.
    readout : float in [0, 1] or pair of floats, default=0.01
        Probability that a qubit is read wrongly: one number, or P(1 | 0) and P(0 | 1).

    Raises
    ------
    ProblemError
        A probability is outside [0, 1].

    Examples
    --------
    >>> from dualflow import Noise
    >>> Noise(depolarizing=1e-3, readout=(0.02, 0.01))
    Noise(depolarizing=0.001, readout=(0.02, 0.01))
    """

    depolarizing: float = 1e-3
    readout: float | tuple[float, float] = 0.01

    def __post_init__(self) -> None:
        if not _is_probability(self.depolarizing):
            raise ProblemError(f"depolarizing={self.depolarizing!r} must be a probability, 0 to 1")
        pair = self.readout if isinstance(self.readout, (tuple, list)) else (self.readout,) * 2
        if len(pair) != 2 or not all(map(_is_probability, pair)):
            raise ProblemError(f"readout={self.readout!r} must be a probability, or two: P(1 | 0) and P(0 | 1)")

    @property
    def confusion(self) -> NDArray:
        """P(measured | prepared) of each qubit, shape (2, 2), columns summing to 1."""
        up, down = self.readout if isinstance(self.readout, (tuple, list)) else (self.readout, self.readout)
        return np.array([[1 - up, down], [up, 1 - down]])

    def model(self, gates: Iterable[str] = (*ONE_QUBIT_GATES, *TWO_QUBIT_GATES)) -> Any:
        """Return this noise as a ``qiskit_aer.noise.NoiseModel`` with errors of the given gates; fewer are faster."""
        from qiskit_aer.noise import NoiseModel, ReadoutError, depolarizing_error

        model = NoiseModel(basis_gates=[*ONE_QUBIT_GATES, *TWO_QUBIT_GATES])
        for qubits, names in ((1, ONE_QUBIT_GATES), (2, TWO_QUBIT_GATES)):
            if noisy := [name for name in names if name in gates]:
                model.add_all_qubit_quantum_error(depolarizing_error(self.depolarizing, qubits), noisy)
        model.add_all_qubit_readout_error(ReadoutError(self.confusion.T))
        return model


def readout_confusion(model: Any, n_qubits: int) -> NDArray:
    """Return the confusion matrices of qubits 0 … q−1 in an Aer noise model, shape (q, 2, 2).

    Raises
    ------
    ProblemError
        An error of "measure" is not the read-out error of one qubit. Aer ignores such errors when qubits are measured
        one by one.
    """
    default, local = np.eye(2), {}
    for error in model.to_dict(serializable=True)["errors"]:
        if "measure" not in error["operations"]:
            continue
        if error["type"] != "roerror" or np.shape(error["probabilities"]) != (2, 2):
            raise ProblemError(
                f"noise has an error of type {error['type']!r} on 'measure' that is not a read-out error of one qubit; "
                "give each qubit its own ReadoutError"
            )
        matrix = np.transpose(error["probabilities"])  # Aer has a row for each prepared state
        if "gate_qubits" in error:
            local.update({qubit: matrix for (qubit,) in error["gate_qubits"]})
        else:
            default = matrix
    return np.array([local.get(qubit, default) for qubit in range(n_qubits)])


def _is_probability(value: object) -> bool:
    return (
        isinstance(value, (int, float, np.integer, np.floating)) and type(value) is not bool and bool(0 <= value <= 1)
    )
