"""The mirror maps of `hamiltonian-dilation`: a potential V, the circuit that prepares its α, and the read-out.

A potential V of shape (n,) stands for a feasible α, which `circuits.AncillaCircuit` prepares:

- simplex: αᵢ = d e^{Vᵢ}/Σe^V, S = −V. H on the index, then exp(−iΘ⊗Y), Θ = diag(θᵢ), cos θᵢ = e^{−(Sᵢ−S_min)/2}:
  the unitary dilation, with one more qubit, of the diagonal matrix e^{−(S−S_min)/2}. Outcomes with ancilla 0 are kept.
- box: αᵢ = uᵢ sigmoid(Vᵢ) = uᵢ P(1|i), sin² θᵢ = sigmoid(Vᵢ). Outcomes with ancilla 0 and 1 are both used.

These are the mirror maps of the entropy Σαᵢ log αᵢ and of the weighted Fermi-Dirac entropy
Σ (uᵢ/mᵢ)[x log x + (1−x) log(1−x)], x = αᵢ/uᵢ. A step of length a is V ← V + a·m∘(g + νe), g = p − Qα, where ν, the
multiplier of eᵀα = d, is the root of a monotone function of one variable; on the simplex it normalises α. D is the
Bregman distance of the entropy. The mobilities m, one for each variable, make L·D(α′, α) an upper bound of
½(α′−α)ᵀQ(α′−α): L = d·max|Q| on the simplex (Pinsker), and L = 1 with mᵢ = 4/(|Q|u)ᵢ in the box (diagonal dominance,
and D ≥ 2(x′−x)² for each variable).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from ...core.problem import DualProblem, Kind
from ...exceptions import DeviceError
from ..circuits.ancilla import AncillaCircuit
from ..circuits.encoding import qubits_for

#: A warm start is raised to at least this share of the mean weight: the potential of weight 0 would be infinite.
MIN_SHARE_WARM = 1e-3
#: Entries of |Q|u are raised to at least this share of the largest: an entry of 0 would make the mobility infinite.
MIN_SHARE_ROW = 1e-3
#: From this |V| on, sigmoid and 1 − sigmoid are 0 or 1 to the last bit.
SATURATED_POTENTIAL = 40.0
#: |V| is clipped to this before an angle is computed, so that exp does not overflow.
MAX_POTENTIAL = 700.0


@dataclass(frozen=True)
class Measured:
    """The α of a measured distribution."""

    alpha: NDArray  # Simplex: from the outcomes kept. Box: from all outcomes. Shape (n,).
    response: NDArray  # ∂αᵢ/∂Vᵢ at fixed ν: αᵢ on the simplex, uᵢ P(0|i) P(1|i) in the box; ≥ 0; shape (n,)
    success: float  # share of the outcomes kept; 1 in the box


class Dilation:
    """A circuit and its mirror map.

    Attributes
    ----------
    circuit : AncillaCircuit
        ⌈log₂ n⌉ + 1 qubits.
    mobility : array of shape (n,)
        m, in units of V per unit of ∇f and step length.
    lipschitz : float
        L, relative to D.
    post_selected : bool
        Only outcomes with ancilla 0 are kept.
    """

    mobility: NDArray
    lipschitz: float
    post_selected: bool

    def __init__(self, problem: DualProblem) -> None:
        self.n, self.d, self.e = problem.n, problem.d, problem.e
        self.circuit = AncillaCircuit(qubits_for(problem.n) + 1)

    def start(self, warm: NDArray | None) -> NDArray:
        """Return the first V, shape (n,): of equal weights, or of ``warm`` moved a little into the interior."""
        raise NotImplementedError

    def feasible_potential(self, V: NDArray) -> NDArray:
        """Return V + t·m∘e with the t for which α(V) meets the equality."""
        raise NotImplementedError

    def angles(self, V: NDArray) -> NDArray:
        """Return 2θ, the angles of the circuit's RY with those of padding, shape (2^(q−1),)."""
        raise NotImplementedError

    def read(self, distribution: NDArray, previous: NDArray | None) -> Measured | None:
        """Return the α of a distribution of shape (2^q,), or None if no outcome was kept.

        An index without counts gets its α from ``previous``.
        """
        raise NotImplementedError

    def potential(self, alpha: NDArray) -> NDArray:
        """Return the V whose circuit prepares a feasible α, both of shape (n,); ±∞ where α is at a bound."""
        raise NotImplementedError

    def feasible_alpha(self, alpha: NDArray) -> NDArray:
        """Return a measured α moved onto the equality, which counts miss by noise.

        The move adds one t·m∘e to the log-odds, as in `feasible_potential`, so that a variable at a bound stays there.
        The nearest feasible point would raise variables off their bound 0, which adds an error of first order in the
        noise to f.
        """
        return alpha

    def model(self, V: NDArray) -> NDArray:
        """Return α(V), computed and not measured, shape (n,); V from `feasible_potential`."""
        raise NotImplementedError

    def distance(self, V: NDArray, V0: NDArray) -> float:
        """Return the Bregman distance D(α(V), α(V₀)), absolute, in units of f/L; V and V₀ as in `model`."""
        raise NotImplementedError

    def _padded(self, angles: NDArray, padding: float) -> NDArray:
        return np.concatenate([angles, np.full(self.circuit.n_parameters - self.n, padding)])


