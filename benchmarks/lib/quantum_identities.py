"""What papers on quantum flows and linear differential equations state, tried with dense matrices and no device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from benchmarks.lib.circuit_problems import first_gram, optimum
from benchmarks.lib.findings import Finding, by
from dualflow import problems
from dualflow.quantum.circuits import LCHSCircuit

SEED, SIZES, C = 0, (8, 16, 64), 10.0
#: Where the kernel of a linear combination is cut off: largest error asked of it.
CUTOFFS = {25.0: 5e-3, 100.0: 1e-5}
#: Half-width and points of the extra dimension, and the error asked of it.
HALF_WIDTH, POINTS, COARSE = 24.0, 4096, 2e-2


def squared_hinge(n: int) -> tuple[NDArray, NDArray]:
    """H of moons, and the optimum on the simplex."""
    gram, y = first_gram("moons", n)
    problem = problems.svc(gram, y, C, loss="squared_hinge")
    return problem.dense(), np.maximum(optimum(problem).alpha, 0.0)


def hermiticity() -> Iterator[Finding]:
    """[μμᵀ − D(μ)]H, which a paper has for Hermitian, and what is."""
    asymmetry, unitarity, same = [], [], []
    for n in SIZES:
        H, best = squared_hinge(n)
        for mu in (np.full(n, 1 / n), best):
            A = (np.outer(mu, mu) - np.diag(mu)) @ H
            asymmetry.append(float(np.linalg.norm(A - A.T) / np.linalg.norm(A)))
            unitarity.append(float(np.linalg.norm(A.T @ A - np.eye(n)) / np.sqrt(n)))
            psi, F = np.sqrt(mu), H @ mu
            rate = 2 * psi * (-0.5 * (F - mu @ F) * psi)  # of μ = ψ²
            same.append(float(np.abs(rate - A @ mu).max() / max(np.abs(A @ mu).max(), np.abs(mu * F).max())))
    where, sizes = "Bauckhage, quantum remark", f"n = {', '.join(map(str, SIZES))}"
    gets = f"‖A − Aᵀ‖/‖A‖ is {min(asymmetry):.2f} to {max(asymmetry):.2f}, {sizes}"
    agrees = by(max(asymmetry) <= 1e-9, "a product of two symmetric matrices that do not commute")
    yield Finding(where, "A = [μμᵀ − D(μ)]H on moons", "Hermitian", gets, **agrees)
    gets = f"‖A†A − I‖/√n is {min(unitarity):.2f} to {max(unitarity):.2f}: Hermitian is A† = A"
    agrees = by(max(unitarity) <= 1e-9, "A†A = AA† = I defines unitary matrices, and A is none of those either")
    yield Finding(where, "its definition of Hermitian", "A†A = AA† = I", gets, **agrees)
    gets = f"the same μ̇ to {max(same):.0e} from the real diagonal F − ⟨F⟩, F = Hμ, ψ = √μ"
    what, says = "the flow as imaginary time", "a Hamiltonian drives it"
    yield Finding(where, what, says, gets, **by(max(same) <= 1e-12, "another flow"))


def random_pair(n: int) -> tuple[NDArray, NDArray, NDArray]:
    """L ⪰ 0 of norm 1, a Hermitian H of norm 1, and a unit vector; real parts of real problems."""
    rng = np.random.default_rng(SEED)
    G, S, x = rng.normal(size=(n, n)), rng.normal(size=(n, n)), rng.normal(size=n)
    L, H = G @ G.T, 1j * (S - S.T)
    return L / np.linalg.norm(L, 2), H / np.linalg.norm(H, 2), x / np.linalg.norm(x)


def combination(n: int = 4, t: float = 2.0) -> Iterator[Finding]:
    """exp(−t(L + iH)) as a sum of unitary evolutions, by An, Childs and Lin's kernel and by An, Liu and Lin's."""
    L, H, x = random_pair(n)
    true = expm(-t * (L + 1j * H)) @ x
    for cutoff, asked in CUTOFFS.items():
        circuit = LCHSCircuit(n_qubits=14, ancillas=12, cutoff=cutoff)
        evolved = np.array([expm(-1j * t * (k * L + H)) @ x for k in circuit.k])
        error = float(np.linalg.norm(circuit.weights @ evolved - true))
        slow = circuit.spacing / (np.pi * (1 + circuit.k**2))
        first = float(np.linalg.norm(slow @ evolved - true))
        gets = (
            f"error {error:.1e} for |k| ≤ {cutoff:g} (the first kernel, 1/π(1 + k²): {first:.1e}), ‖x‖ = 1, λt ≤ {t:g}"
        )
        agrees = by(error <= asked, f"more than {asked:g}")
        what = f"e^(−At) by Hamiltonian simulation, cut at {cutoff:g}"
        yield Finding("An, Childs & Lin", what, "a linear combination of unitaries", gets, seed=SEED, **agrees)


def extra_dimension(n: int = 4, t: float = 2.0) -> Finding:
    """The warped phase of Jin, Liu and Yu, with the right sign of k and the wrong one."""
    L, H, x = random_pair(n)
    true, p = expm(-t * (L + 1j * H)) @ x, np.arange(POINTS) * (2 * HALF_WIDTH / POINTS) - HALF_WIDTH
    k = 2 * np.pi * np.fft.fftfreq(POINTS, 2 * HALF_WIDTH / POINTS)
    start = np.fft.fft(np.exp(-np.abs(p)))
    at, error = int(np.searchsorted(p, 1.0)), {}
    for sign in (-1, 1):
        evolved = np.array([expm(-1j * t * (sign * one * L + H)) @ x for one in k]) * start[:, None]
        error[sign] = float(np.linalg.norm(np.exp(p[at]) * np.fft.ifft(evolved, axis=0)[at] - true))
    gets = f"error {error[-1]:.1e}, read at p = 1; with +k̂ ⊗ L read there {error[1]:.2g}"
    agrees = by(error[-1] <= COARSE < error[1], f"beyond {COARSE:g}, or the other sign does as well")
    what = "e^(−At) in one more dimension, −k̂ ⊗ L + I ⊗ H"
    return Finding("Jin, Liu & Yu", what, "eᵖ v(t, p) for p > 0", gets, seed=SEED, **agrees)


def carleman(n: int = 8) -> Finding:
    """R of the Lotka-Volterra flow α̇ = α∘(1 − Qα) about its rest point, from the uniform state with the same sum."""
    gram, y = first_gram("moons", n)
    Q = np.outer(y, y) * gram.full() + np.eye(n) / (2 * C)
    best = nonnegative(Q)
    slowest = float(np.linalg.eigvals(np.diag(1 - Q @ best) - best[:, None] * Q).real.max())
    quadratic = float(np.sqrt(np.max(np.sum(Q**2, axis=1))))  # rows of F₂ are orthogonal: row i holds −Qᵢ at eᵢ ⊗ ·
    R = float(np.linalg.norm(np.full(n, best.mean()) - best)) * quadratic / abs(slowest)
    gets = f"R = {R:.3g}, n = {n}, about the optimum; about 0 all eigenvalues are +1 and there is no R"
    agrees = by(R < 1 and slowest < 0, "the premise does not hold for this flow; hence windows, linearised anew")
    return Finding("Liu et al. 2021", "Carleman linearisation of Lotka-Volterra", "efficient if R < 1", gets, **agrees)


def nonnegative(Q: NDArray) -> NDArray:
    """The least of ½ αᵀQα − 1ᵀα over α ≥ 0."""
    from scipy.optimize import nnls

    factor = np.linalg.cholesky(Q)
    return np.asarray(nnls(factor.T, np.linalg.solve(factor, np.ones(len(Q))))[0])


def identities() -> list[Finding]:
    return [*hermiticity(), *combination(), extra_dimension(), carleman()]


__all__ = ["identities"]
