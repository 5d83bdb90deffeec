"""A study: how many angles an ansatz needs that grows where the measured gradient asks for it.

Hard SVDD and L2-SVM (C = 10, RBF) of moons and digits, n = 64 and 256, exact distributions, computed densely. Wanted is
an excess (f − f*)/|f*| ≤ 1e-3 with at most 1.3 angles a support vector. Two pools of rotations are tried:

- pauli: exp(−iθP/2) for all Pauli strings P with an odd number of Y, as qubit-ADAPT has them (Tang et al., PRX Quantum
  2, 020310 (2021)); from the even superposition, the string of the steepest ∂f/∂θ is added, and all angles are
  optimised anew by L-BFGS. Where hundreds are needed, one in twenty of them at a time.
- two-level: a rotation between an outcome that has weight and one that has none. ∂f/∂θ is 0 there, and the curvature is
  ∂f/∂μ of the new outcome less that of the state, from one distribution; the most negative one is added, all weights
  are optimised anew, and a rotation that has come to 0 is taken out again. The state it prepares is a tree over those
  outcomes, so that k − 1 angles reach every distribution over k of them: this is the classical active set, in gates.

CX are those of Qiskit's own synthesis: a Pauli rotation, and a two-level one as RY under q − 1 controls, without the CX
that lead up to it. The tree on all outcomes has 2^q − 2 of them, that on the survivors alone k − 2.
"""

import sys
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.optimize import minimize

from benchmarks.lib.circuit_problems import DATA, MODELS, excess, make_problem, optimum
from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import DualProblem, Gram, solve

TITLE = "quantum/adaptive"
SIZES, LEVEL, ANGLES = (64, 256), 1e-3, 1.3
#: Where the curve is read, in angles a support vector; the columns say percent.
SHARES = (0.5, 0.75, 1.0, 1.3, 2.0)
#: New strings at a time, as a part of those there are; and iterations of L-BFGS after each.
PART, ITERATIONS = 0.05, 200


