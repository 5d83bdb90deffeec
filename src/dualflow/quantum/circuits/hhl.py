"""The HHL circuit: linear systems by phase estimation of eigenvalues and a rotation by their inverses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.runtime.threads import cached_property
from ...exceptions import ProblemError
from .base import ParametricCircuit
from .multiplexer import multiplex_angles, multiplexed_ry

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["HHLCircuit"]

#: Gates of the phase estimation.
BASIS_GATES = ("cx", "h", "ry", "rz")


@dataclass(frozen=True)
class HHLCircuit(ParametricCircuit):
    """A⁻¹b for a symmetric positive definite A with eigenvalues in (0, 1), by HHL: one circuit without parameters.

    The circuit prepares b on s system qubits, and the clock of t qubits, T = 2^t, in √(2/T) Σ_τ sin(π(τ + ½)/T) |τ⟩,
    for which the tails of phase estimation fall as δ⁻⁴. It applies exp(2πiA·2^k) controlled by clock qubit k, the
    inverse QFT, and a rotation of the ancilla to 1 with amplitude min(1, least·T/k) for clock values k > 0. Then it
    undoes all but this rotation. With ancilla 1 and clock 0 the system is in Σ_j g(λ_j) β_j |u_j⟩ with
    g(λ) = Σ_k p(k|λ) min(1, least·T/k), which is real and close to least·A⁻¹b (Harrow, Hassidim, Lloyd, PRL 103,
    150502 (2009)). Outcome i + 2^s·clock + 2^(s+t)·ancilla. The exponentials are dense matrices, synthesised gate by
    gate with about 4^s CX each; sparsity of A is not used.

    Parameters
    ----------
    n_qubits : int
        s + t + 1, with t ≥ 1.
    matrix : 2^s rows of 2^s floats
        A.
    rhs : 2^s floats
        b, not 0; its scale has no effect.
    least : float in (0, 1)
        Eigenvalue below which 1/λ is cut off.

    Examples
    --------
    >>> from dualflow.quantum.circuits import HHLCircuit
    >>> circuit = HHLCircuit(n_qubits=4)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (0, 4)
    """

    matrix: tuple[tuple[float, ...], ...] = ((0.5, 0.25), (0.25, 0.625))
    rhs: tuple[float, ...] = (1.0, 0.5)
    least: float = 0.25
    family: ClassVar[str] = "hhl"
    purpose: ClassVar[str] = "A⁻¹b by phase estimation"
    sent_by: ClassVar[str] = "`hhl`, `quantum-interior-point`"
    registers: ClassVar[tuple[tuple[str, str], ...]] = (("sys", "s"), ("clock", "t"), ("anc", "1"))
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("b", ("sys",)),
        ("sine window", ("clock",)),
        ("exp(2πiA·2^k) by clock bit k", ("sys", "clock")),
        ("QFT†", ("clock",)),
        ("RY: least·T/k", ("clock", "anc")),
        ("QFT, exp†, window†", ("sys", "clock")),
    )
    two_qubit_formula: ClassVar[str] = "2·(2^t − 2 + t·u + t·(t − 1) + 3·⌊t/2⌋) + 2^s − 2 + 2^t"
    formula_note: ClassVar[str] = "u CX of a controlled exponential, 2 for s = 1 and about 4^s more generally; t ≥ 2"
    n_parameters: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        # Use tuples of Python floats: circuits are hashed and identified by their repr.
        A, b = np.array(self.matrix, dtype=float), np.array(self.rhs, dtype=float)
        object.__setattr__(self, "matrix", tuple(map(tuple, A.tolist())))
        object.__setattr__(self, "rhs", tuple(b.tolist()))
        object.__setattr__(self, "least", float(self.least))
        if b.ndim != 1 or A.shape != (len(b), len(b)) or len(b) < 2 or len(b) & (len(b) - 1):
            raise ProblemError(f"matrix has shape {A.shape} and rhs {b.shape}; both must be of one power of two ≥ 2")
        if not (np.isfinite(A).all() and np.isfinite(b).all() and b.any() and (A == A.T).all()):
            raise ProblemError("matrix must be symmetric, rhs not 0, and both finite")
        if self.n_clock < 1:
            raise ProblemError(f"n_qubits={self.n_qubits} leaves no clock beside {self.n_system} qubits and an ancilla")
        values = self._spectrum[0]
        if not (values[0] > 0 and values[-1] < 1):
            raise ProblemError(f"eigenvalues must be in (0, 1), found {values[0]:.6g}…{values[-1]:.6g}")
        if not 0 < self.least < 1:
            raise ProblemError(f"least={self.least!r} must be in (0, 1)")

    @property
    def sizes(self) -> dict[str, int]:
        s, t = self.n_system, self.n_clock
        return {"s": s, "t": t, "u": 2} if s == 1 and t > 1 else {}

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(4), cls(5))

    @property
    def n_system(self) -> int:
        """Number s of system qubits."""
        return len(self.rhs).bit_length() - 1

    @property
    def n_clock(self) -> int:
        """Number t of clock qubits."""
        return self.n_qubits - self.n_system - 1

    @cached_property
    def _spectrum(self) -> tuple[NDArray, NDArray]:
        values, vectors = np.linalg.eigh(np.array(self.matrix))
        return values, vectors

    @property
    def _window(self) -> NDArray:
        """The clock's initial amplitudes, shape (T,)."""
        T = 2**self.n_clock
        return np.sqrt(2 / T) * np.sin(np.pi * (np.arange(T) + 0.5) / T)

    @property
    def _turn(self) -> NDArray:
        """Amplitude of ancilla 1 for each value of the clock, shape (T,); 0 for clock 0, which is not an eigenvalue."""
        k = np.arange(2**self.n_clock)
        return np.where(k > 0, np.minimum(1.0, self.least * len(k) / np.maximum(k, 1)), 0.0)

    def accepted(self, distribution: NDArray) -> NDArray:
        """Return the joint probability of ancilla 1, clock 0 and each system state, shape (…, 2^s)."""
        begin = 2 ** (self.n_qubits - 1)
        return np.asarray(distribution)[..., begin : begin + len(self.rhs)]

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit, transpile
        from qiskit.circuit.library import QFTGate, UnitaryGate

        s, t = self.n_system, self.n_clock
        system, clock = list(range(s)), list(range(s, s + t))
        ahead = QuantumCircuit(self.n_qubits)
        _prepare(ahead, self._window, clock)
        values, vectors = self._spectrum
        for k in range(t):
            step = (vectors * np.exp(2j * np.pi * 2**k * values)) @ vectors.T
            controlled = np.eye(2 ** (s + 1), dtype=complex)
            controlled[2**s :, 2**s :] = step
            ahead.append(UnitaryGate(controlled), [*system, clock[k]])
        ahead.append(QFTGate(t).inverse(), clock)
        estimation = transpile(ahead, basis_gates=list(BASIS_GATES), optimization_level=1, seed_transpiler=0)
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        _prepare(circuit, np.array(self.rhs), system)
        circuit.compose(estimation, inplace=True)
        multiplexed_ry(circuit, list(multiplex_angles(2 * np.arcsin(self._turn))), self.n_qubits - 1, clock)
        circuit.compose(estimation.inverse(), inplace=True)
        return circuit

    def distribution(self, theta: ArrayLike) -> NDArray:
        theta = self.check_parameters(theta)
        T = 2**self.n_clock
        values, vectors = self._spectrum
        b = np.array(self.rhs)
        beta = vectors.T @ b / np.linalg.norm(b)
        time = np.arange(T)
        phases = np.exp(2j * np.pi * np.outer(values, time))  # (2^s, T), one row for each eigenvector
        readings = np.fft.fft(self._window * phases, axis=1, norm="ortho")
        turned = np.stack([np.sqrt(1 - self._turn**2) * readings, self._turn * readings])
        back = np.fft.ifft(turned, axis=2, norm="ortho") * phases.conj()
        clock = _undo(back, self._window)  # (2, 2^s, T)
        amplitudes = np.einsum("ij,ajk->aki", vectors * beta, clock)
        found = (np.abs(amplitudes) ** 2).reshape(-1)
        return np.broadcast_to(found, (*theta.shape[:-1], len(found))).copy()


