"""Base of `variational-flow` and `variational-lotka-volterra`: a flow in the angles of a circuit, step by step.

From exact distributions a step is accepted only if f falls; then its length h doubles, otherwise h falls to a quarter.
With counts every step is accepted, h grows from the first step on, and later steps are damped. α is then the mean of
what the second half of the steps measured (Polyak and Juditsky, SIAM J. Control Optim. 30, 838 (1992)). Each step
undoes a share of the last read-out's noise, so that most of the noise cancels in the mean: without damping the noise
of only two of K read-outs remains, and the variance of the mean is 2/K² of that of one read-out, not 1/K. With
``final_shots`` the final state is measured once more. LSODA follows the flow to a tolerance instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number, OneOf, option
from ...exceptions import ProblemError
from ...integrate.scipy_ivp import ivp_step
from ..circuits import ParametricCircuit
from ..runs.batches import Schedule
from ..runs.budget import COUNT_RULE, ShotPlan
from ..runs.final_circuit import OF_LAST_STEP
from ..runs.laboratory import Account, Ledger, QuantumContext
from .base import QuantumSolver

#: Largest change of an angle in a step from exact distributions, radians.
MAX_TURN_EXACT = 0.8
#: Largest change of an angle in a step from counts, radians.
MAX_TURN_SAMPLED = 0.4
#: An exact run ends at a rejected trial that moves no angle by more: the remaining fall of f is below round-off.
MIN_TURN = 1e-9
#: Tolerances of LSODA, absolute and relative, on angles (and multipliers).
LSODA_TOLERANCE = 1e-9
#: Values of the option ``integrator``: steps with a control of h, or ...
SEMI_IMPLICIT = "semi-implicit"
#: ... LSODA, from exact distributions.
LSODA = "lsoda"


@dataclass(frozen=True)
class Pace:
    """Control of the steps with shots."""

    steps: int  # default number of steps
    growth: float  # factor of h after each step
    longest: float  # largest h, in time scales of the flow
    #: Damping: after the first 1/``part`` of the steps, step k from there on is scaled by k^−averaging (Robbins and
    #: Monro 1951). A larger exponent makes the angles less noisy; with a smaller one more noise cancels in the mean.
    averaging: float
    part: int  # see ``averaging``
    #: Share of the predicted fall of f that a step must show; otherwise the shots grow instead of h.
    promise: float | None = None


@dataclass(frozen=True)
class AngleState:
    """Angles, the α measured at them, and the control of the step."""

    theta: NDArray  # shape (P,)
    #: h, flow_time: length of the next step, and the sum of the accepted ones, in units of flow time.
    h: float
    account: Account
    measured_finally: bool  # no read-out with ``final_shots`` follows
    measured: NDArray  # α as measured at θ, with ``shots_behind`` shots; 0 shots mean an exact distribution; shape (n,)
    shots_behind: int = 0
    #: mean, mean_shots: mean of ``measured`` since averages began, weighted by shots, and its shots; 0 before; shape
    #: (n,).
    mean: NDArray = field(default_factory=lambda: np.empty(0))
    mean_shots: int = 0
    flow_time: float = 0.0
    steps: int = 0  # steps so far, rejected ones included
    resting: bool = False  # no step follows: none lowers f (exact), or the budget of steps or shots is spent
    kept: bool = True  # with shots: the last step lowered f by enough of what it predicted (`Pace.promise`)

    @property
    def alpha(self) -> NDArray:
        """The answer: the mean if there is one, otherwise the last measured α."""
        return self.mean if self.mean_shots else self.measured


StateT = TypeVar("StateT", bound=AngleState)


@dataclass(frozen=True)
class AngleFlow(QuantumContext, Generic[StateT]):
    """The data of a run, and the steps of a flow in the angles of a circuit. Subclasses define the flow.

    With ``uses_lsoda`` each step follows the flow for ``time_step``, up to ``t_end``.
    """

    plan: ShotPlan
    steps: int | None
    uses_lsoda: bool
    time_step: float
    t_end: float | None

    pace: ClassVar[Pace]

    @property
    def circuit(self) -> ParametricCircuit:
        """The circuit whose angles move."""
        raise NotImplementedError

    @property
    def circuits_a_step(self) -> int:
        """Number of circuits of a step's batch."""
        return 1

    @property
    def readouts_a_step(self) -> int:
        """Number of these circuits whose distributions give the measured α."""
        return 1

    @property
    def has_one_point(self) -> bool:
        """Whether the feasible set is a single point, so that no step is needed."""
        return False

    @property
    def longest(self) -> float:
        """Largest h with shots."""
        raise NotImplementedError

    def start(self, rng: np.random.Generator, warm: NDArray | None) -> StateT:
        """Return the first state, measured; no step follows if the shot budget does not hold one."""
        state = self.first_state(rng, warm)
        return replace(state, resting=state.resting or self.start_spends_budget(state.account))

    def first_state(self, rng: np.random.Generator, warm: NDArray | None) -> StateT:
        """Return the first state, measured."""
        raise NotImplementedError

    def measure(self, state: StateT, shots: int | None, final: bool = False) -> StateT:
        """Run the circuits of a step at the state's angles, or only the one that gives the final α."""
        raise NotImplementedError

    def trial(self, state: StateT, share: float) -> tuple[StateT, float]:
        """Return the state after ``share`` of a linearised implicit Euler step of length h, not measured.

        Also return the fall of f that the full step predicts.
        """
        raise NotImplementedError

    def objective(self, state: StateT) -> float:
        """Return f of the measured α."""
        raise NotImplementedError

    def variance(self, state: StateT) -> float:
        """Return V, where V/S is the mean excess of f from S shots of the state."""
        raise NotImplementedError

    def rate(self, ledger: Ledger, state: StateT, y: NDArray) -> NDArray:
        """Return the time derivative of `unknowns` at y from exact distributions; ``state`` is where the step began."""
        raise NotImplementedError

    def unknowns(self, state: StateT) -> NDArray:
        """Return the vector that LSODA integrates."""
        return state.theta

    def state_at(self, state: StateT, y: NDArray) -> StateT:
        """Return the state whose `unknowns` are y, measured."""
        return self.measure(replace(state, theta=y), None)

    def accepts(self, state: StateT, trial: StateT) -> bool:
        """Return whether an exact trial is accepted: whether it lowers f."""
        return self.objective(trial) < self.objective(state)

    def with_rejected(self, state: StateT, trial: StateT) -> StateT:
        """Return the state with what the rejected trial showed."""
        return state

    def is_last_step(self, state: StateT, unmoved: bool, accepted: bool) -> bool:
        """Return whether an exact run ends after a trial; ``unmoved`` if it moved no angle noticeably."""
        return unmoved and not accepted

    # --- the steps -----------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        """Whether distributions are exact."""
        return self.plan.shots is None

    def clipped(self, step: NDArray) -> NDArray:
        """Return a step with each angle's change clipped."""
        limit = MAX_TURN_EXACT if self.exact else MAX_TURN_SAMPLED
        return np.clip(step, -limit, limit)

    def step(self, state: StateT) -> StateT:
        """Return the next state; if no step is left, the state after the final read-out."""
        if state.resting:
            final = replace(self.measure(state, self.plan.final, final=True), measured_finally=True)
            return self._averaged(state, final, self.plan.final or 0)
        if self.uses_lsoda:
            return self._lsoda_step(state)
        return self._exact_step(state) if self.exact else self._sampled_step(state)

    def _exact_step(self, state: StateT) -> StateT:
        trial = self.measure(self.trial(state, 1.0)[0], None)
        accepted = self.accepts(state, trial)
        unmoved = bool(np.abs(trial.theta - state.theta).max() < MIN_TURN)
        resting = self.is_last_step(state, unmoved, accepted)
        if accepted:
            return replace(trial, h=2.0 * state.h, flow_time=state.flow_time + state.h, resting=resting)
        # A rejected trial costs its circuits and leaves the angles as they were.
        state = self.with_rejected(state, trial)
        return replace(state, steps=trial.steps, account=trial.account, h=0.25 * state.h, resting=resting)

    def _sampled_step(self, state: StateT) -> StateT:
        plan, pace, circuits, share = self.plan, self.pace, self.circuits_a_step, 1.0
        steps = self.last_step
        if steps is not None and not plan.adaptive:
            share = max(1, state.steps - steps // pace.part + 1) ** -pace.averaging
        trial, fall = self.trial(state, share)
        predicted = fall if state.kept else 0.0
        shots = plan.next_shots(state.shots_behind, predicted, self.variance(state), state.account, circuits)
        after = self.measure(trial, shots)
        kept = pace.promise is None or self.objective(state) - self.objective(after) > pace.promise * fall
        growth = pace.growth if kept or not plan.adaptive else 1.0 / pace.growth
        if plan.averages(state.steps, steps, state.account, circuits):
            after = self._averaged(state, after, (shots or 0) * self.readouts_a_step)
        return replace(
            after,
            h=min(state.h * growth, max(self.longest, state.h)),
            flow_time=state.flow_time + state.h,
            resting=self.spent(after.steps, after.shots_behind, after.account),
            kept=kept,
        )

    def _averaged(self, before: StateT, after: StateT, shots: int) -> StateT:
        """Return ``after`` with its measured α, from the given shots, added to the mean of ``before``."""
        if not shots:
            return after
        together = before.mean_shots + shots
        share = shots / together
        mean = after.measured if share == 1.0 else (1.0 - share) * before.mean + share * after.measured
        return replace(after, mean=mean, mean_shots=together)

    @property
    def last_step(self) -> int | None:
        """Number of steps with shots; None if the budget alone ends the run."""
        return self.steps if self.plan.adaptive else self.steps or self.pace.steps

    def spent(self, steps: int, shots: int, account: Account) -> bool:
        """Return whether a run with shots ends after ``steps`` steps, the last with ``shots`` shots a circuit."""
        return steps == self.last_step or self.plan.is_exhausted(shots, account, self.circuits_a_step)

    def start_spends_budget(self, account: Account) -> bool:
        """Return whether the shot budget holds no step after the start."""
        return self.plan.first is not None and self.spent(0, self.plan.first, account)

    def schedule(self) -> Schedule | None:
        """Return the circuits and shots of a run, or None if they depend on measured results."""
        shots = self.plan.first
        if shots is None or self.plan.adaptive:
            return None
        found, steps = Schedule(self.lab), 0
        found.step(self.circuit, self.circuits_a_step, shots)
        resting = self.has_one_point or self.start_spends_budget(found.account)
        while not resting:
            found.step(self.circuit, self.circuits_a_step, shots)
            steps += 1
            resting = self.spent(steps, shots, found.account)
        if self.plan.final is not None:
            found.step(self.circuit, 1, self.plan.final)
        return found

    def _lsoda_step(self, state: StateT) -> StateT:
        """Return the state `time_step` later by LSODA; each evaluation of the flow is a batch of circuits."""
        h = self.time_step if self.t_end is None else min(self.time_step, self.t_end - state.flow_time)
        ledger, t, tol = Ledger(self.lab, state.account), state.flow_time, LSODA_TOLERANCE
        y = ivp_step(lambda _, y: self.rate(ledger, state, y), t, self.unknowns(state), h, rtol=tol, atol=tol)
        after = self.state_at(replace(state, account=ledger.account, steps=state.steps + 1), y)
        ended = self.t_end is not None and t + h >= self.t_end * (1 - 1e-12)
        return replace(after, flow_time=t + h, resting=ended)


ContextT = TypeVar("ContextT", bound=AngleFlow[Any])


@dataclass(frozen=True)
class VariationalSolver(QuantumSolver[ContextT, StateT]):
    """Base of the solvers that follow a flow in the angles of a circuit; `AngleFlow` has the steps."""

    steps: int | None = option(None, COUNT_RULE)
    integrator: str = option(SEMI_IMPLICIT, OneOf(words=(SEMI_IMPLICIT, LSODA)))
    time_step: float | None = option(None, Number(above=0, none=True))
    t_end: float | None = option(None, Number(above=0, none=True))

    exact_method: ClassVar[str] = (
        "exact: a step is accepted only if f falls, or is LSODA's; the answer is the final state"
    )
    sampled_method: ClassVar[str] = (
        "sampled: every step is accepted, and damped; the answer is the mean of what the later steps measured"
    )
    max_n: ClassVar[int | None] = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.integrator == LSODA and self.shots is not None:
            raise ProblemError("integrator='lsoda' follows exact distributions; set shots=None")
        for name in ("time_step", "t_end"):
            if (value := getattr(self, name)) is not None and self.integrator != LSODA:
                raise ProblemError(f"{name}={value!r} must be None, or go with shots=None and integrator='lsoda'")

    def _flow_options(self) -> dict[str, Any]:
        """Return the options of this class as arguments of `AngleFlow`."""
        return {
            "plan": self._plan,
            "steps": self.steps,
            "uses_lsoda": self.integrator == LSODA,
            "time_step": self.time_step or 1.0,
            "t_end": self.t_end,
        }

    def _within_budget(self, context: ContextT) -> ContextT:
        """Return the context; raise `ProblemError` if the shot budget does not hold its first step."""
        self._prepared(context.lab, context.circuit, context.circuits_a_step)
        return context

    def start(self, context: ContextT, rng: np.random.Generator, warm: NDArray | None = None) -> StateT:
        state: StateT = context.start(rng, warm)
        return state

    def step(self, context: ContextT, state: StateT) -> StateT:
        return context.step(state)

    def finished(self, state: StateT) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: StateT) -> float | None:
        return state.flow_time

    @property
    def circuit_origin(self) -> str | None:
        return None if self.shots is None else OF_LAST_STEP

    def circuit(self, context: ContextT, state: StateT) -> ParametricCircuit:
        return context.circuit

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        about = super().provenance(context, state) | {"circuits_a_step": context.circuits_a_step}
        if state.shots_behind:  # mean excess of f from the shots of one circuit
            about["shot_noise"] = context.variance(state) / state.shots_behind
        return about
