"""Evidence that a symmetric matrix is positive semidefinite, which duality gaps require, and its repair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .kernel_functions import as_matrix, check_precomputed
from .runtime.arrays import PART_NUMBERS
from .runtime.memory import arena_array

#: Up to this many points, evidence is computed by default. It takes one Cholesky factorisation, a second at most.
MAX_POINTS_CHECKED = 4096

#: With at least this many points, a fit makes only the cheap tests of `screen`, and the factorisation follows when a
#: certificate is read. With fewer, the tests take as long as the factorisation, which is a proof.
MIN_POINTS_SCREENED = 400
#: A screen takes this many products with the matrix in float32: a tenth of the time of a factorisation of 2000 points.
SCREEN_PRODUCTS = 20
#: A screen factorises the block of every fourth point, in a sixtieth of the time of all.
SCREEN_STRIDE = 4

#: Way out for messages about a matrix that is not positive semidefinite, such as that of a sampled quantum kernel.
REPAIR_HINT = (
    "dualflow.repair(K) makes K positive semidefinite, and kernel='precomputed' takes its matrix; that problem has a "
    "certified optimum"
)
#: Methods of `repair` for eigenvalues λ < 0: replace them by 0, by −λ, or add −λ_min to all eigenvalues.
REPAIRS = ("clip", "flip", "shift")

#: A rank up to n/32 counts as low. A pivoted factorisation then proves semidefiniteness at a lower cost.
LOW_RANK_DIVISOR = 32
#: Up to this many points, the smallest eigenvalue is computed by a dense method.
MAX_DENSE_POINTS = 128
#: Vectors of Lanczos's method at a time.
LANCZOS_VECTORS = 10
#: Restarts of Lanczos's method.
MAX_LANCZOS_RESTARTS = 15
#: Relative accuracy of the smallest eigenvalue by Lanczos's method.
LANCZOS_TOL = 1e-3

#: If less than this share of a product is left beside the vectors before it, Lanczos's method has found a closed space.
MIN_LANCZOS_REST = 1e-6

#: Largest diagonal entries of a matrix that is screened: float32 holds squares of sums of its entries.
MIN_ENTRY_SINGLE = 1e-12
MAX_ENTRY_SINGLE = 1e12

#: A matrix whose largest entry is outside this range is scaled before eigenvalues are computed.
MIN_ENTRY_UNSCALED = 1e-100
MAX_ENTRY_UNSCALED = 1e100


@dataclass(frozen=True)
class SpectrumEvidence:
    """Evidence that Q is positive semidefinite.

    Attributes
    ----------
    kind : {"by kernel", "checked", "unknown", "indefinite", "presumed"}
        "by kernel": Mercer's condition holds for the kernel. "checked": a factorisation showed that no eigenvalue is
        below −n·ε·‖Q‖. "unknown": Q is too large to check. "indefinite": an eigenvalue below that was found.
        "presumed": within a fit, the tests of `screen` found no negative eigenvalue, and the factorisation is left to
        the first access of `Solution.certificate`, which never has this kind.
    smallest_eigenvalue : float or None
        Given for "indefinite", where it is an upper bound of the smallest eigenvalue: to three digits from `examine`,
        from `screen` to a few percent.
    """

    kind: str
    smallest_eigenvalue: float | None = None

    def copied(self) -> SpectrumEvidence:
        """Return an equal object, for a solver."""
        return SpectrumEvidence(self.kind, self.smallest_eigenvalue)

    @property
    def is_psd(self) -> bool:
        """Whether Q is known to be positive semidefinite, so that a duality gap is a bound."""
        return self.kind in ("by kernel", "checked", "presumed")

    def __str__(self) -> str:
        if self.kind == "indefinite":
            return f"indefinite: no bound exists (smallest eigenvalue {self.smallest_eigenvalue:.3g})"
        if self.kind == "unknown":
            return f"unknown: more than {MAX_POINTS_CHECKED} points of a kernel without guarantee, no bound given"
        return f"positive semidefinite ({self.kind})"


def screen(Q: NDArray) -> SpectrumEvidence | None:
    """Return evidence on the spectrum of a symmetric Q of shape (n, n) by tests in O(n²), and a small factorisation.

    It is "indefinite" if a vector v with vᵀQv < −2n·ε·‖Q‖ vᵀv is found, by Lanczos's method in float32; such a v is a
    proof. It is None if `examine` must decide: the block of every fourth point has no factor, or float32 overflows.
    Otherwise it is "presumed": a smaller negative eigenvalue, or one that random vectors hardly touch, may be missed.
    """
    largest = float(np.abs(Q.diagonal()).max())  # the largest entry, unless Q is indefinite
    if largest == 0.0 or not MIN_ENTRY_SINGLE <= largest <= MAX_ENTRY_SINGLE:
        return None
    found = _least_quotient(Q)
    if found is None:
        return None
    # The slack takes a pass over Q, which most matrices do not need.
    if found < 0.0 and found < -2.0 * _slack(Q):
        return SpectrumEvidence("indefinite", found)
    block = np.ascontiguousarray(Q[::SCREEN_STRIDE, ::SCREEN_STRIDE])
    return SpectrumEvidence("presumed") if _has_factor(block, _slack(block)) else None


def _least_quotient(Q: NDArray) -> float | None:
    """Return the Rayleigh quotient vᵀQv/vᵀv of the v that Lanczos's method finds for the smallest eigenvalue.

    The method runs in float32, which reads half the memory; the quotient of its result is in float64. BLAS reads one
    triangle only. None if numbers overflow.
    """
    n, steps = len(Q), SCREEN_PRODUCTS
    V, T = np.zeros((steps, n), dtype=np.float32), np.zeros((steps, steps))
    v = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    made = 0
    with np.errstate(over="ignore", invalid="ignore"):
        single = arena_array((n, n), np.float32)
        single[:] = Q
        for k in range(steps):
            V[k], made = v / np.linalg.norm(v), k + 1
            v = scipy.linalg.blas.ssymv(1.0, single.T, V[k])
            T[: k + 1, k] = V[: k + 1] @ v
            size = np.linalg.norm(v)
            for _ in range(2):  # twice is enough (Parlett)
                v -= (V[: k + 1] @ v) @ V[: k + 1]
            if not np.linalg.norm(v) > MIN_LANCZOS_REST * size:
                break
        if not np.isfinite(T).all():
            return None
        x = scipy.linalg.eigh(T[:made, :made], lower=False)[1][:, 0] @ V[:made].astype(float)
        found = float(x @ scipy.linalg.blas.dsymv(1.0, Q.T, x)) / float(x @ x)
    return found if np.isfinite(found) else None


def examine(Q: NDArray) -> SpectrumEvidence:
    """Return evidence on the spectrum of a symmetric Q of shape (n, n).

    "Indefinite" means λ_min < −n·ε·‖Q‖: duplicate rows of an RBF Gram give −1.6e-14 by round-off alone.
    """
    Q, unit = _in_range(Q)
    slack = _slack(Q)
    if slack == 0.0 or _is_of_low_rank(Q, slack) or _has_factor(Q, slack):
        return SpectrumEvidence("checked")
    smallest = _smallest(Q, slack)
    return SpectrumEvidence("indefinite", smallest * unit) if smallest < -slack else SpectrumEvidence("checked")


def _has_factor(Q: NDArray, slack: float) -> bool:
    """Whether Q + slack·I has a Cholesky factor, as it has if λ_min ≥ −slack.

    This takes a tenth of the time of eigenvalues. Without a factor it usually ends after a few columns.
    """
    n = len(Q)
    if float(Q.diagonal().min()) < -slack:
        return False
    shifted = arena_array((n, n), float)
    for rows in _strips(n):
        shifted[rows, rows.start :] = Q[rows, rows.start :]
    shifted.flat[:: n + 1] += slack
    return not scipy.linalg.lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1]


def _is_of_low_rank(Q: NDArray, slack: float) -> bool:
    """Whether Q is LᵀL, L with at most n/32 rows, plus a rest of norm ≤ slack, so that λ_min ≥ −slack."""
    n = len(Q)
    L, left = np.empty((n // LOW_RANK_DIVISOR, n)), Q.diagonal().copy()
    rank = 0
    for rank in range(len(L) + 1):
        pivot = int(left.argmax())
        if not n * left[pivot] > slack:
            break  # if Q is positive semidefinite, the norm of the rest is at most n times its largest diagonal entry
        if rank == len(L):
            return False
        row = Q[pivot] - L[:rank, pivot] @ L[:rank]
        L[rank] = row / np.sqrt(left[pivot])
        left -= L[rank] ** 2
    L, square = L[:rank], 0.0
    for rows in _strips(n):  # the Frobenius norm, from one triangle
        rest = Q[rows, rows.start :] - L[:, rows].T @ L[:, rows.start :]
        square += 2.0 * float(np.vdot(rest, rest))
    return square <= slack**2


def _strips(n: int) -> Iterator[slice]:
    """Return slices of the rows of an n × n matrix, each small enough for the cache."""
    height = max(1, PART_NUMBERS // n)
    return (slice(start, start + height) for start in range(0, n, height))


def _smallest(Q: NDArray, slack: float) -> float:
    """Return the smallest eigenvalue, of a large matrix by Lanczos's method, unless the result is near round-off."""
    n = len(Q)
    if n > MAX_DENSE_POINTS:
        from scipy.sparse.linalg import ArpackError, eigsh  # loaded here: it is slow to import, and few fits need it

        start = np.random.default_rng(0).normal(size=n)
        try:
            (found,) = eigsh(
                Q,
                1,
                which="SA",
                v0=start,
                ncv=LANCZOS_VECTORS,
                maxiter=MAX_LANCZOS_RESTARTS,
                tol=LANCZOS_TOL,
                return_eigenvectors=False,
            )
        except ArpackError:
            found = 0.0
        if found < -2.0 * slack:
            return float(found)
    return float(scipy.linalg.eigvalsh(Q, subset_by_index=[0, 0], check_finite=False)[0])


