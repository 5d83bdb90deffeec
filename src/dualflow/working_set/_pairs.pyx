# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled pair loop; see pairs.h for the loop itself and `Level` for who calls it."""

from time import monotonic

import numpy as np
from libc.string cimport memset

from ..core._bound import check_listed
from ..core._radial import aligned
from ..core.arena import borrowed

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
    /* A leap of f variables takes f³ over this and n pair updates of n, and more where its factor leaves the cache. */
    #define LEAP_SPEED 25
    #define LEAP_CACHED 640.0
    #define SETTLE 2 /* updates without a change of who is free, for each that is free */
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
        Index first_apart
        Index between_apart
        Index second_apart
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
        Index first_apart
        Index between_apart
        Index second_apart
    void pack_all_float(Index n, Index stride, Index m, const float *points, const float *half, float *tiles, float *halves) nogil
    void pack_all_double(Index n, Index stride, Index m, const double *points, const double *half, double *tiles, double *halves) nogil
    void row_of_blocks_double(Index n, Index i, const source_double *origin, double *row) nogil
    void fetch_wanted_float(Index stride, Index count, const long long *wanted, const source_float *origin, float *rows, long long *slots, Index *used) nogil
    void fetch_wanted_double(Index stride, Index count, const long long *wanted, const source_double *origin, double *rows, long long *slots, Index *used) nogil
    Index pairs_float(int n, Index stride, float *rows, long long *slots, Index *used, const source_float *origin,
                     float *G, const float *diag, double *beta, const double *low, const double *high, int equality,
                     double tolerance, Index limit, Index room, float *work, double *violation) nogil
    Index pairs_double(int n, Index stride, double *rows, long long *slots, Index *used, const source_double *origin,
                      double *G, const double *diag, double *beta, const double *low, const double *high, int equality,
                      double tolerance, Index limit, Index room, double *work, double *violation) nogil

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


cdef source_float single_of(source):
    cdef const float[:, ::1] points = source.points
    cdef const float[::1] half = source.half, tiles = source.tiles, halves = source.halves
    cdef const float[::1] sign = source.sign, ridge = source.ridge
    return source_float(points.shape[1], &points[0, 0], &half[0], &tiles[0], &halves[0], &sign[0], &ridge[0],
                        source.factor, source.offset, 0, NULL, NULL, NULL, 0, 0, 0)


cdef source_double double_of(source):
    cdef const double[:, ::1] points = source.points
    cdef const double[::1] half = source.half, tiles = source.tiles, halves = source.halves
    cdef const double[::1] sign = source.sign, ridge = source.ridge
    return source_double(points.shape[1], &points[0, 0], &half[0], &tiles[0], &halves[0], &sign[0], &ridge[0],
                         source.factor, source.offset, 0, NULL, NULL, NULL, 0, 0, 0)


def check_source(source, n, room, stride):
    """Raise if rows of n variables cannot be made from a source."""
    if source.points.shape[0] != n or stride != padded(n) or room < n:
        raise ValueError("the source must be of n points, and rows (n, padded(n)), where some are to be made")


def fetch_rows(real[:, ::1] rows, long long[::1] slots, Index used, const long long[::1] which, source):
    """Make rows of M that are wanted, where they are not there yet; see `solve_pairs`.

    Returns
    -------
    used : int
        Rows there are now.
    """
    cdef Index n = slots.shape[0], count = which.shape[0]
    check_source(source, n, rows.shape[0], rows.shape[1])
    if count and not 0 <= min(which) <= max(which) < n:
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
    cdef Index stride = rows.shape[1]
    if n == 0 or rows.shape[0] == 0 or stride < n or slots.shape[0] != n or diag.shape[0] != n:
        raise ValueError("rows must be (k, at least n), and slots, G and diag (n,), k > 0, n > 0")
    if beta.shape[0] != n or low.shape[0] != n or high.shape[0] != n:
        raise ValueError("the vectors must be (n,)")
    cdef real[::1] work = aligned((4 * padded(n),), np.float32 if real is float else np.float64)
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
        check_source(source, n, rows.shape[0], stride)
        if real is float:
            single = single_of(source)
        else:
            double_ = double_of(source)
    with nogil:
        if real is float:
            updates = pairs_float(n, stride, &rows[0, 0], &slots[0], &used, &single, &G[0], &diag[0], &beta[0], &low[0],
                                  &high[0], equality, tolerance, limit, n, &work[0], &violation)
        else:
            updates = pairs_double(n, stride, &rows[0, 0], &slots[0], &used, &double_, &G[0], &diag[0], &beta[0],
                                   &low[0], &high[0], equality, tolerance, limit, n, &work[0], &violation)
    return updates, violation, used


