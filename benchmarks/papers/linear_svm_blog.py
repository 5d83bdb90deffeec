"""The LinearSVM post: one-vs-one by CVXOPT and SMO, the leave-one-out bound, the explicit Gaussian map; its faults.

A tutorial on linear support vector machines ("the blog" in this package's docstrings). Its text is no part of this
repository: what it says is cited from the project's notes of it, and where its code is meant, the line in question was
written anew here and executed.

- one-vs-one with a linear kernel, C = 1, by `cvxopt` and by `smo`, raw, to a certified relative gap of 1e-9;
  beside them scikit-learn's SVC at tol = 1e-10: the same votes, decision values within 1e-3 (a gap g leaves
  ‖Δw‖ ≤ √(2g))
- the leave-one-out error is at most #SV/n: against the exact one, by `generalization_report`, whose models are
  unlearned point by point; that again against refits by scikit-learn. And in the mean: hard margins of m digits, 3
  against 8, err no more often on the others than #SV/(m + 1) says, within 3 standard errors
- the Gaussian kernel is an inner product of infinitely many monomials, exp(−‖x‖²/2σ²) Π xⱼ^kⱼ/(σ^kⱼ √kⱼ!): cut off
  after a degree, the kernel misses at most P(Poisson(R²/σ²) > degree), R the largest norm. Linear machines on the
  monomials against the kernel's own
- faults: ½ counted twice, the margin upside down, points left behind, a name that is never defined

Features have mean 0 and deviation 1, but digits, which are divided by 16. `_rows.csv` has a line a degree.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb
from scipy.stats import poisson
from sklearn import svm
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from benchmarks.lib.claims import csv_path, write_csv
from benchmarks.lib.findings import Finding, by, main
from benchmarks.lib.gaussian_map import MAPS, SEEDS, plot, standardised, truncated
from dualflow import SVC, Gram, Solution, Status, generalization_report, problems, solve

TITLE = "papers/linear_svm_blog"
SEED, TOL, NEAR, C = 20261123, 1e-9, 1e-3, 1.0
#: Points of a draw for the bound in the mean, and draws.
M, DRAWS = 40, 200
#: Largest miss that is none, of the cut-off kernel.
EXACT = 1e-8


def pairs(name: str) -> Iterator[tuple[str, NDArray, NDArray]]:
    """Every pair of classes: its name, points and signs."""
    X, y = standardised(name)
    for low, high in itertools.combinations(np.unique(y), 2):
        kept = (y == low) | (y == high)
        yield f"{name} {low}-{high}", X[kept], np.where(y[kept] == high, 1.0, -1.0)


def dual(X: NDArray, y: NDArray, cost: float, by_name: str = "cvxopt") -> Solution:
    """The raw answer of a solver."""
    return solve(problems.svc(Gram(X, kernel="linear"), y, cost), by_name, tol=TOL)


def one_vs_one(names: tuple[str, ...]) -> Iterator[Finding]:
    """All pairs of a set by either solver, and by LIBSVM."""
    for name in names:
        X, y = standardised(name)
        options: dict[str, Any] = {"kernel": "linear", "C": C, "decision_function_shape": "ovo"}
        ours = {s: SVC(solver=s, refine=False, tol=TOL, **options).fit(X, y) for s in ("cvxopt", "smo")}
        peer = svm.SVC(tol=1e-10, **options).fit(X, y)
        values = {which: model.decision_function(X) for which, model in ours.items()}
        gap = max(s.raw_certificate.relative_gap or 0.0 for model in ours.values() for s in model.solutions_)
        for one, other, label in (
            (values["cvxopt"], values["smo"], "CVXOPT and SMO"),
            (values["smo"], peer.decision_function(X), "SMO and scikit-learn"),
        ):
            models = tuple(ours.values()) if label.startswith("CVXOPT") else (ours["smo"], peer)
            differ = int(np.sum(models[0].predict(X) != models[1].predict(X)))
            off = float(np.abs(one - other).max())
            gets = f"{one.size // len(X)} pairs: {differ} of {len(X)} votes differ, decision values by {off:.1e}"
            why = f"votes or decision values (beyond {NEAR:g}) differ; worst certified relative gap {gap:.1e}"
            agrees = by(differ == 0 and off <= NEAR, why)
            yield Finding("one-vs-one", f"{name}: {label}", "the same classifier", gets, **agrees)


def bound(names: tuple[str, ...], refitted: tuple[str, ...]) -> Iterator[Finding]:
    """#SV/n against the exact leave-one-out error."""
    for name in names:
        X, y = standardised(name)
        report = generalization_report(SVC(kernel="linear", C=C).fit(X, y))
        errors = round((report.loo_error or 0.0) * report.n)
        gets = f"exact {errors} of {report.n}, support vectors {report.n_support}"
        holds, why = errors <= report.n_support, "more errors than support vectors"
        if name in refitted:
            left = cross_val_predict(svm.SVC(kernel="linear", C=C, tol=1e-8), X, y, cv=LeaveOneOut())
            again = int(np.sum(left != y))
            gets += f"; {report.n} refits by scikit-learn: {again} errors"
            holds, why = holds and again == errors, why + ", or refits err otherwise"
        yield Finding("section 2", f"leave-one-out, {name}", "error ≤ #SV/n", gets, **by(holds, why))