def _tree(amplitudes: NDArray) -> list[NDArray]:
    """Return the RY angles of real amplitudes from the highest bit down; level l has 2^l, one for each prefix."""
    levels, weights = [], np.asarray(amplitudes, dtype=float)
    while len(weights) > 1:
        pairs = weights.reshape(-1, 2)
        levels.append(2 * np.arctan2(pairs[:, 1], pairs[:, 0]))  # only the first pass, the last level, has signs
        weights = np.hypot(pairs[:, 0], pairs[:, 1])
    return levels[::-1]


def _prepare(circuit: QuantumCircuit, amplitudes: NDArray, qubits: list[int]) -> None:
    """Append the preparation of real amplitudes (Möttönen, Vartiainen, Bergholm, Salomaa, PRL 93, 130502 (2004))."""
    for level, angles in enumerate(_tree(amplitudes)):
        target = len(qubits) - 1 - level
        multiplexed_ry(circuit, list(multiplex_angles(angles)), qubits[target], qubits[target + 1 :])


def _undo(vectors: NDArray, amplitudes: NDArray) -> NDArray:
    """Return vectors with the inverse of `_prepare` applied to their last axis."""
    shape = vectors.shape
    for angles in reversed(_tree(amplitudes)):
        pairs = vectors.reshape(*shape[:-1], len(angles), 2, -1)
        c, s = np.cos(0.5 * angles)[:, None], np.sin(0.5 * angles)[:, None]
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        vectors = np.stack([c * low + s * high, c * high - s * low], axis=-2).reshape(shape)
    return vectors
