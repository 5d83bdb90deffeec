"""`ansatz_reach`: how near to the optimum of a problem an ansatz can come, by a classical fit of its angles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from ...core.certificate import Certificate, Certifier
from ...core.options import Number
from ...core.problem import DualProblem
from ...core.workspace import Workspace
from ...exceptions import SolverMismatch
from .ansatz import make_ansatz
from .variational_flow import VariationalFlow

#: A fit ends if f changes by less than this, relative to f, in units of float64's precision.
FACTR = 10.0
#: Steps of a fit.
MAX_STEPS = 2000


@dataclass(frozen=True)
class AnsatzReach:
    """The best state of an ansatz that was found for a problem.

    Attributes
    ----------
    alpha : array of shape (n,)
        Of that state.
    theta : array of shape (P,)
        Its angles.
    certificate : Certificate
        Of ``alpha``. Its ``relative_gap`` is the least that was found, not a bound on what the ansatz can reach.
    objectives : array of shape (starts,)
        f at the end of each fit, ascending. If the first few are equal, further starts are unlikely to find less.
    ansatz : str

    Examples
    --------
    >>> from dualflow import Gram, ansatz_reach, problems
    >>> from qiskit.circuit.library import real_amplitudes
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> print(ansatz_reach(problem, real_amplitudes(2, reps=0)))
    RealAmplitudes, 2 angles: no state within a gap of 1e-06 was found in 10 fits; the nearest has 4.4e-01
    """

    alpha: NDArray
    theta: NDArray
    certificate: Certificate
    objectives: NDArray
    ansatz: str

    def reaches(self, tol: float = 1e-6) -> bool:
        """Return whether a state with a certified relative gap of at most ``tol`` was found."""
        gap = self.certificate.relative_gap
        return gap is not None and gap <= tol

    def __str__(self) -> str:
        gap, fits = self.certificate.relative_gap, len(self.objectives)
        found = "no gap" if gap is None else f"{gap:.1e}"
        what = f"{self.ansatz}, {len(self.theta)} angles"
        if self.reaches():
            return f"{what}: a state with a gap of {found} was found in {fits} fits"
        return f"{what}: no state within a gap of 1e-06 was found in {fits} fits; the nearest has {found}"


def ansatz_reach(
    problem: DualProblem,
    ansatz: Any = "hardware-efficient",
    *,
    layers: int | None = None,
    angles: int | tuple[int, ...] | None = None,
    qubits: int | None = None,
    starts: int = 10,
    random_state: int = 0,
) -> AnsatzReach:
    """Return the least f over the states of an ansatz of `variational-flow`, by classical fits from random angles.

    No device is used. A run of `variational-flow` with this ansatz cannot end below the least f of all states; if it
    ends near the one that is found here, the ansatz is the limit, not the run.

    Parameters
    ----------
    problem : DualProblem
        On the simplex.
    ansatz, layers, angles, qubits
        As in `VariationalFlow`.
    starts : int ≥ 1, default=10
        Fits (L-BFGS), each from uniform random angles. f has local minima, and more starts may find less.
    random_state : int, default=0

    Returns
    -------
    AnsatzReach

    Raises
    ------
    ProblemError, SolverMismatch, SolverUnavailable
        As from `VariationalFlow`.

    Examples
    --------
    >>> from dualflow import Gram, ansatz_reach, problems
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> ansatz_reach(problem, "hardware-efficient", starts=2).reaches(1e-6)
    True
    """
    Number(at_least=1, whole=True).check("starts", starts)
    solver = VariationalFlow(ansatz=ansatz, layers=layers, angles=angles, qubits=qubits, device="emulator")
    if (reason := solver.mismatch(problem)) is not None:
        raise SolverMismatch(reason)
    own, made = Workspace(problem), make_ansatz(solver.ansatz, problem.n, layers)
    Q, rng = own.dense(), np.random.default_rng(random_state)

    def value(theta: NDArray) -> tuple[float, NDArray]:
        mu, by_theta = made.tangents(made.circuit.distribution(made.bindings(theta, True)), None)
        alpha = own.d * mu
        gradient = Q @ alpha - own.p
        slopes = np.zeros(made.n_angles)
        slopes += made.spread(own.d * (by_theta.T @ gradient))
        return float(0.5 * alpha @ (gradient - own.p)), slopes

    tight = {"maxiter": MAX_STEPS, "ftol": FACTR * np.finfo(float).eps, "gtol": 0.0}
    ends = [
        scipy.optimize.minimize(
            value, rng.uniform(0.0, np.pi, made.n_angles), jac=True, method="L-BFGS-B", options=tight
        )
        for _ in range(starts)
    ]
    best = min(ends, key=lambda end: float(end.fun))
    mu, _ = made.tangents(made.circuit.distribution(made.bindings(best.x, True)), None)
    name = solver.ansatz if isinstance(solver.ansatz, str) else solver.ansatz.label
    objectives = np.sort([float(end.fun) for end in ends])
    return AnsatzReach(own.d * mu, best.x, Certifier(problem).certify(own.d * mu), objectives, name)
