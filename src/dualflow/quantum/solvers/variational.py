"""What `variational-flow` and `variational-lotka-volterra` share: options, and doors to an engine of the same kind.

What the variational flows share: steps in the angles of a circuit, from exact distributions or counts, or faithful.

From exact distributions a step is taken only if f falls; then h doubles, else it falls to a quarter. With counts every
step is taken, h grows at once, and after a while the steps are damped. α is then the mean of what the second half of
the steps measured (Polyak and Juditsky, SIAM J. Control Optim. 30, 838 (1992)). Each step undoes a share of the last
read-out's noise, so that in the mean most of it cancels: undamped, of K read-outs two remain, 2/K² of one's variance
and not 1/K. The state at rest is measured once more where it is to have shots of its own. LSODA follows the flow.
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
from ..runs.budget import COUNT, ShotPlan
from ..runs.laboratory import Account, Ledger, QuantumContext
from .base import QuantumSolver

__all__ = ["AngleFlow", "AngleState", "Pace", "VariationalSolver"]


#: Largest change of an angle in a step, from exact distributions and from counts.
CLIP_EXACT, CLIP_SAMPLED = 0.8, 0.4
#: A trial that moves no angle by more is as good as none: what is left of f's fall is below round-off.
NEAR = 1e-9
#: Tolerances of LSODA, absolute and relative, on angles (and multipliers).
LSODA_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Pace:
    """With shots: ``steps`` until the solver rests, unless the user says how many; growth of h a step, up to
    ``longest`` time scales of the flow; after one part in ``part`` of the steps, step k is scaled by k^−averaging
    (Robbins and Monro 1951: the larger the exponent, the quieter the angles, the smaller, the more noise cancels in the
    mean); and the share of the fall it promised that a step must show, else shots are to grow and not h.
    """

    steps: int
    growth: float
    longest: float
    averaging: float
    part: int
    promise: float | None = None


@dataclass(frozen=True)
class AngleState:
    """Angles, what was measured at them, and the controls of the step.

    Attributes
    ----------
    theta : array of shape (P,)
    h, flow_time : float
        Step to try next, and the sum of those taken, in units of flow time.
    account : Account
    measured_finally : bool
        No read-out with ``final_shots`` is to come.
    measured : array of shape (n,)
        α as it was measured at θ, with ``shots_behind`` shots; 0 stands for an exact distribution.
    mean, mean_shots : array of shape (n,), int
        The mean of what was ``measured`` since averages began, by shots, and the shots behind it; 0 before.
    steps : int
        Tried, rejected ones included.
    resting : bool
        No step is left that lowers f (exact), or the budget of steps or shots is spent.
    kept : bool
        With shots: the last step took off f what it promised, or a fair part of it.
    """

    theta: NDArray
    h: float
    account: Account
    measured_finally: bool
    measured: NDArray
    shots_behind: int = 0
    mean: NDArray = field(default_factory=lambda: np.empty(0))
    mean_shots: int = 0
    flow_time: float = 0.0
    steps: int = 0
    resting: bool = False
    kept: bool = True

    @property
    def alpha(self) -> NDArray:
        """The answer: the mean, or before there is one, and from exact distributions, what was measured last."""
        return self.mean if self.mean_shots else self.measured


StateT = TypeVar("StateT", bound=AngleState)


@dataclass(frozen=True)
class AngleFlow(QuantumContext, Generic[StateT]):
    """A flow in the angles of a circuit: what a run works with, and its steps. Subclasses say what moves.

    ``faithful`` says whether LSODA follows it, ``time_step`` a step up to ``t_end``.
    """

    plan: ShotPlan
    steps: int | None
    faithful: bool
    time_step: float
    t_end: float | None

    pace: ClassVar[Pace]

    @property
    def circuit(self) -> ParametricCircuit:
        raise NotImplementedError

    @property
    def circuits_a_step(self) -> int:
        return 1

    @property
    def readouts_a_step(self) -> int:
        """How many of a step's circuits `measured` is made of."""
        return 1

    @property
    def at_rest_from_the_start(self) -> bool:
        return False

    @property
    def longest(self) -> float:
        """With shots: largest h."""
        raise NotImplementedError

    def start(self, rng: np.random.Generator, warm: NDArray | None) -> StateT:
        """The first state, measured; at rest if the budget holds no step after it."""
        state = self.begin(rng, warm)
        return replace(state, resting=state.resting or self.begun_is_spent(state.account))

    def begin(self, rng: np.random.Generator, warm: NDArray | None) -> StateT:
        """The first state, measured."""
        raise NotImplementedError

    def measure(self, state: StateT, shots: int | None, final: bool = False) -> StateT:
        """A state with the circuits of a step run at its angles, or the one circuit that α is read from at last."""
        raise NotImplementedError

    def trial(self, state: StateT, share: float) -> tuple[StateT, float]:
        """A share of the linearised implicit Euler step of length h taken, and the fall of f that the whole one
        promises; not measured."""
        raise NotImplementedError

    def objective(self, state: StateT) -> float:
        """f of what was measured."""
        raise NotImplementedError

    def variance(self, state: StateT) -> float:
        """V, where V/S is the mean excess of f that S shots of the state add."""
        raise NotImplementedError

    def rate(self, ledger: Ledger, state: StateT, y: NDArray) -> NDArray:
        """The flow at `unknowns` y, on the way from a state; exact."""
        raise NotImplementedError

    def unknowns(self, state: StateT) -> NDArray:
        """What LSODA integrates."""
        return state.theta

    def landed(self, state: StateT, y: NDArray) -> StateT:
        """The state at `unknowns` y, measured."""
        return self.measure(replace(state, theta=y), None)

    def accepts(self, state: StateT, trial: StateT) -> bool:
        return self.objective(trial) < self.objective(state)

    def rejected(self, state: StateT, trial: StateT) -> StateT:
        """A state with what a trial told that was not taken."""
        return state

    def rests(self, state: StateT, near: bool, taken: bool) -> bool:
        """Whether an exact step tried from a state, to a ``near`` one or not, was the last."""
        return near and not taken

    # --- the steps -----------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        return self.plan.shots is None

    def clipped(self, step: NDArray) -> NDArray:
        most = CLIP_EXACT if self.exact else CLIP_SAMPLED
        return np.clip(step, -most, most)

    def step(self, state: StateT) -> StateT:
        """The next state; at rest, the final read-out."""
        if state.resting:
            final = replace(self.measure(state, self.plan.final, final=True), measured_finally=True)
            return self._averaged(state, final, self.plan.final or 0)
        if self.faithful:
            return self._follow(state)
        return self._exact_step(state) if self.exact else self._sampled_step(state)

    def _exact_step(self, state: StateT) -> StateT:
        trial = self.measure(self.trial(state, 1.0)[0], None)
        taken = self.accepts(state, trial)
        resting = self.rests(state, bool(np.abs(trial.theta - state.theta).max() < NEAR), taken)
        if taken:
            return replace(trial, h=2.0 * state.h, flow_time=state.flow_time + state.h, resting=resting)
        # A rejected trial costs its circuits and leaves the state where it was.
        state = self.rejected(state, trial)
        return replace(state, steps=trial.steps, account=trial.account, h=0.25 * state.h, resting=resting)

    def _sampled_step(self, state: StateT) -> StateT:
        plan, pace, circuits, share = self.plan, self.pace, self.circuits_a_step, 1.0
        steps = self.last_step
        if steps is not None and not plan.adaptive:
            share = max(1, state.steps - steps // pace.part + 1) ** -pace.averaging
        trial, fall = self.trial(state, share)
        promised = fall if state.kept else 0.0
        shots = plan.next(state.shots_behind, promised, self.variance(state), state.account, circuits)
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
        """``after`` with what it measured, by so many shots, in the mean of ``before``."""
        if not shots:
            return after
        together = before.mean_shots + shots
        share = shots / together
        mean = after.measured if share == 1.0 else (1.0 - share) * before.mean + share * after.measured
        return replace(after, mean=mean, mean_shots=together)

    @property
    def last_step(self) -> int | None:
        """With shots: the step the solver rests after; None where the budget alone decides."""
        return self.steps if self.plan.adaptive else self.steps or self.pace.steps

    def spent(self, steps: int, shots: int, account: Account) -> bool:
        """With shots: whether so many steps, the last with so many shots a circuit, leave nothing for another."""
        return steps == self.last_step or self.plan.exhausted(shots, account, self.circuits_a_step)

    def begun_is_spent(self, account: Account) -> bool:
        """Whether, after the start, the budget of shots holds no step."""
        return self.plan.first is not None and self.spent(0, self.plan.first, account)

    def schedule(self) -> Schedule | None:
        """What a run sends, or None where that depends on what is measured."""
        shots = self.plan.first
        if shots is None or self.plan.adaptive:
            return None
        found, steps = Schedule(self.lab), 0
        found.step(self.circuit, self.circuits_a_step, shots)
        resting = self.at_rest_from_the_start or self.begun_is_spent(found.account)
        while not resting:
            found.step(self.circuit, self.circuits_a_step, shots)
            steps += 1
            resting = self.spent(steps, shots, found.account)
        if self.plan.final is not None:
            found.step(self.circuit, 1, self.plan.final)
        return found

    def _follow(self, state: StateT) -> StateT:
        """`time_step` of the flow by LSODA, whose every evaluation is a batch of circuits."""
        h = self.time_step if self.t_end is None else min(self.time_step, self.t_end - state.flow_time)
        ledger, t, tol = Ledger(self.lab, state.account), state.flow_time, LSODA_TOLERANCE
        y = ivp_step(lambda _, y: self.rate(ledger, state, y), t, self.unknowns(state), h, rtol=tol, atol=tol)
        after = self.landed(replace(state, account=ledger.account, steps=state.steps + 1), y)
        over = self.t_end is not None and t + h >= self.t_end * (1 - 1e-12)
        return replace(after, flow_time=t + h, resting=over)


SEMI_IMPLICIT, LSODA = "semi-implicit", "lsoda"

ContextT = TypeVar("ContextT", bound=AngleFlow[Any])


@dataclass(frozen=True)
class VariationalSolver(QuantumSolver[ContextT, StateT]):
    """Base of the flows in the angles of a circuit; the stepping is `quantum.engines.variational.AngleFlow`'s."""

    steps: int | None = option(None, COUNT)
    integrator: str = option(SEMI_IMPLICIT, OneOf(words=(SEMI_IMPLICIT, LSODA)))
    time_step: float | None = option(None, Number(above=0, none=True))
    t_end: float | None = option(None, Number(above=0, none=True))

    exact_method: ClassVar[str] = "exact: a step is taken only where f falls, or LSODA's; the answer is the final state"
    sampled_method: ClassVar[str] = (
        "sampled: every step is taken, and damped; the answer is the mean of what the later steps measured"
    )
    max_n: ClassVar[int | None] = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.integrator == LSODA and self.shots is not None:
            raise ProblemError("integrator='lsoda' follows exact distributions; set shots=None")
        for name in ("time_step", "t_end"):
            if (value := getattr(self, name)) is not None and self.integrator != LSODA:
                raise ProblemError(f"{name}={value!r} must be None, or go with shots=None and integrator='lsoda'")

    def _course(self) -> dict[str, Any]:
        """The options above, as `AngleFlow` takes them."""
        return {
            "plan": self._plan,
            "steps": self.steps,
            "faithful": self.integrator == LSODA,
            "time_step": self.time_step or 1.0,
            "t_end": self.t_end,
        }

    def _within_budget(self, context: ContextT) -> ContextT:
        """The context, or `ProblemError` if the budget of shots does not hold its first step."""
        self._prepared(context.lab, context.circuit, context.circuits_a_step)
        return context

    def start(self, context: ContextT, rng: np.random.Generator, warm: NDArray | None = None) -> StateT:
        state: StateT = context.start(rng, warm)
        return state

    def step(self, context: ContextT, state: StateT) -> StateT:
        return context.step(state)

    def alpha(self, state: StateT) -> NDArray:
        return state.alpha

    def finished(self, state: StateT) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: StateT) -> float | None:
        return state.flow_time

    def circuit(self, context: ContextT, state: StateT) -> ParametricCircuit:
        return context.circuit

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        about = super().provenance(context, state) | {"circuits_a_step": context.circuits_a_step}
        if state.shots_behind:  # in units of f, the mean excess that the shots of one circuit add
            about["shot_noise"] = context.variance(state) / state.shots_behind
        return about
