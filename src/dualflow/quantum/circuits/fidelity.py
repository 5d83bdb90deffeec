"""Fidelity circuits, U(x) then U(z)†, and the simulation of circuits given as lists of gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import ProblemError
from .base import ParametricCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = [
    "ROTATIONS",
    "SELF_INVERSE",
    "FidelityCircuit",
    "Step",
    "StepCircuit",
    "angle_steps",
    "apply_gate",
    "check_steps",
    "count_angles",
    "evolve",
    "half_angles",
    "qubit_halves",
    "zz_steps",
]

#: A gate by Qiskit's name, its qubits, and its angle: None (no angle), a float, or the int index of a parameter.
Step = tuple[str, tuple[int, ...], "int | float | None"]

#: Gates with an angle.
ROTATIONS = ("rx", "ry", "rz")
#: Gates without an angle; each is its own inverse.
SELF_INVERSE = ("h", "x", "cx", "cz")


@dataclass(frozen=True, repr=False)
class StepCircuit(ParametricCircuit):
    """Base of the circuits that are given as a list of gates, with the label as a part of the name."""

    steps: tuple[Step, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        # Steps read from a file are lists, which cannot be hashed.
        object.__setattr__(self, "steps", check_steps(self.steps, self.n_qubits))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self.family}_{self.label}_q{self.n_qubits}"

    @property
    def n_parameters(self) -> int:
        return count_angles(self.all_steps)

    @property
    def sizes(self) -> dict[str, int]:
        repetitions = self.label.removeprefix("zz_r")
        return {"q": self.n_qubits, "r": int(repetitions)} if repetitions.isdigit() else {}

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """Steps of the whole circuit."""
        return self.steps

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit

        theta = self.parameters("theta")
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        for gate, qubits, angle in self.all_steps:
            value = [] if angle is None else [theta[angle] if isinstance(angle, int) else angle]
            getattr(circuit, gate)(*value, *qubits)
        return circuit

    def distribution(self, theta: ArrayLike) -> NDArray:
        theta = self.check_parameters(theta)
        states = evolve(self.n_qubits, self.all_steps, np.atleast_2d(theta))
        return (states.real**2 + states.imag**2).reshape(*theta.shape[:-1], -1)


@dataclass(frozen=True, repr=False)
class FidelityCircuit(StepCircuit):
    """U(x) of a feature map, then U(z)†: all qubits read 0 with probability |⟨0|U(z)†U(x)|0⟩|².

    This estimates one entry of a kernel (Havlíček et al., Nature 567, 209 (2019)). θ holds the angles of x, then those
    of z. The second half of the circuit has the inverse gates in reverse order, and so the angles of opposite sign.

    Parameters
    ----------
    n_qubits : int ≥ 1
    steps : sequence of (gate, qubits, angle)
        U in the gates h, x, cx, cz, rx, ry, rz. An angle is None, a float, or the int index of a parameter.
    label : str
        Name of the feature map; maps of one label and width must be equal.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow.quantum.circuits import FidelityCircuit
    >>> circuit = FidelityCircuit(n_qubits=1, steps=(("ry", (0,), 0),), label="angle")
    >>> circuit.distribution(np.array([0.7, 0.7])).round(6).ravel()  # U(x), then U(x)†
    array([1., 0.])
    """

    family: ClassVar[str] = "fidelity"
    purpose: ClassVar[str] = "|⟨0|U(z)†U(x)|0⟩|² as the share of outcome 0"
    sent_by: ClassVar[str] = "`FidelityKernel` on a device"
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (("U(x)", ("q",)), ("U(z)†", ("q",)))
    two_qubit_formula: ClassVar[str] = "2·r·q·(q − 1)"
    depth_formula: ClassVar[str] = "12·q − 14 + (r − 1)·(6·q + 4)"
    formula_note: ClassVar[str] = (
        "q ≥ 3; the zz map of r repetitions; the angle map has no gates on two qubits, and depth 2"
    )

    @property
    def n_angles(self) -> int:
        """Number of parameters of U, half of P."""
        return count_angles(self.steps)

    @property
    def n_parameters(self) -> int:
        return 2 * self.n_angles

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """Steps of U, then the inverse ones; the angles of z are negative where they are bound."""
        n, steps = self.n_angles, reversed(self.steps)
        undo = [(g, q, n + a if isinstance(a, int) else None if a is None else -a) for g, q, a in steps]
        return (*self.steps, *undo)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(2, angle_steps(2), "angle"), cls(2, zz_steps(2, 2), "zz_r2"), cls(3, zz_steps(3, 1), "zz_r1")

    def gate_parameters(self, theta: ArrayLike) -> NDArray:
        """Return θ of U(x), then −θ of U(z)†, shape (…, P)."""
        theta = self.check_parameters(theta)
        return np.concatenate([theta[..., : self.n_angles], -theta[..., self.n_angles :]], axis=-1)

    def distribution(self, theta: ArrayLike) -> NDArray:
        theta = self.check_parameters(theta)
        rows = np.atleast_2d(theta)
        states = evolve(self.n_qubits, self.steps, rows[:, : self.n_angles])
        undo = [(g, q, -a if isinstance(a, float) else a) for g, q, a in reversed(self.steps)]
        states = evolve(self.n_qubits, undo, -rows[:, self.n_angles :], states)
        return (states.real**2 + states.imag**2).reshape(*theta.shape[:-1], -1)


def check_steps(steps: Sequence[Step], n_qubits: int) -> tuple[Step, ...]:
    """Return the steps as tuples; raise `ProblemError` for an unknown gate or if no step has a parameter."""
    steps = tuple((gate, tuple(qubits), angle) for gate, qubits, angle in steps)
    for gate, qubits, angle in steps:
        known = gate in SELF_INVERSE if angle is None else gate in ROTATIONS
        if not known or len(set(qubits)) != (2 if gate in ("cx", "cz") else 1):
            raise ProblemError(f"steps: {(gate, qubits, angle)!r} is not one of {', '.join(ROTATIONS + SELF_INVERSE)}")
        if not all(0 <= qubit < n_qubits for qubit in qubits):
            raise ProblemError(f"steps: {(gate, qubits, angle)!r} acts outside of {n_qubits} qubits")
    if not count_angles(steps):
        raise ProblemError("steps hold no parameter: a feature map must depend on the features")
    return steps


def count_angles(steps: Sequence[Step]) -> int:
    """Return the number of parameters of the steps: the largest index of an angle plus 1."""
    return max((angle + 1 for _, _, angle in steps if isinstance(angle, int)), default=0)


def evolve(n_qubits: int, steps: Sequence[Step], angles: NDArray, states: NDArray | None = None) -> NDArray:
    """Return the states after the steps, one for each row of angles, computed together.

    Parameters
    ----------
    n_qubits : int
    steps : sequence of Step
    angles : array of shape (k, G)
    states : complex array of shape (k, 2^q), optional
        Initial states, not changed; by default |0…0⟩.

    Returns
    -------
    complex array of shape (k, 2^q), little-endian
    """
    # The rows of angles are the last axis, so that gates work on contiguous memory.
    psi = np.zeros((2**n_qubits, len(angles)), dtype=complex)
    if states is None:
        psi[0] = 1.0
    else:
        psi[:] = states.T
    for gate, qubits, angle in steps:
        apply_gate(psi, gate, qubits, half_angles(angle, angles))
    return psi.T


def half_angles(angle: int | float | None, angles: NDArray) -> NDArray:
    """Return half of a step's angle for each row of angles; 0 if the step has no angle."""
    return 0.5 * (angles[:, angle] if isinstance(angle, int) else np.full(len(angles), angle or 0.0))


