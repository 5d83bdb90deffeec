"""The check "evidence": a quantum solver on its device must do better than on control devices."""

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

#: Number of seeds; their median margin counts.
N_SEEDS = 3
#: Largest number of variables of a problem for this check.
MAX_N = 24
#: Largest gap that the accuracy class may allow: α = 0 has a gap of at most 1 with most losses, and a solver must be
#: able to end 5 times nearer to the optimum than that.
MAX_ALLOWED_GAP = 0.5 / EVIDENCE


@dataclass(frozen=True)
class Walk:
    """Circuits, shots and relative excess of f of every state of a run; empty if the run could not start."""

    circuits: list[int]
    shots: list[int]
    excess: list[float]

    def first(self, level: float) -> int | None:
        """Return the number of the first state with at most this excess, or None."""
        return next((k for k, excess in enumerate(self.excess) if excess <= level), None)

    def ending(self, level: float) -> Ending:
        """Return the last excess, and the circuits until the level was reached or the run ended."""
        if not self.excess:
            return Ending(np.inf, 0, False)
        k = self.first(level)
        return Ending(self.excess[-1], self.circuits[-1 if k is None else k], k is not None)


def walk(
    solver: Solver[Any, Any],
    z: ZooProblem,
    seed: int,
    level: float,
    max_circuits: float = math.inf,
    time_limit_s: float = 60.0,
) -> Walk:
    """Return a run that ends at the given excess, when the solver is finished, or after ``max_circuits`` circuits."""
    bench = Bench(solver, [z], 1, time_limit_s)
    context, begun = bench.open(z), time.monotonic()
    solver = solver.aim(CLASS_TOL[solver.accuracy_class()])
    found = Walk([], [], [])
    try:
        state = solver.start(context, np.random.default_rng(seed))
    except DeviceError:  # for example, an ancilla that never reads 0
        return found

    def record() -> None:
        raw = np.asarray(solver.alpha(state))
        value = (
            (objective(z, z.problem.project(raw)) - z.optimum) / abs(z.optimum) if np.isfinite(raw).all() else np.inf
        )
        account: Any = getattr(state, "account", None)
        require(account is not None, "a quantum solver's states have an `account` of its circuits and shots")
        found.circuits.append(int(account.circuits))
        found.shots.append(int(account.shots))
        found.excess.append(max(0.0, float(value)))

    record()
    for _ in range(solver.default_max_steps):
        reached = found.excess[-1] <= level or found.circuits[-1] >= max_circuits
        if reached or solver.finished(state) or time.monotonic() - begun > time_limit_s:
            break
        try:
            state = solver.step(context, state)
        except DeviceError:  # for example, only padding was measured: the run ends here
            break
        record()
    return found


def _on(solver: Any, control: str) -> Any:
    """Return the solver on a control device."""
    if isinstance(solver, CircuitSolver):
        return solver.controlled(control)
    return dataclasses.replace(solver, device=control)


def evidence_problems(bench: Bench) -> list[ZooProblem]:
    """Return two small computed problems on which the allowed gap is fine enough to show what circuits contribute."""
    own = type(bench.solver)
    if not own.quantum or "device" not in {f.name for f in dataclasses.fields(own)}:
        return []
    small = [z for z in bench.with_optimum if z.why.startswith("computed") and z.n <= MAX_N]
    fine = [
        z for z in small if np.isfinite(z.problem.effective_upper).all() and bench.allowed_gap(z) <= MAX_ALLOWED_GAP
    ]
    return sorted(fine, key=lambda z: z.n)[:2]


def evidence(bench: Bench, z: ZooProblem) -> None:
    """Check that random bits, and a null device, take 5 times more circuits or end at a 5 times larger gap."""
    solver: Any = bench.solver
    level = bench.allowed_gap(z)
    margins: dict[str, list[float]] = {name: [] for name in CONTROLS}
    for seed in range(N_SEEDS):
        own = walk(solver, z, seed, level, time_limit_s=bench.time_limit_s)
        # A control stops here: more circuits would only raise the margin, which is already large enough.
        max_circuits = EVIDENCE * max(1, own.ending(level).circuits or 0)
        for name in CONTROLS:
            control = walk(_on(solver, name), z, seed, level, max_circuits, bench.time_limit_s)
            margins[name].append(margin(own.ending(level), control.ending(level), level))
    for name, found in margins.items():
        bench.margins[z.name, name] = float(np.median(found))
    worst = min(CONTROLS, key=lambda name: bench.margins[z.name, name])
    require(
        bench.margins[z.name, worst] >= EVIDENCE,
        f"no evidence that the circuits matter: {bench.margins[z.name, worst]:.3g} times fewer circuits, or nearer, "
        f"than with device={worst!r}; {EVIDENCE:g} times are required",
    )
