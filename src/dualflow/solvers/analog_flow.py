"""The flows as analog circuits, simulated by ngspice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..analog.circuit import CONTROL_RULE, FLOW_RULE, Circuit, build
from ..analog.parts import CELL_RULE, FULL_SCALE_V, RULES, TIME_CONSTANT_S, Parts
from ..analog.program import INSTALL_COMMAND, PROGRAM, installed, simulate
from ..core.options import Number, option
from ..core.problem import DualProblem
from ..core.solver import BOUNDED, Solver
from ..core.workspace import Workspace
from ..flows.gradient import equality_multiplier, interior_point, weights

FIRST_STRETCH = 100.0  # length of a run's first stretch, in time constants of the integrators
MAX_STRETCH = 1e6  # of the longest one, in time constants: the simulator's shortest step is a part of the stretch
MAX_REST_V = 1e-9 * FULL_SCALE_V  # movement of a voltage in a stretch, up to which the circuit is at rest


@dataclass
class AnalogContext:
    """The problem, and the circuits built from it, by seed."""

    problem: DualProblem
    circuits: dict[int, Circuit] = field(default_factory=dict)


@dataclass(frozen=True)
class AnalogState:
    """α, ν, the capacitors' voltages (``held``), the flow's time ``t``, the length of its next stretch, whether the
    last stretch moved nothing, the seed of the parts' faults, and the stretches so far."""

    alpha: NDArray
    multiplier: float
    held: NDArray
    t: float
    stretch: float
    at_rest: bool
    seed: int
    stretches: int


