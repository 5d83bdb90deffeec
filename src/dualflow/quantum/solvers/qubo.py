"""Quadratic functions on a box whose variables are written in bits: QUBO, Ising coefficients, dimod models."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number
from ...core.problem import DualProblem
from ...exceptions import ProblemError, SolverUnavailable
from ..circuits.base import COUNT_RULE
from ..circuits.encoding import bit_table

#: Largest number of bits whose 2^q energies are computed; they are one array of floats.
MAX_BITS = 20


@dataclass(frozen=True)
class Qubo:
    """E(b) = offset + Σₖ linearₖ bₖ + Σ_{k<l} quadraticₖₗ bₖ bₗ over bits b of shape (q,), and the x of b.

    Attributes
    ----------
    linear : array of shape (q,)
    quadratic : array of shape (q, q)
        Strictly upper triangular.
    offset : float
    base : array of shape (m,)
    scale : array of shape (m, q)
        The variables are x = base + scale @ b.

    Examples
    --------
    >>> from dualflow import Gram, problems, to_qubo
    >>> qubo = to_qubo(problems.svc(Gram([[1.0], [2.0]], "linear"), [-1, 1], C=1.0), penalty=2.0)
    >>> qubo.to_dict(), qubo.offset
    ({(0, 0): 0.5, (1, 1): 2.0, (0, 1): -4.0}, 0.0)
    >>> qubo.to_ising()
    ({0: -0.75, 1: 0.0}, {(0, 1): -1.0}, 0.25)
    """

    linear: NDArray
    quadratic: NDArray
    offset: float
    base: NDArray
    scale: NDArray

    @property
    def n_bits(self) -> int:
        return len(self.linear)

    def decode(self, bits: NDArray) -> NDArray:
        """Return x of shape (…, m) for bits, or means of bits, of shape (…, q)."""
        return self.base + np.asarray(bits, dtype=float) @ self.scale.T

    def energies(self) -> NDArray:
        """Return E of all 2^q settings, shape (2^q,): setting i has bₖ = bit k of i."""
        if self.n_bits > MAX_BITS:
            raise ProblemError(f"energies: {self.n_bits} bits have 2^{self.n_bits} settings; at most {MAX_BITS} bits")
        bits = bit_table(self.n_bits)
        return self.offset + bits @ self.linear + np.einsum("ik,kl,il->i", bits, self.quadratic, bits, optimize=True)

    def ising(self) -> NDArray:
        """Return the q fields h, then the q(q−1)/2 couplings J, of E = const + Σ hₖ zₖ + Σ_{k<l} Jₖₗ zₖ zₗ, z = 1 − 2b.

        The couplings are in the order (0, 1), (0, 2), …, (1, 2), …
        """
        symmetric = self.quadratic + self.quadratic.T
        fields = -0.5 * self.linear - 0.25 * symmetric.sum(axis=1)
        return np.concatenate([fields, 0.25 * self.quadratic[np.triu_indices(self.n_bits, 1)]])

    def to_dict(self) -> dict[tuple[int, int], float]:
        """Return {(k, l): coefficient} with k ≤ l, linear ones on the diagonal, without zeros and offset."""
        found = {(k, k): float(value) for k, value in enumerate(self.linear) if value}
        pairs = zip(*np.nonzero(self.quadratic), strict=True)
        return found | {(int(first), int(second)): float(self.quadratic[first, second]) for first, second in pairs}

    def to_ising(self) -> tuple[dict[int, float], dict[tuple[int, int], float], float]:
        """Return (h, J, offset) of E = offset + Σ hₖ sₖ + Σ Jₖₗ sₖ sₗ with spins s = 2b − 1, the signs of dimod.

        h has an entry for each bit, J those that are not 0. Qiskit's Z is −s.
        """
        symmetric = self.quadratic + self.quadratic.T
        h = 0.5 * self.linear + 0.25 * symmetric.sum(axis=1)
        J = {pair: 0.25 * value for pair, value in self.to_dict().items() if pair[0] != pair[1]}
        offset = self.offset + 0.5 * self.linear.sum() + 0.25 * self.quadratic.sum()
        return dict(enumerate(h.tolist())), J, float(offset)

    def to_dimod(self) -> Any:
        """Return a ``dimod.BinaryQuadraticModel`` over the bits 0 … q−1, offset included.

        Raises
        ------
        SolverUnavailable
            dimod is not installed.
        """
        dimod = _imported("dimod")
        pairs = {pair: value for pair, value in self.to_dict().items() if pair[0] != pair[1]}
        return dimod.BinaryQuadraticModel(dict(enumerate(self.linear.tolist())), pairs, float(self.offset), "BINARY")


def box_qubo(A: NDArray, g: NDArray, lower: NDArray, upper: NDArray, bits: int = 1) -> Qubo:
    """Return ½ xᵀAx + gᵀx on a grid of 2^bits points for each variable, bounds included.

    Variable i is lowerᵢ + (upperᵢ − lowerᵢ) Σⱼ 2^j b_{i·bits+j} / (2^bits − 1).

    Parameters
    ----------
    A : array of shape (m, m), symmetric
    g, lower, upper : array of shape (m,)
    bits : int ≥ 1
    """
    steps = 2.0 ** np.arange(bits) / (2.0**bits - 1.0)
    scale = np.kron(np.diag(upper - lower), steps[None])
    M = scale.T @ A @ scale
    linear = scale.T @ (A @ lower + g) + 0.5 * np.diag(M)
    offset = float(0.5 * lower @ A @ lower + g @ lower)
    return Qubo(linear, np.triu(M, 1), offset, np.asarray(lower, dtype=float), scale)


def to_qubo(problem: DualProblem, bits: int = 1, penalty: float | None = None) -> Qubo:
    """Return the objective of a problem on a grid of its box as a QUBO, with the penalty ½ penalty (eᵀα − d)².

    Each αᵢ has 2^bits values from 0 to its upper bound, both included. The grid and the penalty are approximations:
    the least energy is not the optimum of the problem. `certify` says how far its α is from that.

    Parameters
    ----------
    problem : DualProblem
        With finite bounds, or on the simplex, where αᵢ ≤ d.
    bits : int ≥ 1, default=1
        Bits of each variable, the least significant first: bits i·bits … (i + 1)·bits − 1 are those of αᵢ.
    penalty : float ≥ 0, optional
        The mean of Qᵢᵢ by default. It has no effect without an equality.

    Returns
    -------
    Qubo
        E(b) = f(α(b)) + ½ penalty (eᵀα(b) − d)², with α(b) = ``decode(b)``. As plain data: ``to_dict``, ``to_ising``;
        as a model of D-Wave's dimod: ``to_dimod``.

    Raises
    ------
    ProblemError
        A variable has no finite bounds, or an option is out of range.

    References
    ----------
    Willsch, Willsch, De Raedt, Michielsen, Comput. Phys. Commun. 248, 107006 (2020), eq. 10.

    Examples
    --------
    >>> from dualflow import Gram, problems, to_qubo
    >>> problem = problems.svc(Gram([[0.0], [1.0], [3.0]], "linear"), [-1, -1, 1], C=1.0)
    >>> qubo = to_qubo(problem, bits=2)
    >>> qubo.n_bits, round(float(qubo.energies().min()), 4), qubo.decode([0, 0, 1, 1, 1, 1])
    (6, -0.9815, array([0., 1., 1.]))
    """
    COUNT_RULE.check("bits", bits)
    Number(at_least=0, none=True, note="for the mean of Qᵢᵢ").check("penalty", penalty)
    upper, lower = problem.effective_upper, problem.lower
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise ProblemError(
            "to_qubo: a variable without finite bounds has no grid of bits; use loss='hinge' with a finite C, or a "
            "problem on the simplex"
        )
    Q, g = problem.dense(), -problem.p
    if problem.e is None:
        return box_qubo(Q, g, lower, upper, bits)
    penalty = float(problem.diag().mean()) if penalty is None else penalty
    A, g = Q + penalty * np.outer(problem.e, problem.e), g - penalty * problem.d * problem.e
    qubo = box_qubo(A, g, lower, upper, bits)
    return replace(qubo, offset=qubo.offset + 0.5 * penalty * problem.d**2)


def sample_annealing(qubo: Qubo, reads: int, seed: int) -> NDArray:
    """Return the means of the bits over the reads of a classical simulated annealing, shape (q,).

    Raises
    ------
    SolverUnavailable
        dwave-samplers is not installed.
    """
    samplers = _imported("dwave.samplers")
    found = samplers.SimulatedAnnealingSampler().sample(qubo.to_dimod(), num_reads=reads, seed=seed)
    order = [list(found.variables).index(k) for k in range(qubo.n_bits)]
    weights = found.record.num_occurrences / found.record.num_occurrences.sum()
    return weights @ found.record.sample[:, order]


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SolverUnavailable(
            f"annealing needs {error.name or name}, which is not installed: pip install 'dualflow[annealing]'"
        ) from error
