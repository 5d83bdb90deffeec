"""Checks of what a model file holds: dtypes and shapes of arrays, and agreement with what can be computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..core.certificate import Certificate, certify
from ..core.kernel_functions import mean_of, squared_lengths
from ..core.named_kernels import named
from ..core.problem import DualProblem
from ..core.sparse_points import SparsePoints
from ..exceptions import ProblemError
from ..online.bordered import bordered_inverse
from ..online.growing_problem import Stream

_EPS = float(np.finfo(float).eps)
#: γ‖x − c‖² above which the rounding of x − c changes kernel values.
_MAX_REACH = 1e18
#: The largest γ‖x − c‖² that is accepted all the same, relative to that about the points' own mean.
_MAX_REACH_RATIO = 100.0
#: Relative drift allowed to the state of an online engine: the relative gap to which streams are solved.
_DRIFT = 1e-6


def stored(arrays: Mapping[str, NDArray], name: str, kinds: str, shape: tuple[int | None, ...]) -> NDArray:
    """Return the named array of a file; ValueError if it is missing, has another dtype or shape, or holds NaN.

    ``kinds`` are the dtype kinds allowed, where "f" alone is float64 and "i" alone int64; None in ``shape`` allows any
    length.
    """
    if name not in arrays:
        raise ValueError(f"it lacks the array {name!r}")
    array = arrays[name]
    fits = len(shape) == array.ndim and all(
        length in (None, found) for length, found in zip(shape, array.shape, strict=False)
    )
    if array.dtype.kind not in kinds or not fits or (kinds in ("f", "i") and array.dtype.itemsize != 8):
        expected = f"kind {kinds!r} and shape {shape}"
        raise ValueError(f"its array {name!r} has dtype {array.dtype} and shape {array.shape}, not {expected}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"its array {name!r} contains NaN")
    return array


def sparse_points(arrays: Mapping[str, NDArray], n: int, width: Any) -> SparsePoints:
    """Return the n sparse points in ``gram.X.data``, ``.indices`` and ``.indptr``; ValueError if these are not valid.

    Sparse points have one form: no stored zeros, ascending indices in each row, and the smallest index dtype.
    """
    data, indptr = stored(arrays, "gram.X.data", "f", (None,)), arrays["gram.X.indptr"]
    indices = arrays["gram.X.indices"]
    fits = indices.shape == data.shape and indptr.shape == (n + 1,) and {indices.dtype.kind, indptr.dtype.kind} == {"i"}
    if type(width) is not int or width < 1 or not fits or not np.isfinite(data).all() or not data.all():
        raise ValueError("its sparse points are not finite, or not of one length")
    if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise ValueError("its sparse points have no rows")
    if len(data) and not (indices.min() >= 0 and indices.max() < width):
        raise ValueError("its sparse points have other columns than there are")
    begins = np.zeros(len(data) + 1, dtype=bool)
    begins[indptr] = True
    if not (begins[1:-1] | (np.diff(indices) > 0)).all():
        raise ValueError("its sparse points are not sorted")
    points = SparsePoints(scipy.sparse.csr_array((data, indices, indptr), shape=(n, width)))
    if (points.indices.dtype, points.indptr.dtype) != (indices.dtype, indptr.dtype):
        raise ValueError("its sparse points have indices of another size")
    return points


def round_off(problem: DualProblem, alpha: NDArray) -> float:
    """Return a bound on the difference of two correct computations of a gradient, for example on two machines."""
    weights = np.abs(alpha)
    size = float(np.abs(problem.p).max()) + float((problem.ridge * weights).max())
    return problem.n**0.5 * (1e3 * _EPS * size + entry_round_off(problem) * float(weights.sum()))


def entry_round_off(problem: DualProblem) -> float:
    """Return a bound on the difference of two correct computations of an entry of Q."""
    gram = problem.gram
    if gram.kernel == "precomputed":
        largest = float(np.abs(gram.X).max())
    elif (bound := named(gram.kernel).largest) is not None:
        largest = bound(float(gram.squares.max()), gram.gamma, gram.coef0, gram.degree)
    elif callable(gram.kernel):  # a quantum kernel, whose values are at most 1: files hold no other callable
        largest = 1.0
    else:
        raise ProblemError(
            f"kernel={gram.kernel!r} has no bound on its values: give its entry in KERNELS one, `largest`"
        )
    # The product form of the radial kernel has an error of about ε·reach; it is not used beyond a reach of 1e9.
    return 1e3 * _EPS * (1.0 + min(gram.reach, 1e9)) * problem.scale * (largest + problem.offset)


def scale_loss(problem: DualProblem, certificate: Certificate) -> float:
    """Return a bound on the relative difference of two computations of αᵀQα, and of all that is scaled by it."""
    difference = round_off(problem, certificate.alpha) * float(np.abs(certificate.alpha).sum())
    return difference / certificate.quadratic if certificate.quadratic > 0 else 0.0


def agree(name: str, saved: NDArray | float, computed: NDArray | float, tolerance: NDArray | float = 0.0) -> None:
    """Raise ValueError unless a file's values equal the computed ones within an absolute tolerance."""
    if np.shape(saved) != np.shape(computed) or not (np.abs(np.subtract(saved, computed)) <= tolerance).all():
        raise ValueError(f"its {name} contradicts what its points and its α say")