@dataclass(frozen=True)
class AnalogFlow(Solver[AnalogContext, AnalogState]):
    """The gradient or Lotka-Volterra flow as an analog circuit of integrators and conductances, in ngspice (a study).

    One step is a stretch of the circuit's time, ten times as long as the one before. αᵢ is a voltage, 5 V for the
    largest upper bound; 1 s of the circuit is 1e4/S of the flow's time, S the largest term of the fitness
    (`dualflow.analog.build`). ngspice is a program, not a package of Python: ``apt install ngspice`` on Debian. The
    time limit and Ctrl-C end it; the state before the stretch is returned.

    Parameters
    ----------
    flow : {"gradient", "lotka-volterra"}
        The multiplier: exact by Kirchhoff's law, or a capacitor of its own.
    cells : {"multiplier", "translinear"}
        Capacitors hold α, or its logarithm.
    tolerance, gain_bandwidth, offset, noise
        Faults of the parts (`dualflow.analog.Parts`), drawn from ``random_state``; all ideal by default.
    tau : float > 0, default=1
        Time scale of λ in the flow's time (Lotka-Volterra only).
    growth : float ≥ 1, default=10
        Factor from one stretch to the next.
    time_step : float, optional
        The flow's time of the first stretch; by default that of 100 time constants of the integrators.
    t_end : float, optional
        The flow's time at which to stop; by default at rest. With noise there is no rest: set this then.
    control : {"shuffled"}, optional
        The control: the same conductances in shuffled places. Its result shows what the circuit gives without the
        problem.

    Raises
    ------
    SolverUnavailable
        ngspice is not installed.
    DualflowError
        ngspice finds no solution of the circuit.

    Examples
    --------
    >>> from dualflow import AnalogFlow
    >>> AnalogFlow(tolerance=0.01, cells="translinear").parts.ideal
    False
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[1.0], [2.0], [4.0]], "linear"))
    >>> solve(problem, "analog-flow").alpha.round(6)  # doctest: +SKIP
    array([0.5, 0. , 0.5])
    """

    flow: str = option("gradient", FLOW_RULE)
    cells: str = option("multiplier", CELL_RULE)
    tolerance: float = option(0.0, RULES["tolerance"])
    gain_bandwidth: float | None = option(None, RULES["gain_bandwidth"])
    offset: float = option(0.0, RULES["offset"])
    noise: float = option(0.0, RULES["noise"])
    tau: float = option(1.0, Number(above=0))
    growth: float = option(10.0, Number(at_least=1))
    time_step: float | None = option(None, Number(above=0, none=True))
    t_end: float | None = option(None, Number(above=0, none=True, infinite=True))
    control: str | None = option(None, CONTROL_RULE)

    state_type: ClassVar[type] = AnalogState
    name: ClassVar[str] = "analog-flow"
    kinds = BOUNDED
    maturity: ClassVar[str] = "study"
    reaches: ClassVar[str] = "1e-6 with ideal parts; about 1e-2 with 1 % resistors"
    whole: ClassVar[bool] = True
    max_n: ClassVar[int | None] = 64
    default_max_steps: ClassVar[int] = 10
    classical_controls: ClassVar[tuple[str, ...]] = ("shuffled",)

    @classmethod
    def missing(cls) -> list[str]:
        return [] if installed() else [PROGRAM]

    @classmethod
    def install(cls) -> str | None:
        return None if installed() else INSTALL_COMMAND

    @property
    def parts(self) -> Parts:
        """The parts of its circuits."""
        return Parts(self.cells, self.tolerance, self.gain_bandwidth, self.offset, self.noise)

    def open(self, problem: DualProblem, workspace: Workspace) -> AnalogContext:
        workspace.dense()
        return AnalogContext(workspace)

    def circuit(self, context: AnalogContext, seed: int) -> Circuit:
        """Return the circuit of a seed."""
        if seed not in context.circuits:
            made = build(context.problem, self.flow, self.parts, tau=self.tau, seed=seed, control=self.control)
            context.circuits[seed] = made
        return context.circuits[seed]

    def start(self, context: AnalogContext, rng: np.random.Generator, warm: NDArray | None = None) -> AnalogState:
        seed, problem = int(rng.integers(2**31)), context.problem
        circuit, alpha = self.circuit(context, seed), interior_point(problem)
        if warm is not None:
            alpha = 0.99 * warm + 0.01 * alpha  # the flow cannot leave a bound
        nu = equality_multiplier(problem, weights(problem, alpha), -problem.gradient(alpha))
        stretch = circuit.flow_time(FIRST_STRETCH * TIME_CONSTANT_S) if self.time_step is None else self.time_step
        return AnalogState(alpha, nu, circuit.at(alpha, nu), 0.0, stretch, False, seed, 0)

    def step(self, context: AnalogContext, state: AnalogState) -> AnalogState:
        circuit = self.circuit(context, state.seed)
        t = state.t + state.stretch if self.t_end is None else min(state.t + state.stretch, self.t_end)
        seconds, noise_seed = circuit.seconds(t - state.t), (state.seed + state.stretches) % 2**31
        trace = simulate(circuit, seconds, state.held, noise_seed)
        alpha, nu = trace.alpha[-1], float(trace.multiplier[-1])
        moved = float(np.abs(alpha - state.alpha).max()) * FULL_SCALE_V / circuit.unit
        # A short stretch that moves nothing does not show that the circuit is at rest.
        at_rest = moved <= MAX_REST_V and seconds >= FIRST_STRETCH * TIME_CONSTANT_S * (1 - 1e-9)
        longest = max(circuit.flow_time(MAX_STRETCH * TIME_CONSTANT_S), state.stretch)
        stretch = min(state.stretch * self.growth, longest)
        return AnalogState(alpha, nu, trace.held[-1], t, stretch, at_rest, state.seed, state.stretches + 1)

    def finished(self, state: AnalogState) -> bool:
        return state.at_rest or (self.t_end is not None and state.t >= self.t_end * (1 - 1e-12))

    def time(self, state: AnalogState) -> float:
        return state.t

    def multiplier(self, state: AnalogState) -> float | None:
        return state.multiplier

    def provenance(self, context: AnalogContext, state: AnalogState) -> dict[str, Any]:
        circuit = self.circuit(context, state.seed)
        counts = {name: getattr(circuit, name) for name in ("resistors", "amplifiers", "cells")}
        return {"circuit_seed": state.seed, "circuit_seconds": circuit.seconds(state.t), **counts}
