"""The box flow on ancilla angles: Lotka-Volterra competition, hybrid, one circuit a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from ..quantum.engines.box import BoxEncoding
from ..quantum.engines.variational_lotka_volterra import BoxFlow, BoxState
from ._variational import VariationalSolver

__all__ = ["VariationalLotkaVolterra"]


@dataclass(frozen=True)
class VariationalLotkaVolterra(VariationalSolver[BoxFlow, BoxState]):
    """Lotka-Volterra flow over a box in the angles of an ancilla, hybrid, one circuit a step.

    A uniform register of ⌈log₂ n⌉ qubits turns an ancilla, index i by θᵢ: αᵢ = uᵢ P(1|i) = uᵢ sin²(θᵢ/2), read from
    both outcomes of the ancilla, nothing post-selected. n angles for n unknowns: a classical parametrisation of the
    box, run on qubits. The flow α̇ = w(g + λe), w = α(u − α)/u, g = p − Qα, becomes θ̇ᵢ = ½ sin θᵢ (gᵢ + λeᵢ); Howell's
    (16) has w = a(C − a), the same path C times faster. λ is the exact multiplier (the gradient flow), or the
    dynamic resource λ̇ = −(eᵀα − d)/τ (Howell eq. 7, 16), and 0 without an equality.

    All but the read-out of α is classical: Qα in O(n²), and a linearised implicit Euler step of θ and λ together in
    O(n³) (`quantum.engines.variational_lotka_volterra` has its equations). No speed-up over classical solvers is
    claimed.

    From exact distributions a step is taken only if f falls, each α shifted along e in log-odds to eᵀα = d (then h
    doubles, else h/4); with the exact multiplier the angles are shifted too, so that eᵀα = d on the way. With counts
    every step is taken, h grows slowly, and the second half of the steps is damped. α is then the mean of what that
    half measured, in which most of the noise cancels; from exact distributions it is the final state's. u sin²(θ/2),
    known from the final angles, is the classical by-product ``extras["parameter_alpha"]``. Each index gets about
    shots/n of the shots and an error of u√(P(1 − P)n/shots): where α lies far below u (large C) shots show little,
    and the shot floor says so.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 9 qubits, 256 CX and depth 1,536 a circuit at n =
    256, CX growing as n; 61 circuits a run, the same at every n; by the model, 11,264 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots : int, "adaptive" or None
        Of each circuit, about shots/n on each variable; None asks the device for exact distributions. "adaptive" as
        for `VariationalFlow`; it rests once what is left does not pay for another circuit as good as the last.
    tau : float > 0, optional
        Time scale of a dynamic λ; Howell's is 1. None: the exact multiplier, the limit τ → 0.
    integrator : {"semi-implicit", "lsoda"}
        "lsoda" follows the flow faithfully from exact distributions, ``time_step`` a step up to ``t_end``.
    final_shots, steps, shot_budget : int, optional
        As for `VariationalFlow`; 60 steps by default.
    mitigation, journal
        See `QuantumSolver`.
    time_step, t_end : float, optional
        Of "lsoda", in units of flow time: 1 and no end by default.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        From `open`: the device is not known, cannot do what is asked, or is not installed.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "variational-lotka-volterra", device="emulator", tol=1e-4)
    >>> round(solution.bias, 2), bool(solution.cost.circuits > 0)
    (-3.0, True)
    """

    tau: float | None = option(None, Number(above=0, none=True, note="for the exact multiplier"))

    state_type: ClassVar[type] = BoxState

    name: ClassVar[str] = "variational-lotka-volterra"
    reaches: ClassVar[str] = (
        "1e-6 in at most 60 steps for n up to 256; with 10 000 shots a circuit within 3 × the floor of all in 69 of 70"
    )
    kinds = frozenset({Kind.BOX, Kind.BOX_EQUALITY, Kind.CAPPED_SIMPLEX})
    encoding: ClassVar[str | None] = "box"

    def mismatch(self, problem: DualProblem) -> str | None:
        reason = super().mismatch(problem)
        if reason is None and not np.isfinite(problem.effective_upper).all():
            return f"{self.name!r} needs a finite upper bound for every variable, some of this problem's are infinite"
        return reason

    def open(self, problem: DualProblem, workspace: Workspace) -> BoxFlow:
        workspace.dense()
        lab, box = self.laboratory(problem), BoxEncoding(workspace)
        return self._within_budget(BoxFlow(workspace, lab, box=box, tau=self.tau, **self._course()))

    def multiplier(self, state: BoxState) -> float | None:
        return state.lam

    def cost(self, context: BoxFlow, state: BoxState) -> dict[str, Any]:
        return super().cost(context, state) | {"success_probability": state.useful}

    def extras(self, context: BoxFlow, state: BoxState) -> dict[str, NDArray]:
        """``parameter_alpha``: u sin²(θ/2), computed from the angles and not measured."""
        return super().extras(context, state) | {"parameter_alpha": context.box.alpha(state.theta)}

    def final_angles(self, context: BoxFlow, state: BoxState) -> NDArray:
        return context.box.bindings(state.theta)

    def drowned(self, context: BoxFlow, state: BoxState) -> bool:
        return state.drowned

    def provenance(self, context: BoxFlow, state: BoxState) -> dict[str, Any]:
        about = {"padding": context.box.padding, "wasted_share": 1.0 - state.useful}
        return super().provenance(context, state) | about