def known_classes(classes: NDArray) -> NDArray:
    """Return the classes of a file; ValueError unless they are two or more, ascending."""
    if len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
        raise ValueError("its classes are not two or more, in order")
    return classes


def check_center(X: NDArray, center: NDArray, gamma: float) -> None:
    """Raise ValueError for a centre so far from the points that subtracting it would round them."""
    reach, own = (gamma * float(squared_lengths(X, c).max(initial=0.0)) for c in (center, mean_of(X)))
    if not reach <= max(_MAX_REACH, _MAX_REACH_RATIO * own):
        raise ValueError("its centre is too far from its points")


def check_point_identity(parts: Iterable[tuple[NDArray, NDArray, NDArray]]) -> None:
    """Raise ValueError unless points with the same id, in all parts of a model, are equal and of the same class."""
    ids, X, classes = (np.concatenate(some) for some in zip(*parts, strict=True))
    _, first, which = np.unique(ids, return_index=True, return_inverse=True)
    agree("points of one name", X, X[first][which])
    agree("classes of one point", classes, classes[first][which])


def _check_multiplier(nu: float, problem: DualProblem, alpha: NDArray) -> None:
    """Raise ValueError if a stream's own multiplier ν gives a clearly worse dual bound of α than the certificate.

    Then the bias by which the model predicts would belong to another model than the certified one.
    """
    certificate = certify(problem, alpha)
    if (
        problem.e is None
        or problem.kind.may_be_unbounded
        or certificate.gap is None
        or certificate.relative_gap is None
    ):
        return
    h = problem.gradient(certificate.alpha)
    capped = float((problem.effective_upper * np.minimum(h - nu * problem.e, 0.0)).sum())
    bound = nu * problem.d + capped - 0.5 * float(certificate.alpha @ (h + problem.p))
    # A gap determines α, and with it the multiplier, to the square root of the gap.
    part = (_DRIFT + min(1.0, certificate.relative_gap) ** 0.5) * abs(certificate.objective)
    slack = round_off(problem, alpha) * float(problem.effective_upper.sum())
    agree("multiplier", max(0.0, certificate.objective - certificate.gap - bound), 0.0, part + slack)


def check_stream(stream: Stream) -> None:
    """Raise ValueError if a stream's state contradicts its points by more than drift.

    The state is its coefficients, gradient, multiplier, kernel columns and the inverse of its system.
    """
    engine, matrix, unit, S = stream.engine, stream.matrix, stream.unit, stream.engine.margin
    if stream.n == 0:
        return
    gram, total = stream.gram, float(np.abs(engine.alpha).sum())
    if gram.center is not None:
        check_center(gram.X, gram.center, gram.gamma)
    # With a reserve, d may still count points that were dropped.
    one, two, mass = stream.model.total(1.0), stream.model.total(2.0), stream.mass
    is_weighted = bool((stream.weights != 1).any())
    if two > one:
        mass = max(mass, engine.d / one if is_weighted else round(engine.d / one))
    agree("d", engine.d, stream.model.total(mass), 1e3 * _EPS * engine.d * is_weighted)
    p, _, upper = stream.variables(stream.targets, gram.diag(), stream.weights)
    agree("bounds", engine.u[upper < np.inf], upper[upper < np.inf])
    bound = float(engine.u[np.isfinite(engine.u)].max(initial=0.0))
    # Coefficients that have become 0 leave round-off of their former size.
    agree("sum of coefficients", float(engine.e @ engine.alpha), engine.d, _DRIFT * total + 1e3 * _EPS * bound)
    problem = stream.problem()
    alpha, entry_tol = stream.alpha(), entry_round_off(problem)
    largest_p = float(np.abs(engine.p).max())
    drift = (_DRIFT * float(engine.diag.max()) + entry_tol) * total + _DRIFT * (largest_p + abs(engine.b))
    agree("p", engine.p, p, 1e3 * _EPS * largest_p)
    agree("gradient", engine.g, matrix.product(engine.alpha) - engine.p + engine.b * engine.e, drift)
    _check_multiplier(-stream.bias / unit, problem, alpha)
    columns = engine.pool.rows[engine.member_slots[: len(S)], : engine.n]
    agree("columns", columns, matrix.block(S, np.arange(engine.n)), entry_tol)
    # The engine checks an inverse that it has updated; one without updates is checked here.
    if len(S) and engine.updates == 0:
        A = np.zeros((len(S) + 1, len(S) + 1))
        A[0, 1:] = A[1:, 0] = engine.e[S]
        A[1:, 1:] = columns[:, S]
        fresh, unity = bordered_inverse(A[1:, 1:], engine.e[S]), np.eye(len(A))
        agree("inverse", engine.times_inverse(A), unity, 1e-9 + 100.0 * float(np.abs(fresh @ A - unity).max()))
