"""The sums over rows that objective, bound and certificate of a linear model over parts consist of.

With F the rows minus the centre, w = Fᵀσα and slopes gᵢ = σᵢ((Fw)ᵢ − ν) − pᵢ, the dual objective is ½|w|² − pᵀα, and
D(w, ν) = Σᵢ uᵢ min(0, gᵢ) − ½|w|² + νd is a lower bound for any w and ν. Sums over σ = +1 and σ = −1 are kept apart, so
that α can be scaled to meet eᵀα = d, e = σ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import EPS, gaps
from ..core.certificate import Certificate
from ..core.gram import LINEAR_GROWTH
from ..core.psd import SpectrumEvidence
from ..core.runtime.arrays import immutable
from .model import NUMBERS_PER_BLOCK, LinearModel, Variables
from .parts import Loaded
from .tasks import CHANGED_PART


def _blocks(model: LinearModel, X: NDArray) -> Iterator[tuple[slice, NDArray]]:
    """Yield consecutive rows, minus the centre, with the constant column of a penalised bias.

    All are in the same memory, so that a block lasts until the next one: the workers of dask return freed memory to the
    system at once, and a new array for each block would cost them more time than the sums over its rows.
    """
    n, m = X.shape
    height = max(1, NUMBERS_PER_BLOCK // max(1, m))
    room = np.full((min(n, height), m + (model.offset > 0)), np.sqrt(model.offset))
    for start in range(0, n, height):
        rows = X[start : start + height]
        F = room[: len(rows)]
        np.subtract(rows, 0.0 if model.center is None else model.center, out=F[:, :m])
        yield slice(start, start + len(rows)), F


def _slopes(
    model: LinearModel, own: Variables, rows: slice, F: NDArray, w: NDArray, nu: float
) -> tuple[NDArray, NDArray]:
    """Return the slopes of the variables of some rows, shape (copies, rows), and their rounding errors."""
    sigma, p = own.sigma[:, rows], own.p[:, rows]
    nu = nu if model.has_equality else 0.0
    lengths = np.sqrt(np.einsum("ij,ij->i", F, F))
    error = EPS * (LINEAR_GROWTH * float(np.linalg.norm(w)) * lengths + np.abs(p) + abs(nu))
    return sigma * (F @ w - nu) - p, error


def _bound(slopes: NDArray, error: NDArray, upper: NDArray) -> NDArray:
    """Return Σ u min(0, slope), and its rounding error."""
    return np.array([np.sum(upper * np.minimum(slopes, 0.0)), np.sum(upper * error * (slopes <= error))])


def bound_of(model: LinearModel, own: Variables, w: NDArray, nu: float) -> NDArray:
    """Return a part's share of the bound at w and ν, and its rounding error, shape (2,)."""
    found = np.zeros(2)
    for rows, F in _blocks(model, own.X):
        found += _bound(*_slopes(model, own, rows, F, w, nu), own.upper[:, rows])
    return found


def _weighted(weights: NDArray, p: NDArray, F: NDArray) -> tuple[NDArray, NDArray]:
    """Return Σ weight row, shape (k, r), and Σ weight and Σ weight p, shape (2, k), of weights (k, copies, rows)."""
    return weights.sum(axis=1) @ F, np.stack([weights.sum(axis=(1, 2)), (weights * p).sum(axis=(1, 2))])


def sums_by_sign(model: LinearModel, own: Variables, alpha: NDArray) -> tuple[NDArray, NDArray]:
    """Return a part's share of w and objective.

    Returns
    -------
    vectors : array of shape (2, r)
        Σ αᵢ rowᵢ over σ = +1 and over σ = −1.
    sums : array of shape (2, 2)
        Σ αᵢ over these, and Σ pᵢαᵢ over these.
    """
    vectors, sums = np.zeros((2, own.X.shape[1] + (model.offset > 0))), np.zeros((2, 2))
    for rows, F in _blocks(model, own.X):
        weights = np.stack([alpha[:, rows] * (own.sigma[:, rows] == sign) for sign in (1.0, -1.0)])
        more = _weighted(weights, own.p[:, rows], F)
        vectors, sums = vectors + more[0], sums + more[1]
    return vectors, sums


@dataclass(frozen=True)
class View:
    """What parts need to tell the variables whose bounds are known from the others."""

    model: LinearModel
    #: w, nu: without w all variables are undetermined; shape (r,) or None, float.
    w: NDArray | None
    nu: float
    #: Variables with slopes of at most this size are undetermined. The others are at the bound that the sign shows.
    radius: float
    shares: tuple[float, float]  # the parts of the undetermined variables of σ = +1 and −1 that are sent
    seed: int  # of the choice of those that are sent
    #: w, ν and radius of the pass that put variables at their bounds, to find those that are at the wrong ones; tuple
    #: of array, float, float, or None.
    before: tuple[NDArray, float, float] | None = None


