"""The least-squares SVM as a linear system, solved by phase estimation (a study)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..exceptions import ProblemError
from ..quantum.devices import Device, make_device
from ..quantum.engines.hhl import MOST_CLOCK, Inversion, clock_for, invert, make_system
from ..quantum.runs.laboratory import Laboratory, open_account
from .base import Solver

__all__ = ["HHL"]


@dataclass(frozen=True)
class HHL(Solver):
    """Least-squares SVM by phase estimation: eigenvalues inverted on one ancilla (a study).

    Another model than the SVM of the other solvers: every point has weight, and a bound could not be kept. It solves
    `problems.least_squares` alone. Harrow, Hassidim, Lloyd, PRL 103, 150502 (2009), for the SVM Rebentrost, Mohseni,
    Lloyd, PRL 113, 130503 (2014); here the equality is eliminated instead of bordered (`quantum.linear_system`), the
    exponential is a dense matrix written out in gates, and right sides are prepared from numbers. Two circuits and it
    rests: one shows |αᵢ| and, by its success probability, the norm; one shifted by a known reference shows the signs.

    Classical: Q, its extreme eigenvalues, exp(2πiA·2^k), the second right side (a product with Q), in all O(n³): more
    than the solution costs. Post-selected: the ancilla in 1, the clock in 0, with a probability of order 1/κ² at
    worst. A clock of t qubits costs about 2t·4^s CX, s = ⌈log₂ n⌉ (counted on the circuit as written out in gates), and
    reading n numbers takes of order n/ε² accepted shots. On a fault-tolerant machine, with Q in a quantum memory or
    sparse, the cost can be made linear in κ up to logarithms (Childs, Kothari, Somma, SIAM J. Comput. 46, 1920 (2017));
    for a kernel of low rank, classical sampling does as much up to polynomials (Chia et al., J. ACM 69, 33 (2022)). No
    advantage is claimed.

    Moons and digits (1 against 4), n = 15, RBF, C = 10: κ = 34 and 18, 9 and 8 clock qubits, direction error 0.03 and
    0.04 %, 5962 and 4690 CX a circuit, success 12 and 0.6 %, of the second circuits 0.9 and 0.3 %. Sampled, the median
    direction error would be 0.8 and 2.8 % at 10⁶ shots a circuit, 5 and 13 % at 10⁵. Distributions must therefore be
    exact here: there is no option ``shots``.

    Parameters
    ----------
    device : str or Device, default="aer"
        Any device of `dualflow.list_devices` that gives exact distributions.
    clock : int in 1…12, optional
        Clock qubits t. By default the fewest, at least 6, that put the smallest eigenvalue at reading 8 or above: the
        direction error, of order (readings)⁻², is then below 1 %.

    Raises
    ------
    ProblemError
        An option is out of range; from `start`, Q is singular or needs more than 12 clock qubits.
    DeviceError
        From `start`, the device is not known; from `step`, it failed.
    """

    device: str | Device = "aer"
    clock: int | None = None

    name: ClassVar[str] = "hhl"
    reaches: ClassVar[str] = "1e-4, the direction of α within 1 %; exact distributions only"
    kinds = frozenset({Kind.AFFINE})
    maturity: ClassVar[str] = "study"
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    max_n: ClassVar[int | None] = 16
    quantum: ClassVar[bool] = True
    default_max_steps: ClassVar[int] = 2

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        if options.get("shots") is not None:
            raise ProblemError(f"shots={options['shots']!r}: {cls.name!r} reads exact distributions; leave shots out")
        return super().from_options({name: value for name, value in options.items() if name != "shots"})

    def __post_init__(self) -> None:
        t = self.clock
        integer = isinstance(t, (int, np.integer)) and not isinstance(t, bool)
        if t is not None and not (integer and 1 <= t <= MOST_CLOCK):
            raise ProblemError(f"clock={t!r} must be an integer in 1…{MOST_CLOCK}, or None")

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> Inversion:
        """α = 0, or a warm start, which no circuit makes use of."""
        system = make_system(problem)
        t = clock_for(system.condition) if self.clock is None else int(self.clock)
        return Inversion(
            alpha=np.zeros(problem.n) if warm is None else np.array(warm, dtype=float),
            success=np.zeros(2),
            measured=np.empty(0),
            done=False,
            account=open_account(rng),
            lab=Laboratory(make_device(self.device), self.name),
            system=system,
            circuit=system.circuit(system.b, t) if system.b.any() else None,
        )

    def step(self, problem: DualProblem, state: Inversion) -> Inversion:
        return state if state.done else invert(state)

    def alpha(self, state: Inversion) -> NDArray:
        return state.alpha

    def finished(self, state: Inversion) -> bool:
        return state.done

    def drowned(self, state: Inversion) -> bool:
        if state.circuit is None or not state.measured.size:
            return False
        return state.lab.drowned(state.account, state.circuit, np.empty(0), state.measured, None)

    def cost(self, state: Inversion) -> dict[str, float | int | None]:
        if state.circuit is None:
            return {}
        found = state.lab.cost(state.account, state.circuit)
        return found | ({"success_probability": float(state.success[0])} if state.done else {})

    def provenance(self, state: Inversion) -> dict[str, Any]:
        return {
            "device": state.lab.device.name,
            "circuit": None if state.circuit is None else state.circuit.name,
            "clock": None if state.circuit is None else state.circuit.n_clock,
            "condition": state.system.condition,
            "success_probabilities": state.success.tolist(),
            "signs": "from a second circuit, its solution shifted by a known reference",
            "job_ids": list(state.account["job_ids"]),
        }
