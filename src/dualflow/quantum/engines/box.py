"""Box ↔ ancilla angles, and what counts say about a point of the box.

Variable i of 0 ≤ α ≤ u < ∞ is the angle θᵢ in [0, π] by which index i turns the ancilla of `AncillaCircuit`:
αᵢ = uᵢ sin²(θᵢ/2) = uᵢ P(1|i). In the log-odds Lᵢ = log(αᵢ/(uᵢ − αᵢ)) = 2 log tan(θᵢ/2) the flow
α̇ = w(g + λe), w = α(u − α)/u, is L̇ = g + λe: λ moves every variable along e, whatever its value.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from ...core.problem import DualProblem
from ..circuits import AncillaCircuit
from ..circuits.encoding import qubits_for

__all__ = ["LEAST_ANGLE", "BoxEncoding"]

#: With exact distributions no angle comes nearer to 0 or π: α = u sin²(θ/2) = 0 could never grow again.
LEAST_ANGLE = 1e-5
#: Log-odds of ±50 are 0 and 1 in all digits that matter; `BoxEncoding.balanced` looks for a shift that far beyond.
MOST_LOG_ODDS = 50.0


class BoxEncoding:
    """n variables as the angles of one circuit, and back.

    Attributes
    ----------
    upper : array of shape (n,)
        u; where eᵀα = d sums non-negative terms, no more than d.
    free : boolean array of shape (n,)
        u > 0: the variables that there are.
    circuit : AncillaCircuit
    indices : int
        2^(q−1) ≥ n: values of the index register, each with 1/indices of the shots.
    """

    def __init__(self, problem: DualProblem) -> None:
        self.n, self.e, self.d = problem.n, problem.e, problem.d
        self.upper = problem.effective_upper
        self.free = self.upper > 0
        self.circuit = AncillaCircuit(qubits_for(self.n) + 1)
        self.indices = self.circuit.n_parameters

    @property
    def padding(self) -> str:
        """What became of the indices beyond n."""
        idle = self.indices - self.n
        if not idle:
            return "none"
        return f"{idle} of {self.indices} index values stand for no variable: angle 0, their counts are not used"

    def alpha(self, theta: NDArray) -> NDArray:
        """α of shape (n,) for angles of shape (n,): u sin²(θ/2)."""
        return self.upper * np.sin(0.5 * theta) ** 2

    def angles(self, alpha: NDArray) -> NDArray:
        """θ in [0, π] of shape (n,) with `alpha` (θ) = α clipped to the box."""
        share = np.clip(np.divide(alpha, self.upper, out=np.zeros(self.n), where=self.free), 0.0, 1.0)
        return 2.0 * np.arctan2(np.sqrt(share), np.sqrt(1.0 - share))

    def bindings(self, theta: NDArray) -> NDArray:
        """Angles of the circuit, shape (indices,): θ, and 0 for the indices beyond n."""
        return np.concatenate([theta, np.zeros(self.indices - self.n)])

    def kept(self, theta: NDArray, least: float) -> NDArray:
        """θ no nearer than ``least`` to 0 and π; 0 for variables that u = 0 takes out."""
        return np.where(self.free, np.clip(theta, least, np.pi - least), 0.0)

    def read(self, distribution: NDArray, before: NDArray) -> tuple[NDArray, float]:
        """α as measured, shape (n,), and the share of the outcomes that belong to one of the n indices.

        Parameters
        ----------
        distribution : array of shape (2^q,)
            Frequencies of i + 2^(q−1)·ancilla.
        before : array of shape (n,)
            What was measured last: kept for an index that no shot fell on.
        """
        zeros, ones = distribution[: self.n], distribution[self.indices : self.indices + self.n]
        seen = zeros + ones
        alpha = self.upper * np.divide(ones, seen, out=np.zeros(self.n), where=seen > 0)
        return np.where(seen > 0, alpha, before), float(seen.sum())

    def excess(self, alpha: NDArray) -> float:
        """eᵀα − d; 0 without an equality."""
        return 0.0 if self.e is None else float(self.e @ alpha) - self.d

    def balanced(self, theta: NDArray, least: float) -> NDArray:
        """θ moved along e in log-odds until eᵀα = d (as far as angles ``least`` from 0 and π let it).

        This is the path on which λ alone drives the flow, so it changes nothing but the multiplier's part, and
        it never leaves the box.
        """
        e = self.e
        if e is None or self.excess(self.alpha(theta)) == 0:
            return theta
        with np.errstate(divide="ignore"):
            odds = np.clip(2.0 * np.log(np.tan(0.5 * theta)), -MOST_LOG_ODDS, MOST_LOG_ODDS)

        def at(shift: float) -> NDArray:
            moved = 2.0 * np.arctan(np.exp(0.5 * np.clip(odds + shift * e, -MOST_LOG_ODDS, MOST_LOG_ODDS)))
            return self.kept(moved, least)

        def excess(shift: float) -> float:
            return self.excess(self.alpha(at(shift)))

        most = 2 * MOST_LOG_ODDS
        if excess(-most) >= 0:
            return at(-most)
        if excess(most) <= 0:
            return at(most)
        return at(float(scipy.optimize.brentq(excess, -most, most, xtol=1e-15, rtol=1e-14)))
