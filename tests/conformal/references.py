"""Conformal prediction by its definitions: a fit of scikit-learn for every point left out, and sorted lists."""

import math
from itertools import combinations

import numpy as np
import sklearn.svm

#: Parameters of scikit-learn's that are ours, too.
SHARED = ("C", "kernel", "gamma", "degree", "coef0")
TIGHT = 1e-10


def refits(estimator, X, y, folds):
    """scikit-learn's model without each fold, tight."""
    parameters = {name: getattr(estimator, name) for name in SHARED}
    kind = sklearn.svm.SVR if hasattr(estimator, "epsilon") else sklearn.svm.SVC
    if kind is sklearn.svm.SVR:
        parameters["epsilon"] = estimator.epsilon
    else:
        parameters |= {"class_weight": estimator.class_weight, "decision_function_shape": "ovo"}
    models = []
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(y)), fold)
        part = X[np.ix_(rest, rest)] if estimator.kernel == "precomputed" else X[rest]
        models.append((rest, kind(**parameters, tol=TIGHT).fit(part, y[rest])))
    return models


def predictions(models, function, Z, precomputed=False):
    """Return each model's predictions for new points, one row a model."""
    return np.array([getattr(model, function)(Z[:, rest] if precomputed else Z) for rest, model in models])


def interval(level, method, whole, held_out, residuals):
    """Ends of one point's interval, from the values of the models without each training point."""
    n = len(residuals)
    k = math.ceil(level * (n + 1) - 1e-9)
    if k > n:
        return -np.inf, np.inf
    if method == "plus":
        return sorted(held_out - residuals)[n - k], sorted(held_out + residuals)[k - 1]
    widest = sorted(residuals)[k - 1]
    if method == "minmax":
        return min(held_out) - widest, max(held_out) + widest
    return whole - widest, whole + widest


def strangeness(values, classes):
    """Minus the least decision value for each label, from those of pairs as "ovo" has them: two classes have one,
    positive for the second."""
    if len(classes) == 2:
        return np.stack([values, -values], axis=-1)
    against = {label: [] for label in range(len(classes))}
    for pair, (i, j) in enumerate(combinations(range(len(classes)), 2)):
        against[i].append(values[..., pair])
        against[j].append(-values[..., pair])
    return -np.stack([np.min(against[label], axis=0) for label in range(len(classes))], axis=-1)


def p_values(method, whole, held_out, own):
    """Of one point, a number a label, from its strangeness to the model of all points, shape (classes,), and to those
    without each training point, shape (n, classes)."""
    compared = {"plus": held_out, "minmax": held_out.min(axis=0), "base": whole}[method]
    return (1 + (own[:, None] >= compared).sum(axis=0)) / (len(own) + 1)
