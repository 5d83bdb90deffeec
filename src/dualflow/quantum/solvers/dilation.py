"""Distributions as e^{−potential}, prepared by one ancilla: the geometry of `hamiltonian-dilation`, step by step.

A potential V of shape (n,) stands for a feasible α, and a circuit (`circuits.AncillaCircuit`) prepares it:

- simplex: αᵢ = d e^{Vᵢ}/Σe^V, S = −V. H on the index, then exp(−iΘ⊗Y), Θ = diag(θᵢ), cos θᵢ = e^{−(Sᵢ−S_min)/2}:
  the dilation of e^{−(S−S_min)/2}, diagonal and not unitary, to a unitary with one qubit more. Ancilla 0 is kept.
- box: αᵢ = uᵢ sigmoid(Vᵢ) = uᵢ P(1|i), sin² θᵢ = sigmoid(Vᵢ). Both outcomes are used.

These are the mirror maps of the entropy Σαᵢ log αᵢ and of the weighted Fermi-Dirac entropy
Σ (uᵢ/mᵢ)[x log x + (1−x) log(1−x)], x = αᵢ/uᵢ, in which a step of length a is V ← V + a·m∘(g + νe), g = p − Qα: ν, of
the equality eᵀα = d, is the root of a monotone function of one variable; on the simplex it norms α. The mobilities m
make L·D(α′, α) an upper bound of ½(α′−α)ᵀQ(α′−α), D the Bregman distance of the entropy: L = d·max|Q| on the simplex
(Pinsker), and L = 1 with mᵢ = 4/(|Q|u)ᵢ in the box (diagonal dominance, and D ≥ 2(x′−x)² a variable), where each index
has a step of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from ...core.problem import DualProblem, Kind
from ...exceptions import DeviceError
from ..circuits import AncillaCircuit
from ..circuits.encoding import qubits_for

__all__ = [
    "BoxDilation",
    "Dilation",
    "Measured",
    "SimplexDilation",
    "implicit_direction",
    "make_dilation",
]

#: A warm start gives no variable less than this share of the even one: the potential of 0 would be infinite.
LEAST_SHARE = 1e-3
#: Rows of |Q|u count as at least this share of the largest: a variable that nothing resists would take any step.
LEAST_ROW = 1e-3
#: |V| from which sigmoid and 1 − sigmoid are 0 or 1 to the last bit, and the largest |V| an angle is computed from.
SATURATED, LARGEST = 40.0, 700.0


@dataclass(frozen=True)
class Measured:
    """What a measured distribution says.

    Attributes
    ----------
    alpha : array of shape (n,)
        On the simplex of the outcomes kept; in the box both outcomes are used.
    response : array of shape (n,)
        ∂αᵢ/∂Vᵢ at fixed ν: αᵢ on the simplex, uᵢ P(0|i) P(1|i) in the box; ≥ 0.
    success : float
        Share of the outcomes that was kept; 1 where nothing is post-selected.
    """

    alpha: NDArray
    response: NDArray
    success: float


class Dilation:
    """A circuit and its mirror map.

    Attributes
    ----------
    circuit : AncillaCircuit
        ⌈log₂ n⌉ + 1 qubits.
    mobility : array of shape (n,)
        m, in units of V per unit of f's slope and step length.
    lipschitz : float
        L, relative to D.
    post_selected : bool
    """

    mobility: NDArray
    lipschitz: float
    post_selected: bool

    def __init__(self, problem: DualProblem) -> None:
        self.n, self.d, self.e = problem.n, problem.d, problem.e
        self.circuit = AncillaCircuit(qubits_for(problem.n) + 1)

    def start(self, warm: NDArray | None) -> NDArray:
        """V of shape (n,): of the even point, or of a given α, moved a little into the interior."""
        raise NotImplementedError

    def settled(self, V: NDArray) -> NDArray:
        """V + t·m∘e with the t that meets the equality."""
        raise NotImplementedError

    def angles(self, V: NDArray) -> NDArray:
        """2θ, shape (2^(q−1),), of the circuit's RY; those of padding included."""
        raise NotImplementedError

    def read(self, distribution: NDArray, previous: NDArray | None) -> Measured | None:
        """Read a distribution of shape (2^q,); ``previous`` α stands where counts say nothing of an index.

        None if all outcomes were discarded.
        """
        raise NotImplementedError

    def balanced(self, alpha: NDArray) -> NDArray:
        """A measured α on the equality, which counts miss: moved by the t of `settled`, and no bound is left.

        The nearest point instead would raise the others off a bound of 0, which costs in the first order of what the
        counts are wrong by.
        """
        return alpha

    def model(self, V: NDArray) -> NDArray:
        """α(V) of shape (n,), computed from a settled potential instead of measured."""
        raise NotImplementedError

    def distance(self, V: NDArray, V0: NDArray) -> float:
        """D(α(V), α(V₀)) of settled potentials, absolute, in units of f/L."""
        raise NotImplementedError

    def _padded(self, angles: NDArray, padding: float) -> NDArray:
        return np.concatenate([angles, np.full(self.circuit.n_parameters - self.n, padding)])


