"""Study: `hamiltonian-descent` and `-adiabatic` against the best corner of a block, and against a mean field.

Raw final states, no line search and no pattern move: circuits until the excess (f − f*)/|f*| is 1e-1, 1e-2, 1e-3.
Hinge, hinge without bias (C = 1, 10, 100), SVDD and one-class (nu = 0.2, 0.5), RBF with gamma="scale", on moons,
circles, iris, wine, breast cancer; n = 8 in one block of 8 qubits, n = 16 in blocks of 8.
Medians of 7 and 3 seeds, which draw the points; circuits until the last level that is asked for, 30 at most in one
block and 150 in several; of a control 100 and 500.

- wanted, where less than half of the optimum's α is at a bound: excess ≤ 1e-3 at n = 8, ≤ 1e-2 at n = 16, exact, in at
  most a third of the circuits that `control:corner` takes, the best of all corners in the circuit's place, same loop

Shown beside: `control:field` (signs of the fields), `control:random` (bits), the null device, 10 000 shots, and `mean
field`, the same reading by a classical fixed point xᵢ = −hᵢ'/√(hᵢ'² + Γ²), h' = h + Jx, in the field Γ that gives the
diagonal exactly: where it needs no more evaluations than circuits, entanglement adds nothing. ``--quick`` is one seed
of n = 8 and C = 10. Run again with the same --csv it goes on with the cells that are missing.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_circles, make_moons
from sklearn.preprocessing import StandardScaler

from benchmarks.lib.circuit_problems import optimum
from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line
from benchmarks.quantum.controls import middle
from dualflow import DualProblem, Gram, problems
from dualflow.quantum.devices.controls import NullDevice
from dualflow.quantum.solvers.box_zoom import FIELD_PER_CURVATURE
from dualflow.solvers.registry import make_solver, solver_class
from dualflow.testing import ZooProblem
from dualflow.testing.controls import walk

TITLE = "quantum/hamiltonian_descent"
SOLVERS = ("hamiltonian-descent", "hamiltonian-adiabatic")
MODELS = {"hinge": (1, 10, 100), "no bias": (1, 10, 100), "SVDD": (0.2, 0.5), "one-class": (0.2, 0.5)}
DATA = ("moons", "circles", "iris", "wine", "breast cancer")
#: Columns of circuits, and the excess they are to.
LEVELS = {"circuits_1e_1": 1e-1, "circuits_1e_2": 1e-2, "circuits_1e_3": 1e-3}
#: n, variables a block, seeds, what is asked.
SIZES = ((8, 8, 7, 1e-3), (16, 8, 3, 1e-2))
#: Circuits that a run may take in one block, and in several: the right device, and what stands in its place.
MOST, MOST_INSTEAD = (30, 150), (100, 500)
CONTROLS = ("control:corner", "control:field", "control:random", "null")
RIGHT, SHOTS, LIMIT = "circuit", 10_000, 300.0
SHOWN = ("at_bound", *LEVELS, "excess")
Cell = tuple[int, int, int, float, str, float, str]


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


def posed(model: str, name: str, n: int, C: float, seed: int) -> ZooProblem:
    """The problem with its optimum."""
    X, y = load(name, n, seed)
    gram = Gram(X, kernel="rbf", gamma="scale")
    made: DualProblem
    if model == "SVDD":
        made = problems.svdd(gram, nu=C)
    elif model == "one-class":
        made = problems.one_class(gram, nu=C)
    else:
        made = problems.svc(gram, y, C, fit_intercept=model == "hinge")
    best = optimum(made)
    return ZooProblem(f"{model}, {name}", made, best.certificate.objective, best.alpha, False, "computed: refined")


class MeanField(NullDevice):
    """In the circuit's place: spins in the field that gives the diagonal exactly, each in the mean of the others."""

    name = "mean field"

    def _stand_in(self, circuit: Any, values: NDArray, rng: np.random.Generator) -> NDArray:
        return np.array([self._product(theta, circuit.n_qubits) for theta in values])

    @staticmethod
    def _product(theta: NDArray, q: int) -> NDArray:
        """The product distribution with these means, shape (2^q,)."""
        J = np.zeros((q, q))
        J[np.triu_indices(q, 1)] = theta[q:]
        found = np.ones(1)
        for p in 0.5 * (1.0 - mean_field(theta[:q], J + J.T)):
            found = np.kron([1.0 - p, p], found)
        return found


def mean_field(h: NDArray, J: NDArray) -> NDArray:
    """⟨Z⟩ by a fixed point, shape (q,)."""
    x = np.zeros(len(h))
    for _ in range(300):
        local = h + J @ x
        x = 0.6 * x - 0.4 * local / np.hypot(local, 1.0 / FIELD_PER_CURVATURE)
    return x


def at_bound(z: ZooProblem) -> float:
    """The share of the optimum's α at 0 or at its upper bound."""
    upper = z.problem.effective_upper
    return float(((z.alpha <= 1e-6 * upper) | (z.alpha >= (1 - 1e-6) * upper)).mean())


