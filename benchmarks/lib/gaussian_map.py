"""The Gaussian kernel's feature map, monomial by monomial, cut off after a degree; sets to try it on."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import factorial
from scipy.stats import poisson
from sklearn import datasets

from dualflow import SVC, Gram

DEGREES = (0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 25)
#: Width of the kernel, and the last degree; two of the irises are taken.
MAPS = {"moons": (1.0, 25), "iris": (2.0, 20)}
#: Of the sets that are drawn.
SEEDS = {"moons": 0}


def standardised(name: str) -> tuple[NDArray, NDArray]:
    """A set of scikit-learn's and its labels."""
    if name == "moons":
        X, y = datasets.make_moons(200, noise=0.2, random_state=SEEDS[name])
    else:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (X / 16.0 if name == "digits" else (X - X.mean(axis=0)) / X.std(axis=0)), y


def monomials(X: NDArray, degree: int) -> NDArray:
    """The Gaussian map of X/σ, up to a degree, shape (n, comb(d + degree, d))."""
    d = X.shape[1]
    at = [k for k in itertools.product(range(degree + 1), repeat=d) if sum(k) <= degree]
    powers = X[:, :, None] ** np.arange(degree + 1) / np.sqrt(factorial(np.arange(degree + 1)))
    made = np.exp(-0.5 * np.sum(X**2, axis=1))[:, None] * np.ones((1, len(at)))
    for j, k in enumerate(np.array(at).T):
        made *= powers[:, j, k]
    return made


def truncated(name: str) -> list[dict[str, Any]]:
    """A row a degree: how far the cut-off kernel, and the machine on the monomials, are from the Gaussian ones."""
    X, y = standardised(name)
    (sigma, most), kept = MAPS[name], y > 0 if name == "iris" else y < 2
    X, y = X[kept] / sigma, y[kept]
    K, reach = Gram(X, kernel="rbf", gamma=0.5).full(), float(np.sum(X**2, axis=1).max())
    model, rows = SVC(kernel="rbf", gamma=0.5).fit(X, y), []
    for degree in (k for k in DEGREES if k <= most):
        features = monomials(X, degree)
        explicit = SVC(kernel="linear").fit(features, y)
        off = np.abs(explicit.decision_function(features) - model.decision_function(X)).max()
        rows.append(
            {
                "case": f"{name}, degree {degree}",
                "features": features.shape[1],
                "kernel_error": float(np.abs(features @ features.T - K).max()),
                "error_bound": float(poisson.sf(degree, reach)),
                "decision_error": float(off),
                "votes_that_differ": int(np.sum(explicit.predict(features) != model.predict(X))),
            }
        )
    return rows


def plot(rows: list[dict[str, Any]], folder: Any) -> None:
    """Miss of the kernel, its bound and the machine's miss against the degree."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    groups = {name: list(of) for name, of in itertools.groupby(rows, key=lambda row: row["case"].split(",")[0])}
    figure, axes = plt.subplots(1, len(groups), figsize=(5 * len(groups), 3.6), squeeze=False, layout="constrained")
    for axis, (name, lines) in zip(axes[0], groups.items(), strict=True):
        degrees = [int(row["case"].split()[-1]) for row in lines]
        for key, style in (("kernel_error", "o-"), ("error_bound", "k:"), ("decision_error", "s--")):
            axis.semilogy(degrees, [max(row[key], 1e-16) for row in lines], style, label=key.replace("_", " "))
        axis.set(xlabel="degree of the last monomials", title=name)
        axis.legend()
    figure.savefig(folder / "linear_svm_blog_map.png")
    plt.close(figure)