class SimplexDilation(Dilation):
    """α ≥ 0, 1ᵀα = d: post-selected, with probability 1/(2^(q−1) max μ), μ = α/d."""

    post_selected = True

    def __init__(self, problem: DualProblem) -> None:
        super().__init__(problem)
        self.mobility = np.ones(problem.n)
        self.lipschitz = problem.d * float(np.abs(problem.dense()).max()) or 1.0

    def start(self, warm: NDArray | None) -> NDArray:
        return (
            np.zeros(self.n) if warm is None else self.settled(np.log(np.maximum(warm, LEAST_SHARE * self.d / self.n)))
        )

    def settled(self, V: NDArray) -> NDArray:
        return np.asarray(V - V.max())

    def angles(self, V: NDArray) -> NDArray:
        # Padding is turned to ancilla 1 altogether, and is never kept.
        return self._padded(2.0 * np.arccos(np.exp(0.5 * V)), np.pi)

    def read(self, distribution: NDArray, previous: NDArray | None) -> Measured | None:
        kept = distribution[: self.n]
        success = float(kept.sum())
        if not success > 0:
            if previous is None:
                raise DeviceError(
                    "the device measured ancilla 0 in none of the shots, not even for equal potentials: ask for more"
                )
            return None
        alpha = self.d * (kept / success)
        return Measured(alpha, alpha, success)

    def model(self, V: NDArray) -> NDArray:
        return np.asarray(self.d * np.exp(V - logsumexp(V)))

    def distance(self, V: NDArray, V0: NDArray) -> float:
        return float(self.model(V) @ (V - V0) - self.d * (logsumexp(V) - logsumexp(V0)))


