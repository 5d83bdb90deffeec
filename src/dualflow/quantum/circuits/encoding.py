"""Conversions between the simplex, tree angles and amplitudes; padding and bit order.

A distribution over N = 2^q outcomes is a vector whose index is i = Σ_k bit_k 2^k, bit_k the outcome of qubit k
(little-endian, Qiskit's order). The binary tree splits on the most significant qubit first, so that every subtree
is a contiguous range of indices, and so are the padding leaves, which come last.

Nodes are numbered as in a heap: 0 is the root, node k has the children 2k+1 (bit 0, "left") and 2k+2 (bit 1,
"right"); N−1 nodes have an angle, the N nodes after them are the leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import ProblemError

__all__ = [
    "amplitudes",
    "angles_to_simplex",
    "bit_table",
    "free_angles",
    "node_masses",
    "pad",
    "qubits_for",
    "reverse_bits",
    "simplex_to_angles",
]


def qubits_for(n: int) -> int:
    """Return the fewest qubits, at least one, whose 2^q outcomes hold n variables."""
    if n < 1:
        raise ProblemError(f"n={n!r} must be ≥ 1")
    return max(1, (n - 1).bit_length())


def pad(mu: ArrayLike, n_qubits: int) -> NDArray:
    """Return μ of shape (n,) with zeros appended, shape (2^q,)."""
    mu = np.asarray(mu, dtype=float)
    if mu.ndim != 1 or len(mu) > 2**n_qubits:
        raise ProblemError(f"mu has shape {mu.shape}; {n_qubits} qubits hold a vector of at most {2**n_qubits}")
    return np.concatenate([mu, np.zeros(2**n_qubits - len(mu))])


def amplitudes(mu: ArrayLike) -> NDArray:
    """Return ψ = √μ, the real non-negative state whose outcome distribution is μ; same shape."""
    return np.sqrt(_distribution(mu))


def node_masses(mu: ArrayLike) -> NDArray:
    """Return the mass under each node of the tree, leaves included, in heap order: (2N−1,) for μ of shape (N,)."""
    levels = [np.asarray(mu, dtype=float)]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    return np.concatenate(levels[::-1])


def simplex_to_angles(mu: ArrayLike, n: int | None = None) -> NDArray:
    """Return tree angles θ in [0, π], shape (N−1,), with `angles_to_simplex` (θ) = μ.

    Parameters
    ----------
    mu : array of shape (N,), N = 2^q
        Non-negative, not all zero; need not sum to 1.
    n : int, optional
        Number of real leaves; the other N − n are padding. A node with no mass under it gets the angle that splits
        mass evenly over its real leaves, so that later mass reaches all of them.
    """
    mu = _distribution(mu)
    masses, leaves = node_masses(mu), _real_leaves(len(mu), n)
    node = np.arange(len(mu) - 1)
    left, right = masses[2 * node + 1], masses[2 * node + 2]
    empty = masses[node] == 0
    left[empty], right[empty] = leaves[2 * node + 1][empty], leaves[2 * node + 2][empty]
    return 2.0 * np.arctan2(np.sqrt(right), np.sqrt(left))


def angles_to_simplex(theta: ArrayLike) -> NDArray:
    """Return μ(θ), shape (…, N), for tree angles (…, N−1): each leaf is a product of cos² and sin² of θ/2."""
    theta = np.asarray(theta, dtype=float)
    n_leaves = theta.shape[-1] + 1
    if n_leaves < 2 or n_leaves & (n_leaves - 1):
        raise ProblemError(f"theta has {n_leaves - 1} angles; a tree has 2^q − 1")
    half = 0.5 * theta
    left, right = np.cos(half) ** 2, np.sin(half) ** 2
    mu = np.ones((*theta.shape[:-1], 1))
    while (width := mu.shape[-1]) < n_leaves:
        split, level = np.empty((*mu.shape, 2)), np.s_[..., width - 1 : 2 * width - 1]
        np.multiply(mu, left[level], out=split[..., 0])
        np.multiply(mu, right[level], out=split[..., 1])
        mu = split.reshape(*theta.shape[:-1], 2 * width)
    return mu


def free_angles(n: int, n_qubits: int) -> NDArray:
    """Return which of the N−1 angles have real leaves on both sides, as booleans; n−1 are true.

    The other angles stay at 0, which sends all mass to the left, away from the padding.
    """
    leaves = _real_leaves(2**n_qubits, n)
    node = np.arange(2**n_qubits - 1)
    return leaves[2 * node + 2] > 0


def bit_table(n_qubits: int) -> NDArray:
    """Return the bits of all outcomes as floats, shape (2^q, q): row i holds bit k of i in column k."""
    return ((np.arange(2**n_qubits)[:, None] >> np.arange(n_qubits)) & 1).astype(float)


def reverse_bits(probabilities: ArrayLike, n_qubits: int) -> NDArray:
    """Return the distributions, shape (…, 2^q), with reversed order of the qubits."""
    array = np.asarray(probabilities)
    if array.shape[-1:] != (2**n_qubits,):
        raise ProblemError(f"probabilities have shape {array.shape}; {n_qubits} qubits give {2**n_qubits} outcomes")
    order = np.zeros(2**n_qubits, dtype=np.intp)
    for bit in range(n_qubits):
        order |= ((np.arange(2**n_qubits) >> bit) & 1) << (n_qubits - 1 - bit)
    return array[..., order]


def _distribution(mu: ArrayLike) -> NDArray:
    mu = np.asarray(mu, dtype=float)
    if mu.ndim != 1 or not np.isfinite(mu).all() or (mu < 0).any() or not (mu > 0).any():
        raise ProblemError("mu must be a vector of finite numbers ≥ 0, not all zero")
    return mu


def _real_leaves(n_leaves: int, n: int | None) -> NDArray:
    """Return the number of real leaves under each node, in heap order."""
    return node_masses(np.arange(n_leaves) < (n_leaves if n is None else n))
