"""Random large fits: up to 30 000 points and 1000 features, each judged from outside and timed against scikit-learn.

    python -m tests.fuzz.fits --fits 200000 --large-every 100

draws one of these after every 99 small fits; ``--seed S --only K --large-every 100`` repeats one.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm

from dualflow import SVC, SVDD, SVR, OneClassSVM

from . import data_sets, judge

MAX_POINTS = 30_000
MAX_FEATURES = 1000
#: Entries of the largest data set.
MAX_VALUES = 3_000_000
#: Seconds that a fit is given, after which it returns its best answer with a warning.
TIME_LIMIT = 20.0
#: Processor time, as a multiple of scikit-learn's, above which a fit is a finding.
MAX_RATIO = 10.0
#: Seconds of processor time below which a fit is not compared.
MIN_SECONDS = 0.1
MODELS = ("SVC", "squared hinge", "SVR", "SVDD", "OneClassSVM")
SHARES = (0.45, 0.1, 0.2, 0.15, 0.1)
BLOCK = 512


def draw(seed: int, k: int) -> tuple[str, Any, tuple[NDArray, ...], Any, Any]:
    """The k-th large case of a seed: a description, the model, its data, its judge and scikit-learn's model or None."""
    rng = np.random.default_rng([seed, k, 1])
    X, about = data_sets.large_points(rng, MAX_POINTS, MAX_FEATURES, MAX_VALUES)
    n = len(X)
    name, kernel = str(rng.choice(MODELS, p=SHARES)), str(rng.choice(["linear", "rbf", "poly"], p=[0.35, 0.5, 0.15]))
    C, nu = float(10.0 ** rng.uniform(-3, 4)), float(10.0 ** rng.uniform(-2, -0.1))
    variance = float(X.var())
    gamma = float((1.0 / (X.shape[1] * variance) if variance > 1e-300 else 1.0) * 10.0 ** rng.uniform(-1, 1))
    degree = int(rng.integers(2, 4))
    options: dict[str, Any] = {"kernel": kernel}
    options |= {} if kernel == "linear" else {"gamma": gamma}
    options |= {"degree": degree, "coef0": 1.0} if kernel == "poly" else {}
    centred = X - X.mean(axis=0)

    def products(coef: NDArray, moved: bool) -> tuple[NDArray, NDArray, float]:
        """K coef, the diagonal of K, and how large the terms of K's entries are."""
        A = centred if kernel == "rbf" or (kernel == "linear" and moved) else X
        S = np.flatnonzero(coef)
        squares = (A * A).sum(axis=1)

        def block(start: int) -> NDArray:
            dots = A[start : start + BLOCK] @ A[S].T
            if kernel == "linear":
                return dots @ coef[S]
            if kernel == "poly":
                return (gamma * dots + 1.0) ** degree @ coef[S]
            distances = squares[start : start + BLOCK, None] + squares[S] - 2 * dots
            return np.exp(-gamma * np.maximum(distances, 0)) @ coef[S]

        diag = {"rbf": np.ones(n), "linear": squares}.get(kernel, (gamma * squares + 1.0) ** degree)
        terms = 1.0 + gamma * float(squares.max()) if kernel == "rbf" else float(diag.max())
        return np.concatenate([block(start) for start in range(0, n, BLOCK)]), diag, terms

    if name in ("SVDD", "OneClassSVM"):
        model = {"SVDD": SVDD, "OneClassSVM": OneClassSVM}[name](nu=nu, time_limit=TIME_LIMIT, **options)
        peer = svm.OneClassSVM(nu=nu, **options) if kernel == "rbf" or name == "OneClassSVM" else None

        def of_ball(model: Any, coef: NDArray) -> judge.Worth:
            product, diag, _ = products(coef, name == "SVDD")
            if name == "SVDD":
                return judge.of_distances(
                    product, diag, max(1 / (nu * n), 1 / n), coef, -float(np.atleast_1d(model.offset_)[0])
                )
            return judge.of_one_class(product, float(diag.max()), nu, coef, float(np.atleast_1d(model.offset_)[0]))

        return f"{about}, {name} {kernel} nu={nu:.3g}", model, (X,), of_ball, peer
    if name == "SVR":
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.nan_to_num(centred / X.std(axis=0))
        z = spread @ rng.normal(size=X.shape[1])
        t = np.sin(z) + rng.normal(size=n) * 10.0 ** rng.uniform(-3, 0)
        epsilon = float(10.0 ** rng.uniform(-3, -0.5))
        model = SVR(C=C, epsilon=epsilon, time_limit=TIME_LIMIT, **options)

        def of_regression(model: Any, coef: NDArray) -> judge.Worth:
            product, _, terms = products(coef, False)
            b = float(np.atleast_1d(model.intercept_)[0])
            plane = judge.plane_of(model, X)
            return judge.of_regression_products(product, terms, t, C, epsilon, coef, b, plane)

        told = f"{about}, SVR {kernel} C={C:.3g} epsilon={epsilon:.2g}"
        return told, model, (X, t), of_regression, svm.SVR(C=C, epsilon=epsilon, **options)
    y, how = data_sets.labels(rng, X)
    hinge = name == "SVC"
    model = SVC(C=C, loss="hinge" if hinge else "squared_hinge", time_limit=TIME_LIMIT, **options)

    def of_classifier(model: Any, coef: NDArray) -> judge.Worth:
        product, diag, terms = products(coef, hinge)
        if not hinge:
            plane = judge.plane_of(model, X, float(model.intercept_[0]))
            return judge.of_squared_hinge_products(product + coef.sum(), float(diag.max()) + 1, y, C, coef, plane)
        b = None if kernel == "linear" else float(model.intercept_[0])
        largest = max(terms, float(diag.max()))
        return judge.of_products(product, largest, y, np.full(n, C), coef, b, True, judge.plane_of(model, X))

    peer = svm.SVC(C=C, **options) if hinge else None
    return f"{about}, {name} {kernel} C={C:.3g} {how}", model, (X, y), of_classifier, peer


def peer_seconds(peer: Any, arguments: tuple[NDArray, ...], limit: float) -> float | None:
    """Processor time of scikit-learn's fit in a process of its own, or None if it takes longer than ``limit``."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        begun = time.process_time()
        peer.fit(*arguments)
        os.write(writer, repr(time.process_time() - begun).encode())
        os._exit(0)
    os.close(writer)
    try:
        # Twice the limit by the wall clock, because other processes may hold the processor.
        ready, _, _ = select.select([reader], [], [], 2 * limit + 0.05)
        text = os.read(reader, 100) if ready else b""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
    return float(text) if text else None
