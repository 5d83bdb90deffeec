"""What `hamiltonian-schrodingerisation` and `hamiltonian-lchs` share: windows of a linear flow, one circuit each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..exceptions import ProblemError
from ..quantum.circuits.base import check_positive
from ..quantum.circuits.select import SelectCircuit
from ..quantum.engines.linearised import (
    FORMS,
    LinearisedState,
    LinearModel,
    linearise,
    quadratic_form,
    read,
    sampling_noise,
    some,
    system_qubits,
    window_angles,
)
from ..quantum.runs.laboratory import open_account
from .quantum import QuantumSolver

__all__ = ["LinearisedSolver"]

#: Most ancillas: with 16 variables, 20 qubits.
MOST_ANCILLAS = 16
#: Steps of a splitting in a window, where there is something to split.
SPLITS = 8
#: With shots: windows until the solver rests, and standard deviations that f may rise in a window.
DEFAULT_STEPS, TOLERATED = 36, 3.0
#: With shots: counts that every variable is given before a window, and what earlier states count in the mean.
PRIOR, MEMORY = 0.5, 0.5
#: Weight mixed in before a window from exact distributions: what is 0 would stay 0.
FLOOR = 1e-13
#: Weight mixed into a warm start.
WARM_FLOOR = 1e-3
#: A window shorter than this, in units of 1/‖L‖, is the end.
SHORTEST = 1e-3


@dataclass(frozen=True)
class LinearisedSolver(QuantumSolver):
    """Base of the two solvers."""

    ancillas: int = 8
    form: str = "replicator"
    evolution: str = "exact"
    splits: int | None = None
    order: int = 2
    steps: int | None = None
    longest: float | None = None

    kinds = frozenset({Kind.SIMPLEX})
    max_n: ClassVar[int | None] = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in FORMS:
            raise ProblemError(f"form={self.form!r} is not one of {', '.join(map(repr, FORMS))}")
        if self.steps is not None and (
            isinstance(self.steps, bool) or not isinstance(self.steps, (int, np.integer)) or self.steps < 1
        ):
            raise ProblemError(f"steps={self.steps!r} must be an integer ≥ 1")
        if self.longest is not None:
            check_positive(self.longest, "longest")
        whole = isinstance(self.ancillas, Integral) and not isinstance(self.ancillas, bool)
        if not (whole and 2 <= self.ancillas <= MOST_ANCILLAS):
            raise ProblemError(f"ancillas={self.ancillas!r} must be an integer from 2 to {MOST_ANCILLAS}")
        self._circuit(2)  # refuses what the family refuses

    def _family(self, n_qubits: int, splits: int) -> SelectCircuit:
        """The circuit with this solver's ancillas."""
        raise NotImplementedError

    def _circuit(self, n: int) -> SelectCircuit:
        needless = self.form == "replicator" and self.evolution == "exact"
        splits = (1 if needless else SPLITS) if self.splits is None else self.splits
        return self._family(system_qubits(self.form, n) + self.ancillas, splits)

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> LinearisedState:
        state = self._unmeasured(problem, rng)
        mu = np.full(problem.n, 1.0 / problem.n)
        if warm is not None and warm.sum() > 0:
            mu = (1.0 - WARM_FLOOR) * np.maximum(warm, 0.0) / np.maximum(warm, 0.0).sum() + WARM_FLOOR * mu
        return some(self._measured(problem, state, linearise(self.form, state.H, mu), 0.0, self._plan.first))

    def blank(self, problem: DualProblem) -> LinearisedState:
        return self._unmeasured(problem, np.random.default_rng(0))

    def _unmeasured(self, problem: DualProblem, rng: np.random.Generator) -> LinearisedState:
        H = quadratic_form(problem)
        return LinearisedState(
            mu=np.full(problem.n, 1.0 / problem.n),
            theta=np.empty(0),
            scale=np.empty(0),
            shots=0,
            shots_kept=0.0,
            mean=np.full(problem.n, 1.0 / problem.n),
            mean_shots=0.0,
            window=0.0,
            flow_time=0.0,
            objective=np.inf,
            fall=np.inf,
            steps=0,
            rejected=0,
            resting=problem.n == 1,
            measured_finally=self._plan.final is None,
            kept=0.0,
            reads=0,
            distribution=np.empty(0),
            longest=0.0,
            account=open_account(rng),
            total=problem.d,
            lab=self._laboratory(),
            circuit=self._circuit(problem.n),
            H=H,
        )

    def step(self, problem: DualProblem, state: LinearisedState) -> LinearisedState:
        if state.resting:
            return replace(some(read(problem, state, self._plan.final)), measured_finally=True)
        model = linearise(self.form, state.H, self._interior(state))
        if not model.spread > 0:
            return replace(state, steps=state.steps + 1, resting=True)
        t = state.window or 1.0 / model.spread
        t = min(t, model.longest * state.circuit.splits, self._longest / model.spread)
        return (self._exact_step if self.shots is None else self._sampled_step)(problem, state, model, t)

    def alpha(self, state: LinearisedState) -> NDArray:
        return state.total * state.mu

    def finished(self, state: LinearisedState) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: LinearisedState) -> float | None:
        return state.flow_time

    def circuit(self, state: LinearisedState) -> SelectCircuit:
        return state.circuit

    def cost(self, state: LinearisedState) -> dict[str, float | int | None]:
        return super().cost(state) | {"success_probability": state.kept / state.reads if state.reads else None}

    def final_angles(self, state: LinearisedState) -> NDArray:
        return state.theta

    def drowned(self, state: LinearisedState) -> bool:
        return state.lab.drowned(state.account, state.circuit, state.theta, state.distribution, state.shots or None)

    def provenance(self, state: LinearisedState) -> dict[str, Any]:
        about = {"ancillas": self.ancillas, "splits": state.circuit.splits, "rejected_windows": state.rejected}
        return super().provenance(state) | about | {"longest_window": state.longest, "resolved": self._resolved}

    # --- windows -------------------------------------------------------------------------------

    @property
    def _longest(self) -> float:
        """Largest λt of a window, λ the largest eigenvalue of L."""
        if self.longest is not None:
            return self.longest
        return np.inf if self.shots is None and self.evolution == "exact" else self._resolved

    @property
    def _resolved(self) -> float:
        """Largest λt that the ancillas damp by e^(−λt); behind it the damping begins anew."""
        raise NotImplementedError

    def _interior(self, state: LinearisedState) -> NDArray:
        """μ > 0 to linearise at and to prepare: what was never measured may still grow."""
        n, shots = len(state.mean), state.mean_shots
        if shots > 0:
            return (state.mean * shots + PRIOR) / (shots + PRIOR * n)
        return (1.0 - FLOOR) * state.mean + FLOOR / n

    def _exact_step(
        self, problem: DualProblem, state: LinearisedState, model: LinearModel, t: float
    ) -> LinearisedState:
        moved = self._measured(problem, state, model, t, None)
        fall = state.objective - moved.objective
        if fall > 0:
            return replace(moved, window=2.0 * t, flow_time=state.flow_time + t, fall=fall)
        # A rejected window costs its circuit and leaves the state where it was. The end is where f changes by
        # round-off only, or nothing is left of the window.
        resting = abs(fall) <= 1e-15 * abs(state.objective) or t * model.spread < SHORTEST
        return replace(self._rejected(state, moved), window=0.25 * t, resting=resting)

    def _sampled_step(
        self, problem: DualProblem, state: LinearisedState, model: LinearModel, t: float
    ) -> LinearisedState:
        plan = self._plan
        excess, deviation = sampling_noise(state.H, state.mu, state.shots_kept)
        shots = plan.next(state.shots, state.fall, excess * state.shots, state.account, 1)
        moved = self._measured(problem, state, model, t, shots)
        fall = state.objective - moved.objective
        steps = DEFAULT_STEPS if self.steps is None and not plan.adaptive else self.steps
        ended = moved.steps == steps or plan.exhausted(shots or 0, moved.account, 1)
        noise = excess + TOLERATED * deviation
        if abs(fall) <= noise:
            earlier = MEMORY * state.mean_shots
            together = earlier + moved.shots_kept
            mean = (earlier * state.mean + moved.shots_kept * moved.mu) / together
            moved = replace(moved, mean=mean, mean_shots=together)
        if fall >= -noise:
            return replace(moved, window=2.0 * t, flow_time=state.flow_time + t, fall=max(fall, 0.0), resting=ended)
        return replace(self._rejected(state, moved), window=0.25 * t, resting=ended)

    def _rejected(self, state: LinearisedState, moved: LinearisedState) -> LinearisedState:
        return replace(
            state,
            steps=moved.steps,
            rejected=state.rejected + 1,
            account=moved.account,
            kept=moved.kept,
            reads=moved.reads,
            longest=moved.longest,
        )

    def _measured(
        self, problem: DualProblem, state: LinearisedState, model: LinearModel, t: float, shots: int | None
    ) -> LinearisedState:
        """The state after a window, as it was measured; of infinite ``objective`` if nothing was kept."""
        moved = replace(
            state,
            theta=window_angles(state.circuit, model, t),
            scale=model.scale,
            steps=state.steps + (len(state.theta) > 0),
            longest=max(state.longest, t * model.spread),
        )
        return read(problem, moved, shots)