def solve_listed(const double[::1] within, const double[::1] between, const long long[:, ::1] listed,
                 const double[::1] upper, double sign, double[::1] alpha, Index begin, double tolerance, Index updates,
                 Index small, Index most, int rounds, Index few, double seconds):
    """The hinge's optima for listed pairs of classes, see `check_listed`, from number ``begin`` on; into ``alpha``.

    The first class of each has the label ``sign``, the other −``sign``. Each is solved by pairs in rounds that begin
    with a gradient from scratch, ``updates`` a variable at most, until nothing moves, or the violation is within the
    tolerance after fewer than ``few`` updates, so that the gradient has its digits. One of more than ``small`` points
    is given up after ``most`` updates. Rows of a matrix are put together as they are needed.

    Returns the number of the first pair that was not solved: after ``seconds`` no other is begun. Nothing that is
    written is shared: calls with an ``alpha`` of their own may run at once.
    """
    check_listed(within, between, listed, upper, alpha, sign)
    cdef Index count = listed.shape[0], n, largest = 0, k
    cdef double until = monotonic() + seconds
    for k in range(begin, count):
        largest = max(largest, <Index>(listed[k, 0] + listed[k, 1]))
    if not 0 <= begin <= count:
        raise ValueError("begin must be one of the list, or its end")
    cdef double[::1] rows = borrowed((largest * largest,), np.float64)
    cdef double[::1] work = aligned((10 * largest,), np.float64)
    cdef long long[::1] slots = np.empty(largest, dtype=np.int64)
    for k in range(begin, count):
        n = listed[k, 0] + listed[k, 1]
        with nogil:
            solve_one(&within[0], &between[0], &listed[k, 0], &upper[0], sign, &alpha[listed[k, 10]], tolerance,
                      updates * n if n <= small else most, n > small, rounds, few, &rows[0], &work[0], &slots[0])
        if monotonic() > until:
            return k + 1
    return count


cdef void solve_one(const double *within, const double *between, const long long *pair, const double *upper,
                    double sign, double *alpha, double tolerance, Index limit, bint once, int rounds, Index few,
                    double *rows, double *work, long long *slots) noexcept nogil:
    cdef Index head = pair[0], n = pair[0] + pair[1], used = 0, moved, k
    # β = yα/b with b one over the largest Kᵢᵢ, see `InUnits`; the compiled loop wants finite numbers.
    cdef double *G = work + 4 * n
    cdef double *diag = work + 5 * n
    cdef double *ep = work + 6 * n
    cdef double *beta = work + 7 * n
    cdef double *low = work + 8 * n
    cdef double *high = work + 9 * n
    cdef double unit = 0.0, bound, violation = 0.0
    cdef int turn
    cdef source_double source
    memset(&source, 0, sizeof(source))
    source.head = head
    source.first, source.between, source.second = within + pair[2], between + pair[3], within + pair[4]
    source.first_apart, source.between_apart, source.second_apart = pair[5], pair[6], pair[7]
    for k in range(n):
        diag[k] = source.first[k * (pair[5] + 1)] if k < head else source.second[(k - head) * (pair[7] + 1)]
        unit = max(unit, diag[k])
    unit = 1.0 / unit if unit > 0 else 1.0
    source.factor = unit
    for k in range(n):
        bound = upper[pair[8] + k] if k < head else upper[pair[9] + k - head]
        bound = min(bound, 1e300 * unit) / unit
        ep[k] = sign if k < head else -sign
        low[k], high[k] = (0.0, bound) if ep[k] > 0 else (-bound, 0.0)
        diag[k] *= unit
        beta[k] = 0.0
        slots[k] = -1
    for turn in range(rounds):
        gradient_of_blocks(n, beta, ep, &source, rows, slots, &used, G)
        moved = pairs_double(n, n, rows, slots, &used, &source, G, diag, beta, low, high, True, tolerance, limit, n,
                             work, &violation)
        if moved == 0 or (violation <= tolerance and moved < few) or (once and moved == limit):
            break
    for k in range(n):  # a bound is given back as it came: (u/b)·b may be an ulp off
        bound = upper[pair[8] + k] if k < head else upper[pair[9] + k - head]
        alpha[k] = min(max(ep[k] * beta[k] * unit, 0.0), bound)