@dataclass(frozen=True)
class Seen:
    """The answer of a part to a `View`."""

    #: vectors, sums: `sums_by_sign` of the variables at their upper bounds, and of all undetermined ones at theirs;
    #: shapes (2, 2, r) and (2, 2, 2).
    vectors: NDArray
    sums: NDArray
    bound: NDArray  # share of the bound, and its rounding error; shape (2,)
    count: NDArray  # number of undetermined variables with σ = +1 and −1; shape (2,)
    wrong: float  # the largest slope of a variable at the wrong bound
    #: X, sigma, p, upper: rows, signs, slopes and bounds of the undetermined variables that are sent.
    X: NDArray
    sigma: NDArray
    p: NDArray
    upper: NDArray


def look(loaded: Loaded, number: int, own: None, view: View) -> Seen:
    """Compare all rows of a part with w and ν, in one pass over them."""
    model = view.model
    found = model.variables(loaded, number)
    r, at_upper = found.X.shape[1] + (model.offset > 0), np.zeros(found.p.shape, dtype=bool)
    undetermined = found.upper > 0
    vectors, sums, bound, wrong = np.zeros((4, r)), np.zeros((2, 4)), np.zeros(2), 0.0
    for rows, F in _blocks(model, found.X):
        upper = found.upper[:, rows]
        if view.w is not None:
            slopes, error = _slopes(model, found, rows, F, view.w, view.nu)
            bound += _bound(slopes, error, upper)
            if view.before is not None:
                w, nu, radius = view.before
                known = _slopes(model, found, rows, F, w, nu)[0]
                is_wrong = (np.abs(known) > radius) & (known * slopes < 0) & (upper > 0)
                wrong = max(wrong, float(np.abs(slopes[is_wrong]).max(initial=0.0)))
            undetermined[:, rows] &= np.abs(slopes) <= view.radius
            at_upper[:, rows] = (slopes < 0) & ~undetermined[:, rows]
        signs = [found.sigma[:, rows] == sign for sign in (1.0, -1.0)]
        masks = [mask[:, rows] & sign for mask in (at_upper, undetermined) for sign in signs]
        more = _weighted(np.stack(masks) * upper, found.p[:, rows], F)
        vectors, sums = vectors + more[0], sums + more[1]
    rng, chosen, count = np.random.default_rng((view.seed, number)), [], []
    for sign, share in zip((1.0, -1.0), view.shares, strict=True):
        candidates = np.flatnonzero(undetermined & (found.sigma == sign))
        count.append(float(len(candidates)))
        # The fraction is rounded at random, so that each variable is sent with this probability in parts of any size.
        size = min(len(candidates), int(share * len(candidates) + rng.random())) if share < 1 else len(candidates)
        chosen.append(candidates if share >= 1 else np.sort(rng.choice(candidates, size, replace=False)))
    J = np.concatenate(chosen)
    rest = found.X[J % len(found.X)], *(array.ravel()[J] for array in (found.sigma, found.p, found.upper))
    return Seen(vectors.reshape(2, 2, r), sums.reshape(2, 2, 2).swapaxes(0, 1), bound, np.array(count), wrong, *rest)


def certificate_of(
    model: LinearModel, w: NDArray, nu: float, vectors: NDArray, sums: NDArray, bound: NDArray
) -> Certificate:
    """Return the certificate over all rows, from the sums of all parts.

    Parameters
    ----------
    w, nu : array of shape (r,), float
        The point of the bound.
    vectors, sums : arrays of shape (2, r) and (2, 2)
        `sums_by_sign` of α. The α of the sign with the larger sum is scaled, so that eᵀα = d.
    bound : array of shape (2,)
        `bound_of` w and ν.
    """
    plus, minus = sums[0]
    scales = np.ones(2)
    if model.has_equality and model.d:
        scales[0] = model.d / plus
    elif model.has_equality and plus > 0 and minus > 0:
        scales = np.array([min(1.0, minus / plus), min(1.0, plus / minus)])
    w_alpha = scales[0] * vectors[0] - scales[1] * vectors[1]
    linear, size = float(scales @ sums[1]), float(np.abs(sums[1]).sum())
    quadratic, square = float(w_alpha @ w_alpha), float(w @ w)
    objective = 0.5 * quadratic - linear
    lower_bound = float(bound[0]) - 0.5 * square + (nu * model.d if model.has_equality else 0.0)
    rounding = float(bound[1]) + EPS * LINEAR_GROWTH * (quadratic + square + size + abs(nu * model.d))
    gap, relative = gaps(objective, lower_bound, rounding, CHANGED_PART)
    m = len(w) - (model.offset > 0)
    coef = w[:m]
    bias = -nu if model.has_equality else float(np.sqrt(model.offset) * w[m:].sum())
    moved = 0.0 if model.center is None else float(model.center @ coef)
    multiplier = nu + moved if model.has_equality else None
    return Certificate(
        alpha=immutable(np.empty(0)),
        objective=objective,
        lower_bound=lower_bound,
        gap=gap,
        relative_gap=relative,
        infeasibility=max(0.0, float(scales.max()) - 1.0),
        projection_distance=0.0,
        multiplier=multiplier,
        multiplier_interval=None if multiplier is None else (multiplier, multiplier),
        bias=bias - moved,
        bias_interval=(bias - moved,) * 2,
        radius=None,
        quadratic=quadratic,
        psd=SpectrumEvidence("by kernel"),
        primal=immutable(coef),
        rounding=rounding,
    )
