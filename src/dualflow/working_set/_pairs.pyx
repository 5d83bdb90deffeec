# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Python's access to the compiled pair loop of pairs.h, and two passes over all variables that `Level` needs."""

import numpy as np
from libc.string cimport memset

from ..core._radial import aligned
from ..core.runtime.memory import arena_array
from ._loop cimport (PANEL, MIN_N_SHRINKING, Index, fetch_wanted_double, fetch_wanted_float, pack_all_double, pack_all_float,
                     pairs_double, memory_double, memory_float, pairs_float, source_double, source_float)

#: Variables from which some may be shrunk.
MIN_N_SHRINK = MIN_N_SHRINKING
#: Variables from which memory for Newton steps is arena_array, and not left to malloc, which might not give it back.
MIN_N_NEWTON = 64
#: Free variables for whose Newton step that memory suffices.
MAX_FREE_NEWTON = 640
#: Rows that one update may make: those of a pair, and with each that of the worst violator.
ROWS_PER_UPDATE = 4

ctypedef fused real:
    float
    double


class RowSource:
    """What rows of M are made from: Mᵢ_c = factor · sᵢs_c(k(xᵢ, x_c) + offset) + ridgeᵢ[i = c].

    k is the radial kernel, or (aᵀb − half_a − half_b) to the power of a positive ``degree``.

    Parameters
    ----------
    points : array of shape (n, m), half : array of shape (n,)
        As in radial.h; m is a multiple of 4.
    sign, ridge : arrays of shape (n,)
    factor, offset : float
    degree : int, default=0

    Attributes
    ----------
    entries : int
        Kernel entries that were made for active variables alone, beside whole rows.
    """

    def __init__(self, points, half, sign, ridge, factor, offset, degree=0):
        n, m = points.shape
        if n == 0 or m == 0 or m % 4 or not len(half) == len(sign) == len(ridge) == n:
            raise ValueError("points must be (n, multiple of 4), and half, sign and ridge (n,), n > 0")
        self.points, self.half, self.factor, self.offset = points, half, factor, offset
        self.degree = degree
        self.entries = 0
        self.ridge = np.ascontiguousarray(ridge, dtype=points.dtype)
        self.sign = np.zeros(padded(n), dtype=points.dtype)
        self.sign[:n] = sign
        self.tiles, self.halves = _pack(points, half)


def _pack(const real[:, ::1] points, const real[::1] half):
    cdef Index n = points.shape[0], m = points.shape[1], stride = padded(points.shape[0])
    dtype = np.float32 if real is float else np.float64
    tiles, halves = arena_array((stride * m,), dtype), aligned((stride,), dtype)
    cdef real[::1] tile_view = tiles, half_view = halves
    with nogil:
        if real is float:
            pack_all_float(n, stride, m, &points[0, 0], &half[0], &tile_view[0], &half_view[0])
        else:
            pack_all_double(n, stride, m, &points[0, 0], &half[0], &tile_view[0], &half_view[0])
    return tiles, halves


cdef source_float single_of(source):
    cdef const float[:, ::1] points = source.points
    cdef const float[::1] half = source.half, tiles = source.tiles, halves = source.halves
    cdef const float[::1] sign = source.sign, ridge = source.ridge
    return source_float(points.shape[1], &points[0, 0], &half[0], &tiles[0], &halves[0], &sign[0], &ridge[0],
                        source.factor, source.offset, 0, NULL, NULL, NULL, 0, 0, 0, source.degree)


cdef source_double double_of(source):
    cdef const double[:, ::1] points = source.points
    cdef const double[::1] half = source.half, tiles = source.tiles, halves = source.halves
    cdef const double[::1] sign = source.sign, ridge = source.ridge
    return source_double(points.shape[1], &points[0, 0], &half[0], &tiles[0], &halves[0], &sign[0], &ridge[0],
                         source.factor, source.offset, 0, NULL, NULL, NULL, 0, 0, 0, source.degree)


def check_source(source, n, room, stride):
    """Raise if rows of n variables cannot be made from a source."""
    if source.points.shape[0] != n or stride != padded(n) or room < n:
        raise ValueError("the source must have n points, and rows must be (n, padded(n)), if rows are to be made")


def fetch_rows(real[:, ::1] rows, long long[::1] slots, Index used, const long long[::1] which, source):
    """Make the rows ``which`` of M that are missing; see `solve_pairs`.

    Returns
    -------
    used : int
        Number of rows made so far.
    """
    cdef Index n = slots.shape[0], count = which.shape[0]
    check_source(source, n, rows.shape[0], rows.shape[1])
    if count == 0:
        return used
    if not 0 <= min(which) <= max(which) < n:
        raise ValueError("rows are numbered from 0 to n - 1")
    cdef source_float single
    cdef source_double double_
    if real is float:
        single = single_of(source)
        with nogil:
            fetch_wanted_float(rows.shape[1], count, &which[0], &single, &rows[0, 0], &slots[0], &used)
    else:
        double_ = double_of(source)
        with nogil:
            fetch_wanted_double(rows.shape[1], count, &which[0], &double_, &rows[0, 0], &slots[0], &used)
    return used


