"""The Lotka-Volterra trajectory as a differentiable quantum circuit, window after window (a study)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Flag, Number, OneOf, option
from ..core.problem import DualProblem
from ..core.workspace import Workspace
from ..flows.logit_lotka_volterra import LogitLotkaVolterra
from ..flows.lotka_volterra import LotkaVolterraField
from ..quantum.circuits import ChebyshevCircuit
from ..quantum.engines.dqc_march import March, MarchContext, Rules, advance, begin
from ..quantum.engines.variational_dqc import COLLOCATIONS, Window
from .base import BOUNDED
from .quantum import CircuitSolver

__all__ = ["VariationalDQC"]

POSITIVE = Number(above=0)
LENGTH = Number(above=0, none=True)


@dataclass(frozen=True)
class VariationalDQC(CircuitSolver[MarchContext, March]):
    """Differentiable quantum circuits for the Lotka-Volterra trajectory, trained by collocation (a study).

    After Kyriienko, Paine, Elfving (PRA 103, 052416 (2021)), with two changes that let it come to rest. The flow is
    followed in logit coordinates, where the bounds are no rest points; and it is cut into windows, each
    trained from the end of the last. A window counts only if its residual on a uniform grid ten times denser than
    the collocation points, read off by circuits of its own, is within ``residual_tol`` of the field; else it is halved.
    After 8 halvings in a row the solver warns, rests where it is, and says so in ``provenance["residual_check"]``.

    One circuit of q qubits serves all variables: α is read from ⟨Z_j⟩ through trained weights of shape (n, q).
    Classical: the field (a product with Q at every collocation point), the least squares, weights, and windows.
    A training iteration costs (2qL + 1)(q(q + 1) + 1) circuits, 1029 with the defaults, and 21 for each trial step; a
    dense check costs 10·points·(2q + 1), 1440. At n = 16 and C = 100 it did not come to rest in 60 s: hence ``max_n``.
    The expectation values are trigonometric polynomials of degree q(q + 1)/2, which a classical computer fits
    directly: no advantage is claimed. Distributions must be exact; there is no option ``shots``.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 4 qubits, 18 CX and depth 48 a circuit at n = 8, CX
    the same at every n; by the model, 980 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        Any device of `dualflow.list_devices` that gives exact distributions; "emulator" and
        "pennylane:default.qubit" run a batch as one, many times faster.
    n_qubits, layers : int
        q and L of `ChebyshevCircuit`.
    points : int ≥ 3
        Collocation points of a window.
    collocation : {"chebyshev-lobatto", "uniform"}
        Uniform points find spurious solutions more easily; here to be shown.
    tau : float > 0
        Time scale of λ, as for `LotkaVolterra`.
    damping : float ≥ 0, optional
        ϱ of the augmented fitness; max Qᵢᵢ by default.
    residual_tol : float > 0
        Root mean square residual on the dense grid, relative to that of the field.
    first_window : float, optional
        Length of the first window; 1 / (root mean square growth rate at the start) by default.
    t_end : float, optional
        Flow time at which to stop; to rest otherwise.
    reference : bool, default=True
        Follow the same trajectory by LSODA beside, for ``extras["path_reference"]``; it never enters α.
    journal : str or Path, optional
        See `CircuitSolver`.

    Raises
    ------
    ProblemError
        An option is out of range, or shots are asked for.
    DeviceError, SolverUnavailable
        From `open`: the device is not known, cannot do what is asked, or is not installed.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))  # the ball around a line of points
    >>> solution = solve(problem, "variational-dqc", device="emulator", random_state=0)
    >>> round(solution.certificate.radius, 2)
    1.5
    """

    n_qubits: int = option(4, Number(at_least=1, whole=True))
    layers: int = option(6, Number(at_least=1, whole=True))
    points: int = option(16, Number(at_least=3, whole=True))
    collocation: str = option(COLLOCATIONS[0], OneOf(words=COLLOCATIONS))
    tau: float = option(1.0, POSITIVE)
    damping: float | None = option(None, Number(at_least=0, none=True))
    residual_tol: float = option(1e-2, POSITIVE)
    first_window: float | None = option(None, LENGTH)
    t_end: float | None = option(None, LENGTH)
    reference: bool = option(True, Flag())

    state_type: ClassVar[type] = March

    name: ClassVar[str] = "variational-dqc"
    reaches: ClassVar[str] = "1e-4; exact distributions only"
    kinds = BOUNDED
    maturity: ClassVar[str] = "study"
    max_n: ClassVar[int | None] = 12
    exact_method: ClassVar[str] = (
        "exact: windows are trained on expectation values; the answer is the end of the last one"
    )
    without_shots: ClassVar[str] = (
        "differentiates exact expectation values and takes no shots; leave shots out, or use 'variational-flow'"
    )

    def open(self, problem: DualProblem, workspace: Workspace) -> MarchContext:
        workspace.dense()
        damping = float(workspace.diag().max()) if self.damping is None else self.damping
        circuit = ChebyshevCircuit(int(self.n_qubits), int(self.layers))
        return MarchContext(
            workspace,
            self.laboratory(problem),
            flow=LogitLotkaVolterra(workspace, self.tau, damping),
            field=LotkaVolterraField(workspace, self.tau, damping) if self.reference else None,
            window=Window(circuit, int(self.points), self.collocation),
            rules=Rules(self.residual_tol, self.t_end, self.first_window),
        )

    def start(self, context: MarchContext, rng: np.random.Generator, warm: NDArray | None = None) -> March:
        return begin(context, rng, warm)

    def step(self, context: MarchContext, state: March) -> March:
        return advance(context, state)

    def alpha(self, state: March) -> NDArray:
        return state.alpha

    def finished(self, state: March) -> bool:
        return state.resting

    def time(self, state: March) -> float | None:
        return state.t

    def multiplier(self, state: March) -> float | None:
        return state.lam

    def circuit(self, context: MarchContext, state: March) -> ChebyshevCircuit:
        return context.window.circuit

    def extras(self, context: MarchContext, state: March) -> dict[str, NDArray]:
        """The trajectory that passed, LSODA's at the same times, and of each window (h, residual, allowed)."""
        found = {"path_t": state.path_t, "path_alpha": state.path_alpha, "window_residuals": state.residuals}
        return found | ({"path_reference": state.path_reference} if self.reference else {})

    def provenance(self, context: MarchContext, state: March) -> dict[str, Any]:
        windows, error = len(state.residuals), np.abs(state.path_alpha - state.path_reference)
        check = f"passed in all {windows} windows up to t = {state.t:.6g}"
        if state.failed:
            check = f"FAILED in the window after t = {state.t:.6g}, down to length {state.h:.3g}; {check}"
        return super().provenance(context, state) | {
            "residual_check": check,
            "windows": windows,
            "rejected_windows": state.rejected,
            "largest_error_against_lsoda": float(error.max()) if self.reference and error.size else None,
        }
