"""What Cauwenberghs & Poggio say of exact incremental learning, looked at in sets of points in the plane.

g_i = y_i f(x_i) − 1, as in the paper. Found are differences to what does not know the engine: the Kuhn-Tucker
conditions by numpy from the kernel matrix, cvxopt, LIBSVM, least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from cvxopt import matrix, solvers
from numpy.typing import NDArray
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from dualflow import IncrementalSVC

N, C = 100, 10.0
SETS = ("clouds", "moons", "squares")
#: Segments of a trajectory shorter than this part of C say nothing of their slope.
LEAST = 1e-6
#: ε of the reserve of section 2.3.
RESERVES = (0.01, 0.5, 2.0)


def points(kind: str, seed: int, n: int = N) -> tuple[NDArray, NDArray]:
    """n points in the plane that overlap, and ±1: two Gaussian clouds, two moons, squares with a tenth turned."""
    rng = np.random.default_rng([seed, SETS.index(kind)])
    if kind == "moons":
        X, label = make_moons(n, noise=0.35, random_state=int(rng.integers(2**31)))
        return 1.5 * X, np.where(label == 1, 1.0, -1.0)
    if kind == "clouds":
        y = np.where(rng.permutation(n) % 2 == 0, 1.0, -1.0)
        return rng.normal(size=(n, 2)) + 0.8 * y[:, None], y
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sign(X.prod(axis=1)) * np.where(rng.permutation(n) < n // 10, -1.0, 1.0)


def kernel(A: NDArray, B: NDArray, gamma: float) -> NDArray:
    found: NDArray = np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))
    return found


def by_cvxopt(K: NDArray, y: NDArray, fixed: tuple[int, float] | None = None) -> tuple[NDArray, float]:
    """α and b of the C-SVM by cvxopt; ``fixed`` holds a coefficient at a value."""
    n = len(y)
    bounds = np.concatenate([np.zeros(n), np.full(n, C)])
    equal, right = [y], [0.0]
    if fixed is not None:
        equal, right = [y, np.eye(n)[fixed[0]]], [0.0, fixed[1]]
    program = [K * np.outer(y, y), -np.ones(n), np.vstack([-np.eye(n), np.eye(n)]), bounds, np.array(equal), right]
    options = {"show_progress": False, "abstol": 1e-12, "reltol": 1e-12, "feastol": 1e-12, "maxiters": 200}
    found = solvers.qp(*(matrix(np.asarray(part, dtype=float)) for part in program), options=options)
    return np.array(found["x"]).ravel(), float(found["y"][0])


def objective(K: NDArray, y: NDArray, alpha: NDArray) -> float:
    v = y * alpha
    return float(0.5 * v @ K @ v - alpha.sum())


def knows_bias(alpha: NDArray) -> bool:
    """Whether a coefficient is well between its bounds."""
    return bool(np.minimum(alpha, C - alpha).max() > 1e-3)


def violation(K: NDArray, y: NDArray, alpha: NDArray, b: float, but: int = -1) -> float:
    """How far α and b are from the Kuhn-Tucker conditions (CP 2, 3), but for one point that is on its way."""
    g = y * (K @ (y * alpha) + b) - 1
    off = np.where(alpha <= 0, np.maximum(-g, 0), np.where(alpha >= C, np.maximum(g, 0), np.abs(g)))
    if but >= 0:
        off[but] = 0.0
    return float(max(off.max(), abs(y @ alpha), -alpha.min(), alpha.max() - C))


@dataclass
class Found:
    """What was seen in all sets of a reading."""

    sets: int = 0
    kkt: list[float] = field(default_factory=list)
    pivots: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    wrong: int = 0
    short: dict[str, list[bool]] = field(default_factory=lambda: {"no weight": [], "error": []})
    slopes: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    gammas: list[float] = field(default_factory=list)
    linear: list[bool] = field(default_factory=list)
    back: list[float] = field(default_factory=list)
    reserve: dict[float, list[tuple[float, int]]] = field(default_factory=lambda: {e: [] for e in RESERVES})
    support: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)


def look(found: Found, X: NDArray, y: NDArray, gamma: float, every: int, stride: int) -> None:
    """All that is looked at in one set: cvxopt after each ``every``-th point, and without each ``stride``-th."""
    K = kernel(X, X, gamma)
    model = IncrementalSVC(C=C, gamma=gamma).fit(X, y)
    found.sets += 1
    steps(found, model, K, y, every)
    left_out(found, model, X, y, gamma, stride)
    trajectories(found, model, K, y, 5 * stride)
    for epsilon in RESERVES:
        part = IncrementalSVC(C=C, gamma=gamma, reserve=epsilon)
        for i in range(len(y)):  # the reserve is looked through after every call
            part.partial_fit(X[i : i + 1], y[i : i + 1], classes=[-1.0, 1.0])
        missed = np.setdiff1d(model.support_, part.ids_)
        found.reserve[epsilon].append((len(missed) / len(model.support_), len(part.ids_)))
    given_back(found, model, X, y, stride)


def weights(model: IncrementalSVC, n: int) -> NDArray:
    """α by the points' names, shape (n,)."""
    alpha = np.zeros(n)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    return alpha


