"""The solver `hamiltonian-schrodingerisation`: the simplex flow as a Schrödinger equation in one more dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.options import Number, option
from ..circuits.base import POSITIVE_RULE
from ..circuits.schrodingerised import SchrodingerisedCircuit
from ..circuits.select import SelectCircuit
from .linearised import MAX_ANCILLAS, LinearisedSolver


@dataclass(frozen=True)
class HamiltonianSchrodingerisation(LinearisedSolver):
    """The simplex flow, window by window, as a Schrödinger equation in one more dimension (Jin, Liu, Yu).

    The flow is linearised at μ (`quantum.solvers.linear_model`): ẋ = −(L − K)x, L ⪰ 0, iH = −K. With v(0, p) =
    e^(−p) x for p ≥ 0, the solution of v̇ = L ∂v/∂p − iHv has v(t, p) = e^(−p) x(t) there, and in the Fourier variable
    of p it is a Schrödinger equation with the Hamiltonian −k̂ ⊗ L + I ⊗ H. A window is one circuit: v(0, ·) on the
    ancillas, a Fourier transform, the same select circuit as in `hamiltonian-lchs`, the inverse transform. All outcomes
    0 < p ≤ P/4 show |x(t)|² and are kept: about 0.65 of the shots (form "replicator"; there is no other loss at the
    optimum). Then the flow is linearised again at the measured μ. x ≥ 0, so that counts, which show magnitudes,
    determine it: no tomography is needed.

    Classical parts: F = Hμ and L in O(n²) a window; the eigenvectors of L, and the angles of that rotation, in O(n³);
    the start of each window, prepared from the measured μ by a tree of n − 1 angles; the test whether f fell. With one
    eigenvector more a classical computer has the answer: no speed-up is claimed, and max_n is 16. A window takes
    about 4^q CX for the two rotations, a·2^q for the evolutions (q = ⌈log₂ n⌉, a ancillas), 2^a for v(0, ·) and 2a² for
    the transforms: 772 CX on 12 qubits at n = 16, whatever t. "trotter" avoids the eigenvectors: 4^q·a/2 Pauli
    strings a step.

    Literature: Jin, Liu, Yu, PRL 133, 230602 (2024), and PRA 108, 032603 (2023), with v(0, p) = e^(−|p|). The solution
    moves towards lower p only, so that v(0, p) can be chosen at p < 0: here it is e^(3p), which keeps more shots.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 14 qubits, 4,996 CX and depth 24,904 a circuit at n =
    64, CX growing as n^1.9; 61 circuits a run, the same at every n; by the model, 2.7e5 T gates a shot.

    Parameters
    ----------
    device, shots, final_shots, shot_budget, mitigation, journal
        As in `variational-flow`; only the shots that are kept enter the averages.
    ancillas : int from 3 to 16, default=8
        The variable p has 2^ancillas values.
    form, evolution, trotter_steps, order, windows
        As in `hamiltonian-lchs`.
    longest : float, optional
        Longest window, as λt with the largest eigenvalue λ of L. By default 1.5 P, which the ancillas resolve. With
        evolution="exact" it is 55 with shots, each λ cut at 1.5 P/t, where e^(−λt) is negligible, and there is no limit
        from exact distributions: p is periodic, so that the factor differs from e^(−λt) for larger λt, and the window
        is accepted only if f falls.
    half_width : float, default=16
        P: p lies in [−P, P).

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
    >>> solution = solve(problem, "hamiltonian-schrodingerisation", device="emulator", tol=1e-4)
    >>> round(solution.certificate.radius, 2), bool(solution.cost.circuits > 0)
    (1.5, True)
    """

    ancillas: int = option(8, Number(at_least=3, at_most=MAX_ANCILLAS, whole=True))
    half_width: float = option(16.0, POSITIVE_RULE)

    name: ClassVar[str] = "hamiltonian-schrodingerisation"
    reaches: ClassVar[str] = (
        '1e-6, by windows 60 to 21,000 × what the ancillas resolve (windows="resolved": 12 to 203 circuits at n = 8, '
        "one of 1000 and 1e-4 at n = 16); with 10 000 shots a circuit within 3 × the floor of all in 6 of 8"
    )

    def _family(self, n_qubits: int, trotter_steps: int) -> SelectCircuit:
        return SchrodingerisedCircuit(
            n_qubits, self.ancillas, trotter_steps, self.evolution, self.order, self.half_width
        )

    @property
    def _resolved(self) -> float:
        # A shift of p by the period 2P returns to the start; the tail e^(3p) returns before that, hence 1.5 P.
        return 1.5 * self.half_width
