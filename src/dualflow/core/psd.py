"""What is known of the spectrum of a symmetric matrix, and its repair: without it, no duality gap is a bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .kernel_functions import as_matrix, check_precomputed
from .runtime.arrays import AT_ONCE
from .runtime.memory import borrowed

__all__ = ["CHECK_UP_TO", "REPAIRS", "Repair", "SpectrumEvidence", "examine", "repair"]

#: Largest n whose spectrum is looked at unasked: one Cholesky factorisation, a second at most.
CHECK_UP_TO = 4096

#: What `repair` does to the eigenvalues λ below 0: 0 in their place, −λ, or −λ_min added to all.
REPAIRS = ("clip", "flip", "shift")

#: The part of n up to which a rank is low, so that the matrix less its pivots' part says more cheaply what it is.
LOW = 32
#: Points up to which the smallest eigenvalue is computed by all of them.
MAX_DENSE_POINTS = 128
#: Vectors of Lanczos's method at a time.
LANCZOS_VECTORS = 10
#: Restarts of Lanczos's method.
MAX_RESTARTS = 15
#: Relative accuracy of the smallest eigenvalue by Lanczos's method.
LANCZOS_TOL = 1e-3

#: Largest entries of a matrix whose eigenvalues are taken without scaling it first.
LEAST, MOST = 1e-100, 1e100


@dataclass(frozen=True)
class SpectrumEvidence:
    """Evidence that Q is positive semidefinite.

    Attributes
    ----------
    kind : {"by kernel", "checked", "unknown", "indefinite"}
        "by kernel": Mercer's condition holds for the kernel. "checked": factorised, no eigenvalue below
        −n·ε·‖Q‖. "unknown": too large to look at. "indefinite": an eigenvalue below that was found.
    smallest_eigenvalue : float or None
        Given for "indefinite", to three digits at least.
    """

    kind: str
    smallest_eigenvalue: float | None = None

    def twin(self) -> SpectrumEvidence:
        """An equal one, for a solver."""
        return SpectrumEvidence(self.kind, self.smallest_eigenvalue)

    @property
    def is_psd(self) -> bool:
        """Whether a duality gap bounds anything."""
        return self.kind in ("by kernel", "checked")

    def __str__(self) -> str:
        if self.kind == "indefinite":
            return f"indefinite: no bound exists (smallest eigenvalue {self.smallest_eigenvalue:.3g})"
        if self.kind == "unknown":
            return f"unknown: more than {CHECK_UP_TO} points of a kernel without guarantee, no bound given"
        return f"positive semidefinite ({self.kind})"


def examine(Q: NDArray) -> SpectrumEvidence:
    """Look at the spectrum of a symmetric Q of shape (n, n).

    "Indefinite" means λ_min < −n·ε·‖Q‖: round-off alone puts duplicate rows of an RBF Gram at −1.6e-14.
    """
    Q, unit = _in_range(Q)
    slack = _slack(Q)
    if slack == 0.0 or _is_of_low_rank(Q, slack) or _has_factor(Q, slack):
        return SpectrumEvidence("checked")
    smallest = _smallest(Q, slack)
    return SpectrumEvidence("indefinite", smallest * unit) if smallest < -slack else SpectrumEvidence("checked")


def _has_factor(Q: NDArray, slack: float) -> bool:
    """Whether Q + slack·I has a Cholesky factor, as it has when λ_min ≥ −slack, at a tenth of the price of eigenvalues.

    One that has none mostly says so after a few columns.
    """
    n = len(Q)
    if float(Q.diagonal().min()) < -slack:
        return False
    shifted = borrowed((n, n), float)
    for rows in _strips(n):
        shifted[rows, rows.start :] = Q[rows, rows.start :]
    shifted.flat[:: n + 1] += slack
    return not scipy.linalg.lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1]


def _is_of_low_rank(Q: NDArray, slack: float) -> bool:
    """Whether Q is LᵀL, with n/`LOW` rows in L at most, and a rest of norm ≤ slack, so that λ_min ≥ −slack."""
    n = len(Q)
    L, left = np.empty((n // LOW, n)), Q.diagonal().copy()
    rank = 0
    for rank in range(len(L) + 1):
        pivot = int(left.argmax())
        if not n * left[pivot] > slack:
            break  # were Q positive semidefinite, no row of the rest could sum to more
        if rank == len(L):
            return False
        row = Q[pivot] - L[:rank, pivot] @ L[:rank]
        L[rank] = row / np.sqrt(left[pivot])
        left -= L[rank] ** 2
    L, square = L[:rank], 0.0
    for rows in _strips(n):  # the Frobenius norm, by a triangle
        rest = Q[rows, rows.start :] - L[:, rows].T @ L[:, rows.start :]
        square += 2.0 * float(np.vdot(rest, rest))
    return square <= slack**2


def _strips(n: int) -> Iterator[slice]:
    """Slices of the rows of a matrix with n columns, each small enough for the cache."""
    height = max(1, AT_ONCE // n)
    return (slice(start, start + height) for start in range(0, n, height))


def _smallest(Q: NDArray, slack: float) -> float:
    """The smallest eigenvalue: of many by Lanczos's method, unless what it finds is near round-off."""
    n = len(Q)
    if n > MAX_DENSE_POINTS:
        from scipy.sparse.linalg import ArpackError, eigsh  # which takes a while to load, and few fits need it

        start = np.random.default_rng(0).normal(size=n)
        try:
            (found,) = eigsh(
                Q,
                1,
                which="SA",
                v0=start,
                ncv=LANCZOS_VECTORS,
                maxiter=MAX_RESTARTS,
                tol=LANCZOS_TOL,
                return_eigenvectors=False,
            )
        except ArpackError:
            found = 0.0
        if found < -2.0 * slack:
            return float(found)
    return float(scipy.linalg.eigvalsh(Q, subset_by_index=[0, 0], check_finite=False)[0])