def bound_in_the_mean(draws: int) -> Finding:
    """E of the error of hard margins of m points against E of #SV/(m + 1) of one point more."""
    X, y = standardised("digits")
    X, y = X[(y == 3) | (y == 8)], y[(y == 3) | (y == 8)]
    rng, errors, shares = np.random.default_rng(SEED), [], []
    for _ in range(draws):
        order = rng.permutation(len(X))
        few, one_more, rest = order[:M], order[: M + 1], order[M:]
        if len(set(y[few])) < 2:
            continue
        errors.append(float(np.mean(SVC(np.inf, kernel="linear").fit(X[few], y[few]).predict(X[rest]) != y[rest])))
        shares.append(len(SVC(np.inf, kernel="linear").fit(X[one_more], y[one_more]).support_) / (M + 1))
    difference = np.subtract(errors, shares)
    spread = float(difference.std(ddof=1) / np.sqrt(len(difference)))
    gets = f"{np.mean(errors):.4f} against {np.mean(shares):.4f} ± {spread:.4f}, {len(errors)} draws of m = {M}"
    agrees = by(float(difference.mean()) <= 3 * spread, "the mean error is beyond it by more than 3 standard errors")
    what = "leave-one-out in the mean, hard margin, digits 3-8"
    return Finding("section 2", what, "E[error] ≤ E[#SV/(m + 1)]", gets, seed=SEED, **agrees)


def gaussian_map(rows: list[dict[str, Any]]) -> Iterator[Finding]:
    """What the rows say, set by set."""
    for name, found in itertools.groupby(rows, key=lambda row: row["case"].split(",")[0]):
        lines = list(found)
        last, says = lines[-1], "k(x, z) = ⟨φ(x), φ(z)⟩, φ all monomials"
        above = [row["case"] for row in lines if row["kernel_error"] > row["error_bound"] + 1e-12]
        gets = f"{last['kernel_error']:.1e} off at {last['case']} ({last['features']} features)"
        why = f"beyond the bound at {above}, or more than {EXACT:g} off at the last degree"
        agrees = by(not above and last["kernel_error"] <= EXACT, why)
        yield Finding(
            "Gaussian map", f"explicit, {name}, σ = {MAPS[name][0]:g}", says, gets, seed=SEEDS.get(name), **agrees
        )
        near = next((row for row in lines if row["decision_error"] <= NEAR), None)
        gets = "no degree of the table" if near is None else f"{near['case']}, {near['features']} features"
        right = next((row["case"] for row in lines if not row["votes_that_differ"]), "none")
        what, why = f"linear machine on the monomials, {name}", "no degree of the table is within it"
        gets = f"decision values within {NEAR:g} from {gets}; the same votes from {right}"
        yield Finding(
            "Gaussian map", what, "the kernel's machine", gets, seed=SEEDS.get(name), **by(near is not None, why)
        )


def too_many() -> Finding:
    """How many monomials digits would take."""
    X, _ = standardised("digits")
    gamma = 1 / (X.shape[1] * X.var())
    degree = int(poisson.isf(NEAR, 2 * gamma * np.sum(X**2, axis=1).max()))
    count = comb(X.shape[1] + degree, degree)
    gets = f"{NEAR:g} everywhere is promised from degree {degree}: {count:.1e} monomials of 64 pixels"
    agrees = by(count > 1e9, "the monomials fit into a memory")
    what = "the kernel instead of the map, digits, γ = scale"
    return Finding("Gaussian map", what, "φ is never formed", gets, **agrees)


def margins(names: tuple[str, ...]) -> Iterator[Finding]:
    """Hard margins of separable pairs: ‖w‖² = Σα, the margin, and CVXOPT with ½ counted twice."""
    norm, right, wrong, twice = [], [], [], []
    for name in names:
        for _, X, y in pairs(name):
            if (found := dual(X, y, np.inf)).status is not Status.OPTIMAL:
                continue
            w, total = X.T @ (y * found.raw_alpha), float(found.raw_alpha.sum())
            values = X @ w
            margin = float(values[y > 0].min() - values[y < 0].max()) / (2 * float(np.linalg.norm(w)))
            norm.append(abs(float(w @ w) / total - 1))
            right.append(abs(margin * total**0.5 - 1))
            wrong.append(abs(margin * total**-0.5 - 1))
            twice.append(halved(X, y).sum() / total)
    count = f"{len(norm)} separable pairs of {', '.join(names)}"
    gets = f"{count}: to {max(norm):.1e}, relative"
    yield Finding("section 4", "‖w‖² = Σα at a hard margin", "equal", gets, **by(max(norm) <= 1e-4, "beyond 1e-4"))
    gets = f"{count}: off by {min(wrong):.2g} to {max(wrong):.2g} times; ‖α‖₁^(−½) by {max(right):.1e} at most"
    agrees = by(max(wrong) <= 1e-3, "‖w‖² = Σα and the margin is 1/‖w‖: it is ‖α‖₁^(−½), the inverse")
    yield Finding("margin", "from the dual, hard margin", "‖α‖₁^(½)", gets, **agrees)
    gets = f"Σα is {min(twice):.4f} to {max(twice):.4f} times the right one, {count}"
    why = "CVXOPT's objective has a ½ of its own: ½ is counted twice, α doubles, and w; votes stay if b is midway"
    agrees = by(max(abs(t - 1) for t in twice) <= 1e-3, why)
    yield Finding("listing", "P = ½ yyᵀ∘K given to CVXOPT, hard margin", "the dual's α", gets, **agrees)