def cells(quick: bool) -> Iterator[Cell]:
    """n, variables a block, seeds, what is asked, model, C or nu, and data of every cell."""
    for n, block, seeds, wanted in SIZES[:1] if quick else SIZES:
        for model, costs in MODELS.items():
            for C in (10,) if quick and 10 in costs else costs[-1:] if quick else costs:
                yield from ((n, block, 1 if quick else seeds, wanted, model, C, name) for name in DATA)


def case_of(cell: Cell) -> str:
    n, block, _, _, model, C, name = cell
    return f"n = {n}, {-(-n // block)} of {block} qubits, {model}, {'C' if C >= 1 else 'nu'} = {C:g}, {name}"


def run(table: Rows, cell: Cell) -> None:
    """A row for each solver, and one for each thing that stands in the circuit's place."""
    n, block, seeds, wanted, model, C, name = cell
    drawn = [posed(model, name, n, C, seed) for seed in range(seeds)]
    split = n > block
    kinds: list[tuple[str, str, dict[str, Any]]] = [(solver, RIGHT, {}) for solver in SOLVERS]
    kinds += [(solver, f"{SHOTS} shots", {"shots": SHOTS}) for solver in SOLVERS if block == 8]
    kinds += [("both", device, {"device": device}) for device in CONTROLS]
    kinds += [("both", MeanField.name, {"device": MeanField()})]
    rows = []
    for solver, label, options in kinds:
        made: Any = make_solver(SOLVERS[1] if solver == "both" else solver, {"block": block, **options})
        most = (MOST_INSTEAD if solver == "both" else MOST)[split]
        if label == "null":  # it moves nothing, however long
            most = MOST[0]
        walks = [walk(made, z, seed, wanted, most, LIMIT) for seed, z in enumerate(drawn)]
        columns: dict[str, Any] = {}
        for column, level in LEVELS.items():
            at = [(found, found.first(level)) for found in walks]
            columns[column] = (
                None if level < wanted else middle([None if k is None else found.circuits[k] for found, k in at])
            )
        columns["excess"] = float(np.median([min(found.excess) for found in walks]))
        rows.append((solver, label, columns))
    about = {"n": n, "block": block, "model": model, "C": C, "data": name, "seeds": seeds, "wanted": wanted}
    share = float(np.median([at_bound(z) for z in drawn]))
    for solver, label, columns in rows:  # all rows of a cell or none
        table.add(
            f"{case_of(cell)}, {solver}, {label}",
            cell=case_of(cell),
            **about,
            solver=solver,
            run=label,
            at_bound=share,
            **columns,
        )


def verdicts(table: Rows) -> list[Verdict]:
    """Lines of the interior cells: level, share of the corner's circuits; and the mean field's beside them."""
    found: dict[tuple[int, int, float], dict[str, dict[tuple[str, str], float]]] = {}
    for row in table.lines:
        if float(row["at_bound"]) < 0.5:
            wanted = float(row["wanted"])
            circuits = next(row[column] for column, level in LEVELS.items() if level == wanted)
            size = int(row["n"]), int(row["block"]), wanted
            needed = float("inf") if circuits in (None, "") else float(circuits)
            found.setdefault(size, {}).setdefault(row["cell"], {})[row["solver"], row["run"]] = needed
    out = []
    for (n, block, wanted), interior in found.items():
        for solver in SOLVERS:
            kind = "must" if solver_class(solver).maturity == "solver" else "shown"
            who, most = f"{solver}, n = {n}, blocks of {block}", MOST[n > block]
            level, third, classical = [], [], []
            for cell, needed in interior.items():
                own, corner, mean = (
                    needed[key] for key in ((solver, RIGHT), ("both", "control:corner"), ("both", MeanField.name))
                )
                if not own:  # the start is good enough
                    continue
                level.append((cell, own))
                third.append((cell, share(own, corner)))
                classical.append((cell, share(mean, own)))
            out += [
                each(kind, who, f"circuits to an excess of {wanted:g}", level, "<=", most),
                each(kind, who, "circuits, as a share of the best corner's", third, "<=", 1 / 3),
                each("shown", who, "the mean field's evaluations, as a share of the circuits", classical, "<=", 1.0),
            ]
    return out


def share(one: float, other: float) -> float:
    """one/other of circuits, inf meaning that nothing was reached: 0 if the other alone did not, inf if neither did."""
    return one / other if np.isfinite(one) else float("inf")


def main() -> int:
    options: argparse.Namespace = command_line(__doc__, "only")
    table = Rows(f"{TITLE}_rows", options, SHOWN)
    table.resume()
    done = {row["cell"] for row in table.lines}
    for cell in cells(options.quick):
        if chosen(case_of(cell), options.only) and case_of(cell) not in done:
            run(table, cell)
    return conclude(TITLE, verdicts(table), options)


if __name__ == "__main__":
    sys.exit(main())
