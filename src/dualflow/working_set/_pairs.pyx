# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled pair loop; see pairs.h for the loop itself and `Level` for who calls it."""

import numpy as np
from libc.string cimport memset

from ..core._radial import aligned

ctypedef Py_ssize_t Index

cdef extern from *:
    """
    #include "clones.h"
    #include "exponential.h"
    #define BIG 1e30
    #define TINY 1e-12
    #define COMPANY 16
    #define NOISE 8 /* what a gradient of order 1 may be wrong by, in units of the last place */
    #define PAIRS_A_LEAP 20 /* at least */
    #define AGAIN 10 /* times a step is repeated, at most */
    #define RIDGE_SINGLE 1e-5
    #define RIDGE_DOUBLE 1e-12
    #include "leap.h"
    #define REAL float
    #include "radial.h"
    #include "pairs.h"
    #undef REAL
    #define REAL double
    #include "radial.h"
    #include "pairs.h"
    #undef REAL
    """
    ctypedef struct source_float:
        Index m
        const float *points
        const float *half
        const float *tiles
        const float *halves
        const float *sign
        const float *ridge
        float factor
        float offset
        Index head
        const float *first
        const float *between
        const float *second
    ctypedef struct source_double:
        Index m
        const double *points
        const double *half
        const double *tiles
        const double *halves
        const double *sign
        const double *ridge
        double factor
        double offset
        Index head
        const double *first
        const double *between
        const double *second
    void pack_all_float(Index n, Index stride, Index m, const float *points, const float *half, float *tiles, float *halves) nogil
    void pack_all_double(Index n, Index stride, Index m, const double *points, const double *half, double *tiles, double *halves) nogil
    void row_of_blocks_double(Index n, Index i, const source_double *origin, double *row) nogil
    Index pairs_float(int n, Index stride, float *rows, long long *slots, Index *used, const source_float *origin,
                     float *G, const float *diag, double *beta, const double *low, const double *high, int equality,
                     double tolerance, Index limit, float *work, double *violation) nogil
    Index pairs_double(int n, Index stride, double *rows, long long *slots, Index *used, const source_double *origin,
                      double *G, const double *diag, double *beta, const double *low, const double *high, int equality,
                      double tolerance, Index limit, double *work, double *violation) nogil

ctypedef fused real:
    float
    double


class RowSource:
    """Where rows of M are made from: Mᵢ_c = factor · sᵢs_c(k(xᵢ, x_c) + offset) + ridgeᵢ[i = c].

    Parameters
    ----------
    points : array of shape (n, m), half : array of shape (n,)
        As in radial.h; m is a multiple of 4.
    sign, ridge : arrays of shape (n,)
    factor, offset : float
    """

    def __init__(self, points, half, sign, ridge, factor, offset):
        n, m = points.shape
        if n == 0 or m == 0 or m % 4 or not len(half) == len(sign) == len(ridge) == n:
            raise ValueError("points must be (n, multiple of 4), and half, sign and ridge (n,), n > 0")
        self.points, self.half, self.factor, self.offset = points, half, factor, offset
        self.ridge = np.ascontiguousarray(ridge, dtype=points.dtype)
        self.sign = np.zeros(padded(n), dtype=points.dtype)
        self.sign[:n] = sign
        self.tiles, self.halves = _pack(points, half)


def _pack(const real[:, ::1] points, const real[::1] half):
    cdef Index n = points.shape[0], m = points.shape[1], stride = padded(points.shape[0])
    dtype = np.float32 if real is float else np.float64
    tiles, halves = aligned((stride * m,), dtype), aligned((stride,), dtype)
    cdef real[::1] tile_view = tiles, half_view = halves
    with nogil:
        if real is float:
            pack_all_float(n, stride, m, &points[0, 0], &half[0], &tile_view[0], &half_view[0])
        else:
            pack_all_double(n, stride, m, &points[0, 0], &half[0], &tile_view[0], &half_view[0])
    return tiles, halves


def solve_pairs(real[:, ::1] rows, long long[::1] slots, Index used, real[::1] G, const real[::1] diag,
                double[::1] beta, const double[::1] low, const double[::1] high, bint equality, double tolerance,
                Index limit, source=None):
    """Update β and G in place by pairs (single variables without the equality).

    Row i of M is ``rows[slots[i]]``. Where ``slots[i]`` is negative it is made from ``source``, which must be given
    then, and put in ``rows[used]``; rows are then as wide as `padded` says.

    Returns
    -------
    updates : int
    violation : float
        Worst KKT violation when the loop ended, in units of G.
    used : int
        Rows there are now.
    """
    cdef int n = G.shape[0]
    cdef Index stride = rows.shape[1], m = 0
    if n == 0 or rows.shape[0] == 0 or stride < n or slots.shape[0] != n or diag.shape[0] != n:
        raise ValueError("rows must be (k, at least n), and slots, G and diag (n,), k > 0, n > 0")
    if beta.shape[0] != n or low.shape[0] != n or high.shape[0] != n:
        raise ValueError("the vectors must be (n,)")
    cdef real[::1] work = aligned((4 * padded(n),), np.float32 if real is float else np.float64)
    cdef const real[:, ::1] points
    cdef const real[::1] half, tiles, halves, signs, ridge
    cdef double violation = 0.0
    cdef Index updates
    cdef source_float single
    cdef source_double double_
    memset(&single, 0, sizeof(single))
    memset(&double_, 0, sizeof(double_))
    if source is None:
        if (np.asarray(slots) < 0).any():
            raise ValueError("rows are missing, and no source to make them from")
    else:
        points, half, tiles, halves = source.points, source.half, source.tiles, source.halves
        signs, ridge, m = source.sign, source.ridge, source.points.shape[1]
        if points.shape[0] != n or stride != padded(n) or rows.shape[0] < n:
            raise ValueError("the source must be of n points, and rows (n, padded(n)), where some are to be made")
        if real is float:
            single = source_float(m, &points[0, 0], &half[0], &tiles[0], &halves[0], &signs[0], &ridge[0],
                                  source.factor, source.offset, 0, NULL, NULL, NULL)
        else:
            double_ = source_double(m, &points[0, 0], &half[0], &tiles[0], &halves[0], &signs[0], &ridge[0],
                                    source.factor, source.offset, 0, NULL, NULL, NULL)
    with nogil:
        if real is float:
            updates = pairs_float(n, stride, &rows[0, 0], &slots[0], &used, &single, &G[0], &diag[0], &beta[0], &low[0],
                                  &high[0], equality, tolerance, limit, &work[0], &violation)
        else:
            updates = pairs_double(n, stride, &rows[0, 0], &slots[0], &used, &double_, &G[0], &diag[0], &beta[0],
                                   &low[0], &high[0], equality, tolerance, limit, &work[0], &violation)
    return updates, violation, used


