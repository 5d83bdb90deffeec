"""The seeded cases of the record: which model, on which data, with which parameters."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import make_blobs, make_classification, make_moons, make_regression

import dualflow
from dualflow import Gram, problems, solve

__all__ = ["Facts", "cases"]

#: What a case comes to: named arrays, compared bit by bit.
Facts = dict[str, NDArray]

#: Attributes of a fitted model that are recorded where it has them.
FITTED = ("support_", "dual_coef_", "intercept_", "radius_", "offset_", "coef_", "loo_scores_", "best_score_")

#: Quantum solvers that are emulated, with the kind of problem and the options of a short run.
QUANTUM = {
    "variational-flow": ("squared_hinge", {}),
    "variational-lotka-volterra": ("hinge", {}),
    "hamiltonian-dilation": ("squared_hinge", {}),
    "hamiltonian-descent": ("hinge", {}),
    "hamiltonian-adiabatic": ("hinge", {}),
    "variational-dqc": ("squared_hinge", {}),
}


@functools.cache
def data(name: str, n: int, features: int = 2, classes: int = 2) -> tuple[NDArray, NDArray]:
    """Points and labels of a named set, always the same."""
    if name == "moons":
        return make_moons(n, noise=0.25, random_state=n)
    if name == "blobs":
        return make_blobs(n, features, centers=classes, cluster_std=3.0, random_state=n)
    if name == "regression":
        X, y = make_regression(n, features, noise=5.0, random_state=n)
        return X, y / np.std(y)
    return make_classification(
        n,
        features,
        n_informative=max(2, features // 2),
        n_redundant=0,
        n_classes=classes,
        flip_y=0.05,
        class_sep=0.8,
        random_state=n,
    )


def facts_of(model: Any) -> Facts:
    """The recorded attributes of a fitted model, and the figures of its certificates."""
    facts: Facts = {}
    for name in FITTED:
        try:
            value = getattr(model, name)
        except Exception:  # of another model, or refused by this one
            continue
        facts[name] = value.toarray() if sparse.issparse(value) else np.asarray(value, dtype=float)
    try:
        solutions = model.solutions_
    except Exception:  # a stream has certificates of its own kind
        return facts
    for k, solution in enumerate(solutions[:6]):
        facts |= {f"{k}.{name}": value for name, value in facts_of_solution(solution).items()}
    return facts


def facts_of_solution(solution: Any) -> Facts:
    """The two answers of a solution and its certificate's figures."""
    made = solution.certificate
    figures = (
        made.objective,
        made.lower_bound,
        made.gap,
        made.relative_gap,
        made.infeasibility,
        made.projection_distance,
        made.multiplier,
        made.bias,
        made.quadratic,
        made.rounding,
        made.radius,
    )
    row = np.array([np.nan if value is None else float(value) for value in figures])
    return {"alpha": np.array(solution.alpha), "raw_alpha": np.array(solution.raw_alpha), "certificate": row}


def cases() -> Iterator[tuple[str, Callable[[], Facts]]]:
    """Name and computation of each case."""
    yield from _classifiers()
    yield from _regressions()
    yield from _descriptions()
    yield from _doors()
    yield from _streams()
    yield from _searches()
    yield from _quantum()


def _fit(make: Callable[[], Any], *arguments: Any, saved: bool = False, **keywords: Any) -> Facts:
    model = make()
    model.fit(*arguments, **keywords)
    facts = facts_of(model)
    if saved:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.dualflow"
            model.save(path)
            # The file itself holds times; what it holds beside is what comes back.
            facts |= {f"loaded.{name}": value for name, value in facts_of(dualflow.load(path)).items()}
    return facts


def _case(name: str, make: Callable[[], Any], *arguments: Any, **keywords: Any) -> tuple[str, Callable[[], Facts]]:
    return name, functools.partial(_fit, make, *arguments, **keywords)


