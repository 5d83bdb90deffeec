"""Qiskit Aer on this computer: exact distributions and counts, without noise or with a noise model.

Without noise, and with noise up to 10 qubits, Aer computes a batch's exact distributions in one call, and the counts
are multinomial draws from them. They have the distribution of Aer's own counts: shots of a circuit without
measurements in its middle are independent. All rows of a batch are drawn in their order by one generator,
``numpy.random.default_rng(seed)`` with the batch's seed.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit, resources
from ..circuits.resources import Resources
from .assembled import assembled
from .base import Capabilities
from .confusion import apply_tensored
from .emulator import DRAWN_FROM_EXACT
from .identity import backend_parts, noise_digest
from .local import LocalDevice, Rates
from .noise import ONE_QUBIT_GATES, TWO_QUBIT_GATES, Noise, readout_confusion
from .pauli_basis import PauliCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

#: Most qubits of a circuit whose noisy distribution is computed exactly, with 4^q numbers per gate. Aer samples wider
#: circuits.
MAX_DENSITY_QUBITS = 10
#: Most qubits of a matrix product state whose 2^q probabilities are computed for the draws. Aer samples wider ones
#: qubit by qubit, without the 2^q probabilities.
MAX_DRAWN_MPS_QUBITS = 14
#: Packages of Aer with graphics processors.
GPU_PACKAGES = ("qiskit-aer-gpu", "qiskit-aer-gpu-cu11")
#: Aer seeds circuit k of a run with the run's seed + SEED_STEP * k.
SEED_STEP = 2113


class AerDevice(LocalDevice):
    """Qiskit Aer's state-vector simulator.

    A batch is one run. Shots are multinomial draws from the exact distribution, which is computed from the state vector
    or, with noise and up to 10 qubits, from the density matrix. They have the distribution of Aer's own counts and are
    faster. Wider noisy circuits are sampled by Aer, and their exact distribution is not available.

    The density matrix under a `Noise` is computed by dualflow in the Pauli basis, in which depolarising noise is
    diagonal; it is Aer's to 1e-13, and four to fifteen times faster. Aer computes that under a given noise model.

    Parameters
    ----------
    noise : Noise or qiskit_aer.noise.NoiseModel, optional
        Circuits are compiled to the gates of a given noise model, which must have an error for each pair of qubits
        that a circuit couples. For a backend with few couplings use `BackendDevice`.
    simulator : qiskit_aer.AerSimulator, optional
        Runs circuits without noise, with its own method and options, by its own ``run``: its counts are its own. It
        must have no noise and no couplings.

    Raises
    ------
    ProblemError
        ``noise`` has another type, or has joint read-out errors of several qubits.
    """

    name = "aer"
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=24)
    divisible: bool = True
    #: Aer's simulation method of circuits without noise.
    method: ClassVar[str] = "statevector"
    #: Further options of Aer's simulators.
    simulator_options: ClassVar[dict[str, Any]] = {}

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

    @property
    def rates(self) -> Rates | None:
        if self.simulator is not None or self.method != "statevector" or self.simulator_options:
            return None
        if self.noise is None:
            return Rates(2e-5, 1e-6, 2.3e-9, 4500.0)
        return Rates(6e-5, 3e-5, 1.5e-9, 4500.0, base=4) if isinstance(self.noise, Noise) else None

    @property
    def drawing(self) -> str:
        if self.simulator is not None:
            return "by the simulator's own run"
        if self.capabilities.noisy:
            matrix = (
                "the density matrix in the Pauli basis" if isinstance(self.noise, Noise) else "Aer's density matrix"
            )
            return f"multinomial from {matrix}, numpy's PCG64; by Aer above {MAX_DENSITY_QUBITS} qubits"
        return DRAWN_FROM_EXACT

    def _simulator(self, circuit: ParametricCircuit, noise: Any) -> Any:
        """Return a new simulator for a circuit."""
        from qiskit_aer import AerSimulator

        wide = noise is not None and circuit.n_qubits > MAX_DENSITY_QUBITS
        method = self.method if noise is None else "automatic" if wide else "density_matrix"
        return AerSimulator(method=method, noise_model=noise, **self.simulator_options)

    def _compile(self, circuit: ParametricCircuit) -> dict[str, Any]:
        noise, gates = self.noise, circuit.build()
        wide = noise is not None and circuit.n_qubits > MAX_DENSITY_QUBITS
        if isinstance(noise, Noise):
            # Gates without an error in the noise model are decomposed into gates with one. The simulator gets only the
            # errors of this circuit's gates, because Aer processes the full noise model in every run.
            gates = _decomposed(gates, {*ONE_QUBIT_GATES, *TWO_QUBIT_GATES})
            noise = noise.model(gates.count_ops())
            simulator = self._simulator(circuit, noise)
        else:
            simulator = self.simulator or self._simulator(circuit, noise)
            if noise is None:
                gates = _decomposed(gates, {*simulator.configuration().basis_gates}, simulator)
            else:
                from qiskit import transpile

                # With a given noise model use level 1, as for a machine: gates are translated and simplified.
                gates = transpile(gates, simulator, optimization_level=1, seed_transpiler=0)
        exact = gates.copy()
        exact.save_probabilities()
        own = self.simulator is not None
        sampled = own or wide or (self.method != "statevector" and circuit.n_qubits > MAX_DRAWN_MPS_QUBITS)
        return {
            "simulator": simulator,
            "gates": gates,
            "exact": exact,
            "native": None if own or wide else self._native(exact, gates, simulator, noise),
            "draws": not sampled,
            "confusion": readout_confusion(noise, circuit.n_qubits) if noise is not None and not wide else None,
            "wide": wide,
        }

    def _native(self, exact: QuantumCircuit, gates: QuantumCircuit, simulator: Any, noise: Any) -> Any:
        """Return the object that computes the distributions of a circuit without its gates in Python, or None."""
        if isinstance(self.noise, Noise):
            with contextlib.suppress(ValueError):  # a gate that is no rotation about one axis: Aer simulates it
                return PauliCircuit(gates, self.noise.depolarizing)
        return assembled(exact, simulator, noise)

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        compiled = self.compiled(circuit)
        if shots is None and compiled["wide"]:
            raise DeviceError(
                f"device {self.name!r} computes exact distributions of at most {MAX_DENSITY_QUBITS} qubits, circuit "
                f"{circuit.name!r} has {circuit.n_qubits}; set shots, for example shots=10_000"
            )
        if shots is None or compiled["draws"]:
            probabilities = self._probabilities(circuit, values)
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

    def _probabilities(self, circuit: ParametricCircuit, values: NDArray) -> NDArray:
        """Return the exact distributions of a batch, shape (k, 2^q)."""
        compiled = self.compiled(circuit)
        if compiled["native"] is not None:
            probabilities = compiled["native"].probabilities(circuit.gate_parameters(values))
        else:
            result = self._simulate(circuit, values, "exact")
            probabilities = np.array([result.data(i)["probabilities"] for i in range(len(values))])
        return probabilities if compiled["confusion"] is None else apply_tensored(compiled["confusion"], probabilities)

    def run_rows(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int, first: int
    ) -> tuple[NDArray, NDArray | None]:
        """Run some rows as `Device.run_rows` does; unless a simulator was given, with the bits of the full batch."""
        if not self.divisible:
            return super().run_rows(circuit, values, shots, seed, first)
        if shots is not None and self.compiled(circuit)["draws"]:
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
        if which == "measured" and which not in compiled:
            compiled[which] = compiled["gates"].measure_all(inplace=False)
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


class MPSAerDevice(AerDevice):
    """Qiskit Aer's matrix product state: wide circuits of little entanglement.

    Memory and time grow with the entanglement across each cut of the qubits in their order, not with 2^q. Exact
    distributions, and read-outs of every device, are arrays of 2^q numbers. With shots, circuits above 14 qubits are
    sampled by Aer itself.
    """

    name = "aer:mps"
    method: ClassVar[str] = "matrix_product_state"

    def __init__(self) -> None:
        super().__init__()

    @property
    def drawing(self) -> str:
        return f"{super().drawing}; by Aer above {MAX_DRAWN_MPS_QUBITS} qubits"


class GPUAerDevice(AerDevice):
    """Qiskit Aer's state vector on a graphics processor, with the package qiskit-aer-gpu in place of qiskit-aer.

    With a build of Aer of your own, give ``AerSimulator(device="GPU")`` as the device.

    Raises
    ------
    DeviceError
        Aer finds no graphics processor.
    """

    name = "aer:gpu"
    simulator_options: ClassVar[dict[str, Any]] = {"device": "GPU"}

    def __init__(self) -> None:
        from qiskit_aer import AerSimulator

        super().__init__()
        devices = AerSimulator().available_devices()
        if "GPU" not in devices:
            raise DeviceError(
                f"device 'aer:gpu' needs a graphics processor; Aer finds {', '.join(devices)} on this computer; use "
                "device='aer'"
            )

    @classmethod
    def missing(cls) -> list[str]:
        # Both packages have the same modules: only the name of the installed one tells them apart.
        has_gpu = any(_is_installed(name) for name in GPU_PACKAGES)
        return [] if has_gpu else [GPU_PACKAGES[0]]

    @classmethod
    def install(cls) -> str | None:
        return f"pip install {GPU_PACKAGES[0]}" if cls.missing() else None


def _is_installed(name: str) -> bool:
    """Return whether a package of this name is installed."""
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _decomposed(circuit: QuantumCircuit, gates: set[str], simulator: Any = None) -> QuantumCircuit:
    """Return a circuit in the given gates, which are those of the simulator, if any; itself if it has no others.

    Optimisation level 0 keeps the family's gate counts. Qiskit's compiler takes 0.1 s to load.
    """
    if set(circuit.count_ops()) <= gates:
        return circuit
    from qiskit import transpile

    # A simulator has gates, such as "multiplexer", that are refused as names of a basis.
    basis = {"basis_gates": sorted(gates)} if simulator is None else {"backend": simulator}
    return transpile(circuit, optimization_level=0, **basis)
