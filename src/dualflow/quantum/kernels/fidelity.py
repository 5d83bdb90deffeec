"""Quantum kernels as Gram sources: k(x, z) = |⟨φ(x)|φ(z)⟩|², computed from states or measured on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.kernel_checks import as_matrix
from ...core.seeds import generator_of
from ...exceptions import DeviceError, ProblemError
from ..devices import Device, check_shots, make_device
from ..devices.emulator import EmulatorDevice
from ..runs.laboratory import Account, Laboratory
from ..runs.mitigation import check_method
from .feature_maps import FeatureMap, make_feature_map

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

    Map: TypeAlias = str | QuantumCircuit | Callable[..., Any]

__all__ = ["DIAGONALS", "FidelityKernel", "quantum_kernel"]

DIAGONALS = ("one", "measured")
#: Numbers of a batch's read-out, outcomes or shots: more pairs than fit are several submissions.
BATCH_NUMBERS = 2**24
#: Amplitudes of known points that are kept (256 MB), and that are multiplied at a time.
KEPT_AMPLITUDES, AMPLITUDES_AT_ONCE = 2**24, 2**20
#: Points are numbered, and a pair is one integer: the lower number times this, plus the higher one.
PAIR = 2**31


class FidelityKernel:
    """The fidelity kernel of a feature map, as a callable ``kernel(X, Z)`` that `Gram` and the estimators take.

    Exact on the emulator: one state a point (`FeatureMap.states`) and one matrix product of all states. With shots,
    or on another device, a pair of points is one circuit U(x), then U(z)† (Havlíček et al., Nature 567, 209 (2019)),
    and k is the share of shots that find all qubits in 0. All pairs that are needed and not known yet go out as one
    batch, each unordered pair once, since k is symmetric. What was measured is kept: the kernel is one function,
    whatever part of it is asked for, and blocks of one matrix agree. On the emulator with shots, counts are binomial
    draws at the exact fidelity, the law of a noiseless device.

    A sampled kernel matrix is symmetric and in general indefinite: fitted as it is, an estimator says so and withholds
    its certificate; `dualflow.repair` mends it. No advantage over classical kernels is claimed; up to the emulator's
    24 qubits every kernel here is computed classically.

    Parameters
    ----------
    feature_map : {"angle", "zz"}, qiskit.QuantumCircuit, or callable
        "angle" turns qubit k by RY(x_k): k(x, z) = Π cos²((x_k − z_k)/2). "zz" is Qiskit's ``zz_feature_map`` with
        two repetitions and all pairs entangled. In a circuit, parameter k (in the order of ``circuit.parameters``)
        takes feature k. A callable is ``f(x, wires)``, applies PennyLane operations, and is called once a point.
    device : str or Device, default="emulator"
        Of `dualflow.list_devices`, or an instance, for example with noise. Others than the emulator run a circuit
        for every pair even where they give exact distributions.
    shots : int ≥ 1, optional
        Per pair; None is the exact distribution.
    diagonal : {"one", "measured"}, default="one"
        k(x, x) = 1 by definition, and nothing is run; or measured as any pair: on a noisy device, below 1.
    n_qubits : int, optional
        Of a callable feature map; as many as features by default.
    mitigation, journal
        As of the solvers that run circuits (`solvers.VariationalFlow`).
    random_state : int, numpy.random.Generator or None, default=0
        Same seed and same calls, same matrix.

    Attributes
    ----------
    circuits, shots_spent : int
        So far: states or pairs computed, shots taken.

    Raises
    ------
    ProblemError, DeviceError, SolverUnavailable
        A parameter is out of range, a device is not known or cannot do this, or a package is missing.

    Examples
    --------
    >>> from dualflow import SVC, FidelityKernel
    >>> SVC(kernel=FidelityKernel("angle")).fit([[0.0], [0.3], [2.0], [2.4]], ["a", "a", "b", "b"]).predict([[0.2]])
    array(['a'], dtype='<U1')
    """

    def __init__(
        self,
        feature_map: Map = "zz",
        *,
        device: str | Device = "emulator",
        shots: int | None = None,
        diagonal: str = "one",
        n_qubits: int | None = None,
        mitigation: str | None = None,
        journal: str | Path | None = None,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        if not isinstance(diagonal, str) or diagonal not in DIAGONALS:
            raise ProblemError(f"diagonal={diagonal!r} is not one of {', '.join(map(repr, DIAGONALS))}")
        if n_qubits is not None and (isinstance(n_qubits, bool) or not isinstance(n_qubits, Integral) or n_qubits < 1):
            raise ProblemError(f"n_qubits={n_qubits!r} must be an integer ≥ 1, or None for one a feature")
        self.feature_map, self.diagonal = feature_map, diagonal
        self.n_qubits = None if n_qubits is None else int(n_qubits)
        self.shots = check_shots(shots)
        check_method(mitigation, exact=self.shots is None)
        self.device = make_device(device)
        self._map: FeatureMap | None = None
        self._rng = generator_of(random_state)
        # The emulator as a device would compute 2^q outcomes a pair; the fidelity itself is one product of states.
        self._by_states = type(self.device) is EmulatorDevice and mitigation is None and journal is None
        self._lab = Laboratory(self.device, "fidelity-kernel", mitigation, journal, data="fidelity kernel")
        self._account = Account.opened(self._rng)
        self._number: dict[bytes, int] = {}
        self._points: list[NDArray] = []
        self._states: dict[int, NDArray] = {}
        self._codes = np.empty(0, dtype=np.int64)
        self._values = np.empty(0)

    @property
    def __name__(self) -> str:
        given = self.feature_map
        name = given if isinstance(given, str) else getattr(given, "name", getattr(given, "__name__", "callable"))
        return f"fidelity({name})"

    def __repr__(self) -> str:
        return f"FidelityKernel({self.__name__}, device={self.device.name!r}, shots={self.shots})"

    @property
    def circuits(self) -> int:
        """States or pairs computed or measured so far."""
        return self._account.circuits

    @property
    def shots_spent(self) -> int:
        """Shots so far, calibrations included."""
        return int(self._account.shots)

    def __call__(self, X: ArrayLike, Z: ArrayLike) -> NDArray:
        """Kernel values, shape (n, k), between points X of shape (n, m) and Z of shape (k, m).

        Raises
        ------
        ProblemError
            X or Z is no finite matrix, or their widths are not those of the feature map.
        DeviceError
            A job was refused or failed, or the map needs more qubits than the device has.
        """
        X, Z = as_matrix(X, "X"), as_matrix(Z, "Z")
        if X.shape[1] != Z.shape[1]:
            raise ProblemError(f"X has {X.shape[1]} features and Z has {Z.shape[1]}")
        self._settle(X.shape[1])
        rows, columns = self._numbers(X), self._numbers(Z)
        if self._by_states and self.shots is None:
            K = self._fidelities(rows, columns)
        else:
            low, high = np.minimum(rows[:, None], columns), np.maximum(rows[:, None], columns)
            codes = low * PAIR + high
            wanted = codes if self.diagonal == "measured" else codes[low != high]
            self._measure(np.setdiff1d(wanted, self._codes))
            place = np.searchsorted(self._codes, codes)
            K = np.append(self._values, 1.0)[np.minimum(place, len(self._values))]
        if self.diagonal == "one":
            K[rows[:, None] == columns] = 1.0
        return K

    def _settle(self, n_features: int) -> None:
        """Make the feature map for points of this width, once."""
        if self._map is None:
            made = make_feature_map(self.feature_map, n_features, self.n_qubits)
            widest = self.device.capabilities.qubits
            if widest is not None and made.n_qubits > widest:
                raise DeviceError(
                    f"device {self.device.name!r} has {widest} qubits, the feature map needs {made.n_qubits}; choose "
                    "fewer features, for example by PCA"
                )
            self._map = made
        elif self._map.n_features != n_features:
            raise ProblemError(
                f"the points have {n_features} features, this kernel's first ones {self._map.n_features}"
            )

    def _numbers(self, X: NDArray) -> NDArray:
        """The numbers of points; equal points have one, and new ones the next."""
        numbers = np.empty(len(X), dtype=np.int64)
        for i, x in enumerate(X + 0.0):  # −0 is 0
            number = self._number.setdefault(x.tobytes(), len(self._points))
            if number == len(self._points):
                self._points.append(x)
            numbers[i] = number
        return numbers

    def _states_of(self, numbers: NDArray) -> NDArray:
        """States of distinct points, shape (k, 2^q); kept."""
        assert self._map is not None
        new = [int(k) for k in numbers if int(k) not in self._states]
        if new:
            if (len(self._states) + len(new)) * 2**self._map.n_qubits > KEPT_AMPLITUDES:
                self._states, new = {}, [int(k) for k in numbers]
            self._states.update(zip(new, self._map.states(np.array([self._points[k] for k in new])), strict=True))
            self._book(len(new), 0)
        return np.array([self._states[int(k)] for k in numbers])

    def _fidelities(self, rows: NDArray, columns: NDArray) -> NDArray:
        """|⟨φ(x)|φ(z)⟩|² by one product of the states of all points."""
        distinct, places = np.unique(np.concatenate([rows, columns]), return_inverse=True)
        states = self._states_of(distinct)
        row, column = places[: len(rows)], places[len(rows) :]
        overlap = states[row].conj() @ states[column].T
        K: NDArray = overlap.real**2 + overlap.imag**2
        return np.minimum(0.5 * (K + K.T) if np.array_equal(rows, columns) else K, 1.0)

    def _measure(self, codes: NDArray) -> None:
        """Find out the fidelities of new pairs and keep them."""
        if not len(codes):
            return
        low, high = codes // PAIR, codes % PAIR
        try:
            found = self._sampled_from_states(low, high) if self._by_states else self._run(low, high)
        finally:
            self._lab.rest()
        codes, values = np.concatenate([self._codes, codes]), np.concatenate([self._values, found])
        order = np.argsort(codes)
        self._codes, self._values = codes[order], values[order]

    def _sampled_from_states(self, low: NDArray, high: NDArray) -> NDArray:
        assert self.shots is not None
        distinct, places = np.unique(np.concatenate([low, high]), return_inverse=True)
        states, p = self._states_of(distinct), np.empty(len(low))
        width = max(1, AMPLITUDES_AT_ONCE // states.shape[1])
        for k in range(0, len(low), width):
            a, b = places[: len(low)][k : k + width], places[len(low) :][k : k + width]
            overlap = np.einsum("ij,ij->i", states[a].conj(), states[b])
            p[k : k + width] = overlap.real**2 + overlap.imag**2
        self._book(len(low), len(low) * self.shots)
        # Rounding can leave a probability an ulp above 1.
        return self._rng.binomial(self.shots, np.minimum(p, 1.0)) / self.shots

    def _run(self, low: NDArray, high: NDArray) -> NDArray:
        """Compute-uncompute circuits of all pairs, as one batch where its read-out fits into memory."""
        assert self._map is not None
        X, Z = (np.array([self._points[k] for k in numbers]) for numbers in (low, high))
        circuit, angles = self._map.pairs(X, Z)
        width = max(1, BATCH_NUMBERS // max(2**circuit.n_qubits, self.shots or 1))
        found = []
        for k in range(0, len(angles), width):
            distributions, self._account = self._lab.measure(self._account, circuit, angles[k : k + width], self.shots)
            found.append(distributions[:, 0])
        return np.concatenate(found)

    def _book(self, circuits: int, shots: int) -> None:
        account = self._account
        self._account = replace(account, circuits=account.circuits + circuits, shots=account.shots + shots)


def quantum_kernel(
    feature_map: Map,
    X: ArrayLike,
    Z: ArrayLike | None = None,
    *,
    device: str | Device = "emulator",
    shots: int | None = None,
    diagonal: str = "one",
    n_qubits: int | None = None,
    mitigation: str | None = None,
    journal: str | Path | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> NDArray:
    """The fidelity kernel matrix of a feature map, for `Gram.precomputed` or ``SVC(kernel="precomputed")``.

    For several matrices of one sampled kernel (training, then new points), keep a `FidelityKernel` and call it.

    Parameters
    ----------
    feature_map, device, shots, diagonal, n_qubits, mitigation, journal, random_state
        As of `FidelityKernel`.
    X : array of shape (n, m)
    Z : array of shape (k, m), optional
        X by default: then the matrix is symmetric, and n(n − 1)/2 pairs are measured.

    Returns
    -------
    array of shape (n, n) or (n, k)
        Symmetric without Z. With shots it is in general indefinite: `dualflow.repair`.

    Raises
    ------
    ProblemError, DeviceError, SolverUnavailable, TypeError
        As of `FidelityKernel`.
    """
    run = {"device": device, "shots": shots, "mitigation": mitigation, "journal": journal, "random_state": random_state}
    kernel = FidelityKernel(feature_map, diagonal=diagonal, n_qubits=n_qubits, **run)  # type: ignore[arg-type]
    return kernel(X, X if Z is None else Z)
