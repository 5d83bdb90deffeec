"""Qiskit Aer on this computer: exact distributions from the state vector, or measured counts, with or without noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit, resources
from ..circuits.resources import Resources
from .base import Capabilities
from .confusion import apply_tensored
from .identity import backend_parts, noise_digest
from .local import LocalDevice
from .noise import ONE_QUBIT_GATES, TWO_QUBIT_GATES, Noise, readout_confusion

__all__ = ["AerDevice", "NoisyAerDevice"]

#: Most qubits of a circuit whose noisy distribution is computed exactly, with 4^q numbers per gate. Aer samples wider
#: circuits.
MAX_DENSITY_QUBITS = 10
#: Aer seeds circuit k of a run with the run's seed + SEED_STEP * k.
SEED_STEP = 2113


class AerDevice(LocalDevice):
    """Qiskit Aer's state-vector simulator.

    A batch is one run. With noise and up to 10 qubits, the exact distribution is computed from the density matrix, and
    shots are multinomial draws from it. They have the distribution of Aer's own counts and are faster. Wider noisy
    circuits are sampled by Aer, and their exact distribution is not available.

    Parameters
    ----------
    noise : Noise or qiskit_aer.noise.NoiseModel, optional
        Circuits are compiled to the gates of a given noise model, which must have an error for each pair of qubits
        that a circuit couples. For a backend with few couplings use `BackendDevice`.
    simulator : qiskit_aer.AerSimulator, optional
        Runs circuits without noise, with its own method and options. It must have no noise and no couplings.

    Raises
    ------
    ProblemError
        ``noise`` has another type, or has joint read-out errors of several qubits.
    """

    name = "aer"
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=24)
    divisible: bool = True

    def __init__(self, noise: Noise | Any = None, *, simulator: Any = None) -> None:
        super().__init__()
        self.noise, self.simulator = noise, simulator
        if simulator is not None:
            if noise is not None:
                raise ProblemError("simulator runs circuits without noise; give one of noise and simulator")
            self.name = f"aer:{simulator.name}"
            self.capabilities = replace(AerDevice.capabilities, qubits=min(24, simulator.num_qubits))
            self.divisible = False  # its options may make it draw for several circuits together
            return
        if noise is None:
            return
        if isinstance(noise, Noise):
            plain = f"depolarizing={float(noise.depolarizing)!r}, readout={noise.readout!r}"
            self.name = NoisyAerDevice.name if noise == Noise() else f"aer:noisy({plain})"
        else:
            from qiskit_aer.noise import NoiseModel

            if not isinstance(noise, NoiseModel):
                raise ProblemError(f"noise must be a Noise, a NoiseModel of qiskit_aer, or None; found {noise!r}")
            readout_confusion(noise, 1)  # raises an error for read-out errors that Aer would ignore
            self.name = f"aer:noise-{noise_digest(noise)}"
        self.capabilities = replace(AerDevice.capabilities, noisy=True)

    @property
    def configuration(self) -> dict[str, str]:
        # The noise is part of the name, and a user's simulator has no noise.
        return {} if self.simulator is None else backend_parts(self.simulator)

    @property
    def shared(self) -> Any:
        return self if self.simulator is None else self.simulator

    def _compile(self, circuit: ParametricCircuit) -> dict[str, Any]:
        from qiskit import transpile
        from qiskit_aer import AerSimulator

        noise, wide = self.noise, self.noise is not None and circuit.n_qubits > MAX_DENSITY_QUBITS
        method = "statevector" if noise is None else "automatic" if wide else "density_matrix"
        if isinstance(noise, Noise):
            # Gates without an error in the noise model are decomposed into gates with one. The simulator gets only the
            # errors of this circuit's gates, because Aer processes the full noise model in every run.
            gates = transpile(circuit.build(), basis_gates=[*ONE_QUBIT_GATES, *TWO_QUBIT_GATES], optimization_level=0)
            noise = noise.model(gates.count_ops())
            simulator = AerSimulator(method=method, noise_model=noise)
        else:
            # Without noise use level 0: the gates are already Aer's own, and the family's gate counts stay the same.
            # With a given noise model use level 1, as for a machine: gates are translated and simplified.
            simulator = self.simulator or AerSimulator(method=method, noise_model=noise)
            level = 0 if noise is None else 1
            gates = transpile(circuit.build(), simulator, optimization_level=level, seed_transpiler=0)
        exact = gates.copy()
        exact.save_probabilities()
        readable = noise is not None and not wide
        return {
            "simulator": simulator,
            "gates": gates,
            "exact": exact,
            "measured": gates.measure_all(inplace=False),
            "confusion": readout_confusion(noise, circuit.n_qubits) if readable else None,
            "wide": wide,
        }

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        compiled = self.compiled(circuit)
        if shots is None and compiled["wide"]:
            raise DeviceError(
                f"device {self.name!r} computes exact distributions of at most {MAX_DENSITY_QUBITS} qubits, circuit "
                f"{circuit.name!r} has {circuit.n_qubits}; set shots, for example shots=10_000"
            )
        if shots is None or compiled["confusion"] is not None:
            result = self._simulate(circuit, values, "exact")
            probabilities = np.array([result.data(i)["probabilities"] for i in range(len(values))])
            if compiled["confusion"] is not None:
                probabilities = apply_tensored(compiled["confusion"], probabilities)
            if shots is None:
                return probabilities, None
            drawn = self.drawn(probabilities, shots, seed)
            return drawn / shots, drawn
        result = self._simulate(circuit, values, "measured", shots=shots, seed_simulator=seed)
        counts = np.zeros((len(values), 2**circuit.n_qubits), dtype=np.int64)
        for i, row in enumerate(counts):
            for outcome, number in result.data(i)["counts"].items():
                row[int(outcome, 16)] = number
        return counts / shots, counts

    def run_rows(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int, first: int
    ) -> tuple[NDArray, NDArray | None]:
        """Run some rows as `Device.run_rows` does; unless a simulator was given, with the bits of the full batch."""
        if not self.divisible:
            return super().run_rows(circuit, values, shots, seed, first)
        if shots is not None and self.compiled(circuit)["confusion"] is not None:
            return self._run(circuit, values, None, seed)  # `drawn` draws all rows by one generator
        return self._run(circuit, values, shots, seed + SEED_STEP * first)

    def drawn(self, probabilities: NDArray, shots: int, seed: int) -> NDArray:
        # Rounding leaves entries below 0 and sums above 1, for which multinomial raises an error.
        probabilities = np.maximum(probabilities, 0.0)
        probabilities /= probabilities.sum(axis=-1, keepdims=True)
        counts: NDArray = np.random.default_rng(seed).multinomial(shots, probabilities)
        return counts

    def _simulate(self, circuit: ParametricCircuit, values: NDArray, which: str, **options: Any) -> Any:
        compiled = self.compiled(circuit)
        # Bind the compiled circuit's own parameters: an equal circuit built again has other objects of the same names.
        parameters, bound = compiled["gates"].parameters, circuit.gate_parameters(values)
        run, gates = compiled["simulator"].run, compiled[which]
        if len(bound) == 1:  # Qiskit binds one circuit of 2000 gates in half of Aer's time
            job = run(gates.assign_parameters(dict(zip(parameters, bound[0], strict=True))), **options)
        else:
            columns = {parameter: column.tolist() for parameter, column in zip(parameters, bound.T, strict=True)}
            job = run(gates, parameter_binds=[columns], **options)
        result = job.result()
        if not result.success:
            raise DeviceError(f"device {self.name!r} failed on circuit {circuit.name!r}: {result.status}")
        return result

    def resources(self, circuit: ParametricCircuit) -> Resources:
        return resources.count(self.compiled(circuit)["gates"])


class NoisyAerDevice(AerDevice):
    """Qiskit Aer with `Noise`: depolarising 1e-3 on each gate, and each bit read wrongly with probability 1 %."""

    name = "aer:noisy"
    capabilities = replace(AerDevice.capabilities, noisy=True)

    def __init__(self, noise: Noise | Any = Noise()) -> None:  # noqa: B008 - frozen
        super().__init__(noise)