def _in_range(Q: NDArray) -> tuple[NDArray, float]:
    """Q and its unit: divided by it where squares or sums of entries would leave float64, else as it is, in units of 1.

    The unit is a power of 2, so that no bit is lost.
    """
    largest = max(float(Q.max()), -float(Q.min()))
    if largest == 0.0 or LEAST <= largest <= MOST:
        return Q, 1.0
    unit = 2.0 ** np.floor(np.log2(largest))
    return Q / unit, float(unit)


def _slack(Q: NDArray) -> float:
    """n·ε·‖Q‖ (largest row sum): eigenvalues this far below 0 are round-off."""
    largest = max(float(np.abs(Q[rows]).sum(axis=1).max()) for rows in _strips(len(Q)))
    return len(Q) * float(np.finfo(float).eps) * largest


@dataclass(frozen=True)
class Repair:
    """A symmetric matrix made positive semidefinite, by how much it was changed, and what new points get.

    Attributes
    ----------
    method : {"clip", "flip", "shift"}
    matrix : array of shape (n, n)
        The repaired K: V f(Λ) Vᵀ for K = VΛVᵀ.
    change : float
        ‖repaired − K‖ in the Frobenius norm, absolute; 0 if nothing was to be repaired.
    relative_change : float
        change / ‖K‖.
    smallest_eigenvalue : float
        Of K.
    negative_eigenvalues : int
        How many of K's are below −n·ε·‖K‖, and so no round-off.
    map : array of shape (n, n), or None
        V f(Λ) Λ⁻¹ Vᵀ, symmetric; None for "shift", which leaves the kernel values of new points alone.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import repair
    >>> mended = repair(np.array([[1.0, 2.0], [2.0, 1.0]]), "clip")  # eigenvalues 3 and −1
    >>> mended.negative_eigenvalues, round(mended.smallest_eigenvalue, 6)
    (1, -1.0)
    >>> mended.matrix.round(6)
    array([[1.5, 1.5],
           [1.5, 1.5]])
    """

    method: str
    matrix: NDArray
    change: float
    relative_change: float
    smallest_eigenvalue: float
    negative_eigenvalues: int
    map: NDArray | None

    def transform(self, K_new: ArrayLike) -> NDArray:
        """Kernel values between new points and all n points as the repaired kernel has them.

        Row k(x) becomes V f(Λ) Λ⁻¹ Vᵀ k(x) for "clip" and "flip" (Chen, Garcia, Gupta, Rahimi, Cazzanti, JMLR 10
        (2009) 747-776, who treat test points by the linear map that repairs the training matrix): a row of K, were
        it new, becomes that row of `matrix`. "shift" adds to the diagonal only, k(x, x) of each training point with
        itself, so that a new point's values stay, even if it equals a training point.

        Parameters
        ----------
        K_new : array of shape (k, n)

        Returns
        -------
        array of shape (k, n)

        Raises
        ------
        ProblemError
            Not a finite matrix with n columns.
        """
        values = as_matrix(K_new, "K_new")
        if values.shape[1] != len(self.matrix):
            raise ProblemError(
                f"K_new has {values.shape[1]} columns; the repaired matrix has {len(self.matrix)} points, and a new "
                "point needs its kernel value with each of them"
            )
        return values.copy() if self.map is None else values @ self.map

    def __str__(self) -> str:
        return (
            f"{self.method}: {self.negative_eigenvalues} negative eigenvalues, the smallest "
            f"{self.smallest_eigenvalue:.3g}; the matrix was changed by {100 * self.relative_change:.3g} % (Frobenius)"
        )


