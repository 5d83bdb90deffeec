"""How angles stand for a point of the simplex: which circuits a step needs, and what their distributions say."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ...exceptions import DeviceError, ProblemError
from ..circuits import HardwareEfficientCircuit, ParametricCircuit, TreeCircuit
from ..circuits.encoding import free_angles, pad, qubits_for, simplex_to_angles
from .own_circuit import OwnCircuit

__all__ = [
    "ANSAETZE",
    "Ansatz",
    "HardwareEfficientAnsatz",
    "OwnAnsatz",
    "TreeAnsatz",
    "make_ansatz",
    "normalised",
    "unfit",
]

#: ∂μ/∂θ: an array, or a sparse one.
Tangents: TypeAlias = Any

#: In exact mode no angle of the tree comes nearer to 0 or π: a leaf of mass sin²(θ/2) = 0 could never grow again.
LEAST_ANGLE = 1e-5
#: Angles of the hardware-efficient ansatz a variable, unless layers are given: with as many angles as variables the
#: flow meets points where ∂π/∂θ is nearly singular and crawls; with a quarter more it does not.
ANGLES_A_VARIABLE = 1.25
#: Most rotations of an ansatz with shifts: a step takes 2P + 1 circuits and O(P²n) classical work.
MOST_ANGLES = 1600


class Ansatz:
    """A circuit, and the maps between its angles, its distributions, and the variables μ of shape (n,), Σμ = 1.

    Attributes
    ----------
    n : int
        Variables.
    circuit : ParametricCircuit
    padding : str
        What became of the outcomes beyond n.
    """

    n: int
    circuit: ParametricCircuit
    padding: str
    #: Smallest probability a tangent is divided by: below it a tangent from differences of distributions is round-off.
    least_mass: float
    #: Circuits of a step with shots that are run at θ itself, besides the first.
    repeats: int = 0

    @property
    def n_angles(self) -> int:
        """P: how many angles θ has."""
        return self.circuit.n_parameters

    def angles(self, theta: NDArray) -> NDArray:
        """The circuit's angles at θ."""
        return theta

    def start(self, mu: NDArray | None, rng: np.random.Generator) -> NDArray:
        """First angles, shape (P,): of a given μ, or of the ansatz' own choice."""
        raise NotImplementedError

    def bindings(self, theta: NDArray, exact: bool) -> NDArray:
        """The circuit's angles of all circuits a step needs at θ, one's or one a row, those of θ itself first."""
        raise NotImplementedError

    def circuits_a_step(self, exact: bool) -> int:
        """Circuits of one batch of `bindings`."""
        return len(np.atleast_2d(self.bindings(np.zeros(self.n_angles), exact)))

    def measured(self, distributions: NDArray) -> NDArray:
        """μ as it was measured, shape (n,), from those distributions of `bindings` that are of θ itself.

        Sums to less than 1 where a noisy device put outcomes on padding.
        """
        raise NotImplementedError

    def known(self, distributions: NDArray) -> NDArray:
        """`measured`, Σμ = 1."""
        return normalised(self.measured(distributions))

    def tangents(self, distributions: NDArray, shots: int | None) -> tuple[NDArray, Tangents]:
        """μ of shape (n,), Σμ = 1, and ∂μ/∂θ of shape (n, F) for the F angles that may move."""
        raise NotImplementedError

    def spread(self, step: NDArray) -> NDArray:
        """A change of the F angles that may move as one of all, shape (P,)."""
        return step

    def move(self, theta: NDArray, step: NDArray, exact: bool) -> NDArray:
        """θ with a step of shape (P,) taken, kept where the ansatz wants its angles."""
        return theta + step


class TreeAnsatz(Ansatz):
    """n − 1 angles for n variables, every μ reached once; one circuit a step, since π alone gives ∂π/∂θ."""

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

    def tangents(self, distributions: NDArray, shots: int | None) -> tuple[NDArray, scipy.sparse.csr_array]:
        mu = normalised(self.measured(distributions))
        # One more shot, spread evenly: from zero counts alone a leaf would look dead and could not come back.
        smooth = (mu * shots + 1.0 / self.n) / (shots + 1.0) if shots else mu
        return smooth, self.circuit.tangents(pad(smooth, self.circuit.n_qubits))[: self.n][:, self.free]

    def spread(self, step: NDArray) -> NDArray:
        whole = np.zeros(self.circuit.n_parameters)
        whole[self.free] = step
        return whole

    def move(self, theta: NDArray, step: NDArray, exact: bool) -> NDArray:
        # In [0, π] √μ ≥ 0 and μ ↦ θ is one to one; the angles that lead to padding stay 0.
        least = LEAST_ANGLE if exact else 0.0
        return np.where(self.free, np.clip(theta + step, least, np.pi - least), 0.0)


