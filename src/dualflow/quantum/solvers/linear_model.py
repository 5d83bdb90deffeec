"""The simplex flow linearised at μ: ẋ = −(L − K)x, L symmetric and K antisymmetric, and the circuit angles for it.

The flow is Bauckhage's, in the quadratic form of Lotka and Volterra: with μ = α/d and

    H = d²Q − d(p1ᵀ + 1pᵀ),    f(α) = ½ μᵀHμ wherever 1ᵀμ = 1,

ẇ = w∘(1 − Hw) has μ = w/1ᵀw on the paths of the replicator μ̇ = −μ∘(Hμ − μᵀHμ), its time multiplied by 1ᵀw. Either
flow is linearised to first order at the present μ for one window of time, then again at the measured μ. (One global
linearisation, Carleman's, does not converge here: Liu et al., PNAS 118, e2026805118 (2021), need R < 1, and R is
between tens and thousands.)
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

FORMS = ("replicator", "lotka-volterra")
#: Longest step of a splitting, in units of 1/shift: the weight kept falls as e^(−2·shift·t).
MAX_STEP_PER_SHIFT = 0.2


@dataclass(frozen=True)
class LinearModel:
    """The linear flow ẋ = −(L − K)x with x(0) = x0 ≥ 0; outcome i of the system belongs to variable i."""

    #: L, K: symmetric with least eigenvalue 0, and antisymmetric: −K = iH, H Hermitian; shape (m, m).
    L: NDArray
    K: NDArray
    x0: NDArray  # Of norm 1. m is n, or n + 1 if its last entry is the constant 1. Shape (m,).
    scale: NDArray  # μ is proportional to scale·|x|; if empty, to |x|²; shape (n,), or (0,)
    spread: float  # largest eigenvalue of L, in 1/time
    longest: float  # longest step of the splitting for which enough weight is kept


def quadratic_form(problem: DualProblem) -> NDArray:
    """Return H of shape (n, n), for which μᵀHμ = 2f(dμ) if 1ᵀμ = 1."""
    d, p = problem.d, problem.p
    return d**2 * problem.dense() - d * (p[:, None] + p)


def linearise(form: str, H: NDArray, mu: NDArray) -> LinearModel:
    """Return the model of a form of the flow at μ > 0, shape (n,), 1ᵀμ = 1.

    "replicator": in y = √μ the flow is ẏ = −½∇Φ(y), Φ(y) = ¼(y∘y)ᵀH(y∘y)/‖y‖², up to the length of y, which has no
    meaning. ∇Φ has degree 1, so that ẏ = −½∇²Φ(√μ)y holds at √μ (Euler) and to first order around it without a
    constant: there are n amplitudes, the matrix is symmetric, K = 0, and |x|² is μ. Shifting L to least eigenvalue 0
    only rescales x. At the optimum √μ is the eigenvector of the least eigenvalue.

    "lotka-volterra": w∘(1 − Hw) to first order at w = μ/(μᵀHμ), on (w/√w₀, ‖√w₀‖). This is affine: the constant is one
    more amplitude, whose column makes K ≠ 0. H gets the multiple of 11ᵀ that makes it positive.
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
    """Return the model with L shifted to least eigenvalue 0 and x0 scaled to norm 1."""
    least, *_, largest = np.linalg.eigvalsh(L) if len(L) > 1 else (L[0, 0], L[0, 0])
    shift = max(0.0, -float(least)) if len(scale) else 0.0
    return LinearModel(
        L=L - least * np.eye(len(L)),
        K=K,
        x0=x0 / np.linalg.norm(x0),
        scale=scale,
        spread=float(largest - least),
        longest=MAX_STEP_PER_SHIFT / shift if shift > 0 else np.inf,
    )


def window_angles(circuit: SelectCircuit, model: LinearModel, t: float, cut: float = np.inf) -> NDArray:
    """Return the angles of a circuit whose kept outcomes show exp(−t(L − K)) x0, shape (P,); classical, O(m³).

    The splitting between L and K is Lie's (order 1) or Strang's (2). With evolution="exact" L is diagonalised, with
    "trotter" it is expanded in Pauli strings. Exact evolution replaces eigenvalues λ with λt > ``cut`` by cut/t, since
    e^(−cut) is negligible, and the ancillas need not resolve more.
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
        # Vᵀ has the multiplexers of V in reverse order, with the opposite signs.
        last = rotation_angles(V)
        return np.concatenate([tree, -last[::-1].ravel(), last.ravel(), phases])
    before, after = np.eye(size), scipy.linalg.expm(dt * K)
    if circuit.order == 2:
        before = after = scipy.linalg.expm(0.5 * dt * K)
    rotations = [V.T @ before, V.T @ before @ after @ V, after @ V]
    if circuit.n_rotations == 2:
        del rotations[1]
    return np.concatenate([tree, *(rotation_angles(turn).ravel() for turn in rotations), phases])


def form_of_mean(H: NDArray, mean: NDArray, share: float) -> NDArray:
    """Return the quadratic form, in the next read-out μ, of f((1−τ)m + τμ)/τ; it is H if the share τ is 1.

    The next read-out enters the mean m with the share τ. A window of this form moves μ to the minimum of f of the mean,
    and so corrects the noise that the mean already has.
    """
    b = H @ mean
    return np.asarray(share * H + (1.0 - share) * (b[:, None] + b))


def read_distribution(
    circuit: SelectCircuit, scale: NDArray, distribution: NDArray, n: int
) -> tuple[NDArray | None, float]:
    """Return μ of shape (n,) from the outcomes kept, None if there are none, and their share of all outcomes.

    ``scale`` is that of the model. All x are ≥ 0, so that magnitudes determine them. A window that overshoots below 0
    shows a positive weight, and a larger f.
    """
    kept = circuit.kept(distribution)
    x2 = kept[:n]
    weight = x2 if not len(scale) else scale * np.sqrt(x2)
    total = float(weight.sum())
    return (weight / total if total > 0 else None), float(kept.sum())


def system_qubits(form: str, n: int) -> int:
    """Return the number of qubits of the system register."""
    return qubits_for(n if form == "replicator" else n + 1)


def sampling_noise(H: NDArray, mu: NDArray, shots: float) -> tuple[float, float]:
    """Return mean excess and standard deviation of f(μ̂) from the given number of kept shots, absolute.

    E f(μ̂) − f(μ) = ½(Σ μᵢHᵢᵢ − μᵀHμ)/S exactly, and Var f(μ̂) = Σ μᵢ((Hμ)ᵢ − μᵀHμ)²/S to first order.
    """
    h = H @ mu
    f2 = float(mu @ h)
    return 0.5 * (float(mu @ np.diag(H)) - f2) / shots, float(np.sqrt(mu @ (h - f2) ** 2 / shots))
