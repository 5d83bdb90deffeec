"""What `hamiltonian-schrodingerisation` and `hamiltonian-lchs` share: windows of a linear flow, one circuit each.

The simplex flow in windows, each linearised anew at what was measured: the steps of the two linearised solvers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number, OneOf, option
from ...core.problem import DualProblem, Kind
from ...core.workspace import Workspace
from ...exceptions import DeviceError
from ..circuits.select import EVOLUTIONS, ORDERS, SelectCircuit
from ..runs.batches import Schedule
from ..runs.budget import ShotPlan
from ..runs.laboratory import Account, QuantumContext
from .base import QuantumSolver
from .linear_model import (
    FORMS,
    LinearModel,
    linearise,
    measured,
    of_the_mean,
    quadratic_form,
    sampling_noise,
    system_qubits,
    window_angles,
)

__all__ = ["MOST_ANCILLAS", "LinearisedContext", "LinearisedSolver", "LinearisedState", "start", "step"]


#: With shots: standard deviations that f may rise in a window.
TOLERATED = 3.0
#: With shots: least part of what the last window kept, for one that takes its place.
LEAST_KEPT = 0.25
#: With shots: counts that a variable is given before a window, one whose weight the flow lets grow, and any other.
PRIOR, LEAST_PRIOR = 0.5, 0.02
#: Weight mixed in before a window from exact distributions: what is 0 would stay 0.
FLOOR = 1e-13
#: Weight mixed into a warm start.
WARM_FLOOR = 1e-3
#: A window shorter than this, in units of 1/‖L‖, is the end.
SHORTEST = 1e-3


@dataclass(frozen=True)
class LinearisedContext(QuantumContext):
    """What a run works with: every window's circuit, `quadratic_form` H of the problem, and options.

    ``windows`` is None where the budget alone decides; ``longest`` is the largest λt of a window, and λ is cut at
    ``cut``/t, where nothing is left of what it damps.
    """

    circuit: SelectCircuit
    H: NDArray
    form: str
    plan: ShotPlan
    windows: int | None
    longest: float
    cut: float

    def spent(self, windows: int, shots: int, account: Account) -> bool:
        """With shots: whether so many windows, the last with so many shots, leave nothing for another."""
        return windows == self.windows or self.plan.exhausted(shots, account, 1)

    def schedule(self) -> Schedule | None:
        """What a run sends, or None where that depends on what is measured."""
        shots = self.plan.first
        if shots is None or self.plan.adaptive:
            return None
        found, windows = Schedule(self.lab), 0
        found.step(self.circuit, 1, shots)
        resting = self.workspace.n == 1 or self.spent(0, shots, found.account)
        while not resting:
            found.step(self.circuit, 1, shots)
            windows += 1
            resting = self.spent(windows, shots, found.account)
        if self.plan.final is not None:
            found.step(self.circuit, 1, self.plan.final)
        return found


@dataclass(frozen=True)
class LinearisedState:
    """What was measured, and the window to try next.

    Attributes
    ----------
    mu : array of shape (n,)
        From the outcomes kept, summing to 1.
    total : float
        d: α = d·mu.
    theta, scale : array
        Angles of the circuit that showed it, and how its outcomes are read (`LinearModel`).
    distribution : array of shape (2^q,)
        All its outcomes.
    shots, shots_kept : int, float
        Shots of its circuit, and those of them behind it; 0 for exact ones.
    mean : array of shape (n,)
        The answer, which the next window starts from: ``mu``, or with shots the mean of what was measured since
        averages began, by shots.
    mean_shots : float
        Shots kept behind the mean; 0 before averages began.
    seen : float
        Shots kept behind ``mean``, averages or not.
    window : float
        Length of the window to try next, in flow time; 0 before the first.
    objective, fall : float
        f(d·mean), and by how much it fell in the last window that was taken.
    windows, rejected : int
        So far, and those of them that were not taken.
    resting, measured_finally : bool
    kept, reads : float, int
        Sum over all circuits of the share of outcomes kept, and their number.
    longest : float
        Largest λt of any window, λ the largest eigenvalue of L, cut or not.
    """

    mu: NDArray
    total: float
    theta: NDArray
    scale: NDArray
    mean: NDArray
    distribution: NDArray
    resting: bool
    measured_finally: bool
    account: Account
    shots: int = 0
    shots_kept: float = 0.0
    mean_shots: float = 0.0
    seen: float = 0.0
    window: float = 0.0
    flow_time: float = 0.0
    objective: float = np.inf
    fall: float = np.inf
    windows: int = -1
    rejected: int = 0
    kept: float = 0.0
    reads: int = 0
    longest: float = 0.0


def start(context: LinearisedContext, rng: np.random.Generator, warm: NDArray | None) -> LinearisedState:
    """A window of length 0: the even point, or a warm one, prepared and read; at rest if the budget holds no more.

    Raises
    ------
    DeviceError
        None of the outcomes that are kept was measured.
    """
    problem = context.workspace
    even = mu = np.full(problem.n, 1.0 / problem.n)
    if warm is not None and warm.sum() > 0:
        mu = (1.0 - WARM_FLOOR) * np.maximum(warm, 0.0) / np.maximum(warm, 0.0).sum() + WARM_FLOOR * mu
    state = LinearisedState(
        mu=even,
        total=problem.d,
        theta=np.empty(0),
        scale=np.empty(0),
        mean=even,
        distribution=np.empty(0),
        resting=problem.n == 1,
        measured_finally=context.plan.final is None,
        account=Account.opened(rng),
    )
    first = context.plan.first
    begun = _some(context, _window(context, state, linearise(context.form, context.H, mu), 0.0, first))
    return replace(begun, resting=begun.resting or (first is not None and context.spent(0, first, begun.account)))


def step(context: LinearisedContext, state: LinearisedState) -> LinearisedState:
    """One more window, or, at rest, the final state's own circuit."""
    if state.resting:
        final = context.plan.final or 0
        wanted = final * state.kept / state.reads
        share = wanted / (state.mean_shots + wanted)
        model = linearise(context.form, of_the_mean(context.H, state.mean, share), _interior(context.H, state))
        moved = _some(context, _window(context, state, model, _length(context, state, model), final))
        share = moved.shots_kept / (state.mean_shots + moved.shots_kept)
        mean = (1.0 - share) * state.mean + share * moved.mu
        return replace(moved, windows=state.windows, **_with_mean(context, mean), measured_finally=True)
    if context.plan.shots is None:
        model = linearise(context.form, context.H, _interior(context.H, state))
        if not model.spread > 0:
            return replace(state, windows=state.windows + 1, resting=True)
        return _exact_step(context, state, model, _length(context, state, model))
    return _sampled_step(context, state)