class Strings:
    """Rotations about Pauli strings, of real amplitudes: A = −iP is a permutation with signs."""

    def __init__(self, qubits: int) -> None:
        self.size = 2**qubits
        self.index = np.arange(self.size)
        self.walsh = hadamard(self.size).astype(float)  # (−1)^(b·y)
        parity = np.array([[int(a & b).bit_count() for b in self.index] for a in self.index])
        self.sign = np.where(parity % 2 == 1, 1.0 - 2.0 * ((parity - 1) // 2 % 2), 0.0)  # of (a, b); 0: no odd Y

    def turn(self, psi: NDArray, a: int, b: int) -> NDArray:
        """Aψ of the string X^a Z^b."""
        return self.sign[a, b] * (self.walsh[b] * psi)[self.index ^ a]

    def gradients(self, psi: NDArray, F: NDArray) -> NDArray:
        """∂f/∂θ at θ = 0 of every string at the end, shape (2^q, 2^q)."""
        partner = self.index[:, None] ^ self.index[None, :]
        return self.sign * ((psi * (F * psi)[partner]) @ self.walsh)

    def state(self, theta: NDArray, strings: list[tuple[int, int]]) -> list[NDArray]:
        """ψ before each rotation, and at the end."""
        psis = [np.full(self.size, self.size**-0.5)]
        for angle, (a, b) in zip(theta, strings, strict=True):
            psis.append(np.cos(angle / 2) * psis[-1] + np.sin(angle / 2) * self.turn(psis[-1], a, b))
        return psis


def by_strings(problem: DualProblem, f_best: float, most: int) -> list[tuple[int, float]]:
    """Angles and excess, after every growth, until ``most`` angles or the level."""
    pool, d = Strings(int(np.log2(problem.n))), problem.d
    strings: list[tuple[int, int]] = []
    theta, curve = np.empty(0), []

    def value(theta: NDArray) -> tuple[float, NDArray]:
        psis = pool.state(theta, strings)
        mu = psis[-1] ** 2
        F, slopes = d * problem.gradient(d * mu), np.empty(len(theta))
        lam = 2.0 * F * psis[-1]
        for k in range(len(theta) - 1, -1, -1):
            a, b = strings[k]
            c, s = np.cos(theta[k] / 2), np.sin(theta[k] / 2)
            turned = pool.turn(psis[k], a, b)
            slopes[k] = 0.5 * lam @ (c * turned - s * psis[k])
            lam = c * lam - s * pool.turn(lam, a, b)  # Aᵀ = −A
        return problem.objective(d * mu) / abs(f_best), slopes / abs(f_best)

    while len(strings) < most:
        psi = pool.state(theta, strings)[-1]
        mu = psi**2
        steep = np.abs(pool.gradients(psi, d * problem.gradient(d * mu))).ravel()
        new = min(max(1, int(PART * len(strings))), most - len(strings))
        for flat in np.argsort(-steep, kind="stable")[:new]:
            strings.append((int(flat) // pool.size, int(flat) % pool.size))
        theta = np.append(theta, np.zeros(new))
        theta = minimize(value, theta, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "ftol": 1e-12}).x
        curve.append((len(strings), value(theta)[0] - np.sign(f_best)))
        if curve[-1][1] <= LEVEL:
            break
    return curve


def by_levels(problem: DualProblem, f_best: float, most: int) -> list[tuple[int, float]]:
    """The same for rotations between an outcome with weight and one without."""
    Q, p, d = problem.dense(), problem.p, problem.d
    start = int(np.argmin(0.5 * d * np.diag(Q) - p))
    inside, curve = [start], []
    mu = np.zeros(problem.n)
    mu[start] = 1.0
    while len(inside) <= most:
        F = Q @ (d * mu) - p
        F[inside] = np.inf
        inside.append(int(np.argmin(F)))
        some = np.array(inside)
        part = DualProblem(
            Gram(Q[np.ix_(some, some)], kernel="precomputed"), p[some], np.zeros(len(some)),
            np.full(len(some), np.inf), np.ones(len(some)), d,
        )  # fmt: skip
        alpha = solve(part, "working-set", tol=1e-10).alpha
        mu = np.zeros(problem.n)
        mu[some] = np.maximum(alpha, 0.0) / d
        curve.append((len(inside) - 1, excess(problem, d * mu, f_best)))
        inside = [k for k in inside if mu[k] > 1e-9]
        if curve[-1][1] <= LEVEL:
            break
    return curve


def two_qubit_gates(pool: str, qubits: int) -> float:
    """CX of one rotation of a pool, the mean for Pauli strings."""
    from qiskit import QuantumCircuit, transpile
    from qiskit.circuit.library import RYGate

    if pool == "pauli":
        return 1.5 * qubits - 2  # 2(w − 1) for a weight w, 3q/4 in the mean
    circuit = QuantumCircuit(qubits)
    circuit.append(RYGate(0.3).control(qubits - 1), range(qubits))
    return float(transpile(circuit, basis_gates=["cx", "u"], optimization_level=1).count_ops()["cx"])


POOLS = {"pauli": by_strings, "two-level": by_levels}


def main() -> int:
    options = command_line(__doc__, "only")
    table, judged = Rows(f"{TITLE}_rows", options), []
    for n, model, data, pool in product(SIZES[:1] if options.quick else SIZES, MODELS, DATA, POOLS):
        case = f"n={n} {data} {model} {pool}"
        if not chosen(case, options.only):
            continue
        problem = make_problem(data, n, model)
        best = optimum(problem)
        support, qubits = len(best.support), int(np.log2(n))
        # Beyond the outcomes there is nothing to gain.
        most = min(n, int(np.ceil(SHARES[-1] * support)))
        curve = POOLS[pool](problem, best.certificate.objective, most)
        reached = next((angles for angles, value in curve if value <= LEVEL), None)
        row: dict[str, Any] = {"n": n, "pool": pool, "support": support, "angles": reached or ""}
        row["angles_a_support"] = reached / support if reached else ""
        for share in SHARES:
            found = [value for angles, value in curve if angles <= share * support]
            row[f"excess_at_{100 * share:.0f}"] = min(found) if found else ""
        peak = max(angles for angles, _ in curve)
        row |= {"cx": round(peak * two_qubit_gates(pool, qubits)), "cx_tree": 2**qubits - 2}
        table.add(case, **row)
        judged.append((case, pool, reached / support if reached else float("inf")))
    verdicts = []
    for pool in POOLS:
        found = [(case, value) for case, which, value in judged if which == pool]
        if found:
            good = sum(value <= ANGLES for _, value in found)
            what, note = f"{pool}, excess ≤ {LEVEL:g}", f"{good} of {len(found)} cells"
            worst, share = max(found, key=lambda one: one[1])[0], good / len(found)
            text = f"share of cells with ≤ {ANGLES:g} angles a support vector"
            verdicts.append(Verdict("shown", what, text, share, ">=", 1.0, case=worst, note=note))
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
