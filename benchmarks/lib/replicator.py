"""The replicator flow μ̇ = −μ∘(Hμ − μᵀHμ) on the simplex, its rest, and how fast it comes there.

Followed in z = log μ, μ = softmax(z), where Σμ = 1 and μ > 0 cannot be lost. Near the rest μ*, with support S and
v = μ*ᵀHμ*, the flow is linear. Outside of S every δᵢ decays by itself, at the rate (Hμ*)ᵢ − v. Inside, δ̇ = −D(μ*)H δ:
the rates are the eigenvalues of D^½ H D^½, restricted to S, but for the one of √μ*, which is v and leaves the simplex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

#: Fitted over this many times of the slowest mode, by which the others have died.
WINDOW = (8.0, 16.0)
#: Weights above this share of the largest are the support.
SUPPORT = 1e-10


@dataclass(frozen=True)
class Modes:
    """Rates at which a flow comes to its rest.

    Attributes
    ----------
    inner : array of shape (|S| − 1,)
        Of the modes within the support, ascending.
    outer : array of shape (n − |S|,)
        Of the points outside of it, ascending.
    level : float
        v = μ*ᵀHμ*.
    """

    inner: NDArray
    outer: NDArray
    level: float

    @property
    def slowest(self) -> float:
        """Rate of the last mode to die: that of the distance to the rest."""
        return float(min(self.inner.min(initial=np.inf), self.outer.min(initial=np.inf)))


def modes(H: NDArray, rest: NDArray) -> Modes:
    """Rates at the rest point, H of shape (n, n) symmetric."""
    field = H @ rest
    level = float(rest @ field)
    on = rest > SUPPORT * rest.max()
    root = np.sqrt(rest[on])
    inside = root[:, None] * H[np.ix_(on, on)] * root
    # The level's eigenvector is known: take it out instead of looking for it among the others.
    values, vectors = np.linalg.eigh(inside - level * np.outer(root, root))
    gone = int(np.abs(vectors.T @ root).argmax())
    return Modes(np.delete(values, gone), np.sort(field[~on] - level), level)


@dataclass(frozen=True)
class Path:
    """States of the flow: μ of shape (times, n), and f = ½ μᵀHμ."""

    times: NDArray
    mu: NDArray
    objective: NDArray

    def first_below(self, rest: float, share: float) -> float:
        """The first time at which f exceeds ``rest`` by no more than that share of it; NaN if it never does."""
        below = (self.objective - rest) <= share * rest
        return float(self.times[below.argmax()]) if below.any() else float("nan")

    def first_within(self, rest: NDArray, distance: float) -> float:
        """The first time at which max |μ − μ*| is no more than that; NaN if it never is."""
        within = np.abs(self.mu - rest).max(axis=1) <= distance
        return float(self.times[within.argmax()]) if within.any() else float("nan")


def path(H: NDArray, times: NDArray, tol: float = 1e-9) -> Path:
    """The flow from μ = 1/n at t = 0, at increasing ``times``, by LSODA with its Jacobian."""

    def state(z: NDArray) -> tuple[NDArray, NDArray]:
        mu = np.exp(z - z.max())
        mu /= mu.sum()
        return mu, H @ mu

    def rate(_: float, z: NDArray) -> NDArray:
        mu, field = state(z)
        return mu @ field - field

    def jacobian(_: float, z: NDArray) -> NDArray:
        mu, field = state(z)
        return -H * mu + np.outer(field, mu) + 2 * mu * (field - mu @ field)

    start = np.zeros(len(H))
    run = solve_ivp(
        rate, (0.0, times[-1]), start, method="LSODA", jac=jacobian, t_eval=times, rtol=tol, atol=tol
    )  # fmt: skip
    if not run.success:
        raise RuntimeError(f"the flow was not followed to t = {times[-1]:g}: {run.message}")
    mu = np.exp(run.y - run.y.max(axis=0)).T
    mu /= mu.sum(axis=1, keepdims=True)
    return Path(run.t, mu, 0.5 * np.einsum("ti,ij,tj->t", mu, H, mu, optimize=True))


def fitted_rate(found: Path, rest: NDArray, slowest: float) -> float:
    """Rate of decay of max |μ − μ*| over `WINDOW`, by least squares on its logarithm."""
    within = (found.times >= WINDOW[0] / slowest) & (found.times <= WINDOW[1] / slowest)
    distance = np.abs(found.mu[within] - rest).max(axis=1)
    return -float(np.polyfit(found.times[within], np.log(distance), 1)[0])


def literal(H: NDArray, mu: NDArray) -> NDArray:
    """Bauckhage's (3) as printed: μ̇ = [μμᵀ − D(μ)]Hμ, without the division by Σμ."""
    field = H @ mu
    return mu * (mu @ field - field)


def drift(H: NDArray, start: NDArray, end: float, tol: float, method: str = "RK45") -> tuple[NDArray, NDArray, NDArray]:
    """`literal` integrated from ``start`` until Σμ leaves [½, 3/2] or t = ``end``: times, Σμ, and ∫ μᵀHμ dt so far."""

    def rate(_: float, y: NDArray) -> NDArray:
        return np.append(literal(H, y[:-1]), y[:-1] @ H @ y[:-1])

    def left(_: float, y: NDArray) -> float:
        return 0.5 - abs(float(y[:-1].sum()) - 1.0)

    left.terminal = True  # type: ignore[attr-defined]
    run = solve_ivp(rate, (0.0, end), np.append(start, 0.0), method=method, rtol=tol, atol=1e-3 * tol, events=left)
    return run.t, run.y[:-1].sum(axis=0), run.y[-1]