def steps(found: Found, model: IncrementalSVC, K: NDArray, y: NDArray, every: int) -> None:
    """Figure 3: every breakpoint by the conditions, some optima by cvxopt."""
    path = model.path()
    for i in range(len(y)):
        rows = np.flatnonzero(path.learning == i)
        found.pivots.append(len(rows) - 1)  # the last is the optimum
        Q, t, now = K[: i + 1, : i + 1], y[: i + 1], rows[-1]
        for row in rows:
            alpha, b = path.coefficients[row, : i + 1], path.bias[row]
            found.kkt.append(violation(Q, t, alpha, b, but=-1 if row == now else i))
        if i % every == every - 1 and len(set(t)) == 2:
            alpha, b = path.coefficients[now, : i + 1], path.bias[now]
            theirs, c = by_cvxopt(Q, t)
            found.objective.append(abs(objective(Q, t, alpha) / objective(Q, t, theirs) - 1))
            if knows_bias(theirs):
                found.values.append(float(np.abs(Q @ (t * (alpha - theirs)) + b - c).max()))


def left_out(found: Found, model: IncrementalSVC, X: NDArray, y: NDArray, gamma: float, stride: int) -> None:
    """Figures 4 and 5: margins without a point, beside those of refits; Algorithm 2's short cuts, and linear response.

    The refits are by cvxopt: LIBSVM has its matrix in single precision, and is off by 1e-5 here and there.
    """
    K = kernel(X, X, gamma)
    exact, first = model.leave_one_out(), model.leave_one_out("first_segment")
    alpha = model.solution_.alpha
    g = y * model.decision_function(X) - 1
    found.support.append(int((alpha > 0).sum()))
    found.errors.append(exact.error_rate)
    found.linear += list((exact.errors == first.errors)[alpha > 0])
    for i in range(0, len(y), stride):
        rest = np.delete(np.arange(len(y)), i)
        theirs, b = by_cvxopt(K[np.ix_(rest, rest)], y[rest])
        value = float(K[i, rest] @ (y[rest] * theirs)) + b
        if not knows_bias(theirs):  # LIBSVM takes the middle of those it may have, as we do
            peer = SVC(C=C, gamma=gamma, tol=1e-10).fit(X[rest], y[rest])
            value = float(peer.decision_function(X[i : i + 1])[0])
        margin = y[i] * value - 1
        found.margins.append(abs(margin - float(exact.margins[i])))
        found.wrong += bool((margin < -1) != exact.errors[i])
        if alpha[i] == 0:
            found.short["no weight"].append(margin >= -1)
        elif g[i] < -1:
            found.short["error"].append(margin < -1)


def unlearned(model: IncrementalSVC, c: int) -> NDArray:
    """Figure 5: α_c and g_c at every breakpoint while point c is taken out, shape (k, 2)."""
    engine = model._only_stream("path").isolated_copy().engine
    rows = [(engine.alpha[c], engine.g[c])]
    engine.on_pivot = lambda now, _: rows.append((now.alpha[c], now.g[c]))
    engine.unlearn(c)
    rows.append((0.0, engine.g[c]))
    return np.array(rows)


def trajectories(found: Found, model: IncrementalSVC, K: NDArray, y: NDArray, stride: int) -> None:
    """Slopes of all trajectories, their first by (21), and a point half way by cvxopt with α_c held there."""
    alpha = model.solution_.alpha
    free = np.flatnonzero((alpha > 0) & (alpha < C))
    for count, c in enumerate(np.flatnonzero(alpha > 0)):
        line = unlearned(model, int(c))
        down, fall = -np.diff(line[:, 0]), -np.diff(line[:, 1])
        real = down > LEAST * C
        found.slopes += list(fall[real] / down[real])
        if real.any() and len(S := np.setdiff1d(free, [c])):
            found.gammas.append(abs(fall[real][0] / down[real][0] - distance(K, S, int(c))))
        if count % stride == 0:
            half = 0.5 * alpha[c]
            theirs, b = by_cvxopt(K, y, (int(c), half))
            if knows_bias(np.delete(theirs, c)):
                margin = y[c] * (K[c] @ (y * theirs) + b) - 1
                ours = np.interp(half, line[::-1, 0], line[::-1, 1])
                found.held.append(abs(float(margin - ours)))


def distance(K: NDArray, S: NDArray, c: int) -> float:
    """γ_c (21): squared distance of φ(x_c) from the affine span of the margin vectors, by least squares.

    y_c φ_c + Σ y_j β_j φ_j with y_c + Σ y_j β_j = 0 is ±(φ_c − Σ w_j φ_j) with Σ w_j = 1.
    """
    o, rest = S[0], S[1:]
    centred = K - K[:, [o]] - K[[o]] + K[o, o]
    w = np.linalg.lstsq(centred[np.ix_(rest, rest)], centred[rest, c], rcond=1e-13)[0]
    return float(max(centred[c, c] - 2 * w @ centred[rest, c] + w @ centred[np.ix_(rest, rest)] @ w, 0.0))


def given_back(found: Found, model: IncrementalSVC, X: NDArray, y: NDArray, stride: int) -> None:
    """Reversible: a support vector unlearned and learned again has its coefficient back, and so have all others."""
    before = weights(model, len(y))
    for c in np.sort(model.support_)[::stride]:
        model.forget([c])
        model.partial_fit(X[c : c + 1], y[c : c + 1], ids=[c])
        found.back.append(float(np.abs(weights(model, len(y)) - before).max()) / C)
