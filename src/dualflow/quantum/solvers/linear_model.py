"""Windows of the simplex flow as linear equations ẋ = −(L − K)x, L symmetric and K antisymmetric, for quantum circuits.

The flow is Bauckhage's, in the quadratic form of Lotka and Volterra: with μ = α/d and

    H = d²Q − d(p1ᵀ + 1pᵀ),    f(α) = ½ μᵀHμ wherever 1ᵀμ = 1,

ẇ = w∘(1 − Hw) has μ = w/1ᵀw on the paths of the replicator μ̇ = −μ∘(Hμ − μᵀHμ), its time multiplied by 1ᵀw. Either is
linearised at the present μ, to first order, for one window of time; then anew at what was measured. (One global
linearisation, Carleman's, does not converge here: Liu et al., PNAS 118, e2026805118 (2021), need R < 1, and R is in the
tens to thousands.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ...core.problem import DualProblem
from ..circuits.encoding import pad, qubits_for, simplex_to_angles
from ..circuits.pauli_steps import PauliSteps
from ..circuits.rotation import rotation_angles
from ..circuits.select import SelectCircuit

__all__ = [
    "FORMS",
    "LinearModel",
    "linearise",
    "measured",
    "of_the_mean",
    "quadratic_form",
    "sampling_noise",
    "system_qubits",
    "window_angles",
]

FORMS = ("replicator", "lotka-volterra")
#: Longest step of a splitting, in units of 1/shift: the weight kept falls like e^(−2·shift·t).
LONGEST_STEP = 0.2


@dataclass(frozen=True)
class LinearModel:
    """ẋ = −(L − K)x with x(0) = x0 ≥ 0; outcome i of the system belongs to variable i.

    Attributes
    ----------
    L, K : array of shape (m, m)
        Symmetric with least eigenvalue 0, and antisymmetric: −K = iH, H Hermitian.
    x0 : array of shape (m,)
        Of norm 1. m is n, or n + 1 with the constant 1 as its last entry.
    scale : array of shape (n,), or (0,)
        μ is proportional to scale·|x|, or without any scale to |x|².
    spread : float
        Largest eigenvalue of L, in 1/time.
    longest : float
        Longest window this model is good for, in steps of a splitting.
    """

    L: NDArray
    K: NDArray
    x0: NDArray
    scale: NDArray
    spread: float
    longest: float


def quadratic_form(problem: DualProblem) -> NDArray:
    """H, shape (n, n); μᵀHμ = 2f(dμ) for 1ᵀμ = 1."""
    d, p = problem.d, problem.p
    return d**2 * problem.dense() - d * (p[:, None] + p)


def linearise(form: str, H: NDArray, mu: NDArray) -> LinearModel:
    """The model of a form of the flow at μ > 0, shape (n,), 1ᵀμ = 1.

    "replicator": in y = √μ it is ẏ = −½∇Φ(y), Φ(y) = ¼(y∘y)ᵀH(y∘y)/‖y‖², up to the length of y, which means nothing.
    ∇Φ has degree 1, so that ẏ = −½∇²Φ(√μ)y holds at √μ (Euler) and to first order around it without any constant: n
    amplitudes, a symmetric matrix, K = 0, and |x|² is μ itself. Shifting L to least eigenvalue 0 rescales x only. At
    the optimum √μ is the eigenvector of the least eigenvalue.

    "lotka-volterra": w∘(1 − Hw) to first order at w = μ/(μᵀHμ), on (w/√w₀, ‖√w₀‖): affine, so the constant is a
    further amplitude, whose column makes K. H gets the multiple of 11ᵀ that makes it positive.
    """
    y = np.sqrt(mu)
    if form == "replicator":
        h = H @ mu
        f2 = float(mu @ h)
        cross = np.outer(y * h, y)
        L = 0.5 * (np.diag(h) + 2.0 * y[:, None] * H * y - 2.0 * (cross + cross.T) + 2.0 * f2 * np.outer(y, y))
        return _shifted(L, np.zeros_like(L), y, np.empty(0))
    if H.min() <= 0:
        H = H - H.min() + (1e-3 * np.ptp(H) or 1.0)
    w = mu / float(mu @ H @ mu)
    r, n = np.sqrt(w), len(w)
    hw = H @ w
    A = np.zeros((n + 1, n + 1))
    A[:n, :n] = np.diag(1.0 - hw) - r[:, None] * H * r
    A[:n, n] = r * hw / np.linalg.norm(r)
    return _shifted(-0.5 * (A + A.T), 0.5 * (A - A.T), np.append(r, np.linalg.norm(r)), r)


def _shifted(L: NDArray, K: NDArray, x0: NDArray, scale: NDArray) -> LinearModel:
    least, *_, largest = np.linalg.eigvalsh(L) if len(L) > 1 else (L[0, 0], L[0, 0])
    shift = max(0.0, -float(least)) if len(scale) else 0.0
    return LinearModel(
        L=L - least * np.eye(len(L)),
        K=K,
        x0=x0 / np.linalg.norm(x0),
        scale=scale,
        spread=float(largest - least),
        longest=LONGEST_STEP / shift if shift > 0 else np.inf,
    )


def window_angles(circuit: SelectCircuit, model: LinearModel, t: float, cut: float = np.inf) -> NDArray:
    """θ of a circuit whose kept outcomes show exp(−t(L − K)) x0, shape (P,), by classical algebra in O(m³).

    The splitting between L and K is Lie's (order 1) or Strang's (2). With evolution="exact" L is diagonalised, with
    "trotter" it is expanded in Pauli strings, O(m³) as well. Eigenvalues λ with λt > ``cut`` count as cut/t, exact
    evolution only: e^(−cut) is nothing, and the circuit need not resolve more.
    """
    size, m, dt = 2**circuit.system, len(model.x0), t / circuit.trotter_steps
    L, K = np.diag(np.full(size, model.spread)), np.zeros((size, size))
    L[:m, :m], K[:m, :m] = model.L, model.K
    tree = simplex_to_angles(pad(model.x0**2, circuit.system), m)
    if circuit.evolution == "trotter":
        symmetric, antisymmetric = PauliSteps(circuit.system, circuit.ancillas, circuit.order).weights(L, K)
        return np.concatenate([tree, circuit.phase_angles(symmetric, dt).ravel(), 2.0 * dt * antisymmetric])
    lam, V = np.linalg.eigh(L)
    if np.linalg.det(V) < 0:
        V[:, 0] *= -1.0
    lam = np.minimum(lam, cut / t) if t > 0 else lam
    phases = circuit.phase_angles(np.maximum(lam, 0.0), dt).ravel()
    if not K.any() and circuit.trotter_steps == 1:
        # Vᵀ is the same multiplexers the other way round.
        last = rotation_angles(V)
        return np.concatenate([tree, -last[::-1].ravel(), last.ravel(), phases])
    before, after = np.eye(size), scipy.linalg.expm(dt * K)
    if circuit.order == 2:
        before = after = scipy.linalg.expm(0.5 * dt * K)
    rotations = [V.T @ before, V.T @ before @ after @ V, after @ V]
    if circuit.n_rotations == 2:
        del rotations[1]
    return np.concatenate([tree, *(rotation_angles(turn).ravel() for turn in rotations), phases])


def of_the_mean(H: NDArray, mean: NDArray, share: float) -> NDArray:
    """H of f as a function of the next read-out μ, which enters the mean m with a share τ: of f((1−τ)m + τμ), over τ.

    The window then goes where the mean is best, and makes up for the noise in it. At a share of 1 it is H itself.
    """
    b = H @ mean
    return np.asarray(share * H + (1.0 - share) * (b[:, None] + b))


def measured(circuit: SelectCircuit, scale: NDArray, distribution: NDArray, n: int) -> tuple[NDArray | None, float]:
    """μ of shape (n,) from the outcomes kept, and the share of them among all; ``scale`` is that of the model.

    None for μ if nothing was kept. Magnitudes are enough: all x are ≥ 0 (a window that overshoots below 0 shows as
    weight, and as a larger f).
    """
    kept = circuit.kept(distribution)
    x2 = kept[:n]
    weight = x2 if not len(scale) else scale * np.sqrt(x2)
    total = float(weight.sum())
    return (weight / total if total > 0 else None), float(kept.sum())


def system_qubits(form: str, n: int) -> int:
    """Qubits of the system."""
    return qubits_for(n if form == "replicator" else n + 1)


def sampling_noise(H: NDArray, mu: NDArray, shots: float) -> tuple[float, float]:
    """Of f(μ) from so many kept shots: mean excess and standard deviation, absolute.

    E f(μ̂) − f(μ) = ½(Σ μᵢHᵢᵢ − μᵀHμ)/S exactly, and Var f(μ̂) = Σ μᵢ((Hμ)ᵢ − μᵀHμ)²/S to first order.
    """
    h = H @ mu
    f2 = float(mu @ h)
    return 0.5 * (float(mu @ np.diag(H)) - f2) / shots, float(np.sqrt(mu @ (h - f2) ** 2 / shots))