def _in_range(Q: NDArray) -> tuple[NDArray, float]:
    """Return Q and 1, or Q/unit and the unit if squares or sums of entries could overflow or underflow.

    The unit is a power of 2, so that no bit is lost.
    """
    largest = max(float(Q.max()), -float(Q.min()))
    if largest == 0.0 or MIN_ENTRY_UNSCALED <= largest <= MAX_ENTRY_UNSCALED:
        return Q, 1.0
    unit = 2.0 ** np.floor(np.log2(largest))
    return Q / unit, float(unit)


def _slack(Q: NDArray) -> float:
    """Return n·ε·‖Q‖ (largest row sum): eigenvalues from −slack to 0 are round-off."""
    largest = max(float(np.abs(Q[rows]).sum(axis=1).max()) for rows in _strips(len(Q)))
    return len(Q) * float(np.finfo(float).eps) * largest


@dataclass(frozen=True)
class Repair:
    """A symmetric matrix made positive semidefinite, the size of the change, and the map for new points.

    Attributes
    ----------
    method : {"clip", "flip", "shift"}
    matrix : array of shape (n, n)
        The repaired K: V f(Λ) Vᵀ for K = VΛVᵀ.
    change : float
        ‖repaired − K‖ in the Frobenius norm, absolute; 0 if K needed no repair.
    relative_change : float
        change / ‖K‖.
    smallest_eigenvalue : float
        Of K.
    negative_eigenvalues : int
        Number of eigenvalues of K below −n·ε·‖K‖: others are round-off.
    map : array of shape (n, n), or None
        V f(Λ) Λ⁻¹ Vᵀ, symmetric; None for "shift", which does not change the kernel values of new points.

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
        """Return the repaired kernel values between new points and all n points.

        For "clip" and "flip" the row k(x) becomes V f(Λ) Λ⁻¹ Vᵀ k(x): the linear map that repairs the training matrix
        (Chen, Garcia, Gupta, Rahimi, Cazzanti, JMLR 10 (2009) 747-776). A row of K becomes the same row of `matrix`.
        "shift" changes only the diagonal, k(x, x) of each training point with itself, so the values of a new point stay
        the same, even if it equals a training point.

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
    """Return a symmetric kernel matrix made positive semidefinite, as a `Repair`.

    It is never applied automatically: the repaired problem is another problem, and its certificates are about that one.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric, indefinite or not; `Gram.full` returns that of any kernel. Not changed.
    method : {"clip", "flip", "shift"}
        "clip" replaces negative eigenvalues by 0: the nearest positive semidefinite matrix in the Frobenius norm.
        "flip" replaces λ by |λ|. "shift" adds −λ_min to the diagonal. If no eigenvalue is below −n·ε·‖K‖, the result is
        K.

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
    given, unit = _in_range(check_precomputed(K))
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
        # f(λ)/λ is 1, or for negative λ 0 (clip) or −1 (flip): there is no division by an eigenvalue.
        times = 1.0 if method == "clip" else 2.0
        linear -= times * (U @ U.T)
        lost = times * (U * lam) @ U.T
        matrix, change = given - 0.5 * (lost + lost.T), times * float(np.linalg.norm(lam))
    size = float(np.linalg.norm(eigenvalues))
    return Repair(method, matrix * unit, change * unit, change / size, smallest * unit, count, linear)
