"""`hamiltonian-descent` and `-adiabatic` need at most a third of the circuits that a block's best corner needs.

Raw final states, no line search and no pattern move: circuits until the excess (f − f*)/|f*| is 1e-1, 1e-2, 1e-3.
Hinge, hinge without bias (C = 1, 10, 100), SVDD and one-class (nu = 0.2, 0.5), RBF with gamma="scale", on moons,
circles, iris, wine, breast cancer; n = 8 as one block of 8 qubits, n = 16 as one of 16. Medians of seeds.

- where less than half of the optimum's α is at a bound: excess ≤ 1e-3 at n = 8, ≤ 1e-2 at n = 16, exact, in at most a
  third of the circuits that `corner` takes, the best of all corners by enumeration in the circuit's place, same loop

Shown beside: `field` (signs of the fields), `random` (bits), the null device, 10 000 shots, and `mean field`, the same
reading by a classical fixed point xᵢ = −hᵢ'/√(hᵢ'² + Γ²), h' = h + Jx, in the field Γ that gives the diagonal exactly:
where it needs no more circuits, entanglement adds nothing. ``--quick`` is one
seed of n = 8 and C = 10; ``--seeds`` and ``--wide-seeds`` are those of n = 8 and 16.
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_circles, make_moons
from sklearn.preprocessing import StandardScaler

from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import DualProblem, Gram, problems, solve
from dualflow.quantum.circuits.encoding import bit_table
from dualflow.quantum.devices.controls import NullDevice
from dualflow.quantum.engines.box_zoom import FIELD

TITLE = "quantum/hamiltonian_descent"
SOLVERS = ("hamiltonian-descent", "hamiltonian-adiabatic")
MODELS = {"hinge": (1, 10, 100), "no bias": (1, 10, 100), "SVDD": (0.2, 0.5), "one-class": (0.2, 0.5)}
DATA = ("moons", "circles", "iris", "wine", "breast cancer")
LEVELS = (1e-1, 1e-2, 1e-3)
#: What is asked at n, and circuits that a run may take: the right device, and a control.
WANTED, MOST = {8: 1e-3, 16: 1e-2}, {"circuit": 20, "control": 60}
SHOTS, NEVER = 10_000, 999
SHOWN = ("at_bound", *(f"circuits_{level:g}" for level in LEVELS))


def load(name: str, n: int, seed: int) -> tuple[NDArray, NDArray]:
    """n points, half of each class, standardised but for the drawn ones; labels ±1."""
    if name == "moons":
        X, t = make_moons(n, noise=0.2, random_state=seed)
        return X, 2.0 * t - 1
    if name == "circles":
        X, t = make_circles(n, noise=0.1, factor=0.5, random_state=seed)
        return X, 2.0 * t - 1
    X, t = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}[name](return_X_y=True)
    first, second = (1, 2) if name == "iris" else (0, 1)
    X, rng = StandardScaler().fit_transform(X[(t == first) | (t == second)]), np.random.default_rng(seed)
    t = t[(t == first) | (t == second)]
    rows = np.concatenate([rng.permutation(np.flatnonzero(t == label))[: n // 2] for label in (first, second)])
    return X[rows], np.where(t[rows] == second, 1.0, -1.0)


def posed(model: str, name: str, n: int, C: float, seed: int) -> DualProblem:
    X, y = load(name, n, seed)
    gram = Gram(X, kernel="rbf", gamma="scale")
    if model == "SVDD":
        return problems.svdd(gram, nu=C)
    if model == "one-class":
        return problems.one_class(gram, nu=C)
    return problems.svc(gram, y, C, fit_intercept=model == "hinge")


class Instead(NullDevice):
    """In the circuit's place: a reading of fields and couplings, as an outcome distribution with its means."""

    name = "instead"

    def __init__(self, read: Callable[[NDArray, NDArray], NDArray]) -> None:
        super().__init__()
        self.read = read

    def _ideal(self, circuit: Any, values: NDArray) -> NDArray:
        q = circuit.n_qubits
        found = []
        for theta in values:
            J = np.zeros((q, q))
            J[np.triu_indices(q, 1)] = theta[q:]
            ones = 0.5 * (1.0 - self.read(theta[:q], J + J.T))
            product = np.ones(1)
            for p in ones:
                product = np.kron([1.0 - p, p], product)
            found.append(product)
        return np.array(found)


def corner(h: NDArray, J: NDArray) -> NDArray:
    z = 1.0 - 2.0 * bit_table(len(h))
    return np.asarray(z[np.argmin(z @ h + 0.5 * np.einsum("ik,ik->i", z @ J, z))])


