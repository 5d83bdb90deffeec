"""The projected kernel: a Gaussian of the distance between one-qubit reduced density matrices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ...core.kernel_functions import check_number
from ...exceptions import ProblemError
from ..circuits.adjoint import pauli_product
from ..circuits.fidelity import evolve, qubit_halves
from ..circuits.projected import SETTINGS
from ..devices import Device
from .base import QuantumKernel, known_array

if TYPE_CHECKING:
    from .feature_maps import Map

#: Largest number of outcomes, or shots, in one batch's read-out (128 MB); further circuits are sent in more batches.
MAX_BATCH_NUMBERS = 2**24


class ProjectedKernel(QuantumKernel):
    """The projected kernel of a feature map, a callable ``kernel(X, Z)`` that `Gram` and the estimators take.

    k(x, z) = exp(−γ Σ_k ‖ρ_k(x) − ρ_k(z)‖²_F), ρ_k the reduced density matrix of qubit k (Huang et al., Nat. Commun.
    12, 2631 (2021)). With the Bloch vectors r_k = (⟨X⟩, ⟨Y⟩, ⟨Z⟩) this is exp(−γ/2 Σ_k |r_k(x) − r_k(z)|²): half the
    γ of kernels that are written in expectation values, such as sQUlearn's.

    When measured, each *point* takes three circuits, which measure all qubits in X, in Y and in Z; a fidelity kernel
    takes one circuit for each pair. The vectors of points are measured once and kept, so that all calls agree. The
    kernel is a Gaussian of points in 3q dimensions, and therefore positive semidefinite at any number of shots. The
    variance of the measured vectors adds to every distance, so that sampled entries of distinct points are too small in
    the mean. No advantage over classical kernels is claimed; one-qubit states concentrate too, as circuits become wide
    and deep (`concentration`).

    Parameters
    ----------
    feature_map, scale, device, n_qubits, weights, mitigation, journal, random_state
        As for `FidelityKernel`.
    gamma : float > 0, default=1.0
        γ, for distances between density matrices.
    shots : int ≥ 1, optional
        Shots of each of a point's three circuits; None requests the exact distribution.

    Attributes
    ----------
    circuits, shots_spent : int
        Number of states or circuits computed, and of shots, so far.

    Raises
    ------
    ProblemError, DeviceError, SolverUnavailable
        A parameter is out of range, a device is not known or lacks a capability, or a package is missing.

    Examples
    --------
    >>> from dualflow import SVC, ProjectedKernel
    >>> kernel = ProjectedKernel("angle", gamma=2.0)
    >>> SVC(kernel=kernel).fit([[0.0], [0.3], [2.0], [2.4]], ["a", "a", "b", "b"]).predict([[0.2]])
    array(['a'], dtype='<U1')
    """

    kind = "projected"

    def __init__(
        self,
        feature_map: Map = "zz",
        *,
        scale: float = 1.0,
        gamma: float = 1.0,
        device: str | Device = "emulator",
        shots: int | None = None,
        n_qubits: int | None = None,
        weights: Any = None,
        mitigation: str | None = None,
        journal: str | Path | None = None,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.gamma = check_number(gamma, "gamma", lower=0.0)
        if self.gamma == 0.0:
            raise ProblemError(f"gamma={gamma!r} must be above 0; with 0 all entries would be 1")
        super().__init__(feature_map, device, shots, n_qubits, weights, mitigation, journal, random_state, scale)
        self._blochs: dict[int, NDArray] = {}

    def _like(self, weights: Any) -> Self:
        return type(self)(self.feature_map, gamma=self.gamma, weights=weights, **self._run_options())

    def _own_options(self) -> dict[str, Any]:
        return {"gamma": self.gamma}

    def _measured(self) -> dict[str, NDArray]:
        numbers = np.array(sorted(self._blochs), dtype=np.int64)
        width = 0 if self._map is None else 3 * self._map.n_qubits
        return {"numbers": numbers, "vectors": np.array([self._blochs[k] for k in numbers.tolist()]).reshape(-1, width)}

    def _learn_measured(self, arrays: Mapping[str, NDArray], count: int) -> None:
        numbers = known_array(arrays, "numbers", "i", (None,))
        width = 0 if self._map is None else 3 * self._map.n_qubits
        vectors = known_array(arrays, "vectors", "f", (len(numbers), width))
        if (numbers < 0).any() or (numbers >= count).any() or (np.diff(numbers) <= 0).any():
            raise ValueError("the vectors of its kernel are not those of its points")
        self._blochs = dict(zip(numbers.tolist(), vectors, strict=True))

    def _between(self, rows: NDArray, columns: NDArray) -> NDArray:
        self._measure(np.unique(np.concatenate([rows, columns])))
        return self._gaussian(self._vectors(rows), self._vectors(columns))

    def _gaussian(self, R: NDArray, S: NDArray) -> NDArray:
        """Return the kernel matrix of Bloch vectors."""
        # Squared differences: the expansion into products would lose digits of near points.
        K: NDArray = np.exp(-0.5 * self.gamma * cdist(R, S, "sqeuclidean"))
        return K

    def _matrix_of(self, states: NDArray) -> NDArray:
        R = bloch_vectors(states)
        return self._gaussian(R, R)

    def _vectors(self, numbers: NDArray) -> NDArray:
        """Return the Bloch vectors of points by their numbers, shape (k, 3q)."""
        return np.array([self._blochs[int(k)] for k in numbers])

    def _measure(self, numbers: NDArray) -> None:
        """Compute or measure the Bloch vectors of new points, and store them."""
        new = np.array([k for k in numbers if int(k) not in self._blochs], dtype=np.int64)
        if not len(new):
            return
        if self.shots is not None or not self._by_states:
            self._check_may_measure()
        try:
            found = self._from_states(new) if self._by_states else self._run(new)
        finally:
            self._lab.rest()
        self._blochs.update(zip(new.tolist(), found, strict=True))

    def _from_states(self, numbers: NDArray) -> NDArray:
        """Return the Bloch vectors of points from their states, exact or as drawn shots."""
        states = self._states_of(numbers)
        if self.shots is None:
            return bloch_vectors(states)
        turns = evolve_settings(states)
        # `_states_of` has counted one of the three circuits.
        self._book(2 * len(numbers), 3 * len(numbers) * self.shots)
        p = turns.real**2 + turns.imag**2
        counts = self._rng.multinomial(self.shots, p / p.sum(axis=-1, keepdims=True))
        return expectations(counts / self.shots)

    def _run(self, numbers: NDArray) -> NDArray:
        """Return the measured Bloch vectors of points, in one batch if its read-out fits into memory."""
        assert self._map is not None
        circuit, angles = self._map.settings(np.array([self._points[k] for k in numbers]))
        width = 3 * max(1, MAX_BATCH_NUMBERS // (3 * max(2**circuit.n_qubits, self.shots or 1)))
        found = []
        for k in range(0, len(angles), width):
            distributions, self._account = self._lab.measure(self._account, circuit, angles[k : k + width], self.shots)
            found.append(expectations(distributions.reshape(-1, 3, distributions.shape[-1])))
        return np.concatenate(found)

    def _entry_noise(self, rows: NDArray, columns: NDArray, K: NDArray, shots: int) -> NDArray:
        # D = ½ Σ d² of components d with variance v: its variance is Σ (d² v + v²/2), and dk = −γ k dD.
        R, S = self._vectors(rows), self._vectors(columns)
        own = 1.0 if self.shots is None else 1.0 - 1.0 / self.shots
        # One shot gives no estimate of its noise: a bound is used.
        v = np.full(R.shape, 2.0 / shots) if own == 0 else np.clip(2.0 - R**2 - S**2, 0.0, None) / (own * shots)
        squares = (R - S) ** 2
        if self.shots is not None:  # the squares contain the noise of the measured vectors
            squares = np.clip(squares - v * shots / self.shots, 0.0, None)
        variance: NDArray = (self.gamma * K) ** 2 * (squares * v + 0.5 * v**2).sum(axis=1)
        return variance

    def _cotangents(self, states: NDArray, K: NDArray, slopes: NDArray) -> NDArray:

        R = bloch_vectors(states)
        weighted = slopes * K
        # ∂L/∂r, from both points of a pair.
        pulls = -2.0 * self.gamma * (weighted.sum(axis=1)[:, None] * R - weighted @ R)
        psi = states.T
        out = np.zeros_like(psi)
        for k in range(R.shape[1] // 3):
            x, y, z = (2.0 * pulls[:, 3 * k + axis] for axis in range(3))  # d⟨P⟩ = 2 Re⟨Pφ|dφ⟩
            (a, b), (c, d) = qubit_halves(psi, k), qubit_halves(out, k)
            c += z * a + (x - 1j * y) * b
            d += (x + 1j * y) * a - z * b
        return out.T


def bloch_vectors(states: NDArray) -> NDArray:
    """Return ⟨X⟩, ⟨Y⟩, ⟨Z⟩ of qubit 0, then of qubit 1, …, shape (n, 3q), for states of shape (n, 2^q)."""
    psi = states.T
    if not psi.flags.c_contiguous:
        psi = np.ascontiguousarray(psi)
    qubits = range(psi.shape[0].bit_length() - 1)
    return np.column_stack([pauli_product(psi, pauli, k, psi).real for k in qubits for pauli in "xyz"])


def evolve_settings(states: NDArray) -> NDArray:
    """Return states turned so that a measurement in Z shows X, Y or Z of all qubits, shape (n, 3, 2^q)."""
    q = states.shape[1].bit_length() - 1
    steps = [(gate, (k,), i) for k in range(q) for i, gate in enumerate(("ry", "rx"))]
    turned = [evolve(q, steps, np.tile(setting, (len(states), 1)), states) for setting in SETTINGS]
    return np.stack(turned, axis=1)


def expectations(distributions: NDArray) -> NDArray:
    """Return Bloch vectors, shape (n, 3q), of distributions in X, Y and Z of all qubits, shape (n, 3, 2^q)."""
    bits = np.arange(distributions.shape[-1])[:, None] >> np.arange(distributions.shape[-1].bit_length() - 1) & 1
    found: NDArray = (distributions @ (1.0 - 2.0 * bits)).transpose(0, 2, 1).reshape(len(distributions), -1)
    return found