class BoxDilation(Dilation):
    """0 ≤ α ≤ u < ∞, with eᵀα = d or without."""

    post_selected = False
    lipschitz = 1.0

    def __init__(self, problem: DualProblem) -> None:
        super().__init__(problem)
        self.upper = problem.effective_upper
        rows = np.abs(problem.dense()) @ self.upper
        self.mobility = 4.0 / np.maximum(rows, LEAST_ROW * rows.max() or 1.0)

    def start(self, warm: NDArray | None) -> NDArray:
        if warm is None:
            return self.settled(np.zeros(self.n))
        share = np.divide(warm, self.upper, out=np.full(self.n, 0.5), where=self.upper > 0)
        share = np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE)
        return self.settled(np.log(share / (1 - share)))

    def settled(self, V: NDArray) -> NDArray:
        if self.e is None:
            return V
        t = self._settling(V, self.upper > 0, self.d)
        return np.asarray(V + t * self.mobility * self.e)

    def balanced(self, alpha: NDArray) -> NDArray:
        share = np.divide(alpha, self.upper, out=np.zeros(self.n), where=self.upper > 0)
        live = (share > 0) & (share < 1)
        if self.e is None or not live.any():
            return alpha
        V = np.log(np.where(live, share, 0.5) / np.where(live, 1 - share, 0.5))
        t = self._settling(V, live, self.d - float(self.e[~live] @ alpha[~live]))
        return np.where(live, self.upper * expit(V + t * self.mobility * self.e), alpha)

    def _settling(self, V: NDArray, live: NDArray, d: float) -> float:
        """t with Σ eᵢαᵢ(Vᵢ + t mᵢeᵢ) = d over the live ones; of the nearest sum, if they cannot have that one."""
        assert self.e is not None
        v, weights, m = V[live], (self.upper * self.e)[live], (self.mobility * self.e)[live]
        if not len(v):
            return 0.0
        # Newton's method, by halves where it leaves the bracket: Σ eᵢuᵢ sigmoid(vᵢ + t mᵢeᵢ) rises with t.
        reach = (float(np.abs(v).max()) + SATURATED) / float(np.abs(m).min())
        low, high, t, fastest = -reach, reach, 0.0, float(np.abs(m).max())
        for _ in range(200):
            share = expit(v + t * m)
            excess = float(weights @ share) - d
            low, high = (low, t) if excess > 0 else (t, high)
            slope = float((weights * m) @ (share * (1 - share)))
            trial = t - excess / slope if slope > 0 else np.inf
            trial = trial if low < trial < high else 0.5 * (low + high)
            close = abs(trial - t) * fastest <= 1e-15 * (1.0 + abs(t) * fastest)
            t = trial
            if close:
                break
        return t

    def angles(self, V: NDArray) -> NDArray:
        return self._padded(2.0 * np.arctan(np.exp(0.5 * np.clip(V, -LARGEST, LARGEST))), 0.0)

    def read(self, distribution: NDArray, previous: NDArray | None) -> Measured | None:
        half = self.circuit.n_parameters
        zero, one = distribution[: self.n], distribution[half : half + self.n]
        seen = zero + one > 0
        unseen = 0.5 * self.upper if previous is None else previous
        share = np.divide(one, zero + one, out=np.zeros(self.n), where=seen)
        other = np.divide(zero, zero + one, out=np.zeros(self.n), where=seen)
        return Measured(np.where(seen, self.upper * share, unseen), self.upper * share * other, 1.0)

    def model(self, V: NDArray) -> NDArray:
        return np.asarray(self.upper * expit(V))

    def distance(self, V: NDArray, V0: NDArray) -> float:
        each = expit(V) * (V - V0) - (np.logaddexp(0, V) - np.logaddexp(0, V0))
        return float((self.upper / self.mobility) @ each)


def make_dilation(problem: DualProblem) -> Dilation:
    """The dilation for a problem's feasible set."""
    return SimplexDilation(problem) if problem.kind is Kind.SIMPLEX else BoxDilation(problem)


def implicit_direction(problem: DualProblem, dilation: Dilation, found: Measured, h: float) -> NDArray:
    """Change of V, shape (n,), of one linearised implicit step: δ = h·m∘(g + νe − Q diag(W) δ), eᵀWδ = 0.

    One Newton step, from the present point, towards the minimiser of f(α) + D(α, α₀)/h, the entropic proximal point
    (Teboulle, Math. Oper. Res. 17, 670 (1992)). W is `Measured.response`. Solved for y = √W δ, where the matrix is
    symmetric positive definite; O(n³).
    """
    Q, g, m = problem.dense(), -problem.gradient(found.alpha), dilation.mobility
    w = np.sqrt(found.response)
    M = w[:, None] * Q * w
    M[np.diag_indices(problem.n)] += 1.0 / (h * m)
    factor = scipy.linalg.cho_factor(M, check_finite=False)
    y = scipy.linalg.cho_solve(factor, w * g)
    if problem.e is not None:
        along = scipy.linalg.cho_solve(factor, w * problem.e)
        resistance = float((w * problem.e) @ along)
        # Where nothing responds, ν is left to `Dilation.settled`.
        nu = -float((w * problem.e) @ y) / resistance if resistance > 0 else 0.0
        y, g = y + nu * along, g + nu * problem.e
    return np.asarray(h * m * (g - Q @ (w * y)))