def _length(context: LinearisedContext, state: LinearisedState, model: LinearModel) -> float:
    """Of the next window, in flow time."""
    spread = model.spread or 1.0
    t = state.window or 1.0 / spread
    return min(t, model.longest * context.circuit.trotter_steps, context.longest / spread)


def _with_mean(context: LinearisedContext, mean: NDArray) -> dict[str, Any]:
    problem = context.workspace
    return {"mean": mean, "objective": problem.objective(problem.d * mean)}


def _interior(H: NDArray, state: LinearisedState) -> NDArray:
    """μ > 0 to linearise at and to prepare: what was never measured may still grow."""
    n, shots = len(state.mean), state.seen or state.shots_kept  # an older checkpoint has not seen anything
    if shots > 0:
        F = H @ state.mean
        prior = np.where(state.mean @ F >= F, PRIOR, LEAST_PRIOR)
        return np.asarray((state.mean * shots + prior) / (shots + prior.sum()))
    return (1.0 - FLOOR) * state.mean + FLOOR / n


def _exact_step(context: LinearisedContext, state: LinearisedState, model: LinearModel, t: float) -> LinearisedState:
    moved = _window(context, state, model, t, None)
    fall = state.objective - moved.objective
    if fall > 0:
        return replace(moved, window=2.0 * t, flow_time=state.flow_time + t, fall=fall)
    # A rejected window costs its circuit and leaves the state where it was. The end is where f changes by
    # round-off only, or nothing is left of the window.
    resting = abs(fall) <= 1e-15 * abs(state.objective) or t * model.spread < SHORTEST
    return replace(_rejected(state, moved), window=0.25 * t, resting=resting)


