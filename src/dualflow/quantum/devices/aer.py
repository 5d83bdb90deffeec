"""Qiskit Aer on this machine: exact distributions from the state vector, or measured counts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import resources
from ..circuits import ParametricCircuit
from ..resources import Resources
from .base import Capabilities
from .local import LocalDevice

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["AerDevice"]


class AerDevice(LocalDevice):
    """Qiskit Aer's state-vector simulator.

    A batch is one run with ``parameter_binds``.
    """

    name = "aer"
    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=24)

    @cached_property
    def _simulator(self) -> Any:
        from qiskit_aer import AerSimulator

        return AerSimulator(method="statevector")

    def _compile(self, circuit: ParametricCircuit) -> dict[str, QuantumCircuit]:
        from qiskit import transpile

        # Level 0: the gates are Aer's own already, and their counts stay those of the family.
        gates = transpile(circuit.build(), self._simulator, optimization_level=0)
        exact = gates.copy()
        exact.save_probabilities()
        return {"gates": gates, "exact": exact, "measured": gates.measure_all(inplace=False)}

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        compiled = self.compiled(circuit)
        # The compiled circuit's own parameters: an equal circuit built again has others of the same names.
        parameters = zip(compiled["gates"].parameters, circuit.gate_parameters(values).T, strict=True)
        binds = [{parameter: column.tolist() for parameter, column in parameters}]
        if shots is None:
            result = self._simulator.run(compiled["exact"], parameter_binds=binds).result()
            return np.array([result.data(i)["probabilities"] for i in range(len(values))]), None
        run = self._simulator.run(compiled["measured"], parameter_binds=binds, shots=shots, seed_simulator=seed)
        result = run.result()
        counts = np.zeros((len(values), 2**circuit.n_qubits), dtype=np.int64)
        for i, row in enumerate(counts):
            for outcome, number in result.data(i)["counts"].items():
                row[int(outcome, 16)] = number
        return counts / shots, counts

    def resources(self, circuit: ParametricCircuit) -> Resources:
        return resources.count(self.compiled(circuit)["gates"])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_simulator"}
