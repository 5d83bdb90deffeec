"""The ansätze of `variational-flow`: angles for a point of the simplex, the circuits of a step, and their read-out."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit
from ..circuits.encoding import free_angles, node_masses, pad, qubits_for, simplex_to_angles
from ..circuits.hardware_efficient import HardwareEfficientCircuit
from ..circuits.tree import TreeCircuit
from .own_circuit import OwnCircuit

#: ∂μ/∂θ: an array, or a sparse one.
Tangents: TypeAlias = Any

#: Exact distributions: smallest distance of an angle of the tree from 0 and π, radians. A leaf of probability
#: sin²(θ/2) = 0 could never grow again.
MIN_ANGLE = 1e-5
#: Default number of angles per variable of the hardware-efficient ansatz. With one angle per variable the flow meets
#: points where ∂π/∂θ is nearly singular, and becomes slow; with a quarter more it does not.
ANGLES_PER_VARIABLE = 1.25
#: Most variables of a tree whose tangents are a dense array: above it, sparse products are faster.
MAX_DENSE_TANGENTS = 128
#: Largest number of rotations of an ansatz with shifts: a step takes 2P + 1 circuits and O(P²n) classical work.
MAX_ANGLES = 1600


class Ansatz:
    """A circuit, and the maps between its angles, its distributions, and the variables μ of shape (n,), Σμ = 1.

    Attributes
    ----------
    n : int
        Variables.
    circuit : ParametricCircuit
    padding : str
        How the outcomes beyond n are used, for the provenance.
    """

    n: int
    circuit: ParametricCircuit
    padding: str
    #: Added to a probability before a tangent is divided by it: tangents below it are round-off.
    least_mass: float
    #: With shots: circuits of a step that repeat the one at θ.
    repeats: int = 0

    @property
    def n_angles(self) -> int:
        """P, the length of θ."""
        return self.circuit.n_parameters

    def angles(self, theta: NDArray) -> NDArray:
        """Return the circuit's angles at θ."""
        return theta

    def start(self, mu: NDArray | None, rng: np.random.Generator) -> NDArray:
        """Return the first angles, shape (P,): those of ``mu``, or the default ones of the ansatz."""
        raise NotImplementedError

    def bindings(self, theta: NDArray, exact: bool) -> NDArray:
        """Return the angles of the circuits of a step at θ: one vector, or one row for each, that at θ first."""
        raise NotImplementedError

    def circuits_a_step(self, exact: bool) -> int:
        """Return the number of circuits of one step."""
        return len(np.atleast_2d(self.bindings(np.zeros(self.n_angles), exact)))

    def measured(self, distributions: NDArray) -> NDArray:
        """Return the measured μ, shape (n,), from those distributions of `bindings` that belong to θ.

        It sums to less than 1 if a noisy device gave outcomes of padding.
        """
        raise NotImplementedError

    def measured_normalised(self, distributions: NDArray) -> NDArray:
        """Return the measured μ scaled to Σμ = 1."""
        return normalised(self.measured(distributions))

    def tangents(self, distributions: NDArray, shots: int | None) -> tuple[NDArray, Tangents]:
        """Return μ of shape (n,), Σμ = 1, and ∂μ/∂θ of shape (n, F) for the F free angles."""
        raise NotImplementedError

    def angle_change(self, mu: NDArray, change: NDArray) -> NDArray:
        """Return the change of all angles, shape (P,), that changes μ by ``change`` to first order; Σ change = 0.

        Only an ansatz whose angles are one to one with μ has it.
        """
        raise NotImplementedError

    def spread(self, step: NDArray) -> NDArray:
        """Return a step of the F free angles as one of all angles, shape (P,)."""
        return step

    def move(self, theta: NDArray, step: NDArray, exact: bool) -> NDArray:
        """Return θ after a step of shape (P,), within the range of the ansatz."""
        return theta + step


