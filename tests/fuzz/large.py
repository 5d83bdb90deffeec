"""Random large fits: up to 30 000 points and 1000 features, each judged from outside and timed against scikit-learn.

    python -m tests.fuzz.fits --fits 200000 --large-every 100

draws one of these after every 99 small fits; ``--seed S --only K --large-every 100`` repeats one.

    python -m tests.fuzz.fits --fits 150 --timed

draws such fits alone, of up to 8000 points in all their `FORMS`, each timed against scikit-learn; ``--seed S --only K
--timed`` repeats one.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn import svm
from sklearn.metrics.pairwise import pairwise_kernels

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
#: As `MAX_POINTS`, `MAX_FEATURES`, `MAX_RATIO` and `MIN_SECONDS`, of fits that are all timed; and points of a kernel
#: that is a matrix.
TIMED_POINTS, TIMED_FEATURES, TIMED_RATIO, TIMED_SECONDS, GIVEN_POINTS = 8000, 200, 3.0, 0.02, 2500
#: What those are fitted on: dense points, sparse ones, their kernel matrix, one that is not positive semidefinite, and
#: points of several classes.
FORMS = ("points", "sparse", "given", "indefinite", "classes")
FORM_SHARES = (0.35, 0.2, 0.2, 0.05, 0.2)
MODELS = ("SVC", "squared hinge", "SVR", "SVDD", "OneClassSVM")
SHARES = (0.45, 0.1, 0.2, 0.15, 0.1)
BLOCK = 512


def form_of(seed: int, k: int) -> str:
    """Which of the `FORMS` the k-th timed case of a seed has."""
    return str(np.random.default_rng([seed, k, 2]).choice(FORMS, p=FORM_SHARES))


def draw_timed(seed: int, k: int) -> tuple[str, Any, tuple[Any, ...], Any, Any]:
    """As `draw`, of the fits that are all timed."""
    return draw(seed, k, form_of(seed, k))


def draw(seed: int, k: int, form: str | None = None) -> tuple[str, Any, tuple[Any, ...], Any, Any]:
    """The k-th large case of a seed: a description, the model, its data, its judge and scikit-learn's model or None.
    With a form it is one of those that are all timed."""
    rng, other = np.random.default_rng([seed, k, 1]), np.random.default_rng([seed, k, 3])
    if form is None:
        X, about = data_sets.large_points(rng, MAX_POINTS, MAX_FEATURES, MAX_VALUES)
    else:
        most = GIVEN_POINTS if form in ("given", "indefinite") else TIMED_POINTS
        X, about = data_sets.large_points(rng, most, TIMED_FEATURES, MAX_VALUES)
        about = f"{form} {about}"
    if form == "sparse":
        X = X * (other.random(X.shape) < 10.0 ** other.uniform(-2, -0.3))
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
    if form == "classes":
        name = "SVC"
    fitted, given = X, None
    if form == "sparse":
        fitted = scipy.sparse.csr_array(X)
    elif form in ("given", "indefinite"):
        extra = {"rbf": {"gamma": gamma}, "poly": {"gamma": gamma, "degree": degree, "coef0": 1.0}}.get(kernel, {})
        fitted = given = pairwise_kernels(X, metric=kernel, **extra)
        given[:] = 0.5 * (given + given.T)
        if form == "indefinite":
            v = other.normal(size=n)
            given -= np.outer(v, v) * float(np.abs(np.diag(given)).mean() / n)
            given[:] = 0.5 * (given + given.T)
        options = {"kernel": "precomputed"}
    kernel = str(options["kernel"])

    def products(coef: NDArray, moved: bool) -> tuple[NDArray, NDArray, float]:
        """K coef, the diagonal of K, and how large the terms of K's entries are."""
        if given is not None:
            return given @ coef, np.diag(given).copy(), float(np.abs(given).max())
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
        alike = kernel == "rbf" or name == "OneClassSVM" or form is not None
        peer = svm.OneClassSVM(nu=nu, **options) if alike else None

        def of_ball(model: Any, coef: NDArray) -> judge.Worth:
            product, diag, _ = products(coef, name == "SVDD")
            if name == "SVDD":
                return judge.of_distances(
                    product, diag, max(1 / (nu * n), 1 / n), coef, -float(np.atleast_1d(model.offset_)[0])
                )
            return judge.of_one_class(product, float(diag.max()), nu, coef, float(np.atleast_1d(model.offset_)[0]))

        return f"{about}, {name} {kernel} nu={nu:.3g}", model, (fitted,), of_ball, peer
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
        return told, model, (fitted, t), of_regression, svm.SVR(C=C, epsilon=epsilon, **options)
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
    if form == "classes":
        count = int(other.integers(3, 9))
        several = data_sets.classes(other, X, count)

        def of_pairs(model: Any, coef: NDArray) -> judge.Worth:
            def of_pair(k: int, first: int, second: int, coef: NDArray, b: float) -> judge.Worth:
                product, diag, terms = products(coef, True)
                (pair,) = np.isin(several, (first, second)).nonzero()
                signs, terms = np.where(several[pair] == first, 1, -1), max(terms, float(diag.max()))
                bias = None if kernel == "linear" else b
                upper, plane = np.full(len(pair), C), judge.plane_of(model, X[pair], k=k)
                return judge.of_products(product[pair], terms, signs, upper, coef[pair], bias, True, plane)

            return judge.worst(of_pair(k, *pair) for k, pair in enumerate(judge.pairs_of(model, several)))

        told = f"{about}, {name} {kernel} C={C:.3g} {count} classes"
        return told, model, (fitted, several), of_pairs, svm.SVC(C=C, **options)
    return f"{about}, {name} {kernel} C={C:.3g} {how}", model, (fitted, y), of_classifier, peer


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
