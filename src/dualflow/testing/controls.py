"""The check of what circuits contribute: a quantum solver on its device, held against devices that know nothing."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.evidence import CONTROLS, EVIDENCE, Ending, margin
from ..exceptions import DeviceError
from ..quantum.solvers.base import CircuitSolver
from ..solvers import Solver
from .bench import CLASS_TOL, Bench, objective, require
from .specimen import ZooProblem

__all__ = ["evidence", "told_apart", "walk"]

#: Seeds whose median margin counts, and the most variables of a problem that is run for it.
SEEDS, MOST = 3, 24
#: Most excess that the accuracy class may leave: α = 0 has 1 at most losses, and nothing is 5 times nearer than that.
COARSEST = 0.5 / EVIDENCE


@dataclass(frozen=True)
class Walk:
    """Circuits, shots and excess of every state of a run, in order; empty if it could not begin."""

    circuits: list[int]
    shots: list[int]
    excess: list[float]

    def first(self, level: float) -> int | None:
        """The first state whose excess is that or less; None if there is none."""
        return next((k for k, excess in enumerate(self.excess) if excess <= level), None)

    def ending(self, level: float) -> Ending:
        """Where it ended, and what it took to get to a level, if it got there."""
        if not self.excess:
            return Ending(np.inf, 0, False)
        k = self.first(level)
        return Ending(self.excess[-1], self.circuits[-1 if k is None else k], k is not None)


def walk(
    solver: Solver[Any, Any], z: ZooProblem, seed: int, level: float, most: float = math.inf, time_limit_s: float = 60.0
) -> Walk:
    """A run until it is within a level of the optimum, at rest, or has taken ``most`` circuits."""
    bench = Bench(solver, [z], 1, time_limit_s)
    context, begun = bench.open(z), time.monotonic()
    solver = solver.aim(CLASS_TOL[solver.accuracy_class()])
    found = Walk([], [], [])
    try:
        state = solver.start(context, np.random.default_rng(seed))
    except DeviceError:  # such as an ancilla that never reads 0: there is nothing to show
        return found

    def note() -> None:
        raw = np.asarray(solver.alpha(state))
        value = (
            (objective(z, z.problem.project(raw)) - z.optimum) / abs(z.optimum) if np.isfinite(raw).all() else np.inf
        )
        account: Any = getattr(state, "account", None)
        require(account is not None, "a quantum solver's states have an `account` of what was measured")
        found.circuits.append(int(account.circuits))
        found.shots.append(int(account.shots))
        found.excess.append(max(0.0, float(value)))

    note()
    for _ in range(solver.default_max_steps):
        enough = found.excess[-1] <= level or found.circuits[-1] >= most
        if enough or solver.finished(state) or time.monotonic() - begun > time_limit_s:
            break
        try:
            state = solver.step(context, state)
        except DeviceError:  # such as nothing measured but padding: the run ends with what it has
            break
        note()
    return found


def _on(solver: Any, control: str) -> Any:
    if isinstance(solver, CircuitSolver):
        return solver.controlled(control)
    return dataclasses.replace(solver, device=control)


def told_apart(bench: Bench) -> list[ZooProblem]:
    """Two problems that can tell a circuit from none: small, computed, and finer than the noise of the shots."""
    own = type(bench.solver)
    if not own.quantum or "device" not in {f.name for f in dataclasses.fields(own)}:
        return []
    few = [z for z in bench.answered if z.why.startswith("computed") and z.n <= MOST]
    few = [z for z in few if np.isfinite(z.problem.effective_upper).all() and bench.allowed_gap(z) <= COARSEST]
    return sorted(few, key=lambda z: z.n)[:2]


def evidence(bench: Bench, z: ZooProblem) -> None:
    """5 times fewer circuits, or 5 times nearer, than random bits and a null device in the device's place."""
    solver: Any = bench.solver
    level = bench.allowed_gap(z)
    margins: dict[str, list[float]] = {name: [] for name in CONTROLS}
    for seed in range(SEEDS):
        own = walk(solver, z, seed, level, time_limit_s=bench.time_limit_s)
        # More circuits of a control would only make a margin larger that is large enough.
        most = EVIDENCE * max(1, own.ending(level).circuits or 0)
        for name in CONTROLS:
            control = walk(_on(solver, name), z, seed, level, most, bench.time_limit_s)
            margins[name].append(margin(own.ending(level), control.ending(level), level))
    for name, found in margins.items():
        bench.margins[z.name, name] = float(np.median(found))
    worst = min(CONTROLS, key=lambda name: bench.margins[z.name, name])
    require(
        bench.margins[z.name, worst] >= EVIDENCE,
        f"no evidence that the circuits matter: {bench.margins[z.name, worst]:.3g} times fewer circuits, or nearer, "
        f"than with device={worst!r}; {EVIDENCE:g} are asked for",
    )
