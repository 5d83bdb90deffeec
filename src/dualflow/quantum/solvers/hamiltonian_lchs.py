"""The solver `hamiltonian-lchs`: the simplex flow as a linear combination of Hamiltonian simulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.options import option
from ..circuits.base import POSITIVE_RULE
from ..circuits.lchs import LCHSCircuit
from ..circuits.select import SelectCircuit
from .linearised import LinearisedSolver


@dataclass(frozen=True)
class HamiltonianLCHS(LinearisedSolver):
    """The simplex flow, window by window, as a linear combination of Hamiltonian simulations (An, Liu, Lin).

    The flow is linearised at μ (`quantum.solvers.linear_model`): ẋ = −(L − K)x, L ⪰ 0. One circuit does one window,

        exp(−t(L + iH)) x = ∫ f(k)/(1 − ik) exp(−it(kL + H)) x dk,    f(k) = 1/(2π e^(−2^β) e^((1+ik)^β)), β = 0.7,

    iH = −K: a register of ancillas in Σ_k √|c_k| |k⟩, the same select circuit as in `hamiltonian-schrodingerisation`,
    and the inverse of the register's preparation. Outcomes with all ancillas 0 are kept: about 0.62 of the shots (form
    "replicator"), the flow's loss of norm, e^(−2·shift·t), included. Then the flow is linearised again at the measured
    μ. x ≥ 0, so that counts, which show magnitudes, determine it: no tomography is needed.

    Classical parts: F = Hμ and L in O(n²) a window; the eigenvectors of L, and the angles of that rotation, in O(n³);
    the start of each window, prepared from the measured μ by a tree of n − 1 angles; the test whether f fell. With one
    eigenvector more a classical computer has the answer: no speed-up is claimed, and max_n is 16. A window takes
    about 4^q CX for the two rotations, a·2^q for the evolutions (q = ⌈log₂ n⌉, a ancillas) and 3·2^a for the register:
    1144 CX on 12 qubits at n = 16, whatever t. "trotter" avoids the eigenvectors: 4^q·a/2 Pauli strings a step.

    Literature: An, Liu, Lin, PRL 131, 150603 (2023); An, Childs, Lin, arXiv:2312.03916, for the small range of k. The
    global linearisation of Liu et al., PNAS 118, e2026805118 (2021), needs a stronger dissipation than this flow has.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 14 qubits, 5,368 CX and depth 24,904 a circuit at n =
    64, CX growing as n^1.9; 61 circuits a run, the same at every n; by the model, 2.8e5 T gates a shot.

    Parameters
    ----------
    device, shots, final_shots, shot_budget, mitigation, journal
        As in `variational-flow`; only the shots that are kept enter the averages.
    ancillas : int from 2 to 16, default=8
        The sum over k has 2^ancillas points.
    form : {"replicator", "lotka-volterra"}
        "replicator": on √μ, symmetric, K = 0, n amplitudes. "lotka-volterra": ẇ = w∘(1 − Hw) on (w/√w₀, ‖√w₀‖), n + 1
        amplitudes, K ≠ 0, ``trotter_steps`` of a splitting between L and K, t ≤ 0.2·trotter_steps/shift. It needs many
        more windows, and keeps fewer shots.
    evolution : {"exact", "trotter"}
        "exact": L by its eigenvectors. "trotter": L and K by Pauli strings, in ``trotter_steps``.
    trotter_steps : int ≥ 1, optional
        Steps of a window: 8 by default, 1 if nothing is split.
    order : {1, 2}
        Order of the splitting, and of the product formula of "trotter".
    windows : int or "resolved", optional
        With shots: number of windows, 60 by default; with shots="adaptive" the budget alone ends the run. "resolved":
        no window is longer than the ancillas resolve, also from exact distributions.
    longest : float, optional
        Longest window, as λt with the largest eigenvalue λ of L. By default the length that the ancillas resolve (about
        55), and no limit with exact distributions and evolutions: the sum over k is periodic, so that it differs from
        e^(−λt) for larger λt, and the window is accepted only if f falls.
    cutoff : float, default=12.5
        Largest |k|. The cut changes e^(−λt) by at most 1.5e-2, and does not move the optimum, at which L does not damp
        x.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        The device is not known, lacks a capability that the options need, or is not installed; or no outcome of a
        circuit was kept.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))  # the ball around a line of points
    >>> solution = solve(problem, "hamiltonian-lchs", device="emulator", tol=1e-4)
    >>> round(solution.certificate.radius, 2), bool(solution.cost.circuits > 0)
    (1.5, True)
    """

    cutoff: float = option(12.5, POSITIVE_RULE)

    name: ClassVar[str] = "hamiltonian-lchs"
    reaches: ClassVar[str] = (
        '1e-6, by windows 19 to 340 × what the ancillas resolve at n = 8 (windows="resolved": 10 to 84 circuits); '
        "with 10 000 shots a circuit within 3 × the floor of all in 8 of 8"
    )

    def _family(self, n_qubits: int, trotter_steps: int) -> SelectCircuit:
        return LCHSCircuit(n_qubits, self.ancillas, trotter_steps, self.evolution, self.order, self.cutoff)

    @property
    def _resolved(self) -> float:
        # The sum over k has the period 2π/Δk in λt; in the last part of a period e^(−λt) rises again.
        return 0.85 * np.pi * 2**self.ancillas / self.cutoff