def _sampled_step(context: LinearisedContext, state: LinearisedState) -> LinearisedState:
    plan, H = context.plan, context.H
    excess, _ = sampling_noise(H, state.mu, state.shots_kept)
    shots = plan.next(state.shots, state.fall, excess * state.shots, state.account, 1) or 0
    averages = plan.averages(state.windows, context.windows, state.account, 1)
    before = state.mean_shots if averages else 0.0
    # What is kept of the shots is seen afterwards: as large a part as of all so far is looked for.
    wanted = shots * state.kept / state.reads
    share = wanted / (before + wanted)
    model = linearise(context.form, of_the_mean(H, state.mean, share), _interior(context.H, state))
    if not model.spread > 0:
        return replace(state, windows=state.windows + 1, resting=True)
    t = _length(context, state, model)
    moved = _window(context, state, model, t, shots)
    ended = context.spent(moved.windows, shots, moved.account)
    kept = moved.shots_kept
    # What damps nearly all of the state goes too far for its linear model, and what is left is too few to go on from.
    if moved.objective == np.inf or kept < LEAST_KEPT * wanted:
        return replace(_rejected(state, moved), window=0.25 * t, resting=ended)
    share = kept / (before + kept)
    excess, deviation = sampling_noise(H, state.mean, moved.shots_kept)
    mean = moved.mu if share == 1.0 else (1.0 - share) * state.mean + share * moved.mu
    moved = replace(moved, **_with_mean(context, mean))
    fall = state.objective - moved.objective
    if fall < -(share**2 * excess + TOLERATED * share * deviation):
        return replace(_rejected(state, moved), window=0.25 * t, resting=ended)
    return replace(
        moved,
        mean_shots=before + kept if averages else 0.0,
        seen=before + kept,
        window=2.0 * t,
        flow_time=state.flow_time + t,
        fall=max(fall, 0.0),
        resting=ended,
    )


def _rejected(state: LinearisedState, moved: LinearisedState) -> LinearisedState:
    names = ("account", "kept", "reads", "longest")
    booked: dict[str, Any] = {name: getattr(moved, name) for name in names}
    return replace(state, windows=moved.windows, rejected=state.rejected + 1, **booked)


def _window(
    context: LinearisedContext, state: LinearisedState, model: LinearModel, t: float, shots: int | None
) -> LinearisedState:
    """The state after a window, as it was measured; of infinite ``objective`` if nothing was kept."""
    moved = replace(
        state,
        theta=window_angles(context.circuit, model, t, context.cut),
        scale=model.scale,
        windows=state.windows + 1,
        longest=max(state.longest, min(t * model.spread, context.cut)),
    )
    return _read(context, moved, shots)


def _read(context: LinearisedContext, state: LinearisedState, shots: int | None) -> LinearisedState:
    """The state with its circuit run and read; of infinite ``objective`` if no outcome was kept."""
    problem, lab, circuit = context.workspace, context.lab, context.circuit
    distribution, account = lab.measure(state.account, circuit, state.theta, shots)
    mu, success = measured(circuit, state.scale, distribution, problem.n)
    booked = replace(state, account=account, kept=state.kept + success, reads=state.reads + 1)
    if mu is None:
        return replace(booked, shots_kept=0.0, objective=np.inf)
    shots_kept = 0.0 if shots is None else success * lab.effective_shots(account, circuit, shots)
    return replace(
        booked,
        mu=mu,
        shots=shots or 0,
        shots_kept=shots_kept,
        mean=mu,
        seen=state.seen or shots_kept,
        distribution=distribution,
        objective=problem.objective(problem.d * mu),
    )


def _some(context: LinearisedContext, state: LinearisedState) -> LinearisedState:
    """The state; `DeviceError` if no outcome was kept."""
    if state.objective == np.inf:
        raise DeviceError(
            f"the device gave none of the outcomes that circuit {context.circuit.name!r} keeps; raise shots, or its "
            "noise drowns them"
        )
    return state


#: Most ancillas: with 16 variables, 20 qubits.
MOST_ANCILLAS = 16
#: Steps of a splitting in a window, where there is something to split; with shots, windows until the solver rests.
TROTTER_STEPS, WINDOWS = 8, 60
#: With shots: longest window by default, as λt; longer ones leave what the linearised flow is good for.
LONGEST = 55.0
#: Of option ``windows``: none beyond what the ancillas resolve.
RESOLVED = "resolved"


