"""Base class of circuit families: a builder, the map from a solver's angles to gate parameters, and a distribution."""

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

__all__ = ["COUNT_RULE", "POSITIVE_RULE", "ParametricCircuit"]

#: Rule of fields that count something.
COUNT_RULE = Number(at_least=1, whole=True)
#: Rule of fields that are lengths or times.
POSITIVE_RULE = Number(above=0)

#: Distributions in the cache; with the next limit they take 4 MiB.
MAX_CACHED_DISTRIBUTIONS = 8
#: Most qubits of a circuit whose distribution is cached.
MAX_CACHED_QUBITS = 16
#: Namespace of the ids of parameters.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "dualflow:circuits")


@dataclass(frozen=True)
class ParametricCircuit:
    """A circuit with free parameters, transpiled once and bound many times.

    Circuits with equal fields are equal and share a device's transpiled copy. Therefore every value that changes the
    gates must be a field. Subclasses define `family`, `n_parameters`, `_build` and `distribution`, and `examples` if
    their name is in ``circuits.__all__``.

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
    #: What the circuit prepares, and what sends it, for the table of families; short texts.
    purpose: ClassVar[str] = ""
    sent_by: ClassVar[str] = "another package"
    #: Registers in the order of their qubits, with the symbol of their width: (("sys", "s"), ("clock", "t")).
    registers: ClassVar[tuple[tuple[str, str], ...]] = (("q", "q"),)
    #: Blocks of the circuit in order, each with the names of the registers on which it acts.
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    #: Formulas of the gates on two qubits and of the depth in `sizes`; empty without one.
    two_qubit_formula: ClassVar[str] = ""
    depth_formula: ClassVar[str] = ""
    #: What the formulas' symbols mean beside q, the number of qubits, and where the formulas hold.
    formula_note: ClassVar[str] = ""

    def __post_init__(self) -> None:
        COUNT_RULE.check("n_qubits", self.n_qubits)
        check_fields(self)

    @property
    def name(self) -> str:
        """Family and size, such as "tree_q4"."""
        return f"{self.family}_q{self.n_qubits}"

    @property
    def n_parameters(self) -> int:
        """Length P of a parameter vector."""
        raise NotImplementedError

    @property
    def sizes(self) -> dict[str, int]:
        """Values of the symbols in `two_qubit_formula` and `depth_formula`; empty where these do not hold."""
        return {"q": self.n_qubits}

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return the small circuits of this family that are exported as files (`circuits.export`)."""
        raise NotImplementedError(f"{cls.__name__} must define examples(), which returns its circuits for the export")

    def parameters(self, stem: str) -> list[Parameter]:
        """Return the P parameters stem_0, stem_1, … for the gates of `_build`; ``stem`` is a name.

        Their ids follow from `name` and their index, because Qiskit's random ids would make a circuit built again
        differ from the first one, also in other processes and in files. All numbers have the same number of digits,
        because Qiskit sorts parameters by name; they have no brackets, which OpenQASM 3 would replace.
        """
        from qiskit.circuit import Parameter

        digits = len(str(self.n_parameters - 1))
        names = [f"{stem}_{k:0{digits}d}" for k in range(self.n_parameters)]
        return [Parameter(name, uuid=uuid.uuid5(_NAMESPACE, f"{self.name}/{name}")) for name in names]

    def build(self) -> QuantumCircuit:
        """Return the unbound circuit without measurements, with one ordered vector of parameters. Do not change it."""
        return self._built

    @cached_property
    def _built(self) -> QuantumCircuit:
        return self._build()

    def _build(self) -> QuantumCircuit:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, object]:
        # Leave out cached properties, which follow from the fields: only about a hundred bytes go to another process.
        cached = {k for k in self.__dict__ if isinstance(getattr(type(self), k, None), cached_property)}
        return {k: v for k, v in self.__dict__.items() if k not in cached}

    def gate_parameters(self, theta: ArrayLike) -> NDArray:
        """Return the circuit's parameters, shape (…, P), for the solver's angles of the same shape."""
        return self.check_parameters(theta)

    def distribution(self, theta: ArrayLike) -> NDArray:
        """Return the exact ideal outcome distribution, shape (…, 2^q), little-endian, computed without a circuit."""
        raise NotImplementedError

    def row_by_row(self, theta: ArrayLike) -> NDArray:
        """Return `distribution` for families that compute one circuit after another, by `_distribution_of`."""
        theta, is_cached = self.check_parameters(theta), self.n_qubits <= MAX_CACHED_QUBITS
        rows = [
            _cached_distribution(self, row.tobytes()) if is_cached else self._distribution_of(row)
            for row in np.atleast_2d(theta)
        ]
        return np.array(rows).reshape(*theta.shape[:-1], -1)

    def _distribution_of(self, theta: NDArray) -> NDArray:
        """Return the distribution of one circuit, shape (2^q,), for θ of shape (P,)."""
        raise NotImplementedError

    def shifts(self, theta: ArrayLike, again: int = 0) -> Shifts:
        """Return the batch of the parameter-shift rule: θ, θ + π/2 in each angle in turn, then θ − π/2; (2P+1, P).

        For angles of RY, ∂π/∂θ_k = ½ [π(θ_k + π/2) − π(θ_k − π/2)] exactly (Mitarai, Negoro, Kitagawa, Fujii,
        PRA 98, 032309 (2018), eq. 7). The batch begins with θ repeated ``again`` more times.
        """
        theta = self.check_parameters(theta)
        quarter = 0.5 * np.pi * np.eye(self.n_parameters)
        return Shifts.of(np.concatenate([np.tile(theta, (again + 1, 1)), theta + quarter, theta - quarter]), again)

    def shift_distributions(self, theta: ArrayLike) -> NDArray:
        """Return `distribution` of all `shifts`, shape (2P+1, 2^q); some families compute it faster than row by row."""
        return self.distribution(self.shifts(theta))

    @property
    def ends(self) -> tuple[NDArray, tuple[int, ...]] | None:
        """Angles, shape (2, P), at which some qubits are all 0, and all 1; and the indices of these qubits.

        None for families without such angles. The circuit runs all its gates at these angles, so that the read-outs of
        these qubits show the errors of gates and read-out together (``mitigation="circuit"``).
        """
        return None

    def check_parameters(self, theta: ArrayLike) -> NDArray:
        """Return ``theta`` as a float array of shape (P,) or (k, P); raise `ProblemError` for any other shape."""
        array = np.asarray(theta, dtype=float)
        if array.ndim not in (1, 2) or array.shape[-1] != self.n_parameters or 0 in array.shape[:-1]:
            raise ProblemError(
                f"parameter_values has shape {array.shape}; circuit {self.name!r} takes ({self.n_parameters},) or "
                f"(k, {self.n_parameters})"
            )
        if not np.isfinite(array).all():
            raise ProblemError("parameter_values contains NaN or infinity")
        return array


@lru_cache(maxsize=MAX_CACHED_DISTRIBUTIONS)
def _cached_distribution(circuit: ParametricCircuit, theta: bytes) -> NDArray:
    """Return `_distribution_of` from a cache: the emulator computes it, and then its read-out is compared with it."""
    return circuit._distribution_of(np.frombuffer(theta))
