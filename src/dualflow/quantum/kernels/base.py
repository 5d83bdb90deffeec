"""What quantum kernels share: the feature map, the points they were asked for, the device, and the account."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.kernel_functions import as_matrix
from ...core.runtime.random import generator, generator_of, generator_state
from ...exceptions import ConcentrationWarning, DeviceError, ProblemError
from ...persistence.unconfirmed import Unconfirmed
from ..devices import Device, check_shots, make_device
from ..devices.emulator import EmulatorDevice
from ..runs.fidelity import KERNEL_PAIRS, Fidelity, warn_of_fault
from ..runs.laboratory import Account, Laboratory
from ..runs.mitigation import check_method
from .feature_maps import make_feature_map
from .maps import FeatureMap
from .reuploading import Reuploading

if TYPE_CHECKING:
    from .feature_maps import Map

__all__ = ["KEPT_AMPLITUDES", "QuantumKernel", "known_array"]

#: Amplitudes of known points that are kept (256 MB).
KEPT_AMPLITUDES = 2**24
#: Pairs of points from which on the spread of a kernel's entries is compared with their noise.
WATCHED = 45
#: Standard deviation of an exact kernel's entries up to which a fit cannot tell them apart.
MIN_SPREAD = 1e-6


class QuantumKernel:
    """A kernel of the states of a feature map, a callable ``kernel(X, Z)`` that `Gram` and the estimators take.

    `FidelityKernel` and `ProjectedKernel` say what the parameters are.
    """

    kind = ""
    #: Equal points have equal values at every call, and k(x, z) = k(z, x): nothing is read twice to see it.
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
    ) -> None:
        if n_qubits is not None and (isinstance(n_qubits, bool) or not isinstance(n_qubits, Integral) or n_qubits < 1):
            raise ProblemError(f"n_qubits={n_qubits!r} must be an integer ≥ 1, or None for one a feature")
        # Copies: the caller may go on to change what he gave, before the first call too.
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
        # The emulator as a device would compute 2^q outcomes a circuit; states say it at once.
        emulated = device == "emulator" if isinstance(device, str) else type(device) is EmulatorDevice
        self._by_states = emulated and mitigation is None and journal is None
        self._may_measure = True
        if not isinstance(device, Unconfirmed):  # else it is made, or refused, when a circuit is to be run
            self._lab  # noqa: B018
        self._account = Account.opened(self._rng)
        self._number: dict[bytes, int] = {}
        self._points: list[NDArray] = []
        self._states: dict[int, NDArray] = {}
        self._watching = self._trusting = True
        self._compared = 0  # circuits whose fidelity was looked at

    @property
    def __name__(self) -> str:
        given = self.feature_map
        name = given if isinstance(given, str) else getattr(given, "name", getattr(given, "__name__", "callable"))
        return f"{self.kind}({name})"

    def __repr__(self) -> str:
        given = self._given_device
        name = str(given) if isinstance(given, str) else self.device.name
        return f"{type(self).__name__}({self.__name__}, device={name!r}, shots={self.shots})"

    @property
    def device(self) -> Device:
        """What circuits run on."""
        if self._device is None:
            self._device = make_device(self._given_device)
        return self._device

    @property
    def _lab(self) -> Laboratory:
        if self._laboratory is None:
            tag, data = f"{self.kind}-kernel", f"{self.kind} kernel"
            self._laboratory = Laboratory(
                self.device, tag, self.mitigation, self.journal, data=data, compared=KERNEL_PAIRS
            )
        return self._laboratory

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
    def fidelity(self) -> dict[str, Any]:
        """How far measured circuits are the right ones (`Fidelity.report`); "slope" is None where none was measured."""
        return self._account.fidelity.report()

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
        other = self._like(self._in_their_order(np.array(weights, dtype=float).reshape(-1)))
        other._given_device = self._given_device  # by its name, if it had one
        return other

    def _in_their_order(self, array: NDArray) -> Any:
        """Weights as the parameter of that name has them."""
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
        """A new kernel of the same parameters but these weights."""
        raise NotImplementedError

    def _run_options(self) -> dict[str, Any]:
        """The parameters that say how and where it is computed."""
        names = ("shots", "n_qubits", "mitigation", "journal", "random_state")
        return {name: getattr(self, name) for name in names} | {"device": self._device or self._given_device}

    # --- files ---------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """What makes this kernel again, as plain values, but for the arrays of `known`.

        Raises
        ------
        ProblemError
            Its feature map, device or generator is an object, which has no name.
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
        """The parameters that kernels of another kind do not have."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any] | None:
        """What the next values are drawn with; None where nothing is drawn or sent."""
        if self._by_states and self.shots is None:
            return None
        account = asdict(self._account)
        return {"rng": generator_state(self._rng), "watching": self._watching, "account": account}

    @classmethod
    def from_plain(cls, options: Mapping[str, Any], state: Mapping[str, Any] | None) -> Self:
        """The kernel that `plain` was called on, which measures nothing and runs no code that a file names until
        `allow` is called. It may come from anybody's file: raises ValueError, TypeError or KeyError where it is not
        sound."""
        given, journal = options["feature_map"], options["journal"]
        if isinstance(given, list):
            _, layers = given
            given = Reuploading(layers)
        if not isinstance(given, (str, Reuploading)) or not isinstance(options["device"], str):
            raise TypeError("its kernel has a feature map or a device that is no name")
        marked = {
            "device": Unconfirmed(options["device"]),
            "journal": None if journal is None else Unconfirmed(journal),
        }
        kernel = cls(**{**options, **marked, "feature_map": given})
        kernel._may_measure = False
        if (state is None) != (kernel._state() is None):
            raise ValueError("its kernel does not say what its values are drawn with")
        if state is not None:
            account = state["account"]
            generator(account["rng"])
            kernel._rng, kernel._watching, kernel._account = (
                generator(state["rng"]),
                state["watching"],
                Account(**account | {"fidelity": Fidelity(**account.get("fidelity", {}))}),
            )
            kernel._compared = kernel._account.fidelity.circuits
            if not kernel._account.fidelity.is_sound:
                raise ValueError("its kernel has a fidelity that is none")
            counts = kernel._account.circuits, kernel._account.shots
            if type(kernel._watching) is not bool or not all(type(count) is int and count >= 0 for count in counts):
                raise ValueError("its kernel has an account that is none")
        return kernel

    def allow(self, trusted: bool) -> None:
        """Let a kernel out of a file measure what it does not know; ``trusted`` confirms its device and journal."""
        self._may_measure = True
        if trusted and isinstance(self._given_device, Unconfirmed):
            self._given_device = str(self._given_device)
            self.journal = None if self.journal is None else str(self.journal)

    def known(self) -> dict[str, NDArray]:
        """What was measured so far, as arrays; nothing where values are computed from states."""
        if self._by_states and self.shots is None:
            return {}
        width = 0 if self._map is None else self._map.n_features
        points = np.array(self._points, dtype=float).reshape(len(self._points), width)
        return {"points": points} | self._measured()

    def learn(self, arrays: Mapping[str, NDArray]) -> None:
        """Take what was `known`; it may come from anybody's file, as in `from_plain`."""
        if self._by_states and self.shots is None:
            return
        points = known_array(arrays, "points", "f", (None, None))
        if len(points):
            self._settle(points.shape[1])
            self._numbers(points)
        if len(self._points) != len(points):
            raise ValueError("its kernel knows a point twice")
        self._learn_measured(arrays, len(points))

    def _measured(self) -> dict[str, NDArray]:
        """The arrays of `known` beside the points."""
        raise NotImplementedError

    def _learn_measured(self, arrays: Mapping[str, NDArray], count: int) -> None:
        """Take them again, of so many points."""
        raise NotImplementedError

    def _check_may_measure(self) -> None:
        if not self._may_measure:
            raise ProblemError("its kernel does not hold all values between its points")

    # --- values --------------------------------------------------------------------------------

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
        compared = self._account.fidelity.circuits
        if self._trusting and compared > self._compared and not self.device.control:  # values of a file need no device
            self._trusting = not warn_of_fault(self._account.fidelity, self.device.name)
        self._compared = compared
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
        """Once there are entries enough, `ConcentrationWarning` if their spread is within the noise of the shots, or,
        of an exact kernel, within 1e-6."""
        if not self._watching:
            return
        spread = self._spread(rows, columns, K, self.shots)
        if spread is None or spread[3] < WATCHED:
            return
        self._watching = False
        _, variance, noise, _ = spread
        if variance <= max(noise, MIN_SPREAD**2):
            limit = (
                f"{self.shots} shots leave a noise of {np.sqrt(noise):.2g}"
                if self.shots is not None
                else f"a fit does not tell apart what differs by less than {MIN_SPREAD:g}"
            )
            warnings.warn(
                f"{self.__name__}: its entries differ by {np.sqrt(variance):.2g} between pairs of points, and {limit}: "
                "the kernel has concentrated, and what is fitted to it is fitted to noise. Take more shots, fewer "
                "qubits or layers, or smaller angles (scale the features down); dualflow.concentration says how many "
                "shots",
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


def known_array(arrays: Mapping[str, NDArray], name: str, kind: str, shape: tuple[int | None, ...]) -> NDArray:
    """A finite array of a file, of that kind and shape; ValueError for another."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
    if array.dtype.kind != kind or array.dtype.itemsize != 8 or not fits or not np.isfinite(array).all():
        raise ValueError(f"the array {name!r} of its kernel is not what it measured")
    return np.array(array)