class ShiftedAnsatz(Ansatz):
    """Any circuit of rotations: R of them take 2R + 1 circuits a step (parameter shift), with shots 3R + 1.

    Outcome i counts for variable i mod n.
    """

    least_mass = 1e-20

    def __init__(self, n: int, circuit: ParametricCircuit) -> None:
        self.n, self.circuit = n, circuit
        # With shots θ itself is run again as often as it has angles: the gradient is made of that distribution
        # alone, and for half as many circuits more its noise falls by √P.
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
        """What the user gave."""
        raise NotImplementedError

    def bindings(self, theta: NDArray, exact: bool) -> NDArray:
        return self.circuit.shifts(self.angles(theta), again=0 if exact else self.repeats)

    def measured(self, distributions: NDArray) -> NDArray:
        folded = self._fold(np.atleast_2d(distributions))
        mean: NDArray = folded[: max(1, len(folded) - 2 * self.circuit.n_parameters)].mean(axis=0)
        return mean

    def tangents(self, distributions: NDArray, shots: int | None) -> tuple[NDArray, NDArray]:
        angles, shifted = self.circuit.n_parameters, self._fold(distributions[-2 * self.circuit.n_parameters :])
        return self.known(distributions), 0.5 * (shifted[:angles] - shifted[angles:]).T

    def _fold(self, distributions: NDArray) -> NDArray:
        if len(self.variable) == self.n:
            return distributions
        folded = distributions[:, : self.n].copy()
        for first in range(self.n, len(self.variable), self.n):
            part = distributions[:, first : first + self.n]
            folded[:, : part.shape[1]] += part
        return folded


class HardwareEfficientAnsatz(ShiftedAnsatz):
    """Layers of RY and CX."""

    circuit: HardwareEfficientCircuit

    def __init__(self, n: int, layers: int | None = None) -> None:
        qubits = qubits_for(n)
        if layers is None:
            angles = max(int(np.ceil(ANGLES_A_VARIABLE * n)), n + 2 * qubits)
            layers = -(-angles // qubits) - 1
        super().__init__(n, HardwareEfficientCircuit(qubits, layers))

    @property
    def title(self) -> str:
        return "'hardware-efficient'"


class OwnAnsatz(ShiftedAnsatz):
    """A circuit of the user's: θ are its parameters, and its rotations' angles are affine functions of them."""

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
    """The ansatz of a name, or of a circuit, for n variables."""
    if isinstance(given, OwnCircuit):
        if layers is not None:
            raise ProblemError(f"layers={layers!r} is an option of ansatz='hardware-efficient'; a circuit has its own")
        return OwnAnsatz(n, given)
    ansatz: Ansatz = ANSAETZE[given](n, layers)
    return ansatz


def unfit(solver: str, given: str | OwnCircuit, n: int, layers: int | None) -> str | None:
    """Why an ansatz is too small for n variables, or too large to be worth a run, or None."""
    if isinstance(given, OwnCircuit) and 2**given.circuit.n_qubits < n:
        return (
            f"{solver!r}: {given!r} has {2**given.circuit.n_qubits} outcomes, and the problem has {n} variables; give "
            f"a circuit of {qubits_for(n)} qubits or more, or ansatz='tree'"
        )
    ansatz = make_ansatz(given, n, layers)
    rotations = ansatz.circuit.n_parameters
    if given == "tree" or rotations <= MOST_ANGLES:
        return None
    if isinstance(given, OwnCircuit):
        return (
            f"{solver!r} takes at most {MOST_ANGLES} rotations, and {given!r} has {rotations}; give a circuit with "
            "fewer, or ansatz='tree'"
        )
    return (
        f"{solver!r} with ansatz={given!r} takes at most {MOST_ANGLES} angles, and {n} variables ask for {rotations}; "
        "set fewer layers, or try ansatz='tree' or 'working-set'"
    )


def normalised(mu: NDArray) -> NDArray:
    """μ without what fell on padding, summing to 1; `DeviceError` if nothing else was measured."""
    mass = mu.sum()
    if not mass > 0:
        raise DeviceError(f"the device measured none of the {len(mu)} variables, only padding")
    return mu / mass
