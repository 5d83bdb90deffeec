"""Mirror descent whose mirror map is a circuit: the steps of `hamiltonian-dilation`, one circuit each.

Potential, L and m are those of `dilation`.

- "plain": S ← S + ∇f/L, entropic mirror descent (Beck and Teboulle, Oper. Res. Lett. 31, 167 (2003)); in the box
  U ← U + m∘(g + νe).
- "accelerated": with x₀ = z₀, A = 0, and a from La² = A + a, τ = a/(A + a),

      v = (1−τ)x + τz,  S ← S + a∇f(v),  z ← the circuit's α for S,  x ← (1−τ)x + τz,  A ← A + a

  (Nesterov, Math. Program. 103, 127 (2005)). x, an average of measured distributions, is the answer; f(x) − f* ≤
  D(α*, z₀)/A, on the simplex ≤ 4dL log n/(k(k+1)) after k steps taken. From exact distributions L is tried below its
  bound and raised where ½aτ ΔzᵀQΔz > D(z′, z), at the price of the rejected circuit.
- "implicit", from exact distributions: one linearised implicit step of length h, a Newton step to the entropic
  proximal point, taken only if f falls (then 3h, else h/4). α is the last circuit's that was taken.

With shots, L is its bound, and half-way the averages begin again from the present potential. An accelerated x swings
about its end; the answer is the mean of x over the last quarter of the steps, each `Dilation.balanced`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..runs.batches import Schedule
from ..runs.laboratory import Account, QuantumContext
from .dilation import Dilation, Measured, implicit_direction

__all__ = ["METHODS", "DilationContext", "DilationState", "start", "step"]

#: Implicit: largest change of a potential in a step, factors of the step length after success and failure, and its
#: largest value in units of 1/L, beyond which the system of a singular Q could lose its Cholesky factor.
CLIP, LONGER, SHORTER, LONGEST = 5.0, 3.0, 0.25, 1e10
#: Accelerated, exact: factors of the trial L after success and failure.
EASED, RAISED = 0.9, 2.0


@dataclass(frozen=True)
class DilationContext(QuantumContext):
    """What a run works with; ``last_step`` counts the circuits after the first until it rests."""

    dilation: Dilation
    method: str
    shots: int | None
    last_step: float

    def schedule(self) -> Schedule | None:
        """What a run sends, or None where that depends on what is measured."""
        if self.shots is None or math.isinf(self.last_step):
            return None
        found = Schedule(self.lab)
        for _ in range(1 + max(0, int(self.last_step))):
            found.step(self.dilation.circuit, 1, self.shots)
        return found


@dataclass(frozen=True)
class DilationState:
    """Potential, what was measured for it, and the averages.

    Attributes
    ----------
    V : array of shape (n,)
        Potential −S (simplex) or U (box) of the last circuit that was taken.
    z, response : array of shape (n,)
        α measured for V, and `Measured.response`.
    x : array of shape (n,)
        z itself (implicit; plain from exact distributions), or an average of z's.
    mean, averaged : array of shape (n,), int
        Of the x's of the last quarter of the steps with shots, and how many they are.
    weight : float
        A of the average: accelerated Σa, plain the number of z's in it.
    h : float
        Implicit: step length to try next. Accelerated: 1/L of the next trial. Plain: the step length.
    success, least_success : float
        Share of outcomes kept in the last circuit, and the least so far.
    steps, taken : int
        Circuits after the first, and those of them whose result was taken, since the averages began.
    tried, distribution : array of shape (n,), (2^q,)
        Potential of the last circuit, taken or not, and what it gave.
    """

    V: NDArray
    z: NDArray
    response: NDArray
    x: NDArray
    h: float
    tried: NDArray
    distribution: NDArray
    account: Account
    weight: float = 0.0
    success: float = 1.0
    least_success: float = 1.0
    steps: int = 0
    taken: int = 0
    resting: bool = False
    mean: NDArray = field(default_factory=lambda: np.empty(0))
    averaged: int = 0

    @property
    def alpha(self) -> NDArray:
        """The answer."""
        return self.mean if self.averaged else self.x


def start(context: DilationContext, rng: np.random.Generator, warm: NDArray | None) -> DilationState:
    """The circuit of the even point, or of a warm α, run and read."""
    dilation, nothing = context.dilation, np.zeros(context.workspace.n)
    state = DilationState(
        V=dilation.start(warm),
        z=nothing,
        response=nothing,
        x=nothing,
        h=1.0 / dilation.lipschitz,
        tried=nothing,
        distribution=nothing,
        account=Account.opened(rng),
        resting=context.last_step < 1,
    )
    found, state = _measure(context, state, state.V, None)
    assert found is not None  # for the type checker: an empty first distribution raises
    return replace(_taken(state, state.V, found), taken=0, x=found.alpha)


def step(context: DilationContext, state: DilationState) -> DilationState:
    """One more circuit."""
    if context.shots is not None and state.steps == context.last_step // 2:
        state = replace(state, x=state.z, weight=0.0, taken=0)
    state = replace(state, steps=state.steps + 1, resting=state.steps + 1 >= context.last_step)
    last, state = state.steps, METHODS[context.method](context, state)
    if context.shots is None or last <= 0.75 * context.last_step:
        return state
    averaged, x = state.averaged + 1, context.dilation.balanced(state.x)
    mean = x if averaged == 1 else state.mean + (x - state.mean) / averaged
    return replace(state, mean=mean, averaged=averaged)


def _implicit(context: DilationContext, state: DilationState) -> DilationState:
    problem, dilation = context.workspace, context.dilation
    direction = implicit_direction(problem, dilation, Measured(state.z, state.response, state.success), state.h)
    change = np.clip(direction, -CLIP, CLIP)
    V = dilation.settled(state.V + change)
    found, state = _measure(context, state, V, state.z)
    if found is None:
        return replace(state, h=SHORTER * state.h)
    if problem.objective(found.alpha) < problem.objective(state.z):
        h = min(LONGER * state.h, LONGEST / dilation.lipschitz)
        return replace(_taken(state, V, found), x=found.alpha, h=h)
    # Once a trial is that near, what is left of f's fall is below round-off. So short a step rests too: where the
    # equality leaves one point alone, `settled` moves any trial further than the step does.
    near = float(np.abs(found.alpha - state.z).max()) <= 1e-10 * float(np.abs(state.z).max())
    near = near or float(np.abs(change).max()) <= 1e-12
    return replace(state, h=SHORTER * state.h, resting=state.resting or near)


def _plain(context: DilationContext, state: DilationState) -> DilationState:
    dilation = context.dilation
    V = dilation.settled(state.V - state.h * dilation.mobility * context.workspace.gradient(state.z))
    found, state = _measure(context, state, V, state.z)
    if found is None:
        return state
    state = _taken(state, V, found)
    if context.shots is None:
        return replace(state, x=found.alpha)
    return replace(state, x=state.x + (found.alpha - state.x) / (state.weight + 1), weight=state.weight + 1)


def _accelerated(context: DilationContext, state: DilationState) -> DilationState:
    problem, dilation, A, L = context.workspace, context.dilation, state.weight, 1.0 / state.h
    a = (1.0 + math.sqrt(1.0 + 4.0 * L * A)) / (2.0 * L)
    tau = a / (A + a)
    v = (1 - tau) * state.x + tau * state.z
    V = dilation.settled(state.V - a * dilation.mobility * problem.gradient(v))
    found, trial = _measure(context, state, V, state.z)
    if found is None:
        return trial
    if context.shots is None:
        move = found.alpha - state.z
        curvature = 0.5 * a * tau * float(move @ problem.matvec(move))
        if curvature > dilation.distance(V, state.V) and dilation.lipschitz > L:
            return replace(trial, h=1.0 / min(RAISED * L, dilation.lipschitz))
        L *= EASED
    taken = _taken(trial, V, found)
    return replace(taken, x=(1 - tau) * state.x + tau * found.alpha, weight=A + a, h=1.0 / L)


def _measure(
    context: DilationContext, state: DilationState, V: NDArray, previous: NDArray | None
) -> tuple[Measured | None, DilationState]:
    """What the circuit for V says, None if all was discarded, and the state with the circuit booked."""
    dilation = context.dilation
    distribution, account = context.lab.measure(state.account, dilation.circuit, dilation.angles(V), context.shots)
    found = dilation.read(distribution, previous)
    state = replace(state, account=account, tried=V, distribution=distribution)
    if found is None:
        return None, state
    return found, replace(state, success=found.success, least_success=min(found.success, state.least_success))


def _taken(state: DilationState, V: NDArray, found: Measured) -> DilationState:
    return replace(state, V=V, z=found.alpha, response=found.response, taken=state.taken + 1)


METHODS = {"implicit": _implicit, "accelerated": _accelerated, "plain": _plain}