def _classifiers() -> Iterator[tuple[str, Callable[[], Facts]]]:
    grid = [
        ("moons", 2, (8, 20, 50, 113, 200, 512, 640, 641, 1000, 3000, 4096, 4097, 6000, 8192, 9000)),
        ("classification", 10, (30, 200, 1000, 3000)),
        ("classification", 40, (100, 600, 1500)),
        ("classification", 100, (300, 900, 2000)),
        ("classification", 150, (1200,)),
        ("blobs", 5, (60, 700, 2500)),
    ]
    for name, features, sizes in grid:
        for n in sizes:
            X, y = data(name, n, features)
            for C in (1.0, 30.0, 1000.0) if n <= 1500 else (1.0,):
                yield _case(f"SVC {name} {n}x{features} C={C:g}", functools.partial(dualflow.SVC, C=C), X, y)
    variants: list[tuple[str, dict[str, Any]]] = [
        ("linear", {"kernel": "linear"}),
        ("poly", {"kernel": "poly", "coef0": 1.0}),
        ("sigmoid", {"kernel": "sigmoid", "gamma": 0.01}),
        ("no intercept", {"fit_intercept": False}),
        ("penalised", {"fit_intercept": "penalised"}),
        ("squared hinge", {"loss": "squared_hinge"}),
        ("unrefined", {"refine": False}),
        ("unrefined, loose", {"refine": False, "tol": 1e-3}),
        ("balanced", {"class_weight": "balanced"}),
        ("max_iter", {"max_iter": 50}),
        ("callback", {"callback": lambda progress: False}),
        ("interior-point", {"solver": "interior-point"}),
        ("smo", {"solver": "smo", "tol": 1e-3}),
        ("frank-wolfe", {"solver": "frank-wolfe", "loss": "squared_hinge", "max_steps": 200}),
        ("callable", {"kernel": _laplacian}),
    ]
    for n in (40, 300, 900):
        X, y = data("classification", n, 10)
        weight = np.random.default_rng(n).integers(0, 4, n).astype(float)
        for name, keywords in variants:
            yield _case(f"SVC {name} {n}", functools.partial(dualflow.SVC, **keywords), X, y)
        yield _case(f"SVC weights {n}", dualflow.SVC, X, y, weight)
        yield _case(f"SVC sparse {n}", dualflow.SVC, sparse.csr_array(np.where(np.abs(X) > 1, X, 0)), y)
        matrix = Gram(X).full()
        yield _case(f"SVC precomputed {n}", functools.partial(dualflow.SVC, kernel="precomputed"), matrix, y)
        yield _case(f"SVC saved {n}", dualflow.SVC, X, y, saved=True)
        yield _case(f"LSSVC {n}", dualflow.LSSVC, X, y)
        yield _case(f"LDA {n}", dualflow.LDA, X, y)
    for n, classes, features in ((60, 3, 4), (300, 5, 4), (900, 3, 10), (1500, 4, 30), (2000, 3, 100), (3000, 3, 5)):
        X, y = data("blobs", n, features, classes)
        yield _case(f"SVC {classes} classes {n}x{features}", dualflow.SVC, X, y)
        yield _case(f"SVC linear {classes} classes {n}x{features}", lambda: dualflow.SVC(kernel="linear"), X, y)
    X, y = data("blobs", 300, 4, 5)
    yield _case("SVC 5 classes saved", dualflow.SVC, X, y, saved=True)
    yield _case("SVC 5 classes in threads", lambda: dualflow.SVC(n_jobs=2), X, y)
    yield _case("SVC 5 classes squared hinge", lambda: dualflow.SVC(loss="squared_hinge"), X, y)


def _regressions() -> Iterator[tuple[str, Callable[[], Facts]]]:
    for n in (20, 60, 200, 600, 1500):
        X, y = data("regression", n, 5)
        for C in (1.0, 100.0):
            yield _case(f"SVR {n} C={C:g}", functools.partial(dualflow.SVR, C=C), X, y)
    X, y = data("regression", 200, 5)
    yield _case("SVR linear", lambda: dualflow.SVR(kernel="linear"), X, y)
    yield _case("SVR saved", dualflow.SVR, X, y, saved=True)
    yield _case("LSSVR", dualflow.LSSVR, X, y)


def _descriptions() -> Iterator[tuple[str, Callable[[], Facts]]]:
    for n in (20, 150, 640, 2000, 6000):
        X, _ = data("blobs", n, 5)
        for nu in (0.01, 0.1, 0.5):
            yield _case(f"SVDD {n} nu={nu:g}", functools.partial(dualflow.SVDD, nu=nu), X)
            yield _case(f"OneClassSVM {n} nu={nu:g}", functools.partial(dualflow.OneClassSVM, nu=nu), X)
    X, _ = data("blobs", 150, 5)
    yield _case("SVDD hard", lambda: dualflow.SVDD(nu=None), X)
    yield _case("SVDD linear", lambda: dualflow.SVDD(kernel="linear", nu=0.1), X)
    yield _case("SVDD saved", lambda: dualflow.SVDD(nu=0.1), X, saved=True)
    yield _case("SVDD contamination", lambda: dualflow.SVDD(contamination=0.1), X)
    yield _case("OneClassSVM saved", lambda: dualflow.OneClassSVM(nu=0.1), X, saved=True)
    yield _case("OneClassSVM weights", lambda: dualflow.OneClassSVM(nu=0.1), X, None, np.linspace(0.1, 1.0, len(X)))


