"""Random small data sets of every unpleasant sort."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Generator = np.random.Generator


def normal(rng: Generator, n: int, m: int) -> NDArray:
    return rng.normal(size=(n, m))


def grid(rng: Generator, n: int, m: int) -> NDArray:
    return rng.integers(-3, 4, size=(n, m)).astype(float)


def duplicates(rng: Generator, n: int, m: int) -> NDArray:
    return rng.normal(size=(n, m))[rng.integers(0, 1 + n // 4, size=n)]


def near_duplicates(rng: Generator, n: int, m: int) -> NDArray:
    return duplicates(rng, n, m) * (1 + 10.0 ** rng.uniform(-15, -6) * rng.normal(size=(n, m)))


def binary(rng: Generator, n: int, m: int) -> NDArray:
    return (rng.random((n, m)) < rng.uniform(0.02, 0.6)).astype(float)


def heavy_tailed(rng: Generator, n: int, m: int) -> NDArray:
    return rng.standard_cauchy(size=(n, m)) * 10.0 ** rng.uniform(-2, 2)


def collinear(rng: Generator, n: int, m: int) -> NDArray:
    rank = rng.integers(1, 1 + max(1, m // 2))
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))


def constant_features(rng: Generator, n: int, m: int) -> NDArray:
    X = rng.normal(size=(n, m))
    X[:, rng.random(m) < 0.5] = rng.normal() * 10.0 ** rng.uniform(-3, 6)
    return X


def mixed_scales(rng: Generator, n: int, m: int) -> NDArray:
    return rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-5, 5, size=m)


def two_clouds(rng: Generator, n: int, m: int) -> NDArray:
    X = rng.normal(size=(n, m))
    X[rng.random(n) < rng.uniform(0.03, 0.5)] += 10.0 ** rng.uniform(-1, 2)
    return X


def lattice_line(rng: Generator, n: int, m: int) -> NDArray:
    return np.outer(np.arange(n) % rng.integers(2, 12), rng.normal(size=m))


def counts(rng: Generator, n: int, m: int) -> NDArray:
    return rng.poisson(rng.uniform(0.1, 20.0), size=(n, m)).astype(float)


SHAPES: tuple[Callable[[Generator, int, int], NDArray], ...] = (
    normal,
    grid,
    duplicates,
    near_duplicates,
    binary,
    heavy_tailed,
    collinear,
    constant_features,
    mixed_scales,
    two_clouds,
    lattice_line,
    counts,
)


def moved(rng: Generator, X: NDArray) -> tuple[NDArray, str]:
    """The same data elsewhere, or in another unit."""
    how = rng.choice(["as is", "small", "large", "far", "far in one"], p=[0.6, 0.1, 0.1, 0.1, 0.1])
    if how == "small":
        return X * 10.0 ** rng.uniform(-8, -1), how
    if how == "large":
        return X * 10.0 ** rng.uniform(1, 6), how
    if how == "far":
        return X + 10.0 ** rng.uniform(2, 6), how
    if how == "far in one":
        X = X.copy()
        X[:, 0] += 10.0 ** rng.uniform(2, 7)
        return X, how
    return X, how


def points(rng: Generator, most: int = 160) -> tuple[NDArray, str]:
    """A data set of up to so many points, and what it is."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    n, m = int(rng.choice([rng.integers(2, 12), rng.integers(12, most)], p=[0.3, 0.7])), int(rng.integers(1, 13))
    X, how = moved(rng, shape(rng, n, m))
    return X, f"{shape.__name__} {how} {n} x {m}"


def smooth(rng: Generator, n: int, m: int) -> NDArray:
    """One feature with a large scale and others with a small one: kernels of these are nearly singular."""
    return rng.normal(size=(n, m)) * np.append(1.0, np.full(m - 1, 10.0 ** rng.uniform(-4, -0.5)))


def in_time_order(rng: Generator, n: int, m: int) -> NDArray:
    t = np.linspace(0, rng.uniform(1, 50), n)
    return np.stack([np.sin(t * rng.uniform(0.1, 3) + rng.uniform(0, 6)) for _ in range(m)], axis=1)


def large_points(rng: Generator, n_max: int, m_max: int, most_values: int) -> tuple[NDArray, str]:
    """A data set with a log-uniform number of points and features and at most ``most_values`` entries."""
    shapes = (*SHAPES, smooth, in_time_order)
    shape = shapes[rng.integers(len(shapes))]
    n = int(np.exp(rng.uniform(np.log(160), np.log(n_max))))
    m = int(np.exp(rng.uniform(0, np.log(min(m_max, max(1, most_values // n)) + 1))))
    X, how = moved(rng, shape(rng, n, m))
    return X, f"{shape.__name__} {how} {n} x {m}"


def labels(rng: Generator, X: NDArray) -> tuple[NDArray, str]:
    """Two classes, each met at least once: separable, overlapping, contradicting or rare."""
    n = len(X)
    how = rng.choice(["random", "linear", "noisy", "rare"])
    y = np.where(rng.random(n) < 0.5, 1, -1)
    if how in ("linear", "noisy"):
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.nan_to_num((X - X.mean(axis=0)) / X.std(axis=0))
        z = spread @ rng.normal(size=X.shape[1])
        y = np.where(z + (0.5 * rng.normal(size=n) if how == "noisy" else 0.0) > 0, 1, -1)
    elif how == "rare":
        y = np.where(rng.random(n) < 0.05, 1, -1)
    first, second = rng.permutation(n)[:2]
    y[first], y[second] = 1, -1
    return y, str(how)


def classes(rng: Generator, X: NDArray, count: int) -> NDArray:
    """So many classes, each met twice at least: by a direction, and some at random."""
    z = X @ rng.normal(size=X.shape[1])
    y = np.minimum(np.argsort(np.argsort(z)) * count // len(X), count - 1)
    wrong = rng.random(len(X)) < rng.choice([0.0, 0.05, 0.5])
    y[wrong] = rng.integers(0, count, size=int(wrong.sum()))
    y[rng.permutation(len(X))[: 2 * count]] = np.tile(np.arange(count), 2)
    return y