class TreeAnsatz(Ansatz):
    """A tree of n − 1 angles for n variables, one to one with μ; one circuit a step, whose outcomes give ∂μ/∂θ too."""

    circuit: TreeCircuit
    least_mass = float(np.finfo(float).tiny)

    def __init__(self, n: int, layers: int | None = None) -> None:
        if layers is not None:
            raise ProblemError(f"layers={layers!r} is an option of ansatz='hardware-efficient'; the tree has none")
        self.n, self.circuit = n, TreeCircuit(qubits_for(n))
        self.free = free_angles(n, self.circuit.n_qubits)
        outcomes = 2**self.circuit.n_qubits
        leaves = f"{n} variables padded with {outcomes - n} leaves of probability 0 to {outcomes}"
        self.padding = leaves if outcomes > n else "none"

    def start(self, mu: NDArray | None, rng: np.random.Generator) -> NDArray:
        mu = np.full(self.n, 1.0 / self.n) if mu is None else mu
        return simplex_to_angles(pad(mu, self.circuit.n_qubits), self.n)

    def bindings(self, theta: NDArray, exact: bool) -> NDArray:
        return theta

    def measured(self, distributions: NDArray) -> NDArray:
        return distributions[: self.n]

    def tangents(self, distributions: NDArray, shots: int | None) -> tuple[NDArray, Tangents]:
        mu = normalised(self.measured(distributions))
        # One uniform shot is added: the tangents of a leaf without counts would be 0, and it could not grow again.
        smooth = (mu * shots + 1.0 / self.n) / (shots + 1.0) if shots else mu
        of = self.circuit.dense_tangents if self.n <= MAX_DENSE_TANGENTS else self.circuit.tangents
        return smooth, of(pad(smooth, self.circuit.n_qubits))[: self.n][:, self.free]

    def angle_change(self, mu: NDArray, change: NDArray) -> NDArray:
        # θ = 2 arctan √(r/l) for the masses l, r of a node's children: dθ = (l dr − r dl)/((l + r) √(l r)).
        masses = node_masses(pad(mu, self.circuit.n_qubits))
        changes = node_masses(pad(change, self.circuit.n_qubits))
        left, right = masses[1::2], masses[2::2]
        area = (left + right) * np.sqrt(left * right)
        moved = left * changes[2::2] - right * changes[1::2]
        return np.where(self.free, np.divide(moved, area, out=np.zeros_like(area), where=area > 0), 0.0)

    def spread(self, step: NDArray) -> NDArray:
        full = np.zeros(self.circuit.n_parameters)
        full[self.free] = step
        return full

    def move(self, theta: NDArray, step: NDArray, exact: bool) -> NDArray:
        # In [0, π] √μ ≥ 0, and μ ↦ θ is one to one; the angles that lead to padding stay 0.
        least = MIN_ANGLE if exact else 0.0
        return np.where(self.free, np.clip(theta + step, least, np.pi - least), 0.0)


class ShiftedAnsatz(Ansatz):
    """An ansatz whose tangents come from the parameter-shift rule: R rotations take 2R + 1 circuits a step.

    With shots they take 3R + 1. Outcome i counts for variable i mod n.
    """

    least_mass = 1e-20

    def __init__(self, n: int, circuit: ParametricCircuit) -> None:
        self.n, self.circuit = n, circuit
        # With shots the circuit at θ is repeated once for each of the P angles, because E is computed from its
        # distribution alone. P more circuits (half as many again) reduce the noise of E by √P.
        self.repeats, outcomes = circuit.n_parameters, 2**circuit.n_qubits
        self.variable = np.arange(outcomes) % n
        shared = f"{outcomes - n} of {outcomes} outcomes shared: outcome i counts for variable i mod {n}"
        self.padding = shared if outcomes > n else "none"

    def start(self, mu: NDArray | None, rng: np.random.Generator) -> NDArray:
        if mu is not None:
            raise ProblemError(
                f"warm: ansatz={self.title} cannot be started from a given alpha (its angles are not known); "
                "use ansatz='tree', or leave warm out"
            )
        return rng.uniform(0.0, 2.0 * np.pi, self.n_angles)

    @property
    def title(self) -> str:
        """The option ``ansatz`` as an error message shows it."""
        raise NotImplementedError

    def bindings(self, theta: NDArray, exact: bool) -> NDArray:
        return self.circuit.shifts(self.angles(theta), again=0 if exact else self.repeats)

    def measured(self, distributions: NDArray) -> NDArray:
        folded = self._fold(np.atleast_2d(distributions))
        mean: NDArray = folded[: max(1, len(folded) - 2 * self.circuit.n_parameters)].mean(axis=0)
        return mean

    def tangents(self, distributions: NDArray, shots: int | None) -> tuple[NDArray, NDArray]:
        angles, shifted = self.circuit.n_parameters, self._fold(distributions[-2 * self.circuit.n_parameters :])
        return self.measured_normalised(distributions), 0.5 * (shifted[:angles] - shifted[angles:]).T

    def _fold(self, distributions: NDArray) -> NDArray:
        """Add the probability of each outcome to its variable, i mod n."""
        if len(self.variable) == self.n:
            return distributions
        folded = distributions[:, : self.n].copy()
        for first in range(self.n, len(self.variable), self.n):
            part = distributions[:, first : first + self.n]
            folded[:, : part.shape[1]] += part
        return folded