def apply_gate(psi: NDArray, gate: str, qubits: tuple[int, ...], half: NDArray) -> None:
    """Apply one gate in place to the columns of ``psi``, shape (2^q, k), with half angles ``half``, shape (k,)."""
    first, second = qubit_halves(psi, qubits[0])
    if gate in ("cx", "cz"):
        # Amplitudes whose control is 1, with the target in 0 and in 1.
        controlled = qubit_halves(psi, *qubits)
        if gate == "cz":
            controlled[1][...] *= -1.0
        else:
            controlled[0][...], controlled[1][...] = controlled[1].copy(), controlled[0].copy()
    elif gate == "x":
        first[...], second[...] = second.copy(), first.copy()
    elif gate == "h":
        first[...], second[...] = (first + second) * np.sqrt(0.5), (first - second) * np.sqrt(0.5)
    elif gate == "rz":
        phase = np.exp(1j * half)
        first *= phase.conj()
        second *= phase
    else:
        cos, sin = np.cos(half), np.sin(half) * (1.0 if gate == "ry" else 1j)
        # RY has −sin above the diagonal and sin below, RX −i sin in both places.
        below = sin if gate == "ry" else -sin
        first[...], second[...] = cos * first - sin * second, below * first + cos * second


def qubit_halves(psi: NDArray, *qubits: int) -> tuple[NDArray, NDArray]:
    """Return views of the amplitudes with the last given qubit in 0 and in 1; the first of two qubits is in 1."""
    if len(qubits) == 1:
        view = psi.reshape(-1, 2, 2 ** qubits[0], psi.shape[-1])
        return view[:, 0], view[:, 1]
    low, high = sorted(qubits)
    view = psi.reshape(-1, 2, 2 ** (high - low - 1), 2, 2**low, psi.shape[-1])
    control, target = qubits
    if control > target:
        return view[:, 1, :, 0], view[:, 1, :, 1]
    return view[:, 0, :, 1], view[:, 1, :, 1]


def angle_steps(n_qubits: int) -> tuple[Step, ...]:
    """Return RY(angle k) on each qubit k, without entanglement: the kernel is Π cos²((x_k − z_k)/2)."""
    return tuple(("ry", (k,), k) for k in range(n_qubits))


def zz_steps(n_qubits: int, reps: int) -> tuple[Step, ...]:
    """Return ``reps`` layers of H on every qubit and phases of the features and of all pairs (Havlíček et al. 2019).

    The angles are those of `feature_maps.zz_angles`: one for each qubit, then one for each pair (0, 1), (0, 2), …,
    (1, 2), …
    """
    layer: list[Step] = [("h", (k,), None) for k in range(n_qubits)]
    layer += [("rz", (k,), k) for k in range(n_qubits)]
    for number, (i, j) in enumerate(combinations(range(n_qubits), 2)):
        layer += [("cx", (i, j), None), ("rz", (j,), n_qubits + number), ("cx", (i, j), None)]
    return tuple(layer * reps)
