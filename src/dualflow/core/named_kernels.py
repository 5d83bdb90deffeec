"""The table of kernels that have a name.

A kernel is one entry of `KERNELS`: a function of inner products, or of the points themselves. `Gram`, the bounds on
rounding errors, searches, model files, comparisons, exports and the command line read what they need from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError

#: Degree up to which integer powers are computed by products: numpy's pow is 20 times slower.
MAX_DEGREE_PRODUCTS = 64
#: Entries of a part whose powers are computed at a time: its copies stay in the cache, and need no new memory.
PART_ENTRIES = 1 << 13
#: Round-off of a base that a non-integer power takes as 0, in units of ε times the largest base.
MAX_ROUND_OFF_BASE = 64


def _no(degree: float, coef0: float) -> bool:
    return False


def _yes(degree: float, coef0: float) -> bool:
    return True


@dataclass(frozen=True)
class NamedKernel:
    """A kernel function with a name.

    Attributes
    ----------
    parameters : tuple of str
        The parameters that it has, of "gamma", "degree" and "coef0".
    of_products : callable (products, gamma, coef0, degree) → values, or None
        Its values from the inner products ⟨x, z⟩ of centred points, in their float type; it may overwrite these.
    is_psd : callable (degree, coef0) → bool
        Whether its matrix is positive semidefinite for any points (Mercer).
    is_translatable : callable (degree, coef0) → bool
        Whether a translation of all points changes it by u(x) + u(z) alone.
    largest : callable (square, gamma, coef0, degree) → float, or None
        A bound on |k(x, z)| for points with ‖x‖² ≤ ``square``; None for values that the user makes.
    error_factor : callable (degree) → float
        The factor by which the kernel multiplies a relative error of the inner products.
    libsvm : str
        Its name in LIBSVM's files, "" if these do not have it. A kernel with one must have the same name in
        scikit-learn as here.
    is_exported : bool
        Whether ONNX graphs and C headers can hold it: `interchange.onnx_export` and `c_export` each have a branch.
    of_points : callable (A, B, gamma, coef0, degree) → values, or None
        Its values between the rows of A and of B (CSR arrays if X is sparse), for a kernel that is no function of
        inner products. The radial and the precomputed kernel have neither function: `Gram` computes them itself.
    """

    parameters: tuple[str, ...]
    of_products: Callable[[NDArray, float, float, float], NDArray] | None
    is_psd: Callable[[float, float], bool]
    libsvm: str
    largest: Callable[[float, float, float, float], float] | None
    is_translatable: Callable[[float, float], bool] = _no
    is_exported: bool = False
    error_factor: Callable[[float], float] = lambda degree: 1.0
    of_points: Callable[[Any, Any, float, float, float], NDArray] | None = None


def _linear(inner: NDArray, gamma: float, coef0: float, degree: float) -> NDArray:
    return inner


def _scaled(inner: NDArray, gamma: float, coef0: float) -> NDArray:
    """Return γ·inner + coef0 in the float type of the inner products, which are overwritten."""
    inner *= inner.dtype.type(gamma)
    if coef0:
        inner += inner.dtype.type(coef0)
    return inner


def _sigmoid(inner: NDArray, gamma: float, coef0: float, degree: float) -> NDArray:
    inner = _scaled(inner, gamma, coef0)
    values: NDArray = np.tanh(inner, out=inner)
    return values


def _poly(inner: NDArray, gamma: float, coef0: float, degree: float) -> NDArray:
    if degree in range(1, MAX_DEGREE_PRODUCTS + 1):
        inner = np.ascontiguousarray(inner)
        flat, square = inner.reshape(-1), np.empty(min(inner.size, PART_ENTRIES), dtype=inner.dtype)
        for start in range(0, flat.size, PART_ENTRIES):
            part = _scaled(flat[start : start + PART_ENTRIES], gamma, coef0)
            if degree == 3:  # the default, without new arrays
                part *= np.multiply(part, part, out=square[: len(part)])
            elif degree > 1:
                part[:] = _integer_power(part, int(degree))
        return inner
    base = _scaled(inner, gamma, coef0)
    if not float(degree).is_integer():
        base = _non_negative(base, degree)
    return base**degree


def _integer_power(base: NDArray, degree: int) -> NDArray:
    """Return base**degree, by repeated squaring."""
    if degree == 1:
        return base
    root = _integer_power(base, degree // 2)
    square = root * root
    return square * base if degree % 2 else square


def _non_negative(base: NDArray, degree: float) -> NDArray:
    """Return the base of a non-integer power, with round-off below 0 set to 0; a `ProblemError` if it is negative."""
    least = float(base.min(initial=0.0))
    if least < -MAX_ROUND_OFF_BASE * float(np.finfo(base.dtype).eps) * float(np.abs(base).max(initial=0.0)):
        raise ProblemError(
            f"degree={degree!r}: γ⟨x,z⟩ + coef0 is {least:.3g} for two points, which has no such power; give a whole "
            "number, raise coef0, or shift the features above 0"
        )
    return np.maximum(base, 0.0)


def _one(square: float, gamma: float, coef0: float, degree: float) -> float:
    return 1.0


def _largest_poly(square: float, gamma: float, coef0: float, degree: float) -> float:
    return float((gamma * square + abs(coef0)) ** degree)


def _is_psd_poly(degree: float, coef0: float) -> bool:
    return float(degree).is_integer() and coef0 >= 0


#: The kernels by name, in the order in which errors list them.
KERNELS: dict[str, NamedKernel] = {
    "linear": NamedKernel(
        (), _linear, _yes, "linear", lambda square, *_: square, is_translatable=_yes, is_exported=True
    ),
    "poly": NamedKernel(
        ("gamma", "degree", "coef0"),
        _poly,
        _is_psd_poly,
        "polynomial",
        _largest_poly,
        is_translatable=lambda degree, coef0: degree == 1 and coef0 >= 0,
        error_factor=lambda degree: 1.0 + degree,
        is_exported=True,
    ),
    "rbf": NamedKernel(("gamma",), None, _yes, "rbf", _one, is_exported=True),
    "sigmoid": NamedKernel(("gamma", "coef0"), _sigmoid, _no, "sigmoid", _one, is_exported=True),
    "precomputed": NamedKernel((), None, _no, "precomputed", None),
}


class HasKernel(Protocol):
    """What holds a kernel and its parameters."""

    kernel: Any
    gamma: float
    coef0: float
    degree: float


#: What is known of a callable kernel.
_UNKNOWN = NamedKernel((), None, _no, "", None)


def named(kernel: object) -> NamedKernel:
    """Return the entry of a kernel; that of a callable has no parameters and no properties."""
    return KERNELS[kernel] if isinstance(kernel, str) else _UNKNOWN


def kernels_with(has: Callable[[NamedKernel], object] = bool) -> list[str]:
    """Return the names of the kernels of points, all but "precomputed", for which ``has`` is true."""
    return [name for name, kernel in KERNELS.items() if name != "precomputed" and has(kernel)]


def values_of_products(matrix: HasKernel, inner: NDArray) -> NDArray:
    """Return the kernel values of inner products, for a kernel that is a function of them."""
    values = named(matrix.kernel).of_products
    assert values is not None, f"kernel={matrix.kernel!r} is no function of inner products"
    return values(inner, matrix.gamma, matrix.coef0, matrix.degree)
