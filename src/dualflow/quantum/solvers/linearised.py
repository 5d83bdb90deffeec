"""Base of `hamiltonian-schrodingerisation` and `hamiltonian-lchs`: the simplex flow in windows, one circuit each.

Each window linearises the flow at the measured μ (`linear_model`) and runs one circuit; its outcome is the next μ.
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
from ..circuits.select import EVOLUTION_RULE, ORDER_RULE, SelectCircuit
from ..runs.batches import Schedule
from ..runs.budget import ShotPlan
from ..runs.laboratory import Account, QuantumContext
from .base import QuantumSolver
from .linear_model import (
    FORMS,
    LinearModel,
    form_of_mean,
    linearise,
    quadratic_form,
    read_distribution,
    sampling_noise,
    system_qubits,
    window_angles,
)

#: With shots: a window is rejected if f rises by more standard deviations than this, beyond its mean excess.
MAX_RISE_DEVIATIONS = 3.0
#: With shots: a window is rejected if it keeps less than this share of the expected shots.
MIN_SHARE_KEPT = 0.25
#: With shots: counts added, before a window, to each variable whose weight the flow increases ...
PRIOR_GROWING = 0.5
#: ... and to each other variable.
PRIOR_SHRINKING = 0.02
#: Exact distributions: uniform weight mixed in before a window, since a weight of 0 would stay 0.
UNIFORM_SHARE = 1e-13
#: Uniform weight mixed into a warm start.
UNIFORM_SHARE_WARM = 1e-3
#: The run ends when the next window would be shorter than this, in units of 1/‖L‖.
MIN_WINDOW = 1e-3
#: Largest number of ancillas: with 16 variables they make 20 qubits.
MAX_ANCILLAS = 16
#: Default number of steps of a window whose evolution is split.
TROTTER_STEPS = 8
#: With shots: default number of windows.
WINDOWS = 60
#: With shots: longest window by default, as λt; in longer ones the linearised flow is not a good approximation.
MAX_WINDOW_SAMPLED = 55.0
#: Value of the option ``windows``: no window is longer than the ancillas resolve.
RESOLVED = "resolved"


@dataclass(frozen=True)
class LinearisedContext(QuantumContext):
    """The circuit of a window, the problem's `quadratic_form` H, and the options of a run.

    ``windows`` is None if the budget alone ends the run. ``longest`` is the largest λt of a window. λ is cut at
    ``cut``/t, where e^(−λt) is negligible.
    """

    circuit: SelectCircuit
    H: NDArray
    form: str
    plan: ShotPlan
    windows: int | None
    longest: float
    cut: float

    def spent(self, windows: int, shots: int, account: Account) -> bool:
        """Return whether the run ends after ``windows`` windows, the last with ``shots`` shots; with shots only."""
        return windows == self.windows or self.plan.is_exhausted(shots, account, 1)

    def schedule(self) -> Schedule | None:
        """Return the circuits and shots of a run, or None if they depend on measured results."""
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
    """The measured μ, its mean, and the length of the next window."""

    mu: NDArray  # from the outcomes kept of the last circuit, summing to 1; shape (n,)
    total: float  # d: α = d·mu
    #: theta, scale: angles of the circuit that measured ``mu``, and the scale of its outcomes (`LinearModel`).
    theta: NDArray
    scale: NDArray
    #: The answer, from which the next window starts: ``mu``, or with shots the mean of the μ since averages began,
    #: weighted by shots; shape (n,).
    mean: NDArray
    distribution: NDArray  # all outcomes of the last circuit; shape (2^q,)
    resting: bool  # no window follows
    measured_finally: bool  # no final read-out follows
    account: Account
    #: shots, shots_kept: shots of the last circuit, and how many of them were kept; 0 for exact distributions.
    shots: int = 0
    shots_kept: float = 0.0
    mean_shots: float = 0.0  # kept shots of the mean; 0 before averages began
    seen: float = 0.0  # kept shots of ``mean``, with averages or without
    window: float = 0.0  # length of the next window in flow time; 0 before the first
    flow_time: float = 0.0
    #: objective, fall: f(d·mean), and its fall in the last accepted window.
    objective: float = np.inf
    fall: float = np.inf
    #: windows, rejected: windows so far, and rejected ones among them.
    windows: int = -1
    rejected: int = 0
    #: kept, reads: sum over all circuits of the share of outcomes kept, and their number.
    kept: float = 0.0
    reads: int = 0
    longest: float = 0.0  # largest λt of any window, λ the largest eigenvalue of L after the cut


def start(context: LinearisedContext, rng: np.random.Generator, warm: NDArray | None) -> LinearisedState:
    """Return the state after a window of length 0, which measures equal weights or ``warm``.

    Raises
    ------
    DeviceError
        No outcome was kept.
    """
    problem = context.workspace
    even = mu = np.full(problem.n, 1.0 / problem.n)
    if warm is not None and warm.sum() > 0:
        mu = (1.0 - UNIFORM_SHARE_WARM) * np.maximum(warm, 0.0) / np.maximum(warm, 0.0).sum() + UNIFORM_SHARE_WARM * mu
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
    begun = _require_outcome(context, _window(context, state, linearise(context.form, context.H, mu), 0.0, first))
    return replace(begun, resting=begun.resting or (first is not None and context.spent(0, first, begun.account)))


def step(context: LinearisedContext, state: LinearisedState) -> LinearisedState:
    """Return the state after one more window, or after the final read-out if no window follows."""
    if state.resting:
        final = context.plan.final or 0
        wanted = final * state.kept / state.reads
        share = wanted / (state.mean_shots + wanted)
        model = linearise(context.form, form_of_mean(context.H, state.mean, share), _interior(context.H, state))
        moved = _require_outcome(context, _window(context, state, model, _length(context, state, model), final))
        share = moved.shots_kept / (state.mean_shots + moved.shots_kept)
        mean = (1.0 - share) * state.mean + share * moved.mu
        return replace(moved, windows=state.windows, **_mean_fields(context, mean), measured_finally=True)
    if context.plan.shots is None:
        model = linearise(context.form, context.H, _interior(context.H, state))
        if not model.spread > 0:
            return replace(state, windows=state.windows + 1, resting=True)
        return _exact_step(context, state, model, _length(context, state, model))
    return _sampled_step(context, state)


def _length(context: LinearisedContext, state: LinearisedState, model: LinearModel) -> float:
    """Return the length of the next window in flow time."""
    spread = model.spread or 1.0
    t = state.window or 1.0 / spread
    return min(t, model.longest * context.circuit.trotter_steps, context.longest / spread)


def _mean_fields(context: LinearisedContext, mean: NDArray) -> dict[str, Any]:
    """Return the fields of a state that depend on its mean."""
    problem = context.workspace
    return {"mean": mean, "objective": problem.objective(problem.d * mean)}


def _interior(H: NDArray, state: LinearisedState) -> NDArray:
    """Return μ > 0, at which the flow is linearised: variables without counts get a small weight and can grow."""
    n, shots = len(state.mean), state.seen
    if shots > 0:
        F = H @ state.mean
        prior = np.where(state.mean @ F >= F, PRIOR_GROWING, PRIOR_SHRINKING)
        return np.asarray((state.mean * shots + prior) / (shots + prior.sum()))
    return (1.0 - UNIFORM_SHARE) * state.mean + UNIFORM_SHARE / n


def _exact_step(context: LinearisedContext, state: LinearisedState, model: LinearModel, t: float) -> LinearisedState:
    """Run a window from exact distributions, accepted only if f falls."""
    moved = _window(context, state, model, t, None)
    fall = state.objective - moved.objective
    if fall > 0:
        return replace(moved, window=2.0 * t, flow_time=state.flow_time + t, fall=fall)
    # A rejected window costs its circuit and leaves the state as it was. The run ends when f changes by round-off only,
    # or the window has become too short.
    resting = abs(fall) <= 1e-15 * abs(state.objective) or t * model.spread < MIN_WINDOW
    return replace(_rejected(state, moved), window=0.25 * t, resting=resting)


def _sampled_step(context: LinearisedContext, state: LinearisedState) -> LinearisedState:
    """Run a window with shots, accepted unless f rises beyond its noise."""
    plan, H = context.plan, context.H
    excess, _ = sampling_noise(H, state.mu, state.shots_kept)
    shots = plan.next_shots(state.shots, state.fall, excess * state.shots, state.account, 1) or 0
    averages = plan.averages(state.windows, context.windows, state.account, 1)
    before = state.mean_shots if averages else 0.0
    # The number of kept shots is known only afterwards; it is predicted by the mean share kept so far.
    wanted = shots * state.kept / state.reads
    share = wanted / (before + wanted)
    model = linearise(context.form, form_of_mean(H, state.mean, share), _interior(context.H, state))
    if not model.spread > 0:
        return replace(state, windows=state.windows + 1, resting=True)
    t = _length(context, state, model)
    moved = _window(context, state, model, t, shots)
    ended = context.spent(moved.windows, shots, moved.account)
    kept = moved.shots_kept
    # A window that damps nearly all of the state is too long for its linear model, and leaves too few shots.
    if moved.objective == np.inf or kept < MIN_SHARE_KEPT * wanted:
        return replace(_rejected(state, moved), window=0.25 * t, resting=ended)
    share = kept / (before + kept)
    excess, deviation = sampling_noise(H, state.mean, moved.shots_kept)
    mean = moved.mu if share == 1.0 else (1.0 - share) * state.mean + share * moved.mu
    moved = replace(moved, **_mean_fields(context, mean))
    fall = state.objective - moved.objective
    if fall < -(share**2 * excess + MAX_RISE_DEVIATIONS * share * deviation):
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
    """Return the state before a rejected window, with that window's circuit in its counts."""
    names = ("account", "kept", "reads", "longest")
    booked: dict[str, Any] = {name: getattr(moved, name) for name in names}
    return replace(state, windows=moved.windows, rejected=state.rejected + 1, **booked)


