"""The simplex flow as a linear combination of Hamiltonian simulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.options import option
from ..circuits import LCHSCircuit
from ..circuits.base import POSITIVE
from ..circuits.select import SelectCircuit
from .linearised import LinearisedSolver

__all__ = ["HamiltonianLCHS"]


@dataclass(frozen=True)
class HamiltonianLCHS(LinearisedSolver):
    """The simplex flow, window by window, as a linear combination of Hamiltonian simulations (An, Liu, Lin).

    The flow is linearised at μ (`quantum.engines.linearised`): ẋ = −(L − K)x, L ⪰ 0. A window of it is one circuit,

        exp(−t(L + iH)) x = ∫ f(k)/(1 − ik) exp(−it(kL + H)) x dk,    f(k) = 1/(2π e^(−2^β) e^((1+ik)^β)), β = 0.7,

    iH = −K: a register of ancillas in Σ_k √|c_k| |k⟩, the same select circuit as in `hamiltonian-schrodingerisation`,
    and the register undone. What it shows where all ancillas are 0 is post-selected: about 0.62 of the shots (form
    "replicator"), the flow's loss of norm, e^(−2·shift·t), included. Then the flow is linearised anew at what was
    measured. x ≥ 0, so that its magnitudes are all there is to know of it, and counts show those: no tomography.

    Classical: F = Hμ and L in O(n²) a window; its eigenvectors, and the angles of the rotations they are, in O(n³);
    the start of each window, prepared from the measured μ by a tree of n − 1 angles; whether f fell. An eigenvector
    more, and the classical machine would have the answer: no speed-up is claimed, and max_n is 16. A window takes
    about 4^q CX for the two rotations, a·2^q for the evolutions (q = ⌈log₂ n⌉, a ancillas) and 3·2^a for the register:
    1144 CX on 12 qubits at n = 16, whatever t. "trotter" avoids the eigenvectors: 4^q·a/2 Pauli strings a step.

    Literature: An, Liu, Lin, PRL 131, 150603 (2023); An, Childs, Lin, arXiv:2312.03916, for the k that need not be far;
    the global linearisation of Liu et al., PNAS 118, e2026805118 (2021), needs dissipation stronger than this flow has.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 14 qubits, 5,368 CX and depth 24,904 a circuit at n =
    64, CX growing as n^1.9; 61 circuits a run, the same at every n; by the model, 2.8e5 T gates a shot.

    Parameters
    ----------
    device, shots, final_shots, shot_budget, mitigation, journal
        As in `variational-flow`; of the shots of a circuit those that are kept count.
    ancillas : int from 2 to 16, default=8
        Points of the sum over k: 2^ancillas.
    form : {"replicator", "lotka-volterra"}
        "replicator": on √μ, symmetric, K = 0, n amplitudes. "lotka-volterra": ẇ = w∘(1 − Hw) on (w/√w₀, ‖√w₀‖), n + 1
        amplitudes, K ≠ 0, ``trotter_steps`` of a splitting between L and K, t ≤ 0.2·trotter_steps/shift; it needs many
        more windows, and fewer shots are kept.
    evolution : {"exact", "trotter"}
        "exact": L by its eigenvectors. "trotter": all by Pauli strings, in ``trotter_steps``.
    trotter_steps : int ≥ 1, optional
        Of a window, 8 by default; 1 where nothing is split.
    order : {1, 2}
        Of the splitting, and of the product formula of "trotter".
    windows : int or "resolved", optional
        With shots: until the solver rests, 60 by default; with shots="adaptive" the budget alone decides. "resolved":
        no window longer than what the ancillas resolve, from exact distributions either.
    longest : float, optional
        Longest window, as λt with the largest eigenvalue λ of L. By default what the ancillas resolve (about 55),
        and without any limit with exact distributions and evolutions: e^(−λt) is then replaced, where λt is larger,
        by what the period of the sum makes of it, and the window is taken if f falls.
    cutoff : float, default=12.5
        |k| at most. What is left out changes e^(−λt) by 1.5e-2 at most, and nothing at the optimum, where x is what
        L does not damp.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        The device is not known, cannot do what is asked, or is not installed; or none of the outcomes that are kept
        was measured.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))  # the ball around a line of points
    >>> solution = solve(problem, "hamiltonian-lchs", device="emulator", tol=1e-4)
    >>> round(solution.certificate.radius, 2), bool(solution.cost.circuits > 0)
    (1.5, True)
    """

    cutoff: float = option(12.5, POSITIVE)

    name: ClassVar[str] = "hamiltonian-lchs"
    reaches: ClassVar[str] = (
        '1e-6, by windows 19 to 340 × what the ancillas resolve at n = 8 (windows="resolved": 10 to 84 circuits); '
        "with 10 000 shots a circuit within 3 × the floor of all in 8 of 8"
    )

    def _family(self, n_qubits: int, trotter_steps: int) -> SelectCircuit:
        return LCHSCircuit(n_qubits, self.ancillas, trotter_steps, self.evolution, self.order, self.cutoff)

    @property
    def _resolved(self) -> float:
        # The sum over k has the period 2π/Δk in λt; its last part is where e^(−λt) comes back.
        return 0.85 * np.pi * 2**self.ancillas / self.cutoff