def _doors() -> Iterator[tuple[str, Callable[[], Facts]]]:
    """`solve` by name, over each kind of problem."""
    for n in (10, 112, 300, 1200):
        X, y = data("moons", n)
        gram, signs = Gram(X), 2.0 * y - 1.0
        posed = {
            "hinge": problems.svc(gram, signs, 10.0),
            "squared hinge": problems.svc(gram, signs, 10.0, loss="squared_hinge"),
            "no intercept": problems.svc(gram, signs, 10.0, fit_intercept=False),
            "one class": problems.one_class(gram, 0.2),
        }
        for name, problem in posed.items():
            for refine in (False, True, "early"):
                yield f"solve {name} {n} refine={refine}", functools.partial(_solved, problem, refine)


def _solved(problem: Any, refine: Any) -> Facts:
    return facts_of_solution(solve(problem, "working-set", refine=refine))


def _streams() -> Iterator[tuple[str, Callable[[], Facts]]]:
    for n in (40, 200, 500):
        X, y = data("moons", n)
        for model in (dualflow.EcoSVC, dualflow.IncrementalSVC):
            yield f"{model.__name__} {n}", functools.partial(_streamed, model, X, y)
        for model in (dualflow.EcoSVDD, dualflow.IncrementalSVDD):
            yield f"{model.__name__} {n}", functools.partial(_streamed, model, X, None)
        yield f"IncrementalSVR {n}", functools.partial(_streamed, dualflow.IncrementalSVR, *data("regression", n, 5))
    X, y = data("moons", 1500)
    yield _case("CascadeSVC", lambda: dualflow.CascadeSVC(partitions=4, random_state=0), X, y)
    yield _case("cascade", lambda: dualflow.SVC(solver="cascade"), X, y)
    X, y = data("moons", 120)
    yield "leave one out", functools.partial(_left_out, X, y)


def _streamed(make: Callable[[], Any], X: NDArray, y: NDArray | None) -> Facts:
    model, third = make(), len(X) // 3
    for start in range(0, len(X), third):
        part = slice(start, start + third)
        if y is None:
            model.partial_fit(X[part])
        elif start or "SVC" not in make.__name__:
            model.partial_fit(X[part], y[part])
        else:
            model.partial_fit(X[part], y[part], classes=np.unique(y))
    return facts_of(model)


def _left_out(X: NDArray, y: NDArray) -> Facts:
    report = dualflow.generalization_report(dualflow.SVC(C=10.0).fit(X, y))
    return {
        f"{k}.{name}": np.array(getattr(pair, name))
        for k, pair in enumerate(report.pairs)
        for name in ("alpha", "gamma", "loo_margin", "loo_relative_gap")
    }


def _searches() -> Iterator[tuple[str, Callable[[], Facts]]]:
    for n in (60, 300):
        X, y = data("classification", n, 10)
        grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1]}
        yield f"SVCSearchCV {n}", functools.partial(_searched, dualflow.SVCSearchCV, dualflow.SVC(), grid, X, y)
        X, y = data("regression", n, 5)
        yield f"SVRSearchCV {n}", functools.partial(_searched, dualflow.SVRSearchCV, dualflow.SVR(), grid, X, y)


def _searched(search: Any, model: Any, grid: dict[str, Any], X: NDArray, y: NDArray) -> Facts:
    found = search(model, grid, cv=3).fit(X, y)
    return {"scores": np.array(found.cv_results_["mean_test_score"])} | facts_of(found.best_estimator_)


def _quantum() -> Iterator[tuple[str, Callable[[], Facts]]]:
    X, y = data("moons", 8)
    for name, (loss, options) in QUANTUM.items():
        make = functools.partial(
            dualflow.SVC, loss=loss, solver=name, solver_options=options, max_steps=3, random_state=0
        )
        yield _case(f"{name}", make, X, y)


def _laplacian(A: NDArray, B: NDArray) -> NDArray:
    return np.exp(-0.1 * np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2))