def _window(
    context: LinearisedContext, state: LinearisedState, model: LinearModel, t: float, shots: int | None
) -> LinearisedState:
    """Run a window of length t; return the state measured after it, with objective ∞ if no outcome was kept."""
    moved = replace(
        state,
        theta=window_angles(context.circuit, model, t, context.cut),
        scale=model.scale,
        windows=state.windows + 1,
        longest=max(state.longest, min(t * model.spread, context.cut)),
    )
    return _read(context, moved, shots)


def _read(context: LinearisedContext, state: LinearisedState, shots: int | None) -> LinearisedState:
    """Run the circuit at the state's angles; return the measured state, with objective ∞ if no outcome was kept."""
    problem, lab, circuit = context.workspace, context.lab, context.circuit
    distribution, account = lab.measure(state.account, circuit, state.theta, shots)
    mu, success = read_distribution(circuit, state.scale, distribution, problem.n)
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


def _require_outcome(context: LinearisedContext, state: LinearisedState) -> LinearisedState:
    """Return the state; raise `DeviceError` if no outcome was kept."""
    if state.objective == np.inf:
        raise DeviceError(
            f"the device gave none of the outcomes that circuit {context.circuit.name!r} keeps; raise shots, or use a "
            "device with less noise"
        )
    return state


@dataclass(frozen=True)
class LinearisedSolver(QuantumSolver[LinearisedContext, LinearisedState]):
    """Base of the solvers that linearise the simplex flow window by window."""

    ancillas: int = option(8, Number(at_least=2, at_most=MAX_ANCILLAS, whole=True))
    form: str = option("replicator", OneOf(words=FORMS))
    evolution: str = option("exact", EVOLUTION_RULE)
    trotter_steps: int | None = option(None, Number(at_least=1, whole=True, none=True))
    order: int = option(2, ORDER_RULE)
    windows: int | str | None = option(None, Number(at_least=1, whole=True, powers=True, none=True, words=(RESOLVED,)))
    longest: float | None = option(None, Number(above=0, none=True))

    state_type: ClassVar[type] = LinearisedState

    kinds = frozenset({Kind.SIMPLEX})
    exact_method: ClassVar[str] = "exact: a window is accepted only if f falls; the answer is the final state"
    sampled_method: ClassVar[str] = (
        "sampled: windows within the noise are accepted, cut ones too; the answer is an average of them"
    )
    max_n: ClassVar[int | None] = 16
    renamed: ClassVar[Mapping[str, str]] = {"steps": "windows", "splits": "trotter_steps"}

    def _family(self, n_qubits: int, trotter_steps: int) -> SelectCircuit:
        """Return the circuit with this solver's ancillas."""
        raise NotImplementedError

    @property
    def _resolved(self) -> float:
        """Largest λt at which the ancillas damp by e^(−λt); beyond it the periodic sum grows again."""
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
            longest=self.longest or (np.inf if free and exact else MAX_WINDOW_SAMPLED if cuts else self._resolved),
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

    def final_angles(self, context: LinearisedContext, state: LinearisedState) -> NDArray:
        """Return the angles of the final state; those of an average are a window of length 0 that begins at it."""
        if not self.answers_by_average:
            return state.theta
        mu = (1.0 - UNIFORM_SHARE) * state.mean + UNIFORM_SHARE / len(state.mean)
        return window_angles(context.circuit, linearise(context.form, context.H, mu), 0.0, context.cut)

    @property
    def answers_by_average(self) -> bool:
        return self.shots is not None

    def is_noise_dominated(self, context: LinearisedContext, state: LinearisedState) -> bool:
        shots = state.shots or None
        return context.lab.is_noise_dominated(state.account, context.circuit, state.theta, state.distribution, shots)

    def provenance(self, context: LinearisedContext, state: LinearisedState) -> dict[str, Any]:
        return super().provenance(context, state) | {
            "ancillas": self.ancillas,
            "trotter_steps": context.circuit.trotter_steps,
            "rejected_windows": state.rejected,
            "longest_window": state.longest,
            "resolved": self._resolved,
        }
