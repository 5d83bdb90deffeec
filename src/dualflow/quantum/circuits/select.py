"""The select circuit Σ_k |k⟩⟨k| ⊗ exp(−it(kL + H)) that Schrödingerisation and LCHS share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.options import Number, OneOf, option
from ...core.runtime.threads import cached_property
from ...exceptions import ProblemError
from .base import COUNT_RULE, ParametricCircuit
from .multiplexer import multiplex_angles, multiplexed_rz
from .pauli_steps import PauliSteps
from .rotation import append_rotation, rotation_matrix
from .tree import TreeCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["EVOLUTION_RULE", "ORDER_RULE", "SelectCircuit", "append_phases"]

#: Rule of the field ``evolution``.
EVOLUTION_RULE = OneOf(words=("exact", "trotter"))
#: Rule of the field ``order``.
ORDER_RULE = Number(at_least=1, at_most=2, whole=True)


@dataclass(frozen=True, repr=False)
class SelectCircuit(ParametricCircuit):
    """A superposition of 2^ancillas Hamiltonian evolutions of a state x on q = n_qubits − ancillas qubits.

    The system is on qubits 0 … q−1, the ancilla register on those above. Subclasses prepare the register (`_prepare`)
    and transform it after the evolution (`_unprepare`). Each register value k evolves x by kL + H, with L real and
    symmetric, and −iH real and antisymmetric. The register's qubits are read as a two's complement number j′, and k is
    proportional to j′ + ½ = −½ Σ_b s_b 2^b Z_b, with s_b = −1 for the highest bit and +1 for all others. Therefore
    k̂ ⊗ L needs no controlled evolution.

    evolution="exact": L = VΛVᵀ, and each step is exp(−i dt k̂ ⊗ Λ), an RZ on each ancilla multiplexed by the system,
    between rotations of the system (`rotation`). θ is, in this order: D − 1 angles of the tree that prepares x,
    D = 2^q; D(D−1)/2 angles of the rotation before the first step; with several steps, as many of the rotation between
    steps; as many of the rotation after the last step; and D angles for each ancilla.

    evolution="trotter": products of exp(−iθⱼ/2 Z_b ⊗ P) and exp(−iθⱼ/2 P) for all Pauli strings P of the system, of
    order 1 (Lie and Trotter) or 2 (Strang and Suzuki). θ is the D − 1 angles of the tree, then the angles of a step:
    for each ancilla one for each of the D(D+1)/2 strings with an even number of Y, and one for each of the D(D−1)/2
    strings with an odd number.

    Parameters
    ----------
    n_qubits : int
        Including the ancillas.
    ancillas : int ≥ 2
    trotter_steps : int ≥ 1
    evolution : {"exact", "trotter"}
    order : {1, 2}
        Order of "trotter". With "exact" the order follows from the angles.
    """

    ancillas: int = option(2, Number(at_least=2, whole=True))
    trotter_steps: int = option(1, COUNT_RULE)
    evolution: str = option("exact", EVOLUTION_RULE)
    order: int = option(2, ORDER_RULE)

    #: Sign of L in the evolution by ±kL + H.
    pairing: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_qubits <= self.ancillas:
            raise ProblemError(f"n_qubits={self.n_qubits!r} must exceed ancillas={self.ancillas!r}")

    def __repr__(self) -> str:
        """Return the repr without options that have their default value."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    @property
    def name(self) -> str:
        how = "" if self.evolution == "exact" else f"_t{self.order}"
        return f"{super().name}_a{self.ancillas}_s{self.trotter_steps}{how}"

    @property
    def system(self) -> int:
        """Qubits of the system."""
        return self.n_qubits - self.ancillas

    @property
    def sizes(self) -> dict[str, int]:
        if self.evolution != "exact" or self.system < 2:
            return {}
        return {"s": self.system, "a": self.ancillas, "r": self.trotter_steps}

    @property
    def n_rotations(self) -> int:
        """Rotations among the parameters of "exact": before, between and after the steps."""
        return 2 if self.trotter_steps == 1 else 3

    @property
    def n_parameters(self) -> int:
        size = 2**self.system
        if self.evolution == "trotter":
            return size - 1 + self._pauli_steps.n_angles
        return size - 1 + self.n_rotations * size * (size - 1) // 2 + self.ancillas * size

    # --- the ancilla register ------------------------------------------------------------------

    @property
    def spacing(self) -> float:
        """Distance of neighbouring values of k."""
        raise NotImplementedError

    @cached_property
    def k(self) -> NDArray:
        """Values of k by the index of the register, shape (2^ancillas,)."""
        j = np.arange(2**self.ancillas)
        return self.spacing * (np.where(j < len(j) // 2, j, j - len(j)) + 0.5)

    @property
    def accepted(self) -> NDArray:
        """Which outcomes of the register are accepted: boolean, shape (2^ancillas,)."""
        raise NotImplementedError

    def start_amplitudes(self) -> NDArray:
        """Return the register's amplitudes before the evolution, complex, shape (2^ancillas,)."""
        raise NotImplementedError

    def apply_unprepare(self, psi: NDArray) -> NDArray:
        """Return states of shape (2^ancillas, D) after the gates of `_unprepare`."""
        raise NotImplementedError

    def _prepare(self, circuit: QuantumCircuit, register: Sequence[int]) -> None:
        raise NotImplementedError

    def _unprepare(self, circuit: QuantumCircuit, register: Sequence[int]) -> None:
        raise NotImplementedError

    def phase_angles(self, lam: NDArray, dt: float) -> NDArray:
        """Return φ, shape (ancillas, len(lam)), with exp(∓i k λ dt) = exp(−½i Σ_b z_b φ_b).

        ``lam`` holds eigenvalues or Pauli weights λ.
        """
        weight = 2.0 ** np.arange(self.ancillas)
        weight[-1] *= -1.0
        return -self.pairing * self.spacing * dt * np.outer(weight, lam)

    def kept(self, distribution: NDArray) -> NDArray:
        """Return the joint probabilities of an accepted register and each outcome of the system, shape (D,).

        Their sum is the probability of success.
        """
        return distribution.reshape(2**self.ancillas, -1)[self.accepted].sum(axis=0)

    # --- the circuit ---------------------------------------------------------------------------

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit

        phi, system = self.parameters("phi"), range(self.system)
        register = range(self.system, self.n_qubits)
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        tree, parts = phi[: 2**self.system - 1], self._parts(np.array(phi, dtype=object))
        prepare = TreeCircuit(self.system).build().assign_parameters(tree)
        circuit.compose(prepare, system, inplace=True)
        self._prepare(circuit, register)
        if self.evolution == "trotter":
            self._pauli_steps.append(circuit, parts[0].tolist(), self.trotter_steps)
        else:
            rotations = [part.tolist() for part in parts[:-1]]
            phases = parts[-1].reshape(self.ancillas, -1).tolist()
            append_rotation(circuit, rotations[0], self.system)
            for step in range(self.trotter_steps):
                for qubit, angles in zip(register, phases, strict=True):
                    multiplexed_rz(circuit, angles, qubit, system)
                append_rotation(circuit, rotations[-1 if step == self.trotter_steps - 1 else 1], self.system)
        self._unprepare(circuit, register)
        return circuit

    def gate_parameters(self, theta: ArrayLike) -> NDArray:
        """Return φ, shape (…, P): `multiplex_angles` of θ, part by part."""
        theta = self.check_parameters(theta)
        size = 2**self.system
        tree = TreeCircuit(self.system).gate_parameters(theta[..., : size - 1])
        parts = self._parts(theta)
        if self.evolution == "trotter":
            return np.concatenate([tree, self._pauli_steps.gate_angles(parts[0])], axis=-1)
        widths = [size // 2] * self.n_rotations + [size]
        gates = [
            multiplex_angles(part.reshape(*theta.shape[:-1], -1, width)).reshape(*theta.shape[:-1], -1)
            for part, width in zip(parts, widths, strict=True)
        ]
        return np.concatenate([tree, *gates], axis=-1)

    def distribution(self, theta: ArrayLike) -> NDArray:
        """Return the ideal distributions, computed by matrices with the same product formula."""
        return self.row_by_row(theta)

    def _distribution_of(self, theta: NDArray) -> NDArray:
        return np.abs(self.state(theta)).ravel() ** 2

    def state(self, theta: NDArray) -> NDArray:
        """Return the final amplitudes, complex, shape (2^ancillas, D), up to a global phase."""
        return self.apply_unprepare(self.evolve(self.start_amplitudes(), theta))

    def evolve(self, register: NDArray, theta: NDArray) -> NDArray:
        """Return Σ_k register_k |k⟩ exp(−it(±kL + H)) x, shape (2^ancillas, D)."""
        size = 2**self.system
        psi = np.outer(register, _tree_amplitudes(theta[: size - 1]))
        parts = self._parts(theta)
        if self.evolution == "trotter":
            return self._pauli_steps.apply(psi, parts[0], self.trotter_steps)
        z = 1.0 - 2.0 * ((np.arange(2**self.ancillas)[:, None] >> np.arange(self.ancillas)) & 1)
        phases = np.exp(-0.5j * z @ parts[-1].reshape(self.ancillas, size))
        rotations = [rotation_matrix(part.reshape(size - 1, size // 2)).T for part in parts[:-1]]
        psi = psi @ rotations[0]
        for step in range(self.trotter_steps):
            psi = (psi * phases) @ rotations[-1 if step == self.trotter_steps - 1 else 1]
        return psi

    def _parts(self, theta: NDArray) -> list[NDArray]:
        """Return the parts of θ after the tree's angles: the rotations and phases, or the Pauli angles."""
        size = 2**self.system
        rest = theta[..., size - 1 :]
        if self.evolution == "trotter":
            return [rest]
        one = size * (size - 1) // 2
        return np.split(rest, [one * k for k in range(1, self.n_rotations + 1)], axis=-1)

    @cached_property
    def _pauli_steps(self) -> PauliSteps:
        return PauliSteps(self.system, self.ancillas, self.order)


def append_phases(circuit: QuantumCircuit, phases: NDArray, qubits: Sequence[int]) -> None:
    """Append diag(e^{i phases}) on c qubits by multiplexed RZ, up to a global phase; phases of shape (2^c,)."""
    for k, qubit in enumerate(qubits):
        low, high = phases[::2], phases[1::2]
        multiplexed_rz(circuit, multiplex_angles(high - low).tolist(), qubit, qubits[k + 1 :])
        phases = 0.5 * (low + high)


def _tree_amplitudes(theta: NDArray) -> NDArray:
    """Return the signed amplitudes of the tree circuit, shape (2^q,)."""
    psi = np.ones(1)
    while len(psi) <= len(theta):
        half = 0.5 * theta[len(psi) - 1 : 2 * len(psi) - 1]
        psi = np.stack([psi * np.cos(half), psi * np.sin(half)], axis=-1).ravel()
    return psi
