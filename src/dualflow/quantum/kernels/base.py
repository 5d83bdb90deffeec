"""The base class of quantum kernels: feature map, known points, device, account, and storage in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.kernel_functions import as_matrix, check_number
from ...core.runtime.random import generator, generator_of, generator_state
from ...core.runtime.warn import warn_user
from ...exceptions import ConcentrationWarning, DeviceError, ProblemError
from ...persistence.unconfirmed import Unconfirmed
from ..devices import Device, check_shots, make_device
from ..devices.emulator import EmulatorDevice
from ..runs.fidelity import MAX_KERNEL_PAIRS, Fidelity, warn_of_fault
from ..runs.laboratory import Account, Laboratory
from ..runs.mitigation import check_method
from .feature_maps import make_feature_map
from .maps import FeatureMap
from .reuploading import Reuploading

if TYPE_CHECKING:
    from .feature_maps import Map

#: Largest number of amplitudes in the cache of states: 256 MB.
MAX_CACHED_AMPLITUDES = 2**24
#: Pairs of points from which on the spread of the entries is compared with their noise: those of 10 points.
MIN_PAIRS_CONCENTRATION = 45
#: Standard deviation of an exact kernel's entries up to which a fit cannot distinguish them.
MIN_SPREAD = 1e-6


class QuantumKernel:
    """A kernel of the states of a feature map, a callable ``kernel(X, Z)`` that `Gram` and the estimators take.

    The parameters are those of `FidelityKernel` and `ProjectedKernel`.
    """

    kind = ""
    #: Every call gives the same value for the same pair, and k(x, z) = k(z, x), so that `Gram` need not check it.
    keeps_values = True

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
        scale: float = 1.0,
    ) -> None:
        self.scale = check_number(scale, "scale", lower=0.0)
        if self.scale == 0.0:
            raise ProblemError(f"scale={scale!r} must be above 0; with 0 all points would be one")
        if n_qubits is not None and (isinstance(n_qubits, bool) or not isinstance(n_qubits, Integral) or n_qubits < 1):
            raise ProblemError(f"n_qubits={n_qubits!r} must be an integer ≥ 1, or None for one a feature")
        # Copied, since the caller may change the circuit or the weights afterwards.
        is_circuit = hasattr(feature_map, "assign_parameters") and not isinstance(feature_map, type)
        self.feature_map: Map = feature_map.copy() if is_circuit else feature_map  # type: ignore[union-attr]
        self.n_qubits = None if n_qubits is None else int(n_qubits)
        self.shots = check_shots(shots)
        check_method(mitigation, exact=self.shots is None)
        self._given_device = device
        self._device: Device | None = None
        self._laboratory: Laboratory | None = None
        self.mitigation, self.journal, self.random_state = mitigation, journal, random_state
        self._weights = (
            dict(weights) if isinstance(weights, dict) else weights if weights is None else np.array(weights)
        )
        self._map: FeatureMap | None = None
        self._rng = generator_of(random_state)
        # As a device the emulator would compute 2^q outcomes for each circuit; products of states are cheaper.
        emulated = device == "emulator" if isinstance(device, str) else type(device) is EmulatorDevice
        self._by_states = emulated and mitigation is None and journal is None
        self._may_measure = True
        if not isinstance(device, Unconfirmed):  # otherwise the device is made, or refused, when a circuit is run
            self._lab  # noqa: B018
        self._account = Account.opened(self._rng)
        self._number: dict[bytes, int] = {}
        self._points: list[NDArray] = []
        self._states: dict[int, NDArray] = {}
        self._watching = self._trusting = True
        self._compared = 0  # circuits whose fidelity was checked

    @property
    def __name__(self) -> str:
        given = self.feature_map
        name = given if isinstance(given, str) else getattr(given, "name", getattr(given, "__name__", "callable"))
        return f"{self.kind}({name})"

    def __repr__(self) -> str:
        given = self._given_device
        name = str(given) if isinstance(given, str) else self.device.name
        scale = "" if self.scale == 1.0 else f"scale={self.scale:g}, "
        return f"{type(self).__name__}({self.__name__}, {scale}device={name!r}, shots={self.shots})"

    @property
    def device(self) -> Device:
        """The device on which circuits run."""
        if self._device is None:
            self._device = make_device(self._given_device)
        return self._device

    @property
    def _lab(self) -> Laboratory:
        """The laboratory on the device, made at the first use."""
        if self._laboratory is None:
            tag, data = f"{self.kind}-kernel", f"{self.kind} kernel"
            self._laboratory = Laboratory(
                self.device, tag, self.mitigation, self.journal, data=data, compared=MAX_KERNEL_PAIRS
            )
        return self._laboratory

    @property
    def circuits(self) -> int:
        """Number of states or circuits computed or measured so far."""
        return self._account.circuits

    @property
    def circuits_from_journal(self) -> int:
        """Number of these whose results came from the journal."""
        return self._account.replayed

    @property
    def shots_spent(self) -> int:
        """Number of shots so far, calibrations included."""
        return int(self._account.shots)

    @property
    def fidelity(self) -> dict[str, Any]:
        """The fidelity of the measured circuits (`Fidelity.report`); its "slope" is None if none was measured."""
        return self._account.fidelity.report()

    @property
    def weights(self) -> NDArray:
        """A copy of the map's free parameters, shape (W,); for maps other than circuits set by the first call."""
        if self._map is not None:
            return self._map.weights.copy()
        if isinstance(self._weights, dict):
            return np.concatenate([np.empty(0), *(np.ravel(v).astype(float) for v in self._weights.values())])
        return np.empty(0) if self._weights is None else self._weights.copy()

    def with_weights(self, weights: ArrayLike) -> Self:
        """Return a new kernel at other weights, in the order of `weights`, without measured values.

        Raises
        ------
        ProblemError
            The number of weights is not that of the map, one is not finite, or the map has none.
        """
        other = self._like(self._shaped_weights(np.array(weights, dtype=float).reshape(-1)))
        other._given_device = self._given_device  # a name stays a name
        return other

    def _shaped_weights(self, array: NDArray) -> Any:
        """Return a vector of weights in the form of the parameter ``weights``: a dict or an array."""
        if not isinstance(self._weights, dict):
            return array
        new: dict[Any, Any] = {}
        for key, value in self._weights.items():
            size = np.size(value)
            new[key], array = array[:size], array[size:]
        if len(array) or any(len(value) != np.size(self._weights[key]) for key, value in new.items()):
            raise ProblemError(f"weights of this map are {len(self.weights)} finite numbers")
        return new

    def _like(self, weights: Any) -> Self:
        """Return a new kernel with these weights and otherwise the same parameters."""
        raise NotImplementedError

    def _run_options(self) -> dict[str, Any]:
        """Return the parameters that all kinds of kernels share."""
        names = ("shots", "n_qubits", "mitigation", "journal", "random_state", "scale")
        return {name: getattr(self, name) for name in names} | {"device": self._device or self._given_device}

    # --- files ---------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return the kernel's parameters and state as plain values; `known` gives its arrays.

        Raises
        ------
        ProblemError
            The feature map, device or generator is an object, which cannot be stored by a name.
        """
        given, device = self.feature_map, self._given_device
        plain: Any = given
        if isinstance(given, Reuploading):
            plain = ["reuploading", given.layers]
        elif not isinstance(given, str):
            raise ProblemError(
                f"kernel: the feature map {self.__name__} is a circuit or a function, and cannot be stored without "
                "pickle; fit with feature_map='angle', 'zz', 'reuploading' or a Reuploading, or with "
                "kernel='precomputed' on the matrix of its values"
            )
        if not isinstance(device, str):
            raise ProblemError(
                f"kernel: the device {self.device.name!r} was given as an object, and cannot be stored without pickle; "
                "give it by its name"
            )
        if not (self.random_state is None or isinstance(self.random_state, Integral)):
            raise ProblemError("kernel: its random_state is a generator, and cannot be stored; give an integer")
        journal = None if self.journal is None else str(self.journal)
        seed = None if self.random_state is None else int(self.random_state)
        options = self._run_options() | self._own_options()
        options |= {"feature_map": plain, "device": str(device), "journal": journal, "random_state": seed}
        options |= {"weights": None if self._weights is None else self.weights}
        return {"kind": self.kind, "options": options, "state": self._state()}

    def _own_options(self) -> dict[str, Any]:
        """Return the parameters of this kind of kernel only."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any] | None:
        """Return the state of generator and account, or None if values are exact and computed from states."""
        if self._by_states and self.shots is None:
            return None
        account = asdict(self._account)
        return {"rng": generator_state(self._rng), "watching": self._watching, "account": account}

    @classmethod
    def from_plain(cls, options: Mapping[str, Any], state: Mapping[str, Any] | None) -> Self:
        """Return the kernel of the values of `plain`.

        Until `allow` is called it measures nothing, and runs no code that the file names. The values may come from an
        untrusted file: ValueError, TypeError or KeyError is raised if they are not sound.
        """
        given, journal = options["feature_map"], options["journal"]
        if isinstance(given, list):
            _, layers = given
            given = Reuploading(layers)
        if not isinstance(given, (str, Reuploading)) or not isinstance(options["device"], str):
            raise TypeError("its kernel has a feature map or a device that is not a name")
        marked = {
            "device": Unconfirmed(options["device"]),
            "journal": None if journal is None else Unconfirmed(journal),
        }
        kernel = cls(**{**options, **marked, "feature_map": given})
        kernel._may_measure = False
        if (state is None) != (kernel._state() is None):
            raise ValueError("its kernel has no state of generator and account, or one that it must not have")
        if state is not None:
            account = state["account"]
            generator(account["rng"])
            kernel._rng, kernel._watching, kernel._account = (
                generator(state["rng"]),
                state["watching"],
                Account(**account | {"fidelity": Fidelity(**account["fidelity"])}),
            )
            kernel._compared = kernel._account.fidelity.circuits
            if not kernel._account.fidelity.is_sound:
                raise ValueError("its kernel has an invalid fidelity")
            counts = kernel._account.circuits, kernel._account.shots
            if type(kernel._watching) is not bool or not all(type(count) is int and count >= 0 for count in counts):
                raise ValueError("its kernel has an invalid account")
        return kernel

    def allow(self, trusted: bool) -> None:
        """Allow a kernel from a file to measure new values; ``trusted`` confirms its device and journal."""
        self._may_measure = True
        if trusted and isinstance(self._given_device, Unconfirmed):
            self._given_device = str(self._given_device)
            self.journal = None if self.journal is None else str(self.journal)

    def known(self) -> dict[str, NDArray]:
        """Return the measured values as arrays, none if values are exact and computed from states."""
        if self._by_states and self.shots is None:
            return {}
        width = 0 if self._map is None else self._map.n_features
        points = np.array(self._points, dtype=float).reshape(len(self._points), width)
        return {"points": points} | self._measured()

    def learn(self, arrays: Mapping[str, NDArray]) -> None:
        """Add the values of `known`, which may come from an untrusted file, as in `from_plain`."""
        if self._by_states and self.shots is None:
            return
        points = known_array(arrays, "points", "f", (None, None))
        if len(points):
            self._map_for(points.shape[1])
            self._numbers(points)
        if len(self._points) != len(points):
            raise ValueError("its kernel holds a point twice")
        self._learn_measured(arrays, len(points))

    def _measured(self) -> dict[str, NDArray]:
        """Return the arrays of `known` other than the points."""
        raise NotImplementedError

    def _learn_measured(self, arrays: Mapping[str, NDArray], count: int) -> None:
        """Add the arrays of `_measured` for ``count`` points."""
        raise NotImplementedError

    def _check_may_measure(self) -> None:
        """Raise `ProblemError` if the kernel comes from a file and `allow` was not called."""
        if not self._may_measure:
            raise ProblemError("its kernel does not hold all values between its points")

    # --- values --------------------------------------------------------------------------------

    def __call__(self, X: ArrayLike, Z: ArrayLike) -> NDArray:
        """Return the kernel values between points X of shape (n, m) and Z of shape (k, m), shape (n, k).

        Raises
        ------
        ProblemError
            X or Z is no finite matrix, or has another number of features than the feature map.
        DeviceError
            A job was refused or failed, or the map needs more qubits than the device has.
        """
        X, Z = self._scaled(X, "X"), self._scaled(Z, "Z")
        if X.shape[1] != Z.shape[1]:
            raise ProblemError(f"X has {X.shape[1]} features and Z has {Z.shape[1]}")
        self._map_for(X.shape[1])
        rows, columns = self._numbers(X), self._numbers(Z)
        K = self._between(rows, columns)
        self._warn_if_concentrated(rows, columns, K)
        compared = self._account.fidelity.circuits
        # `device` is last, since a kernel that only reads stored values makes none.
        if self._trusting and compared > self._compared and not self.device.control:
            self._trusting = not warn_of_fault(self._account.fidelity, self.device.name)
        self._compared = compared
        return K

    def _scaled(self, X: ArrayLike, name: str) -> NDArray:
        """Return points as the feature map takes them: a finite matrix, times the scale."""
        points: NDArray = as_matrix(X, name)
        return points if self.scale == 1.0 else self.scale * points

    def _between(self, rows: NDArray, columns: NDArray) -> NDArray:
        """Return the kernel values between points given by their numbers."""
        raise NotImplementedError

    def _entry_noise(self, rows: NDArray, columns: NDArray, K: NDArray, shots: int) -> NDArray:
        """Return the variance of the entries K of pairs of points with the given shots; all of shape (p,)."""
        raise NotImplementedError

    def _matrix_of(self, states: NDArray) -> NDArray:
        """Return the exact kernel matrix, shape (n, n), of points given by their states, shape (n, 2^q)."""
        raise NotImplementedError

    def _cotangents(self, states: NDArray, K: NDArray, slopes: NDArray) -> NDArray:
        """Return λ, shape (n, 2^q), with dL = Re Σᵢ ⟨λᵢ|dφᵢ⟩ for ∂L/∂K = slopes, symmetric."""
        raise NotImplementedError

    def _map_for(self, n_features: int) -> FeatureMap:
        """Return the feature map, which the first call makes for its number of features."""
        if self._map is None:
            made = make_feature_map(self.feature_map, n_features, self.n_qubits, self._weights)
            widest = None if isinstance(self._given_device, Unconfirmed) else self.device.capabilities.qubits
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
        """Return the numbers of points: equal points share one, and new ones get the next."""
        numbers = np.empty(len(X), dtype=np.int64)
        for i, x in enumerate(X + 0.0):  # −0 is 0
            number = self._number.setdefault(x.tobytes(), len(self._points))
            if number == len(self._points):
                self._points.append(x)
            numbers[i] = number
        return numbers

    def _states_of(self, numbers: NDArray) -> NDArray:
        """Return the states of distinct points from the cache, shape (k, 2^q), computing those that are missing."""
        assert self._map is not None
        new = [int(k) for k in numbers if int(k) not in self._states]
        if new:
            if (len(self._states) + len(new)) * 2**self._map.n_qubits > MAX_CACHED_AMPLITUDES:
                self._states, new = {}, [int(k) for k in numbers]
            self._states.update(zip(new, self._map.states(np.array([self._points[k] for k in new])), strict=True))
            self._book(len(new), 0)
        return np.array([self._states[int(k)] for k in numbers])

    def _warn_if_concentrated(self, rows: NDArray, columns: NDArray, K: NDArray) -> None:
        """Give a `ConcentrationWarning` if the entries differ by no more than the noise of their shots.

        The entries of an exact kernel must differ by 1e-6. They are checked once, at the first call with enough pairs.
        """
        if not self._watching:
            return
        spread = self._spread(rows, columns, K, self.shots)
        if spread is None or spread[3] < MIN_PAIRS_CONCENTRATION:
            return
        self._watching = False
        _, variance, noise, _ = spread
        if variance <= max(noise, MIN_SPREAD**2):
            limit = (
                f"{self.shots} shots leave a noise of {np.sqrt(noise):.2g}"
                if self.shots is not None
                else f"a fit does not distinguish values that differ by less than {MIN_SPREAD:g}"
            )
            warn_user(
                f"{self.__name__}: its entries differ by {np.sqrt(variance):.2g} between pairs of points, and {limit}: "
                "the kernel has concentrated, and a model fitted to it is fitted to noise. Take more shots, fewer "
                "qubits or layers, or smaller angles (scale below "
                f"{self.scale:g}); dualflow.concentration gives the number of shots",
                ConcentrationWarning,
            )

    def _spread(
        self, rows: NDArray, columns: NDArray, K: NDArray, shots: int | None
    ) -> tuple[float, float, float, int] | None:
        """Return mean, variance, noise and number of the entries of distinct points, or None of fewer than two.

        Each pair counts once. The variance is without the share of the kernel's own shots. The noise is the mean
        variance of an entry with ``shots`` shots.
        """
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
        """Add circuits and shots to the account."""
        account = self._account
        self._account = replace(account, circuits=account.circuits + circuits, shots=account.shots + shots)


def known_array(arrays: Mapping[str, NDArray], name: str, kind: str, shape: tuple[int | None, ...]) -> NDArray:
    """Return a copy of a file's array; raise ValueError if it is not finite, or not of that kind and shape."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
    if array.dtype.kind != kind or array.dtype.itemsize != 8 or not fits or not np.isfinite(array).all():
        raise ValueError(f"the array {name!r} of its kernel is not finite, or has another type or shape")
    return np.array(array)
