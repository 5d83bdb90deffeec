"""Windows of the simplex flow as linear equations ẋ = −(L − K)x, L symmetric and K antisymmetric, for quantum circuits.

The flow is Bauckhage's, in the quadratic form of Lotka and Volterra: with μ = α/d and

    H = d²Q − d(p1ᵀ + 1pᵀ),    f(α) = ½ μᵀHμ wherever 1ᵀμ = 1,

ẇ = w∘(1 − Hw) has μ = w/1ᵀw on the paths of the replicator μ̇ = −μ∘(Hμ − μᵀHμ), its time multiplied by 1ᵀw. Either is
linearised at the present μ, to first order, for one window of time; then anew at what was measured. (One global
linearisation, Carleman's, does not converge here: Liu et al., PNAS 118, e2026805118 (2021), need R < 1, and R is in the
tens to thousands.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ...core.problem import DualProblem
from ...exceptions import DeviceError
from ..circuits.encoding import pad, qubits_for, simplex_to_angles
from ..circuits.pauli_steps import PauliSteps
from ..circuits.rotation import rotation_angles
from ..circuits.select import SelectCircuit
from ..runs.laboratory import Account, Laboratory

__all__ = [
    "FORMS",
    "LinearModel",
    "LinearisedState",
    "linearise",
    "measured",
    "quadratic_form",
    "read",
    "sampling_noise",
    "some",
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


@dataclass(frozen=True)
class LinearisedState:
    """What was measured, and the window to try next.

    Attributes
    ----------
    mu : array of shape (n,)
        From the outcomes kept, summing to 1.
    theta : array of shape (P,)
        Angles of the circuit that showed it.
    scale : array
        How its outcomes are read (`LinearModel`).
    shots, shots_kept : int, float
        Shots of its circuit, and those of them behind it; 0 for exact ones.
    mean : array of shape (n,)
        What the next window starts from: ``mu``, or with shots the mean of the last states that differ by noise only.
    mean_shots : float
        Shots behind that.
    window : float
        Length of the window to try next, in flow time; 0 before the first.
    flow_time : float
    objective : float
        f(d·mu).
    fall : float
        By how much f fell in the last window that was taken.
    steps, rejected : int
    resting, measured_finally : bool
    kept, reads : float, int
        Sum over all circuits of the share of outcomes kept, and their number.
    distribution : array of shape (2^q,)
        All outcomes of the circuit that showed ``mu``.
    longest : float
        Largest λt of any window, λ the largest eigenvalue of L.
    account : dict
    total : float
        d.
    """

    mu: NDArray
    theta: NDArray
    scale: NDArray
    shots: int
    shots_kept: float
    mean: NDArray
    mean_shots: float
    window: float
    flow_time: float
    objective: float
    fall: float
    steps: int
    rejected: int
    resting: bool
    measured_finally: bool
    kept: float
    reads: int
    distribution: NDArray
    longest: float
    account: Account
    total: float
    lab: Laboratory = field(repr=False, metadata={"saved": False})
    circuit: SelectCircuit = field(repr=False, metadata={"saved": False})
    H: NDArray = field(repr=False, metadata={"saved": False})


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


def window_angles(circuit: SelectCircuit, model: LinearModel, t: float) -> NDArray:
    """θ of a circuit whose kept outcomes show exp(−t(L − K)) x0, shape (P,), by classical algebra in O(m³).

    The splitting between L and K is Lie's (order 1) or Strang's (2). With evolution="exact" L is diagonalised, with
    "trotter" it is expanded in Pauli strings, O(m³) as well.
    """
    size, m, dt = 2**circuit.system, len(model.x0), t / circuit.splits
    L, K = np.diag(np.full(size, model.spread)), np.zeros((size, size))
    L[:m, :m], K[:m, :m] = model.L, model.K
    tree = simplex_to_angles(pad(model.x0**2, circuit.system), m)
    if circuit.evolution == "trotter":
        symmetric, antisymmetric = PauliSteps(circuit.system, circuit.ancillas, circuit.order).weights(L, K)
        return np.concatenate([tree, circuit.phase_angles(symmetric, dt).ravel(), 2.0 * dt * antisymmetric])
    lam, V = np.linalg.eigh(L)
    if np.linalg.det(V) < 0:
        V[:, 0] *= -1.0
    phases = circuit.phase_angles(np.maximum(lam, 0.0), dt).ravel()
    if not K.any() and circuit.splits == 1:
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


def read(problem: DualProblem, state: LinearisedState, shots: int | None) -> LinearisedState:
    """The state with its circuit run and read; of infinite ``objective`` if no outcome was kept."""
    distribution, account = state.lab.measure(state.account, state.circuit, state.theta, shots)
    mu, success = measured(state.circuit, state.scale, distribution, problem.n)
    booked = replace(state, account=account, kept=state.kept + success, reads=state.reads + 1)
    if mu is None:
        return replace(booked, shots_kept=0.0, objective=np.inf)
    shots_kept = 0.0 if shots is None else success * state.lab.effective_shots(account, state.circuit, shots)
    return replace(
        booked,
        mu=mu,
        shots=shots or 0,
        shots_kept=shots_kept,
        mean=mu,
        mean_shots=shots_kept,
        distribution=distribution,
        objective=problem.objective(problem.d * mu),
    )


def some(state: LinearisedState) -> LinearisedState:
    """The state; `DeviceError` if no outcome was kept."""
    if state.objective == np.inf:
        raise DeviceError(
            f"the device gave none of the outcomes that circuit {state.circuit.name!r} keeps; raise shots, or its "
            "noise drowns them"
        )
    return state
