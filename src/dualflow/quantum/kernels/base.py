"""What quantum kernels share: the feature map, the points they were asked for, the device, and the account."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.kernel_checks import as_matrix
from ...core.seeds import generator_of
from ...exceptions import ConcentrationWarning, DeviceError, ProblemError
from ..devices import Device, check_shots, make_device
from ..devices.emulator import EmulatorDevice
from ..runs.laboratory import Account, Laboratory
from ..runs.mitigation import check_method
from .feature_maps import make_feature_map
from .maps import FeatureMap

if TYPE_CHECKING:
    from .feature_maps import Map

__all__ = ["KEPT_AMPLITUDES", "QuantumKernel"]

#: Amplitudes of known points that are kept (256 MB).
KEPT_AMPLITUDES = 2**24
#: Pairs of a sampled kernel from which on it is looked whether its entries are told apart.
WATCHED = 45


class QuantumKernel:
    """A kernel of the states of a feature map, a callable ``kernel(X, Z)`` that `Gram` and the estimators take.

    `FidelityKernel` and `ProjectedKernel` say what the parameters are.
    """

    kind = ""

    def __init__(
        self,
        feature_map: Map,
        device: str | Device,
        shots: int | None,
        n_qubits: int | None,
        weights: Any,
        mitigation: str | None,
        journal: str | Path | None,
        random_state: int | np.random.Generator | None,
    ) -> None:
        if n_qubits is not None and (isinstance(n_qubits, bool) or not isinstance(n_qubits, Integral) or n_qubits < 1):
            raise ProblemError(f"n_qubits={n_qubits!r} must be an integer ≥ 1, or None for one a feature")
        # Copies: the caller may go on to change what he gave, before the first call too.
        is_circuit = hasattr(feature_map, "assign_parameters") and not isinstance(feature_map, type)
        self.feature_map: Map = feature_map.copy() if is_circuit else feature_map  # type: ignore[union-attr]
        self.n_qubits = None if n_qubits is None else int(n_qubits)
        self.shots = check_shots(shots)
        check_method(mitigation, exact=self.shots is None)
        self.device = make_device(device)
        self.mitigation, self.journal, self.random_state = mitigation, journal, random_state
        self._weights = (
            dict(weights) if isinstance(weights, dict) else weights if weights is None else np.array(weights)
        )
        self._map: FeatureMap | None = None
        self._rng = generator_of(random_state)
        # The emulator as a device would compute 2^q outcomes a circuit; states say it at once.
        self._by_states = type(self.device) is EmulatorDevice and mitigation is None and journal is None
        self._lab = Laboratory(self.device, f"{self.kind}-kernel", mitigation, journal, data=f"{self.kind} kernel")
        self._account = Account.opened(self._rng)
        self._number: dict[bytes, int] = {}
        self._points: list[NDArray] = []
        self._states: dict[int, NDArray] = {}
        self._watching = self.shots is not None

    @property
    def __name__(self) -> str:
        given = self.feature_map
        name = given if isinstance(given, str) else getattr(given, "name", getattr(given, "__name__", "callable"))
        return f"{self.kind}({name})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__name__}, device={self.device.name!r}, shots={self.shots})"

    @property
    def circuits(self) -> int:
        """States or circuits computed or measured so far."""
        return self._account.circuits

    @property
    def circuits_from_journal(self) -> int:
        """Of them, those whose results came from the journal."""
        return self._account.replayed

    @property
    def shots_spent(self) -> int:
        """Shots so far, calibrations included."""
        return int(self._account.shots)

    @property
    def weights(self) -> NDArray:
        """The map's free parameters, shape (W,), a copy; of maps other than circuits, known from the first call on."""
        if self._map is not None:
            return self._map.weights.copy()
        if isinstance(self._weights, dict):
            return np.concatenate([np.empty(0), *(np.ravel(v).astype(float) for v in self._weights.values())])
        return np.empty(0) if self._weights is None else self._weights.copy()

    def with_weights(self, weights: ArrayLike) -> Self:
        """A new kernel that has measured nothing yet, at other weights, in the order of `weights`.

        Raises
        ------
        ProblemError
            They are not as many finite numbers as the map has weights, or it has none.
        """
        array = np.array(weights, dtype=float).reshape(-1)
        if not isinstance(self._weights, dict):
            return self._like(array)
        new: dict[Any, Any] = {}
        for key, value in self._weights.items():
            size = np.size(value)
            new[key], array = array[:size], array[size:]
        if len(array) or any(len(value) != np.size(self._weights[key]) for key, value in new.items()):
            raise ProblemError(f"weights of this map are {len(self.weights)} finite numbers")
        return self._like(new)

    def _like(self, weights: Any) -> Self:
        """A new kernel of the same parameters but these weights."""
        raise NotImplementedError

    def _run_options(self) -> dict[str, Any]:
        """The parameters that say how and where it is computed."""
        names = ("device", "shots", "n_qubits", "mitigation", "journal", "random_state")
        return {name: getattr(self, name) for name in names}

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
        K = self._between(rows, columns)
        self._watch(rows, columns, K)
        return K

    def _between(self, rows: NDArray, columns: NDArray) -> NDArray:
        """The kernel between points by their numbers."""
        raise NotImplementedError

    def _entry_noise(self, rows: NDArray, columns: NDArray, K: NDArray, shots: int) -> NDArray:
        """Variance that so many shots leave in the entries K of pairs of points, all of shape (p,)."""
        raise NotImplementedError

    def _matrix_of(self, states: NDArray) -> NDArray:
        """The exact kernel matrix, shape (n, n), of points given by their states, shape (n, 2^q)."""
        raise NotImplementedError

    def _cotangents(self, states: NDArray, K: NDArray, slopes: NDArray) -> NDArray:
        """λ, shape (n, 2^q), with dL = Re Σᵢ ⟨λᵢ|dφᵢ⟩ for ∂L/∂K = slopes, symmetric."""
        raise NotImplementedError

    def _settle(self, n_features: int) -> FeatureMap:
        """The feature map for points of this width, made once."""
        if self._map is None:
            made = make_feature_map(self.feature_map, n_features, self.n_qubits, self._weights)
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
        return self._map

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

    def _watch(self, rows: NDArray, columns: NDArray, K: NDArray) -> None:
        """Once there are entries enough, `ConcentrationWarning` if their spread is not above the noise of the shots."""
        if not self._watching:
            return
        spread = self._spread(rows, columns, K, self.shots)
        if spread is None or spread[3] < WATCHED:
            return
        self._watching = False
        _, variance, noise, _ = spread
        if variance < noise:
            warnings.warn(
                f"{self.__name__}: its entries differ by {np.sqrt(variance):.2g} between pairs of points, and "
                f"{self.shots} shots leave a noise of {np.sqrt(noise):.2g}: the kernel has concentrated, and what is "
                "fitted to it is fitted to noise. Take more shots, fewer qubits or layers, or smaller angles (scale "
                "the features down); dualflow.concentration says how many shots",
                ConcentrationWarning,
                stacklevel=3,
            )

    def _spread(
        self, rows: NDArray, columns: NDArray, K: NDArray, shots: int | None
    ) -> tuple[float, float, float, int] | None:
        """Of the entries of distinct points, each pair once: their mean, their variance without the shots' share,
        the mean variance that ``shots`` leave in one, and how many; None of fewer than two."""
        apart = rows[:, None] != columns
        a, b = np.nonzero(apart)
        low, high = np.minimum(rows[a], columns[b]), np.maximum(rows[a], columns[b])
        _, once = np.unique(low * 2**31 + high, return_index=True)
        if len(once) < 2:
            return None
        entries, low, high = K[a[once], b[once]], low[once], high[once]
        variance = float(np.var(entries, ddof=1))
        if self.shots is not None:
            variance = max(variance - float(self._entry_noise(low, high, entries, self.shots).mean()), 0.0)
        noise = 0.0 if shots is None else float(self._entry_noise(low, high, entries, shots).mean())
        return float(entries.mean()), variance, noise, len(once)

    def _book(self, circuits: int, shots: int) -> None:
        account = self._account
        self._account = replace(account, circuits=account.circuits + circuits, shots=account.shots + shots)