def solve_points(const double[:, ::1] points, const double[::1] half, Index head, const double[::1] upper, double sign,
                 double[::1] alpha, double tolerance, Index limit, Index room, bint fills, int rounds, Index few):
    """The hinge's optimum for two classes of points of the radial kernel, as `RowSource` has them, by rows that are made
    when they are asked for; into ``alpha``.

    The first ``head`` points have the label ``sign``, the others −``sign``. It is solved as a pair in `solve_listed`,
    with up to ``limit`` updates a round. When more than ``room`` rows were made all that are missing are, if it
    ``fills``; it gives up if not, and after a round of so many updates.

    Returns how many rows were made, 0 where it gave up.
    """
    cdef Index n = points.shape[0], m = points.shape[1], stride = padded(points.shape[0]), used = 0, moved, k
    if not (0 < head < n and half.shape[0] == upper.shape[0] == alpha.shape[0] == n and m > 0 and m % 4 == 0):
        raise ValueError("points must be (n, multiple of 4), half, upper and alpha (n,), and 0 < head < n")
    cdef double[::1] rows = borrowed((n * stride,), np.float64)
    cdef double[::1] tiles = aligned((stride * m,), np.float64)
    cdef double[::1] work = aligned((6 * stride,), np.float64)
    cdef double[::1] more = np.zeros(5 * n)
    cdef double[::1] ones = np.ones(stride)
    cdef long long[::1] slots = np.full(n, -1, dtype=np.int64)
    cdef long long[::1] everyone = np.arange(n)
    cdef double *halves = &work[4 * stride]
    cdef double *G = &more[0]
    cdef double *ep = G + n
    cdef double *beta = G + 2 * n
    cdef double *low = G + 3 * n
    cdef double *high = G + 4 * n
    cdef double violation = 0.0, bound
    cdef double[::1] ridge = np.zeros(n)
    cdef source_double source
    cdef int turn = 0
    cdef bint gave_up = False
    with nogil:
        memset(&source, 0, sizeof(source))
        pack_all_double(n, stride, m, &points[0, 0], &half[0], &tiles[0], halves)
        source.m, source.points, source.half, source.tiles, source.halves = m, &points[0, 0], &half[0], &tiles[0], halves
        source.sign, source.ridge, source.factor = &ones[0], &ridge[0], 1.0
        for k in range(n):
            bound = min(upper[k], 1e300)
            ep[k] = sign if k < head else -sign
            low[k], high[k] = (0.0, bound) if ep[k] > 0 else (-bound, 0.0)
        while turn < rounds:
            gradient_of_rows(n, stride, beta, ep, &rows[0], &slots[0], G)
            moved = pairs_double(n, stride, &rows[0], &slots[0], &used, &source, G, &ones[0], beta, low, high, True,
                                 tolerance, limit, room, &work[0], &violation)
            if used > room:
                gave_up = not fills
                if gave_up:
                    break
                room = n
                fetch_wanted_double(stride, n, &everyone[0], &source, &rows[0], &slots[0], &used)
                continue
            if moved == 0 or (violation <= tolerance and moved < few):
                break
            gave_up = not fills and moved == limit
            if gave_up:
                break
            turn += 1
        for k in range(n):
            alpha[k] = min(max(ep[k] * beta[k], 0.0), upper[k])
    return 0 if gave_up else used


cdef void gradient_of_rows(Index n, Index stride, const double *beta, const double *ep, const double *rows,
                           const long long *slots, double *G) noexcept nogil:
    """G = Mβ − ep: whoever moved has a row."""
    cdef Index k, j
    cdef const double *row
    for j in range(n):
        G[j] = -ep[j]
    for k in range(n):
        if beta[k] != 0:
            row = rows + stride * slots[k]
            for j in range(n):
                G[j] += beta[k] * row[j]


cdef void gradient_of_blocks(Index n, const double *beta, const double *ep, const source_double *source, double *rows,
                             long long *slots, Index *used, double *G) noexcept nogil:
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