@dataclass(frozen=True)
class LinearisedSolver(QuantumSolver[LinearisedContext, LinearisedState]):
    """Base of the two solvers."""

    ancillas: int = option(8, Number(at_least=2, at_most=MOST_ANCILLAS, whole=True))
    form: str = option("replicator", OneOf(words=FORMS))
    evolution: str = option("exact", EVOLUTIONS)
    trotter_steps: int | None = option(None, Number(at_least=1, whole=True, none=True))
    order: int = option(2, ORDERS)
    windows: int | str | None = option(None, Number(at_least=1, whole=True, powers=True, none=True, words=(RESOLVED,)))
    longest: float | None = option(None, Number(above=0, none=True))

    state_type: ClassVar[type] = LinearisedState
    no_final_circuit: ClassVar[str] = (
        "its answer is an average of what many circuits measured, which no one of them prepares; shots=None leaves one"
    )

    kinds = frozenset({Kind.SIMPLEX})
    exact_method: ClassVar[str] = "exact: a window is taken only where f falls; the answer is the final state"
    sampled_method: ClassVar[str] = (
        "sampled: windows within the noise are taken, cut ones too; the answer is an average of them"
    )
    max_n: ClassVar[int | None] = 16
    renamed: ClassVar[Mapping[str, str]] = {"steps": "windows", "splits": "trotter_steps"}

    def _family(self, n_qubits: int, trotter_steps: int) -> SelectCircuit:
        """The circuit with this solver's ancillas."""
        raise NotImplementedError

    @property
    def _resolved(self) -> float:
        """Largest λt that the ancillas damp by e^(−λt); behind it the damping begins anew."""
        raise NotImplementedError

    def open(self, problem: DualProblem, workspace: Workspace) -> LinearisedContext:
        lab, plan = super().open(problem, workspace).lab, self._plan
        exact = self.evolution == "exact"
        splits = TROTTER_STEPS if self.form != "replicator" or not exact else 1
        qubits = system_qubits(self.form, problem.n) + self.ancillas
        circuit = self._family(qubits, self.trotter_steps or splits)
        self._prepared(lab, circuit)
        count = None if isinstance(self.windows, str) else self.windows
        cuts = exact and self.shots is not None and self.windows != RESOLVED
        free = self.shots is None and self.windows != RESOLVED
        return LinearisedContext(
            workspace,
            lab,
            circuit=circuit,
            H=quadratic_form(workspace),
            form=self.form,
            plan=plan,
            windows=count if plan.adaptive else count or WINDOWS,
            longest=self.longest or (np.inf if free and exact else LONGEST if cuts else self._resolved),
            cut=self._resolved if cuts else np.inf,
        )

    def start(
        self, context: LinearisedContext, rng: np.random.Generator, warm: NDArray | None = None
    ) -> LinearisedState:
        return start(context, rng, warm)

    def step(self, context: LinearisedContext, state: LinearisedState) -> LinearisedState:
        return step(context, state)

    def alpha(self, state: LinearisedState) -> NDArray:
        return state.total * state.mean

    def finished(self, state: LinearisedState) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: LinearisedState) -> float | None:
        return state.flow_time

    def cheaper(self) -> tuple[str, dict[str, Any]] | None:
        return "variational-flow", {"shots": self.shots, "mitigation": self.mitigation}

    def circuit(self, context: LinearisedContext, state: LinearisedState) -> SelectCircuit:
        return context.circuit

    def cost(self, context: LinearisedContext, state: LinearisedState) -> dict[str, Any]:
        return super().cost(context, state) | {"success_probability": state.kept / state.reads}

    def final_angles(self, context: LinearisedContext, state: LinearisedState) -> NDArray | None:
        """None with shots, where the answer is an average of several circuits."""
        return state.theta if self.shots is None else None

    def drowned(self, context: LinearisedContext, state: LinearisedState) -> bool:
        shots = state.shots or None
        return context.lab.drowned(state.account, context.circuit, state.theta, state.distribution, shots)

    def provenance(self, context: LinearisedContext, state: LinearisedState) -> dict[str, Any]:
        return super().provenance(context, state) | {
            "ancillas": self.ancillas,
            "trotter_steps": context.circuit.trotter_steps,
            "rejected_windows": state.rejected,
            "longest_window": state.longest,
            "resolved": self._resolved,
        }
