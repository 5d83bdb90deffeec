"""The fidelity kernel k(x, z) = |⟨φ(x)|φ(z)⟩|², computed from states or measured on a device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import ProblemError
from ..devices import Device
from .base import QuantumKernel, known_array

if TYPE_CHECKING:
    from .feature_maps import Map

DIAGONALS = ("one", "measured")
#: Largest number of outcomes, or shots, in the read-out of one batch (128 MB); further pairs are sent in more batches.
MAX_BATCH_NUMBERS = 2**24
#: Largest number of amplitudes in one product of states (16 MB).
MAX_PRODUCT_AMPLITUDES = 2**20
#: Base of a pair's code, an integer: (lower number of a point) · this + (higher number).
PAIR_BASE = 2**31


class FidelityKernel(QuantumKernel):
    """The fidelity kernel of a feature map, a callable ``kernel(X, Z)`` that `Gram` and the estimators take.

    On the emulator it is exact: one state for each point (`FeatureMap.states`) and one matrix product of all states.
    With shots, or on another device, each pair of points takes one circuit, U(x), then U(z)† (Havlíček et al., Nature
    567, 209 (2019)), and k is the share of shots with all qubits in 0. All pairs that are needed and not known yet are
    sent as one batch, each unordered pair once, since k is symmetric. Measured values are kept, so that all calls and
    all blocks of a matrix agree. On the emulator with shots, counts are binomial draws at the exact fidelity, as on a
    device without noise.

    If the entries of a sampled kernel differ by less than the noise of their shots, a `ConcentrationWarning` is given
    once 45 pairs are known (`concentration`). A sampled kernel matrix is symmetric and in general indefinite: an
    estimator fitted to it reports this and withholds its certificate; `dualflow.repair` makes it positive semidefinite.
    No advantage over classical kernels is claimed; up to the emulator's 24 qubits these kernels are computed
    classically.

    Parameters
    ----------
    feature_map : {"angle", "zz", "reuploading"}, qiskit.QuantumCircuit, Reuploading, or callable
        "angle" turns qubit k by RY(x_k): k(x, z) = Π cos²((x_k − z_k)/2). "zz" is Qiskit's ``zz_feature_map`` with
        two repetitions and all pairs entangled; "reuploading" is ``Reuploading()``. In a Qiskit circuit parameter k (in
        the order of ``circuit.parameters`` without those of ``weights``) takes feature k. A callable of one argument
        without a default, such as Qiskit's ``pauli_feature_map``, is called with the number of features and returns
        that circuit. A callable ``f(x, wires)`` applies PennyLane operations, and is called once for each point.
    scale : float > 0, default=1.0
        Bandwidth: every feature is multiplied by it before it becomes an angle. Small angles keep the entries apart
        (Shaydulin, Wild, PRA 106, 042407 (2022)). It plays the part of gamma of a radial kernel: search it with C.
    device : str or Device, default="emulator"
        A name of `dualflow.list_devices`, or an instance, for example with noise. Devices other than the emulator run a
        circuit for every pair, even if they give exact distributions.
    shots : int ≥ 1, optional
        Shots of each pair; None requests the exact distribution.
    diagonal : {"one", "measured"}, default="one"
        "one": k(x, x) = 1 by definition, without a circuit. "measured": as any pair; below 1 on a noisy device.
    n_qubits : int, optional
        Number of qubits of a PennyLane function or of re-uploading; by default one for each feature.
    weights : dict or array of shape (W,), optional
        Free parameters of the map, which `train_kernel` trains. For a circuit a dict names them:
        {parameter, its name, or a ParameterVector: value}. For `Reuploading` they are an array.
    mitigation, journal
        As for the solvers that run circuits (`solvers.VariationalFlow`).
    random_state : int, numpy.random.Generator or None, default=0
        The same seed and the same calls give the same matrix.

    Attributes
    ----------
    circuits, shots_spent : int
        Number of states or pairs computed, and of shots, so far.

    Raises
    ------
    ProblemError, DeviceError, SolverUnavailable
        A parameter is out of range, a device is not known or lacks a capability, or a package is missing.

    Examples
    --------
    >>> from dualflow import SVC, FidelityKernel
    >>> SVC(kernel=FidelityKernel("angle")).fit([[0.0], [0.3], [2.0], [2.4]], ["a", "a", "b", "b"]).predict([[0.2]])
    array(['a'], dtype='<U1')
    """

    kind = "fidelity"

    def __init__(
        self,
        feature_map: Map = "zz",
        *,
        scale: float = 1.0,
        device: str | Device = "emulator",
        shots: int | None = None,
        diagonal: str = "one",
        n_qubits: int | None = None,
        weights: Any = None,
        mitigation: str | None = None,
        journal: str | Path | None = None,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        if not isinstance(diagonal, str) or diagonal not in DIAGONALS:
            raise ProblemError(f"diagonal={diagonal!r} is not one of {', '.join(map(repr, DIAGONALS))}")
        super().__init__(feature_map, device, shots, n_qubits, weights, mitigation, journal, random_state, scale)
        self.diagonal = diagonal
        self._codes = np.empty(0, dtype=np.int64)
        self._values = np.empty(0)

    def _like(self, weights: Any) -> Self:
        return type(self)(self.feature_map, diagonal=self.diagonal, weights=weights, **self._run_options())

    def _own_options(self) -> dict[str, Any]:
        return {"diagonal": self.diagonal}

    def _measured(self) -> dict[str, NDArray]:
        return {"codes": self._codes.copy(), "values": self._values.copy()}

    def _learn_measured(self, arrays: Mapping[str, NDArray], count: int) -> None:
        codes = known_array(arrays, "codes", "i", (None,))
        values = known_array(arrays, "values", "f", codes.shape)
        low, high = codes // PAIR_BASE, codes % PAIR_BASE
        if (low < 0).any() or (low > high).any() or (high >= count).any() or (np.diff(codes) <= 0).any():
            raise ValueError("the pairs of its kernel are not those of its points")
        self._codes, self._values = codes, values

    def _between(self, rows: NDArray, columns: NDArray) -> NDArray:
        if self._by_states and self.shots is None:
            K = self._fidelities(rows, columns)
        else:
            low, high = np.minimum(rows[:, None], columns), np.maximum(rows[:, None], columns)
            codes = low * PAIR_BASE + high
            wanted = codes if self.diagonal == "measured" else codes[low != high]
            self._measure(np.setdiff1d(wanted, self._codes))
            place = np.searchsorted(self._codes, codes)
            K = np.append(self._values, 1.0)[np.minimum(place, len(self._values))]
        if self.diagonal == "one":
            K[rows[:, None] == columns] = 1.0
        return K

    def _fidelities(self, rows: NDArray, columns: NDArray) -> NDArray:
        """Return |⟨φ(x)|φ(z)⟩|² by one product of the states of all points."""
        distinct, places = np.unique(np.concatenate([rows, columns]), return_inverse=True)
        states = self._states_of(distinct)
        row, column = places[: len(rows)], places[len(rows) :]
        overlap = states[row].conj() @ states[column].T
        K: NDArray = overlap.real**2 + overlap.imag**2
        return np.minimum(0.5 * (K + K.T) if np.array_equal(rows, columns) else K, 1.0)

    def _measure(self, codes: NDArray) -> None:
        """Measure the fidelities of new pairs, and store them."""
        if not len(codes):
            return
        self._check_may_measure()
        low, high = codes // PAIR_BASE, codes % PAIR_BASE
        try:
            found = self._sampled_from_states(low, high) if self._by_states else self._run(low, high)
        finally:
            self._lab.rest()
        codes, values = np.concatenate([self._codes, codes]), np.concatenate([self._values, found])
        order = np.argsort(codes)
        self._codes, self._values = codes[order], values[order]

    def _sampled_from_states(self, low: NDArray, high: NDArray) -> NDArray:
        """Return binomial shares of shots at the exact fidelities, shape (p,)."""
        assert self.shots is not None
        distinct, places = np.unique(np.concatenate([low, high]), return_inverse=True)
        states, p = self._states_of(distinct), np.empty(len(low))
        width = max(1, MAX_PRODUCT_AMPLITUDES // states.shape[1])
        for k in range(0, len(low), width):
            a, b = places[: len(low)][k : k + width], places[len(low) :][k : k + width]
            overlap = np.einsum("ij,ij->i", states[a].conj(), states[b])
            p[k : k + width] = overlap.real**2 + overlap.imag**2
        self._book(len(low), len(low) * self.shots)
        # Rounding can make a probability exceed 1 by an ulp.
        return self._rng.binomial(self.shots, np.minimum(p, 1.0)) / self.shots

    def _run(self, low: NDArray, high: NDArray) -> NDArray:
        """Return the measured fidelities of pairs, in one batch if its read-out fits into memory."""
        assert self._map is not None
        X, Z = (np.array([self._points[k] for k in numbers]) for numbers in (low, high))
        circuit, angles = self._map.pairs(X, Z)
        width = max(1, MAX_BATCH_NUMBERS // max(2**circuit.n_qubits, self.shots or 1))
        found = []
        for k in range(0, len(angles), width):
            distributions, self._account = self._lab.measure(self._account, circuit, angles[k : k + width], self.shots)
            found.append(distributions[:, 0])
        return np.concatenate(found)

    def _entry_noise(self, rows: NDArray, columns: NDArray, K: NDArray, shots: int) -> NDArray:
        # Binomial; for measured shares k, k(1 − k) is too small by the factor 1 − 1/shots in the mean.
        if self.shots == 1:  # one shot gives no estimate of its noise: the variance at the mean is a bound
            return np.full(K.shape, K.mean() * (1.0 - K.mean()) / shots)
        own = 1.0 if self.shots is None else 1.0 - 1.0 / self.shots
        variance: NDArray = np.clip(K * (1.0 - K), 0.0, None) / (own * shots)
        return variance

    def _matrix_of(self, states: NDArray) -> NDArray:
        overlap = states.conj() @ states.T
        K: NDArray = overlap.real**2 + overlap.imag**2
        np.fill_diagonal(K, 1.0)
        return K

    def _cotangents(self, states: NDArray, K: NDArray, slopes: NDArray) -> NDArray:
        # The diagonal of K is constantly 1.
        overlap = states.conj() @ states.T
        weighted = slopes * overlap.conj()
        np.fill_diagonal(weighted, 0.0)
        return 4.0 * weighted @ states


def quantum_kernel(
    feature_map: Map,
    X: ArrayLike,
    Z: ArrayLike | None = None,
    *,
    scale: float = 1.0,
    device: str | Device = "emulator",
    shots: int | None = None,
    diagonal: str = "one",
    n_qubits: int | None = None,
    weights: Any = None,
    mitigation: str | None = None,
    journal: str | Path | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> NDArray:
    """Return the fidelity kernel matrix of a feature map, for `Gram.precomputed` or ``SVC(kernel="precomputed")``.

    For several matrices of one sampled kernel (training points, then new points), call one `FidelityKernel` instead.

    Parameters
    ----------
    feature_map, scale, device, shots, diagonal, n_qubits, weights, mitigation, journal, random_state
        As for `FidelityKernel`.
    X : array of shape (n, m)
    Z : array of shape (k, m), optional
        X by default; the matrix is then symmetric, and n(n − 1)/2 pairs are measured.

    Returns
    -------
    array of shape (n, n) or (n, k)
        Symmetric without Z. With shots it is in general indefinite (see `dualflow.repair`).

    Raises
    ------
    ProblemError, DeviceError, SolverUnavailable, TypeError
        As for `FidelityKernel`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import quantum_kernel
    >>> quantum_kernel("angle", [[0.0], [np.pi / 2], [np.pi]]).round(6)  # cos² of half the difference
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    run = {
        "scale": scale,
        "device": device,
        "shots": shots,
        "mitigation": mitigation,
        "journal": journal,
        "random_state": random_state,
    }
    kernel = FidelityKernel(feature_map, diagonal=diagonal, n_qubits=n_qubits, weights=weights, **run)  # type: ignore[arg-type]
    return kernel(X, X if Z is None else Z)