def solve_pairs(real[:, ::1] rows, long long[::1] slots, Index used, real[::1] G, const real[::1] diag,
                double[::1] beta, const double[::1] low, const double[::1] high, bint equality, double tolerance,
                Index limit, source=None, bint starts_newton=False):
    """Update β and G in place by pairs of variables (by single variables without the equality).

    Parameters
    ----------
    rows : array of shape (k, width)
        Rows of M; ``width`` is at least n, and `padded` (n) with a source. With fewer than n, the loop ends when at most
        `ROWS_PER_UPDATE` are left.
    slots : int array of shape (n,)
        Row i of M is ``rows[slots[i]]``. If ``slots[i]`` is negative it is made from the source, as ``rows[used]``.
    used : int
        Number of rows made so far.
    G, diag, beta, low, high : arrays of shape (n,)
        The gradient, the diagonal of M, the variables, and their finite bounds.
    equality : bool
        Whether Σβ is fixed.
    tolerance : float
        KKT violation to stop at, in units of G.
    limit : int
        Updates, at most.
    source : RowSource, optional
    starts_newton : bool, default=False
        Whether the free variables take a Newton step before the first update.

    Returns
    -------
    updates : int
    violation : float
        Largest KKT violation when the loop ended, in units of G; infinite if there is no room for the rows of the free
        variables, with which it begins.
    used : int
        Number of rows made so far.
    """
    cdef int n = G.shape[0]
    cdef Index stride = rows.shape[1], max_rows = n
    if source is not None and rows.shape[0] < n:
        max_rows = rows.shape[0] - ROWS_PER_UPDATE
    if n == 0 or rows.shape[0] == 0 or stride < n or slots.shape[0] != n or diag.shape[0] != n:
        raise ValueError("rows must be (k, at least n), and slots, G and diag (n,), k > 0, n > 0")
    if beta.shape[0] != n or low.shape[0] != n or high.shape[0] != n:
        raise ValueError("the vectors must be (n,)")
    cdef real[::1] work = aligned((4 * padded(n),), np.float32 if real is float else np.float64)
    cdef double violation = 0.0
    cdef Index updates
    cdef source_float single
    cdef source_double double_
    cdef memory_float single_memory
    cdef memory_double double_memory
    cdef Index entries = 0
    single_memory.all = double_memory.all = 0
    single_memory.entries = double_memory.entries = &entries
    single_memory.shrinks = double_memory.shrinks = source is not None and n >= MIN_N_SHRINK
    cdef real[::1] spare
    cdef real *spare_at = NULL
    cdef Index spare_size = 0
    memset(&single, 0, sizeof(single))
    memset(&double_, 0, sizeof(double_))
    if source is None:
        if (np.asarray(slots) < 0).any():
            raise ValueError("rows are missing, and there is no source to make them from")
    else:
        check_source(source, n, n, stride)
        if used + np.count_nonzero((np.asarray(slots) < 0) & (np.asarray(beta) > low) & (np.asarray(beta) < high)) > max_rows:
            return 0, np.inf, used
        if real is float:
            single = single_of(source)
        else:
            double_ = double_of(source)
    if n >= (MIN_N_NEWTON if source is None else MIN_N_SHRINK):
        dtype = np.float32 if real is float else np.float64
        spare = arena_array((spare_for(n, 0 if source is None else source.points.shape[1], rows.shape[0], dtype),), dtype)
        spare_at, spare_size = &spare[0], spare.shape[0]
    with nogil:
        if real is float:
            single_memory.spare, single_memory.size = <float *>spare_at, spare_size
            updates = pairs_float(n, stride, &rows[0, 0], &slots[0], &used, &single, &G[0], &diag[0], &beta[0], &low[0],
                                  &high[0], equality, tolerance, limit, max_rows, &work[0], &violation, single_memory,
                                  starts_newton)
        else:
            double_memory.spare, double_memory.size = <double *>spare_at, spare_size
            updates = pairs_double(n, stride, &rows[0, 0], &slots[0], &used, &double_, &G[0], &diag[0], &beta[0],
                                   &low[0], &high[0], equality, tolerance, limit, max_rows, &work[0], &violation,
                                   double_memory, starts_newton)
    if source is not None:
        source.entries += entries
    return updates, violation, used


def spare_for(n, m, rows, dtype):
    """Return the spare numbers that Newton steps and shrinking need.

    The problem has n variables, points of m coordinates (0: no shrinking), and at most ``rows`` rows that are made.
    """
    half, free = n // 2, min(n, MAX_FREE_NEWTON)
    parts = 2 * (2 * padded(half) * m + padded(half) * (min(rows, half) + 8)) if m and n >= MIN_N_SHRINK else 0
    return max(parts, ((free + 14 + PANEL) * (free + 7) * 8 + 8 * free) // np.dtype(dtype).itemsize + 1)


def padded(n):
    """Return the width of rows that are made on demand: n rounded up to a multiple of a tile."""
    return -(-n // 128) * 128


def extremes(const double[::1] G, const double[::1] beta, const double[::1] low, const double[::1] high,
             const unsigned char[::1] active):
    """Return the largest −G of the active variables that can rise, and the largest G of those that can fall.

    Either is −1e300 if there is no such variable.
    """
    cdef double top = -1e300, bottom = -1e300
    cdef Index k, n = G.shape[0]
    with nogil:
        for k in range(n):
            if active[k]:
                if beta[k] < high[k] and -G[k] > top:
                    top = -G[k]
                if beta[k] > low[k] and G[k] > bottom:
                    bottom = G[k]
    return top, bottom


def shortfall(const double[::1] G, const double[::1] e, const double[::1] low, const double[::1] high,
              const unsigned char[::1] active, double nu):
    """Return Σ min(0, uρ) over the active variables, ρ = e(G − ν): the loss of the bound to wrong signs."""
    cdef double total = 0.0, rho
    cdef Index k, n = G.shape[0]
    with nogil:
        for k in range(n):
            rho = e[k] * (G[k] - nu)
            if rho < 0 and active[k]:
                total += rho * (high[k] - low[k])  # one of the two bounds is 0
    return total