def field(h: NDArray, J: NDArray) -> NDArray:
    return np.where(h > 0, -1.0, 1.0)


def mean_field(h: NDArray, J: NDArray) -> NDArray:
    x = np.zeros(len(h))
    for _ in range(300):
        local = h + J @ x
        x = 0.6 * x - 0.4 * local / np.hypot(local, 1.0 / FIELD)
    return x


def random(seed: int) -> Callable[[NDArray, NDArray], NDArray]:
    rng = np.random.default_rng(seed)
    return lambda h, J: rng.choice([-1.0, 1.0], len(h))


def circuits_to(problem: DualProblem, best: float, solver: str, most: int, wanted: float, **options: Any) -> list[int]:
    """Circuits until each of `LEVELS`; `NEVER` where ``most`` do not reach it."""
    found = [NEVER] * len(LEVELS)
    for circuits in sorted({6, most}):
        run = {"tol": 1e-14, "max_steps": circuits, "trajectory": True, "block": problem.n}
        path = solve(problem, solver, **(run | options)).trajectory
        excess = np.array([(problem.objective(alpha) - best) / abs(best) for alpha in path.alpha])
        found = [int(np.argmax(excess <= level)) if (excess <= level).any() else NEVER for level in LEVELS]
        if (excess <= wanted).any():
            break
    return found


def runs(problem: DualProblem, best: float, seed: int, wanted: float, shots: bool) -> dict[tuple[str, str], list[int]]:
    """Circuits to `LEVELS` by solver and what stands in the circuit's place."""
    found, adiabatic = {}, SOLVERS[1]
    for solver in SOLVERS:
        found[solver, "circuit"] = circuits_to(problem, best, solver, MOST["circuit"], wanted)
        if shots:
            sampled = {"shots": SHOTS, "random_state": seed}
            found[solver, f"{SHOTS} shots"] = circuits_to(problem, best, solver, MOST["circuit"], wanted, **sampled)
    controls = {"corner": corner, "field": field, "random": random(seed), "mean field": mean_field}
    for name, read in controls.items():
        found["both", name] = circuits_to(problem, best, adiabatic, MOST["control"], wanted, device=Instead(read))
    found["both", "null"] = circuits_to(problem, best, adiabatic, 6, wanted, device="null")
    return found


def extra(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=7, metavar="K", help="seeds of n = 8")
    parser.add_argument("--wide-seeds", type=int, default=1, metavar="K", help="seeds of n = 16")


def main() -> int:
    options = command_line(__doc__, "only", extra=extra)
    table, claims = Rows(f"{TITLE}_rows", options, SHOWN), Claims()
    cases = [(n, model, C, name) for n in WANTED for model in MODELS for C in MODELS[model] for name in DATA]
    for n, model, C, name in cases:
        case, wanted = f"{model}, {'C' if C >= 1 else 'nu'} = {C}, {name}", WANTED[n]
        if not chosen(f"n = {n}, {case}", options.only) or (options.quick and (n > 8 or C != 10)):
            continue
        seeds = 1 if options.quick else options.seeds if n == 8 else options.wide_seeds
        shares, collected = [], {}
        for seed in range(seeds):
            problem = posed(model, name, n, C, seed)
            optimum = solve(problem, "cvxopt", tol=1e-9).certificate
            upper = problem.effective_upper
            shares.append(float(((optimum.alpha <= 1e-6 * upper) | (optimum.alpha >= (1 - 1e-6) * upper)).mean()))
            for key, circuits in runs(problem, optimum.objective, seed, wanted, n == 8).items():
                collected.setdefault(key, []).append(circuits)
        medians = {key: np.median(values, axis=0) for key, values in collected.items()}
        for (solver, label), circuits in medians.items():
            figures = dict(zip(SHOWN[1:], circuits.tolist(), strict=True))
            where = {"solver": solver, "n": n, "model": model, "C": C, "data": name, "seeds": seeds}
            table.add(f"n = {n}, {case}, {solver}, {label}", run=label, at_bound=np.median(shares), **where, **figures)
        if np.median(shares) >= 0.5:
            continue
        level = LEVELS.index(wanted)
        least = medians["both", "corner"][level]
        for solver in SOLVERS:
            needed = medians[solver, "circuit"][level]
            what = f"{solver}, n = {n}"
            claims.say(what, f"circuits to an excess of {wanted:g}", case, needed, "<=", MOST["circuit"])
            claims.say(what, "circuits, as a share of the best corner's", case, needed / least, "<=", 1 / 3)
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