def solve_blocks(const double[:, ::1] first, const double[:, ::1] between, const double[:, ::1] second, double factor,
                 double[:, ::1] rows, double[::1] beta, const double[::1] low, const double[::1] high,
                 const double[::1] ep, double tolerance, Index limit, int rounds, Index few):
    """β in place by pairs, Σβ staying what it is, in rounds that begin with a gradient Mβ − ep from scratch, M = factor · [[first, between],
    [betweenᵀ, second]], of which only rows that are needed are put together, in ``rows``, whose entries may be anything.

    Ends when nothing moves, or when the violation is within the tolerance after fewer than ``few`` updates, so that the
    gradient has its digits.

    Returns
    -------
    updates : int
    violation : float
    """
    cdef Index head = first.shape[0], rest = second.shape[0], n = head + rest, used = 0, updates = 0, moved, k
    if not (head > 0 and rest > 0 and first.shape[1] == between.shape[0] == head):
        raise ValueError("first must be (head, head), and between (head, rest), head > 0, rest > 0")
    if not second.shape[1] == between.shape[1] == rest:
        raise ValueError("second must be (rest, rest), and between (head, rest)")
    if not rows.shape[0] == rows.shape[1] == beta.shape[0] == low.shape[0] == high.shape[0] == ep.shape[0] == n:
        raise ValueError("rows must be (n, n), and the vectors (n,)")
    cdef source_double source
    memset(&source, 0, sizeof(source))
    source.factor, source.head = factor, head
    source.first, source.between, source.second = &first[0, 0], &between[0, 0], &second[0, 0]
    cdef double[::1] work = aligned((6 * padded(n),), np.float64)
    cdef double *G = &work[4 * n]
    cdef double *diag = &work[5 * n]
    cdef long long[::1] slots = np.full(n, -1, dtype=np.int64)
    cdef double violation = 0.0
    cdef int turn
    with nogil:
        for k in range(n):
            diag[k] = factor * (first[k, k] if k < head else second[k - head, k - head])
        for turn in range(rounds):
            gradient_of_blocks(n, beta, &ep[0], &source, &rows[0, 0], slots, &used, G)
            moved = pairs_double(n, n, &rows[0, 0], &slots[0], &used, &source, G, diag, &beta[0], &low[0], &high[0],
                                 True, tolerance, limit, &work[0], &violation)
            updates += moved
            if moved == 0 or (violation <= tolerance and moved < few):
                break
    return updates, violation


cdef void gradient_of_blocks(Index n, double[::1] beta, const double *ep, const source_double *source, double *rows,
                             long long[::1] slots, Index *used, double *G) noexcept nogil:
    """G = Mβ − ep, by the rows of those that are not 0."""
    cdef Index k, j
    cdef const double *row
    for j in range(n):
        G[j] = -ep[j]
    for k in range(n):
        if beta[k] != 0:
            if slots[k] < 0:
                row_of_blocks_double(n, k, source, rows + n * used[0])
                slots[k] = used[0]
                used[0] += 1
            row = rows + n * slots[k]
            for j in range(n):
                G[j] += beta[k] * row[j]


def padded(n):
    """Width of rows that are made on demand: the next multiple of a tile."""
    return -(-n // 128) * 128


def extremes(const double[::1] G, const double[::1] beta, const double[::1] low, const double[::1] high,
             const unsigned char[::1] awake):
    """How much the one that wants to rise most, and the one that wants to fall most, would: largest −G of those awake
    that can rise, and largest G of those that can fall; −1e300 if there is none."""
    cdef double top = -1e300, bottom = -1e300
    cdef Index k, n = G.shape[0]
    with nogil:
        for k in range(n):
            if awake[k]:
                if beta[k] < high[k] and -G[k] > top:
                    top = -G[k]
                if beta[k] > low[k] and G[k] > bottom:
                    bottom = G[k]
    return top, bottom


def shortfall(const double[::1] G, const double[::1] e, const double[::1] low, const double[::1] high,
              const unsigned char[::1] awake, double nu):
    """Σ min(0, uρ) over those awake, ρ = e(G − ν): what the dual bound loses to multipliers of the wrong sign."""
    cdef double total = 0.0, rho
    cdef Index k, n = G.shape[0]
    with nogil:
        for k in range(n):
            rho = e[k] * (G[k] - nu)
            if rho < 0 and awake[k]:
                total += rho * (high[k] - low[k])  # one of the two bounds is 0
    return total