class SimplexDilation(Dilation):
    """The dilation for α ≥ 0, 1ᵀα = d: outcomes are kept with probability 1/(2^(q−1) max μ), μ = α/d."""

    post_selected = True

    def __init__(self, problem: DualProblem) -> None:
        super().__init__(problem)
        self.mobility = np.ones(problem.n)
        self.lipschitz = problem.d * float(np.abs(problem.dense()).max()) or 1.0

    def start(self, warm: NDArray | None) -> NDArray:
        if warm is None:
            return np.zeros(self.n)
        return self.feasible_potential(np.log(np.maximum(warm, MIN_SHARE_WARM * self.d / self.n)))

    def feasible_potential(self, V: NDArray) -> NDArray:
        return np.asarray(V - V.max())

    def potential(self, alpha: NDArray) -> NDArray:
        weight = np.maximum(alpha, 0.0)
        with np.errstate(divide="ignore"):  # a weight of 0 has the potential −∞, whose outcome is never kept
            return np.asarray(np.log(weight / weight.max()))

    def angles(self, V: NDArray) -> NDArray:
        # An angle of π turns padding to ancilla 1, so that it is never kept.
        return self._padded(2.0 * np.arccos(np.exp(0.5 * V)), np.pi)

    def read(self, distribution: NDArray, previous: NDArray | None) -> Measured | None:
        kept = distribution[: self.n]
        success = float(kept.sum())
        if not success > 0:
            if previous is None:
                raise DeviceError(
                    "the device measured ancilla 0 in none of the shots of the first circuit, which keeps most of "
                    "them; raise shots"
                )
            return None
        alpha = self.d * (kept / success)
        return Measured(alpha, alpha, success)

    def model(self, V: NDArray) -> NDArray:
        return np.asarray(self.d * np.exp(V - logsumexp(V)))

    def distance(self, V: NDArray, V0: NDArray) -> float:
        return float(self.model(V) @ (V - V0) - self.d * (logsumexp(V) - logsumexp(V0)))


class BoxDilation(Dilation):
    """The dilation for 0 ≤ α ≤ u < ∞, with or without an equality eᵀα = d."""

    post_selected = False
    lipschitz = 1.0

    def __init__(self, problem: DualProblem) -> None:
        super().__init__(problem)
        self.upper = problem.effective_upper
        rows = np.abs(problem.dense()) @ self.upper
        self.mobility = 4.0 / np.maximum(rows, MIN_SHARE_ROW * rows.max() or 1.0)

    def start(self, warm: NDArray | None) -> NDArray:
        if warm is None:
            return self.feasible_potential(np.zeros(self.n))
        share = np.divide(warm, self.upper, out=np.full(self.n, 0.5), where=self.upper > 0)
        share = np.clip(share, MIN_SHARE_WARM, 1 - MIN_SHARE_WARM)
        return self.feasible_potential(np.log(share / (1 - share)))

    def feasible_potential(self, V: NDArray) -> NDArray:
        if self.e is None:
            return V
        t = self._equality_shift(V, self.upper > 0, self.d)
        return np.asarray(V + t * self.mobility * self.e)

    def potential(self, alpha: NDArray) -> NDArray:
        share = np.divide(alpha, self.upper, out=np.full(self.n, 0.5), where=self.upper > 0)
        share = np.clip(share, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(share) - np.log1p(-share))

    def feasible_alpha(self, alpha: NDArray) -> NDArray:
        share = np.divide(alpha, self.upper, out=np.zeros(self.n), where=self.upper > 0)
        free = (share > 0) & (share < 1)
        if self.e is None or not free.any():
            return alpha
        V = np.log(np.where(free, share, 0.5) / np.where(free, 1 - share, 0.5))
        t = self._equality_shift(V, free, self.d - float(self.e[~free] @ alpha[~free]))
        return np.where(free, self.upper * expit(V + t * self.mobility * self.e), alpha)

    def _equality_shift(self, V: NDArray, free: NDArray, d: float) -> float:
        """Return t with Σ eᵢαᵢ(Vᵢ + t mᵢeᵢ) = d over the free variables, or with the nearest sum they can reach."""
        assert self.e is not None
        v, weights, m = V[free], (self.upper * self.e)[free], (self.mobility * self.e)[free]
        if not len(v):
            return 0.0
        # Newton's method, with bisection outside the bracket: Σ eᵢuᵢ sigmoid(vᵢ + t mᵢeᵢ) increases with t.
        bound = (float(np.abs(v).max()) + SATURATED_POTENTIAL) / float(np.abs(m).min())
        low, high, t, fastest = -bound, bound, 0.0, float(np.abs(m).max())
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
        return self._padded(2.0 * np.arctan(np.exp(0.5 * np.clip(V, -MAX_POTENTIAL, MAX_POTENTIAL))), 0.0)

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
    """Return the dilation for a problem's feasible set."""
    return SimplexDilation(problem) if problem.kind is Kind.SIMPLEX else BoxDilation(problem)


def implicit_direction(problem: DualProblem, dilation: Dilation, found: Measured, h: float) -> NDArray:
    """Return the change δ of V of one linearised implicit step, shape (n,).

    It solves δ = h·m∘(g + νe − Q diag(W) δ), eᵀWδ = 0, with W = `Measured.response`: one Newton step from the present
    point towards the minimiser of f(α) + D(α, α₀)/h, the entropic proximal point (Teboulle, Math. Oper. Res. 17, 670
    (1992)). The unknown y = √W δ makes the matrix symmetric positive definite; O(n³).
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
        # Without any response ν cannot be computed here; `Dilation.feasible_potential` finds it.
        nu = -float((w * problem.e) @ y) / resistance if resistance > 0 else 0.0
        y, g = y + nu * along, g + nu * problem.e
    return np.asarray(h * m * (g - Q @ (w * y)))
