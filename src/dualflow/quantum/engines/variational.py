"""What the variational flows share: steps in the angles of a circuit, from exact distributions or counts, or faithful.

From exact distributions a step is taken only if it is accepted (f falls); then h doubles, else it falls to a quarter.
With counts every step is taken, h grows at once, and after a while the steps are damped so that shot noise averages
out; the state at rest is measured once more where it is to have shots of its own. LSODA follows the flow instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...integrate.scipy_ivp import ivp_step
from ..circuits import ParametricCircuit
from ..runs.budget import ShotPlan
from ..runs.laboratory import Account, Ledger, QuantumContext

__all__ = ["AngleFlow", "AngleState", "Pace", "Proposal"]

#: Largest change of an angle in a step, from exact distributions and from counts.
CLIP_EXACT, CLIP_SAMPLED = 0.8, 0.4
#: A trial that moves no angle by more is as good as none: what is left of f's fall is below round-off.
NEAR = 1e-9
#: Tolerances of LSODA, absolute and relative, on angles (and multipliers).
LSODA_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Pace:
    """With shots: how many steps, and how long they are.

    Attributes
    ----------
    steps : int
        Until the solver rests, unless the user says how many.
    growth, longest : float
        Growth of h a step, and its largest value in units of the flow's time scale.
    averaging, part : float, int
        After one part in so many of the steps, step k is scaled by k^−averaging, so that the shot noise of its circuits
        averages out (Robbins and Monro 1951; the exponent must lie in (½, 1]).
    """

    steps: int
    growth: float
    longest: float
    averaging: float
    part: int


@dataclass(frozen=True)
class AngleState:
    """Angles, what was measured at them, and the controls of the step.

    Attributes
    ----------
    theta : array of shape (P,)
    measured : array of shape (n,)
        α as it was measured at them, with ``shots_behind`` shots; 0 stands for an exact distribution.
    h, flow_time : float
        Step to try next, and the sum of those taken, in units of flow time.
    steps : int
        Tried, rejected ones included.
    resting : bool
        No step is left that lowers f (exact), or the budget of steps or shots is spent.
    measured_finally : bool
        No read-out with ``final_shots`` is to come.
    kept : bool
        The last step took off f what it promised, or a fair part of it.
    account : Account
    """

    theta: NDArray
    measured: NDArray
    shots_behind: int
    h: float
    flow_time: float
    steps: int
    resting: bool
    measured_finally: bool
    kept: bool
    account: Account


class Proposal(NamedTuple):
    """A step of the angles, not clipped, of the multiplier, and the fall of f they promise, ≥ 0."""

    step: NDArray
    multiplier: float
    fall: float


StateT = TypeVar("StateT", bound=AngleState)


@dataclass(frozen=True)
class AngleFlow(QuantumContext, Generic[StateT]):
    """A flow in the angles of a circuit: what a run works with, and its steps; subclasses say what moves.

    Attributes
    ----------
    plan : ShotPlan
    steps : int or None
        With shots: until it rests; by default those of `pace`, with an adaptive plan none.
    faithful : bool
        Whether LSODA follows the flow, ``time_step`` a step, up to ``t_end``.
    """

    plan: ShotPlan
    steps: int | None
    faithful: bool
    time_step: float
    t_end: float | None

    pace: ClassVar[Pace]

    # --- what a subclass says ------------------------------------------------------------------

    @property
    def circuit(self) -> ParametricCircuit:
        raise NotImplementedError

    @property
    def circuits_a_step(self) -> int:
        """With these shots."""
        return 1

    @property
    def longest(self) -> float:
        """With shots: largest h, ``pace.longest`` time scales of the flow."""
        raise NotImplementedError

    def start(self, rng: np.random.Generator, warm: NDArray | None) -> StateT:
        """The first state, measured."""
        raise NotImplementedError

    def measure(self, state: StateT, shots: int | None) -> StateT:
        """A state with the circuits of a step run at its angles."""
        raise NotImplementedError

    def read_out(self, state: StateT, shots: int | None) -> StateT:
        """A state with the circuit alone run that α is read from."""
        return self.measure(state, shots)

    def propose(self, state: StateT) -> Proposal:
        """The linearised implicit Euler step of length ``state.h``."""
        raise NotImplementedError

    def moved(self, state: StateT, proposal: Proposal, share: float, clip: float) -> StateT:
        """The state with a share of a step taken, no angle by more than ``clip``; not measured."""
        raise NotImplementedError

    def accepts(self, state: StateT, trial: StateT) -> bool:
        """From exact distributions: whether to take a step."""
        raise NotImplementedError

    def rests(self, state: StateT, near: bool, taken: bool) -> bool:
        """From exact distributions: whether a step tried from ``state`` was the last one."""
        return near and not taken

    def variance(self, state: StateT) -> float:
        """V, where V/S is the mean excess of f that S shots of the state add."""
        raise NotImplementedError

    def keeps(self, state: StateT, moved: StateT, fall: float) -> bool:
        """With shots: whether a step showed enough of the fall it promised."""
        return True

    def unknowns(self, state: StateT) -> NDArray:
        """What LSODA integrates."""
        return state.theta

    def rate(self, ledger: Ledger, state: StateT, y: NDArray) -> NDArray:
        """Their time derivative at y, on the way from a state."""
        raise NotImplementedError

    def landed(self, state: StateT, y: NDArray) -> StateT:
        """The state with the unknowns y, measured."""
        return self.measure(replace(state, theta=y), None)

    # --- the steps -----------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        return self.plan.shots is None

    def step(self, state: StateT) -> StateT:
        """The next state; at rest, the final read-out."""
        if state.resting:
            return replace(self.read_out(state, self.plan.final), measured_finally=True)
        if self.faithful:
            return self._follow(state)
        return self._exact_step(state) if self.exact else self._sampled_step(state)

    def _exact_step(self, state: StateT) -> StateT:
        trial = self.measure(self.moved(state, self.propose(state), 1.0, CLIP_EXACT), None)
        near, taken = bool(np.abs(trial.theta - state.theta).max() < NEAR), self.accepts(state, trial)
        resting = self.rests(state, near, taken)
        if taken:
            return replace(trial, h=2.0 * state.h, flow_time=state.flow_time + state.h, resting=resting)
        # A rejected trial costs its circuits and leaves the state where it was.
        return replace(state, steps=trial.steps, account=trial.account, h=0.25 * state.h, resting=resting)

    def _sampled_step(self, state: StateT) -> StateT:
        plan, pace, circuits, share = self.plan, self.pace, self.circuits_a_step, 1.0
        steps = self.steps if plan.adaptive else self.steps or pace.steps
        if steps is not None and not plan.adaptive:
            share = max(1, state.steps - steps // pace.part + 1) ** -pace.averaging
        proposal = self.propose(state)
        promise = proposal.fall if state.kept else 0.0
        shots = plan.next(state.shots_behind, promise, self.variance(state), state.account, circuits)
        after = self.measure(self.moved(state, proposal, share, CLIP_SAMPLED), shots)
        kept = self.keeps(state, after, proposal.fall)
        growth = pace.growth if kept or not plan.adaptive else 1.0 / pace.growth
        return replace(
            after,
            h=min(state.h * growth, max(self.longest, state.h)),
            flow_time=state.flow_time + state.h,
            resting=after.steps == steps or plan.exhausted(after.shots_behind, after.account, circuits),
            kept=kept,
        )

    def _follow(self, state: StateT) -> StateT:
        """`time_step` of the flow by LSODA, whose every evaluation is a batch of circuits."""
        h, ledger = self.time_step, Ledger(self.lab, state.account)
        if self.t_end is not None:
            h = min(h, self.t_end - state.flow_time)
        y = ivp_step(
            lambda _, y: self.rate(ledger, state, y),
            state.flow_time,
            self.unknowns(state),
            h,
            rtol=LSODA_TOLERANCE,
            atol=LSODA_TOLERANCE,
        )
        after = self.landed(replace(state, account=ledger.account, steps=state.steps + 1), y)
        flow_time = state.flow_time + h
        over = self.t_end is not None and flow_time >= self.t_end * (1 - 1e-12)
        return replace(after, flow_time=flow_time, resting=over)
