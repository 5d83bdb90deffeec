"""Coverage over random splits of bundled data, at fixed seeds."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.preprocessing import StandardScaler

from dualflow import SVC, SVR, ConformalSVC, ConformalSVR

SPLITS, N = 50, 60
SETS = {
    "diabetes": (load_diabetes, ConformalSVR(SVR(C=1000.0, epsilon=5.0, gamma=0.02))),  # in-sample residuals: 5
    "breast cancer": (load_breast_cancer, ConformalSVC(SVC(C=1.0, gamma=0.03))),
    "wine": (load_wine, ConformalSVC(SVC(C=10.0, gamma=0.2))),
}


def covered(model, X, y):
    if isinstance(model, ConformalSVC):
        return model.predict_set(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    low, high = model.predict_interval(X).T
    return (low <= y) & (y <= high)


@pytest.mark.parametrize("name", SETS)
def test_coverage_over_splits(name):
    """Splits are independent, given the set. In one of them a fraction of m points is covered whose variance is that of
    m coins of probability p, p(1 − p)/m, and of p itself, which depends on the n training points: that of a beta
    distribution, p(1 − p)/(n + 2), as the rank of a new score among n has it."""
    load, model = SETS[name]
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    found = {level: {"plus": [], "minmax": []} for level in (0.9, 0.7)}
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:N], order[N : N + 100]
        model.fit(X[train], y[train])
        for level, methods in found.items():
            for method, hits in methods.items():
                model.set_params(confidence_level=level, method=method)
                hits.append(covered(model, X[test], y[test]).mean())
    for level, methods in found.items():
        p = np.ceil(level * (N + 1)) / (N + 1)
        sigma = np.sqrt(p * (1 - p) * (1 / 100 + 1 / (N + 2)) / SPLITS)
        plus, minmax = np.mean(methods["plus"]), np.mean(methods["minmax"])
        assert abs(plus - p) <= 4 * sigma  # in practice
        assert plus >= 2 * level - 1 - 4 * sigma  # in theory
        assert minmax >= max(level - 4 * sigma, plus)