class HardwareEfficientAnsatz(ShiftedAnsatz):
    """The ansatz of layers of RY and CX."""

    circuit: HardwareEfficientCircuit

    def __init__(self, n: int, layers: int | None = None) -> None:
        qubits = qubits_for(n)
        if layers is None:
            angles = max(int(np.ceil(ANGLES_PER_VARIABLE * n)), n + 2 * qubits)
            layers = -(-angles // qubits) - 1
        super().__init__(n, HardwareEfficientCircuit(qubits, layers))

    @property
    def title(self) -> str:
        return "'hardware-efficient'"


class OwnAnsatz(ShiftedAnsatz):
    """The ansatz of a user's circuit: θ are its parameters, and its rotations' angles are affine functions of them."""

    def __init__(self, n: int, own: OwnCircuit) -> None:
        super().__init__(n, own.circuit)
        self.own = own

    @property
    def title(self) -> str:
        return repr(self.own)

    @property
    def n_angles(self) -> int:
        return self.own.n_angles

    def angles(self, theta: NDArray) -> NDArray:
        return self.own.angles(theta)

    def tangents(self, distributions: NDArray, shots: int | None) -> tuple[NDArray, NDArray]:
        mu, by_rotation = super().tangents(distributions, shots)
        return mu, by_rotation @ self.own.jacobian


ANSAETZE: dict[str, Any] = {"tree": TreeAnsatz, "hardware-efficient": HardwareEfficientAnsatz}


def make_ansatz(given: str | OwnCircuit, n: int, layers: int | None = None) -> Ansatz:
    """Return the ansatz of the given name or circuit for n variables."""
    if isinstance(given, OwnCircuit):
        if layers is not None:
            raise ProblemError(f"layers={layers!r} is an option of ansatz='hardware-efficient'; leave it out")
        return OwnAnsatz(n, given)
    ansatz: Ansatz = ANSAETZE[given](n, layers)
    return ansatz


def ansatz_mismatch(solver: str, given: str | OwnCircuit, n: int, layers: int | None) -> str | None:
    """Return why an ansatz has too few outcomes or too many angles for n variables, or None."""
    if isinstance(given, OwnCircuit) and 2**given.circuit.n_qubits < n:
        return (
            f"{solver!r}: {given!r} has {2**given.circuit.n_qubits} outcomes, and the problem has {n} variables; give "
            f"a circuit of {qubits_for(n)} qubits or more, or ansatz='tree'"
        )
    ansatz = make_ansatz(given, n, layers)
    rotations = ansatz.circuit.n_parameters
    if given == "tree" or rotations <= MAX_ANGLES:
        return None
    if isinstance(given, OwnCircuit):
        return (
            f"{solver!r} takes at most {MAX_ANGLES} rotations, and {given!r} has {rotations}; give a circuit with "
            "fewer, or ansatz='tree'"
        )
    return (
        f"{solver!r} with ansatz={given!r} takes at most {MAX_ANGLES} angles, and {n} variables need {rotations}; "
        "set fewer layers, or try ansatz='tree' or 'working-set'"
    )


def normalised(mu: NDArray) -> NDArray:
    """Return μ scaled to sum 1; raise `DeviceError` if only padding was measured."""
    mass = mu.sum()
    if not mass > 0:
        raise DeviceError(f"the device measured none of the {len(mu)} variables, only padding")
    return mu / mass
