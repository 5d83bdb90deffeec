"""What a circuit family is: a builder, the map from a solver's angles to its parameters, and its distribution."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.options import Number, check_fields
from ...core.runtime.threads import cached_property
from ...exceptions import ProblemError
from .shifts import Shifts

if TYPE_CHECKING:
    from qiskit import QuantumCircuit
    from qiskit.circuit import Parameter

__all__ = ["COUNT", "POSITIVE", "ParametricCircuit"]

#: Rules of fields: how many of something, and a length or a time.
COUNT, POSITIVE = Number(at_least=1, whole=True), Number(above=0)

#: Distributions that are kept, and qubits of the widest circuit whose are: 4 MiB.
KEPT, KEPT_QUBITS = 8, 16
#: Of the ids of parameters.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "dualflow:circuits")


@dataclass(frozen=True)
class ParametricCircuit:
    """A circuit with free parameters, transpiled once and bound many times.

    Two of the same family and size are equal, and so share a device's transpiled copy; everything that shapes the
    circuit must therefore be a field. Subclasses give `family`, `n_parameters`, `_build` and `distribution`, and
    `examples` if their name is in ``circuits.__all__``.

    Parameters
    ----------
    n_qubits : int ≥ 1

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow.quantum.circuits import ParametricCircuit, TreeCircuit
    >>> circuit = TreeCircuit(2)
    >>> isinstance(circuit, ParametricCircuit), circuit.n_parameters
    (True, 3)
    >>> circuit.distribution(np.full(3, np.pi / 2)).round(6).ravel()
    array([0.25, 0.25, 0.25, 0.25])
    """

    n_qubits: int
    family: ClassVar[str] = ""

    def __post_init__(self) -> None:
        COUNT.check("n_qubits", self.n_qubits)
        check_fields(self)

    @property
    def name(self) -> str:
        """Family and size, such as "tree_q4"."""
        return f"{self.family}_q{self.n_qubits}"

    @property
    def n_parameters(self) -> int:
        """Length P of a parameter vector."""
        raise NotImplementedError

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """The small circuits of this family that are kept as files (`quantum.export`), each with a name of its own."""
        raise NotImplementedError(f"{cls.__name__} must say which of its circuits are exported: define examples()")

    def parameters(self, stem: str) -> list[Parameter]:
        """The P parameters stem_0, stem_1, … that `_build` puts into its gates; ``stem`` is a name.

        Their ids come from `name` and their index, where Qiskit draws random ones: a circuit built again equals the
        first, in another process and in a file too. The numbers have equally many digits, since Qiskit sorts
        parameters by name; and no brackets, which OpenQASM 3 would replace.
        """
        from qiskit.circuit import Parameter

        digits = len(str(self.n_parameters - 1))
        names = [f"{stem}_{k:0{digits}d}" for k in range(self.n_parameters)]
        return [Parameter(name, uuid=uuid.uuid5(_NAMESPACE, f"{self.name}/{name}")) for name in names]

    def build(self) -> QuantumCircuit:
        """The unbound circuit, without measurements; its ``parameters`` are one vector in order. Do not change it."""
        return self._built

    @cached_property
    def _built(self) -> QuantumCircuit:
        return self._build()

    def _build(self) -> QuantumCircuit:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, object]:
        # What is made of the fields is made again where it is wanted: a hundred bytes go to another process, not all.
        made = {k for k in self.__dict__ if isinstance(getattr(type(self), k, None), cached_property)}
        return {k: v for k, v in self.__dict__.items() if k not in made}

    def gate_parameters(self, theta: ArrayLike) -> NDArray:
        """The circuit's parameters, shape (…, P), for the solver's angles of the same shape."""
        return self.check_parameters(theta)

    def distribution(self, theta: ArrayLike) -> NDArray:
        """Exact ideal outcome distribution, shape (…, 2^q), little-endian, computed without any circuit."""
        raise NotImplementedError

    def one_by_one(self, theta: ArrayLike) -> NDArray:
        """`distribution` of families that evolve one circuit after another, by `_one`."""
        theta = self.check_parameters(theta)
        one = self._one if self.n_qubits > KEPT_QUBITS else lambda row: _kept(self, row.tobytes())
        return np.array([one(row) for row in np.atleast_2d(theta)]).reshape(*theta.shape[:-1], -1)

    def _one(self, theta: NDArray) -> NDArray:
        """The distribution of one circuit, shape (2^q,), for θ of shape (P,)."""
        raise NotImplementedError

    def shifts(self, theta: ArrayLike, again: int = 0) -> Shifts:
        """θ, then θ + π/2 in each angle in turn, then θ − π/2: one batch of the parameter-shift rule, shape (2P+1, P).

        For angles of RY, ∂π/∂θ_k = ½ [π(θ_k + π/2) − π(θ_k − π/2)] exactly (Mitarai, Negoro, Kitagawa, Fujii,
        PRA 98, 032309 (2018), eq. 7). θ itself can be had ``again`` times more, before all others.
        """
        theta = self.check_parameters(theta)
        quarter = 0.5 * np.pi * np.eye(self.n_parameters)
        return Shifts.of(np.concatenate([np.tile(theta, (again + 1, 1)), theta + quarter, theta - quarter]), again)

    def shift_distributions(self, theta: ArrayLike) -> NDArray:
        """`distribution` of all `shifts`, shape (2P+1, 2^q); families that know a shorter way take it."""
        return self.distribution(self.shifts(theta))

    @property
    def ends(self) -> tuple[NDArray, tuple[int, ...]] | None:
        """Angles, shape (2, P), at which some qubits are all 0, and all 1, whatever the others are; and which qubits.

        None for families that have no such angles. All gates are run at them, so that what those qubits read then
        tells the errors of gates and read-out together: ``mitigation="circuit"``.
        """
        return None

    def check_parameters(self, theta: ArrayLike) -> NDArray:
        """``theta`` as a float array of shape (P,) or (k, P), or `ProblemError`."""
        array = np.asarray(theta, dtype=float)
        if array.ndim not in (1, 2) or array.shape[-1] != self.n_parameters or 0 in array.shape[:-1]:
            raise ProblemError(
                f"parameter_values has shape {array.shape}; circuit {self.name!r} takes ({self.n_parameters},) or "
                f"(k, {self.n_parameters})"
            )
        if not np.isfinite(array).all():
            raise ProblemError("parameter_values contains NaN or infinity")
        return array


@lru_cache(maxsize=KEPT)
def _kept(circuit: ParametricCircuit, theta: bytes) -> NDArray:
    """`_one`, kept: the emulator answers a circuit, and then its read-out is compared with the same distribution."""
    return circuit._one(np.frombuffer(theta))
