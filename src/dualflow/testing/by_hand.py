"""Problems of the zoo that were solved by hand; their optima are exact, and each has its derivation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from .. import problems
from ..core.gram import Gram
from ..core.problem import DualProblem
from .specimen import ZooProblem

SIX_POINTS = np.array([[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1]], dtype=float)
SIX_LABELS = np.array([-1, -1, -1, 1, 1, 1], dtype=float)
SIX_ALPHA = np.array([0, 0.25, 0, 0.25, 0, 0])

#: Value of the radial kernel with γ = 1 of points at distance 1.
K_UNIT = np.exp(-1.0)


def _linear(X: ArrayLike) -> Gram:
    """Return the linear kernel of points X."""
    return Gram(np.atleast_2d(np.asarray(X, dtype=float)), kernel="linear")


def _column(*values: float) -> Gram:
    """Return the linear kernel of points on a line."""
    return _linear(np.array(values)[:, None])


def _exact(name: str, problem: DualProblem, optimum: float, alpha: ArrayLike, why: str, **more: object) -> ZooProblem:
    """Return a problem with its optimum and α, which are unique unless ``unique`` is False; ``why`` derives them."""
    unique = bool(more.pop("unique", True))
    return ZooProblem(name, problem, optimum, np.asarray(alpha, dtype=float), unique, "by hand: " + why, **more)  # type: ignore[arg-type]


def by_hand() -> Iterator[ZooProblem]:
    """Yield the problems solved by hand, ordered by kind."""
    for kind in (
        _hinge,
        _weighted_hinge,
        _svr,
        _two_equalities,
        _no_bias,
        _hard_margin,
        _squared_hinge,
        _one_class,
        _least_squares,
    ):
        yield from kind()


def _hinge() -> Iterator[ZooProblem]:
    """Hinge: 0 ≤ α ≤ C, yᵀα = 0."""
    yield _exact(
        "two points",
        problems.svc(_column(0, 2), [-1, 1], C=10),
        -0.5,
        [0.5, 0.5],
        "α₁ = α₂ = a, f = ½·4a² − 2a; w = 1, b = −1",
        bias_interval=(-1.0, -1.0),
    )
    yield _exact(
        "six points",
        problems.svc(_linear(SIX_POINTS), SIX_LABELS),
        -0.25,
        SIX_ALPHA,
        "the closest pair is 8 apart squared: f = ½·8a² − 2a; w = (½, ½), all others beyond the margin",
        bias_interval=(0.0, 0.0),
    )
    yield _exact(
        "duplicates",
        problems.svc(_linear(np.vstack([SIX_POINTS, SIX_POINTS])), np.tile(SIX_LABELS, 2)),
        -0.25,
        np.tile(SIX_ALPHA, 2) / 2,
        "each of the six points twice shares its weight",
        unique=False,
    )
    yield _exact(
        "contradicting duplicates",
        problems.svc(_column(-1, 1, 0, 0), [-1, 1, 1, -1], C=1.0),
        -2.5,
        [0.5, 0.5, 1, 1],
        "the pair at 0 has zero kernel, so only −α: both go to C; the rest is ½·4a² − 2a",
    )
    yield _exact(
        "no free support vector",
        problems.svc(_column(0, 3, -10, 10), [-1, 1, -1, 1], C=0.1),
        -0.155,
        [0.1, 0.1, 0, 0],
        "inner pair at C: w = 0.3, f = ½·0.09 − 0.2; −b ≤ 1 and 0.9 + b ≤ 1 leave b in [−1, 0.1]",
        bias_interval=(-1.0, 0.1),
    )
    yield _exact(
        "one point a class",
        problems.svc(Gram([[0.0, 0.0], [1.0, 1.0]], kernel="rbf", gamma=0.5), [1, -1], C=10),
        -1 / (1 - K_UNIT),
        np.full(2, 1 / (1 - K_UNIT)),
        "k = e⁻¹, f = (1 − k)a² − 2a",
        bias_interval=(0.0, 0.0),
    )


def _weighted_hinge() -> Iterator[ZooProblem]:
    """Hinge with weights of the points."""
    weight = np.array([1, 1, 1, 1, 1, 1, 0, 0.0])
    with_outliers = np.vstack([SIX_POINTS, [[3, 3], [-3, -3]]])
    yield _exact(
        "sample weights with zeros",
        problems.svc(_linear(with_outliers), [*SIX_LABELS, -1, 1], sample_weight=weight),
        -0.25,
        [*SIX_ALPHA, 0, 0],
        "the six points; two wrongly labelled ones have weight 0",
        bias_interval=(0.0, 0.0),
    )
    yield _exact(
        "equality with d = 1",
        DualProblem(
            Gram.precomputed(np.eye(3)),
            p=np.zeros(3),
            lower=np.zeros(3),
            upper=np.full(3, 2.0),
            e=np.array([1.0, 1.0, -1.0]),
            d=1.0,
        ),
        0.25,
        [0.5, 0.5, 0.0],
        "Q = I: the least-norm point of α₁ + α₂ − α₃ = 1 has α₃ = −⅓, so α₃ = 0 and the others share",
    )


def _svr() -> Iterator[ZooProblem]:
    """The ε-insensitive loss."""
    yield _exact(
        "SVR two points",
        problems.svr(_column(-1, 1), [-1.0, 1.0], C=10, epsilon=0.1),
        -0.405,
        [0, 0.45, 0.45, 0],
        "β = (−b, b), f = ½·4b² − 2b + 0.2b",
        bias_interval=(0.0, 0.0),
    )


def _two_equalities() -> Iterator[ZooProblem]:
    """Two equalities: eᵀα = 0 and 1ᵀα = total within 0 ≤ α ≤ u."""
    yield _exact(
        "nu-SVC four points",
        problems.nu_svc(_column(0, 1, 2, 3), [-1, -1, 1, 1], nu=0.5),
        0.5,
        [0, 1, 1, 0],
        "each class holds 1: the nearest points are 1 apart, w = 1; ν₊ within 2…3, ν₋ within −1…0",
        bias_interval=(-2.0, -1.0),
    )
    yield _exact(
        "nu-SVR three points",
        problems.nu_svr(_column(0, 1, 2), [0.0, 1.0, 5.0], C=10, nu=0.5),
        -14.375,
        [2.5, 0, 5, 0, 7.5, 0],
        "−0.75 + 2.5x is within 0.75 of all: α₀ + α₂ = α₁* = 7.5, w = 2α₂ − α₁*; f* = −½·2.5² − 15·0.75",
        bias_interval=(-0.75, -0.75),
    )


def _no_bias() -> Iterator[ZooProblem]:
    """No bias: 0 ≤ α ≤ C."""
    yield _exact(
        "box two points",
        problems.svc(_linear([[1, 0], [0, 2]]), [1, -1], C=0.5, fit_intercept=False),
        -0.5,
        [0.5, 0.25],
        "Q = diag(1, 4): α = min(C, 1/Qᵢᵢ)",
    )
    yield _exact(
        "box rank 1",
        problems.svc(_column(1, -1), [1, -1], C=10, fit_intercept=False),
        -0.5,
        [0.5, 0.5],
        "Q = 11ᵀ: f = ½s² − s in s = α₁ + α₂",
        unique=False,
    )


def _hard_margin() -> Iterator[ZooProblem]:
    """Hard margin: no upper bounds."""
    yield _exact(
        "hard margin six points",
        problems.svc(_linear(SIX_POINTS), SIX_LABELS, C=np.inf),
        -0.25,
        SIX_ALPHA,
        "as with C = 1",
        bias_interval=(0.0, 0.0),
    )
    yield _exact(
        "hard margin three points",
        problems.svc(_linear([[0, 0], [2, 0], [0, 2]]), [-1, 1, 1], C=np.inf),
        -1.0,
        [1, 0.5, 0.5],
        "the hulls are √2 apart: f* = −2/2; w = (1, 1), b = −1",
        bias_interval=(-1.0, -1.0),
    )
    yield _exact(
        "hard margin no bias",
        problems.svc(_linear([[1, 0], [0, 2]]), [1, -1], C=np.inf, fit_intercept=False),
        -0.625,
        [1, 0.25],
        "Q = diag(1, 4): α = 1/Qᵢᵢ",
    )
    yield _exact(
        "hard margin no bias rank 1",
        problems.svc(_column(1, -1, 3), [1, -1, 1], C=np.inf, fit_intercept=False),
        -0.5,
        [0.5, 0.5, 0],
        "w ≥ 1 suffices and is needed: ½w² = ½",
        unique=False,
    )
    for name, gram, y, options, witness in (
        ("inseparable line", _column(-1, 0, 1), [1, -1, 1], {}, [0.25, 0.5, 0.25]),
        ("inseparable duplicate", _linear([[0, 1], [2, 0], [2, 0], [5, 5]]), [1, -1, 1, -1], {}, [0, 0.5, 0.5, 0]),
        ("inseparable no bias", _column(1, 2), [1, -1], {"fit_intercept": False}, [2 / 3, 1 / 3]),
        ("inseparable squared hinge", _column(-1, 0, 1), [1, -1, 1], {"loss": "squared_hinge"}, [0.25, 0.5, 0.25]),
    ):
        problem = problems.svc(gram, y, C=np.inf, **options)
        optimum = 0.0 if "loss" in options else -np.inf
        why = "by hand: Σyᵢvᵢ = 0 where there is a bias, Σyᵢvᵢxᵢ = 0: the hulls of the classes meet"
        yield ZooProblem(name, problem, optimum, None, False, why, witness=np.array(witness))


def _squared_hinge() -> Iterator[ZooProblem]:
    """Squared hinge: the simplex."""
    yield _exact(
        "squared hinge uneven points",
        problems.svc(_column(0, 2), [-1, 1], C=0.5, loss="squared_hinge"),
        0.55,
        [0.7, 0.3],
        "H = [[2, −1], [−1, 6]], μ = H⁻¹1 / 1ᵀH⁻¹1, f = ½·11/10; b = (0.3 − 0.7)/1.1",
        bias_interval=(-4 / 11, -4 / 11),
    )
    yield _exact(
        "squared hinge hard margin",
        problems.svc(_column(0, 2), [-1, 1], C=np.inf, loss="squared_hinge"),
        0.25,
        [0.75, 0.25],
        "H = [[1, −1], [−1, 5]], 1ᵀH⁻¹1 = 2, f = ½·½",
    )
    yield _exact(
        "squared hinge two points",
        problems.svc(_column(-1, 1), [-1, 1], C=0.5, loss="squared_hinge"),
        0.75,
        [0.5, 0.5],
        "H = diag(2 + 1/(2C)) = 3I, f = ½·3·½",
    )
    yield _exact(
        "squared hinge sample weights",
        problems.svc(_column(-1, 1, 5), [-1, 1, -1], C=0.5, loss="squared_hinge", sample_weight=[1, 1, 0]),
        0.75,
        [0.5, 0.5, 0],
        "the third point has weight 0, its bound is 0",
    )


def _one_class() -> Iterator[ZooProblem]:
    """SVDD and one-class."""
    yield _exact(
        "hard SVDD two points",
        problems.svdd(_linear([[1, 0], [4, 4]])),
        -6.25,
        [0.5, 0.5],
        "f* = −R² = −(5/2)²",
    )
    angle = 2 * np.pi * np.arange(5) / 5
    pentagon = np.vstack([2 * np.column_stack([np.cos(angle), np.sin(angle)]), [[0.5, 0.2], [0.0, -0.3]]])
    yield _exact(
        "hard SVDD pentagon",
        problems.svdd(_linear(pentagon + np.array([3.0, 1.0]))),
        -4.0,
        [0.2] * 5 + [0, 0],
        "regular pentagon of radius 2 around (3, 1), two points inside",
        unique=False,
    )
    yield _exact(
        "soft SVDD line",
        problems.svdd(_column(-2, -1, 1, 2), nu=0.75),
        -3.0,
        [1 / 3, 1 / 6, 1 / 6, 1 / 3],
        "u = ⅓; f = (Σαx)² − Σαx²: the mean 0 and the outer points full are best, together",
    )
    triangle = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
    yield _exact(
        "one-class triangle",
        problems.one_class(Gram(triangle, kernel="rbf", gamma=1.0), nu=0.5),
        (1 + 2 * K_UNIT) / 6,
        np.full(3, 1 / 3),
        "equilateral, side 1, k = e⁻¹: by symmetry ½(⅓ + ⅔k)",
    )


def _least_squares() -> Iterator[ZooProblem]:
    """Least squares."""
    yield _exact(
        "least squares two points",
        problems.least_squares(_column(-1, 1), [-1, 1], C=1.0),
        -1 / 3,
        [1 / 3, 1 / 3],
        "f = ½(4a² + 2a²) − 2a",
    )
    yield _exact(
        "least squares no bias",
        problems.least_squares(_column(1, 2), [1, -1], C=1.0, fit_intercept=False),
        -11 / 12,
        [7 / 6, 2 / 3],
        "Q = [[2, −2], [−2, 5]], α = Q⁻¹1",
    )