def repair(K: ArrayLike, method: str = "clip") -> Repair:
    """Make a symmetric kernel matrix positive semidefinite.

    Nothing repairs unasked: the repaired problem is another problem, and its optimum is certified for that one.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric, indefinite or not; `Gram.full` gives that of any kernel. Not changed.
    method : {"clip", "flip", "shift"}
        "clip" puts 0 in the place of negative eigenvalues: the nearest positive semidefinite matrix in the Frobenius
        norm. "flip" takes |λ|. "shift" adds −λ_min to the diagonal. Where no eigenvalue is below −n·ε·‖K‖, K is given
        back as it is.

    Returns
    -------
    Repair

    Raises
    ------
    ProblemError
        K is not a finite, symmetric matrix, or the method is not known.

    Examples
    --------
    >>> from dualflow import repair
    >>> mended = repair([[1.0, 2.0], [2.0, 1.0]], "clip")
    >>> mended.matrix.round(12).tolist(), round(mended.change, 12)
    ([[1.5, 1.5], [1.5, 1.5]], 1.0)
    """
    if not isinstance(method, str) or method not in REPAIRS:
        raise ProblemError(f"method={method!r} is not one of {', '.join(map(repr, REPAIRS))}")
    given, unit = _in_range(check_precomputed(as_matrix(K, "K")))
    slack = _slack(given)
    eigenvalues, V = scipy.linalg.eigh(given, check_finite=False)
    smallest = float(eigenvalues[0])
    negative = eigenvalues < -slack
    count = int(np.count_nonzero(negative))
    linear = None if method == "shift" else np.eye(len(given))
    if not count:
        return Repair(method, given * unit, 0.0, 0.0, smallest * unit, 0, linear)
    U, lam = V[:, negative], eigenvalues[negative]
    if linear is None:
        matrix, change = given + np.diag(np.full(len(given), -smallest)), -smallest * float(np.sqrt(len(given)))
    else:
        # f(λ)/λ is 1 but for negative λ, where it is 0 (clip) or −1 (flip): no eigenvalue is divided by.
        times = 1.0 if method == "clip" else 2.0
        linear -= times * (U @ U.T)
        lost = times * (U * lam) @ U.T
        matrix, change = given - 0.5 * (lost + lost.T), times * float(np.linalg.norm(lam))
    size = float(np.linalg.norm(eigenvalues))
    return Repair(method, matrix * unit, change * unit, change / size, smallest * unit, count, linear)