def halved(X: NDArray, y: NDArray, cost: float | None = None) -> NDArray:
    """The α of the listing, half of Q given to a program that halves it again."""
    from cvxopt import matrix, solvers, spmatrix

    n = len(y)
    P = matrix(0.5 * np.outer(y, y) * (X @ X.T))
    eye = spmatrix(1.0, range(n), range(n))
    G = -eye if cost is None else matrix(np.vstack([-np.eye(n), np.eye(n)]))
    h = matrix(np.concatenate([np.zeros(n), np.full(0 if cost is None else n, cost or 0.0)]))
    quiet = {"show_progress": False, "abstol": TOL, "reltol": TOL, "feastol": TOL}
    found = solvers.qp(P, matrix(-np.ones(n)), G, h, matrix(y[None, :]), matrix(0.0), options=quiet)
    return np.asarray(found["x"]).ravel()


def soft_faults() -> Iterator[Finding]:
    """What goes wrong once C is a bound: on the irises that overlap."""
    case, X, y = next(pair for pair in pairs("iris") if pair[0] == "iris 1-2")
    best, wrong = dual(X, y, C), halved(X, y, C)
    problem, f = best.problem, best.raw_certificate.objective
    lost = (problem.objective(problem.project(wrong)) - f) / abs(f)
    off = np.abs(wrong - 2 * dual(X, y, C / 2).raw_alpha).max() / C
    gets = f"{case}, C = {C:g}: excess {lost:.2f}; it is twice the α of C/2 (to {off:.0e} C)"
    why = "with ½ twice the answer is that of C/2, doubled: no longer the right machine in other units"
    yield Finding("listing", "the same P, soft margin", "the dual's α", gets, **by(lost <= 1e-6, why))
    values = y * (X @ (X.T @ (y * best.raw_alpha)) + best.raw_certificate.bias)
    inside, violating = (values > 0) & (values < 1 - 1e-6), values < 1 - 1e-6
    kept = {}
    for which, gone in (("0 < yf < 1", inside), ("yf < 1", violating)):
        status = dual(X[~gone], y[~gone], np.inf).status
        kept[which] = int(gone.sum()), int(np.sum(values[~gone] < 0)), status
    text = (
        f"{which} takes {gone}, leaves {left} misclassified: {'separable' if s is Status.OPTIMAL else 'not separable'}"
        for which, (gone, left, s) in kept.items()
    )
    why = "points with yf ≤ 0 violate the margin, too, and stay; the rule is yf < 1"
    agrees = by(kept["0 < yf < 1"][2] is Status.OPTIMAL, why)
    says = "remove 0 < yf < 1: the rest is separated"
    yield Finding("soft margin", f"points within it, {case}", says, "; ".join(text), **agrees)


def undefined() -> Finding:
    """A name that the listing uses and never sets."""
    why = "`pair` is defined nowhere; with itertools.combinations(classes, 2) our rows above are what it gives"
    return Finding("listing", "one-vs-one as printed", "votes of all pairs", "does not run", "not reproducible", why)


def find(options: argparse.Namespace) -> list[Finding]:
    quick = options.quick
    names = ("iris", "wine") if quick else ("iris", "wine", "digits")
    found = [*one_vs_one(names)]
    found += bound(names, ("iris",)) if quick else bound((*names, "breast_cancer"), ("iris", "wine"))
    found.append(bound_in_the_mean(20 if quick else DRAWS))
    few = ("moons",) if quick else ("moons", "iris")
    rows = [row for name in few for row in truncated(name)]
    found += [*gaussian_map(rows), too_many(), *margins(("wine",) if quick else ("wine", "digits")), *soft_faults()]
    if path := csv_path(f"{TITLE}_rows", options):
        write_csv(path, rows)
    if options.plot:
        plot(rows, options.plot)
    return [*found, undefined()]


if __name__ == "__main__":
    sys.exit(main(TITLE, __doc__, find))
