"""How angles stand for a point of the simplex: which circuits a step needs, and what their distributions say."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ...exceptions import DeviceError, ProblemError
from ..circuits import HardwareEfficientCircuit, ParametricCircuit, TreeCircuit
from ..circuits.encoding import free_angles, pad, qubits_for, simplex_to_angles

__all__ = [
    "ANSAETZE",
    "Ansatz",
    "HardwareEfficientAnsatz",
    "TreeAnsatz",
    "make_ansatz",
    "normalised",
    "too_many_angles",
]

#: ∂μ/∂θ: an array, or a sparse one.
Tangents: TypeAlias = Any

#: In exact mode no angle of the tree comes nearer to 0 or π: a leaf of mass sin²(θ/2) = 0 could never grow again.
LEAST_ANGLE = 1e-5
#: Angles of the hardware-efficient ansatz a variable, unless layers are given: with as many angles as variables the
#: flow meets points where ∂π/∂θ is nearly singular and crawls; with a quarter more it does not.
ANGLES_A_VARIABLE = 1.25
#: Most angles of the hardware-efficient ansatz: a step takes 2P + 1 circuits and O(P²n) classical work.
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

    def start(self, mu: NDArray | None, rng: np.random.Generator) -> NDArray:
        """First angles, shape (P,): of a given μ, or of the ansatz' own choice."""
        raise NotImplementedError

    def bindings(self, theta: NDArray, exact: bool) -> NDArray:
        """Angles of the circuits a step needs at θ: shape (P,) or (k, P), θ itself first."""
        raise NotImplementedError

    def circuits_a_step(self, exact: bool) -> int:
        """Circuits of one batch of `bindings`."""
        return len(np.atleast_2d(self.bindings(np.zeros(self.circuit.n_parameters), exact)))

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


class HardwareEfficientAnsatz(Ansatz):
    """Layers of RY and CX; 2P + 1 circuits a step (parameter shift), with shots 3P + 1.

    Outcome i counts for variable i mod n.
    """

    circuit: HardwareEfficientCircuit
    least_mass = 1e-20

    def __init__(self, n: int, layers: int | None = None) -> None:
        qubits = qubits_for(n)
        if layers is None:
            angles = max(int(np.ceil(ANGLES_A_VARIABLE * n)), n + 2 * qubits)
            layers = -(-angles // qubits) - 1
        self.n, self.circuit = n, HardwareEfficientCircuit(qubits, layers)
        # With shots θ itself is run again as often as it has angles: the gradient is made of that distribution
        # alone, and for half as many circuits more its noise falls by √P.
        self.repeats = self.circuit.n_parameters
        self.variable = np.arange(2**qubits) % n
        shared = f"{2**qubits - n} of {2**qubits} outcomes shared: outcome i counts for variable i mod {n}"
        self.padding = shared if 2**qubits > n else "none"

    def start(self, mu: NDArray | None, rng: np.random.Generator) -> NDArray:
        if mu is not None:
            raise ProblemError(
                "warm: ansatz='hardware-efficient' cannot be started from a given alpha (its angles are not known); "
                "use ansatz='tree', or leave warm out"
            )
        return rng.uniform(0.0, 2.0 * np.pi, self.circuit.n_parameters)

    def bindings(self, theta: NDArray, exact: bool) -> NDArray:
        return self.circuit.shifts(theta, again=0 if exact else self.repeats)

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
        folded[:, : len(self.variable) - self.n] += distributions[:, self.n :]
        return folded


ANSAETZE: dict[str, Any] = {"tree": TreeAnsatz, "hardware-efficient": HardwareEfficientAnsatz}


def make_ansatz(name: str, n: int, layers: int | None = None) -> Ansatz:
    """The ansatz of a name for n variables."""
    ansatz: Ansatz = ANSAETZE[name](n, layers)
    return ansatz


def too_many_angles(solver: str, name: str, n: int, layers: int | None) -> str | None:
    """Why an ansatz is too large to be worth a run, or None."""
    angles = make_ansatz(name, n, layers).circuit.n_parameters
    if name != "hardware-efficient" or angles <= MOST_ANGLES:
        return None
    return (
        f"{solver!r} with ansatz={name!r} takes at most {MOST_ANGLES} angles, and {n} variables ask for {angles}; "
        "set fewer layers, or try ansatz='tree' or 'working-set'"
    )


def normalised(mu: NDArray) -> NDArray:
    """μ without what fell on padding, summing to 1; `DeviceError` if nothing else was measured."""
    mass = mu.sum()
    if not mass > 0:
        raise DeviceError(f"the device measured none of the {len(mu)} variables, only padding")
    return mu / mass
