# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Two classes solved by the pair loop alone, from points of the radial kernel: rows of K are made when it asks."""

import numpy as np

from ..core._radial import aligned
from ..core.runtime.memory import borrowed
from ._loop cimport (Index, fetch_wanted_double, fetch_wanted_float, memory_double, memory_float, pack_all_double,
                     pack_all_float, pairs_double, pairs_float, source_double, source_float)
from ._pairs import LEAPS_FROM, LEAVES_FROM, padded, spare_for


cdef enum:
    LANES = 256


def solve_points(const real[:, ::1] points, const real[::1] half, const real[::1] ep, const double[::1] low,
                 const double[::1] high, double[::1] beta, real[::1] G, double tolerance, Index limit, Index room,
                 Index more, bint fills, int rounds, Index few):
    """The optimum over points of the radial kernel, as `RowSource` has them, by rows of K that are made when they are
    asked for: of ½βᵀKβ − epᵀβ between ``low`` and ``high``, which are finite, for the sum of the feasible ``beta``
    given; into it, and the gradient there into ``G``.

    It is solved as a pair in `solve_listed`, with up to ``limit`` updates a round. When more than ``room`` rows were
    made, ``more`` where most of those that moved are at their bounds, all that are missing are, if it ``fills``; it
    gives up if not, and after a round of so many updates.

    Returns how many rows were made, with parts of rows; 0 where it gave up.
    """
    cdef Index n = points.shape[0], m = points.shape[1], stride = padded(points.shape[0])
    if not (n > 0 and half.shape[0] == ep.shape[0] == low.shape[0] == high.shape[0] == beta.shape[0] == G.shape[0] == n
            and m > 0 and m % 4 == 0):
        raise ValueError("points must be (n, multiple of 4), and half, ep, low, high, beta and G (n,), n > 0")
    dtype = np.float32 if real is float else np.float64
    cdef rules told
    told.tolerance, told.limit, told.room, told.more = tolerance, limit, room, max(room, more)
    told.fills, told.rounds, told.few, told.leaves = fills, rounds, few, n >= LEAVES_FROM
    cdef real[::1] rows = borrowed((rows_of(n, told.more, fills),), dtype)
    cdef real[::1] tiles = borrowed((stride * m,), dtype)
    cdef real[::1] work = aligned((7 * stride,), dtype)
    cdef long long[::1] slots = np.empty(2 * n, dtype=np.int64)
    cdef real[::1] spare
    cdef real *spare_at = NULL
    cdef Index spare_size = 0
    if n >= LEAPS_FROM:
        spare = borrowed((spare_for(n, m, told.more + 4, dtype),), dtype)
        spare_at, spare_size = &spare[0], spare.shape[0]
    cdef double made
    with nogil:
        made = search(n, m, &points[0, 0], &half[0], &ep[0], &low[0], &high[0], &beta[0], &G[0], told, &rows[0],
                      &tiles[0], &work[0], &slots[0], &slots[n], spare_at, spare_size)
    return made


cdef double search(Index n, Index m, const real *points, const real *half, const real *ep, const double *low,
                   const double *high, double *beta, real *G, rules told, real *rows, real *tiles, real *work,
                   long long *slots, long long *wanted, real *spare, Index spare_size) noexcept nogil:
    """As `solve_points`. ``rows`` holds `rows_of`, ``tiles`` the padded points, ``work`` 7 of the padded n, ``spare``
    `spare_for`, if there is any, and ``slots`` and ``wanted`` n each."""
    cdef Index stride = (n + 127) // 128 * 128, used = 0, begun = 0, entries = 0, room = told.room, moved = 0, k
    cdef real *halves = work + 4 * stride
    cdef real *ones = work + 5 * stride
    cdef real *ridge = work + 6 * stride
    cdef double violation = 0.0
    cdef int turn = 0
    cdef bint gave_up = False
    for k in range(n):
        slots[k] = -1
        if beta[k] != 0:
            wanted[begun] = k
            begun += 1
    if begun > told.more and not told.fills:
        return 0.0
    for k in range(stride):
        ones[k], ridge[k] = 1, 0
    if real is float:
        source = source_float(m, points, half, tiles, halves, ones, ridge, 1.0, 0.0, 0, NULL, NULL, NULL, 0, 0, 0, 0)
        memory = memory_float(spare, spare_size, 0, &entries, told.leaves)
        pack_all_float(n, stride, m, points, half, tiles, halves)
    else:
        source = source_double(m, points, half, tiles, halves, ones, ridge, 1.0, 0.0, 0, NULL, NULL, NULL, 0, 0, 0, 0)
        memory = memory_double(spare, spare_size, 0, &entries, told.leaves)
        pack_all_double(n, stride, m, points, half, tiles, halves)
    if begun:
        fetch(stride, begun, wanted, &source, rows, slots, &used)
    while turn < told.rounds:
        if used <= room:
            gradient_of_rows(n, stride, beta, ep, rows, slots, G)
            if real is float:
                moved = pairs_float(n, stride, rows, slots, &used, &source, G, ones, beta, low, high, True,
                                    told.tolerance, told.limit, room, work, &violation, memory, False)
            else:
                moved = pairs_double(n, stride, rows, slots, &used, &source, G, ones, beta, low, high, True,
                                     told.tolerance, told.limit, room, work, &violation, memory, False)
        if used > room:
            if room < told.more and are_held(n, beta, low, high):
                room = told.more
                continue
            gave_up = not told.fills
            if gave_up:
                break
            room = n
            for k in range(n):
                wanted[k] = k
            fetch(stride, n, wanted, &source, rows, slots, &used)
            continue
        if moved == 0 or (violation <= told.tolerance and moved < told.few):
            break
        gave_up = not told.fills and moved == told.limit
        if gave_up:
            break
        turn += 1
    return 0.0 if gave_up else used + <double>entries / n


ctypedef fused a_source:
    source_float
    source_double


cdef void fetch(Index stride, Index count, const long long *wanted, const a_source *source, real *rows,
                long long *slots, Index *used) noexcept nogil:
    if a_source is source_float and real is float:
        fetch_wanted_float(stride, count, wanted, source, rows, slots, used)
    elif a_source is source_double and real is double:
        fetch_wanted_double(stride, count, wanted, source, rows, slots, used)


cdef bint are_held(Index n, const double *beta, const double *low, const double *high) noexcept nogil:
    """Whether of those that moved at least half are at their bounds."""
    cdef Index k, moved = 0, free = 0
    for k in range(n):
        moved += beta[k] != 0
        free += low[k] < beta[k] < high[k]
    return 2 * free <= moved


cdef void gradient_of_rows(Index n, Index stride, const double *beta, const real *ep, const real *rows,
                           const long long *slots, real *G) noexcept nogil:
    """G = Mβ − ep: whoever moved has a row. In float64: of one class after the other, sums on the way are large."""
    cdef double sums[LANES]
    cdef Index k, j, start = 0, count
    cdef const real *row
    while start < n:
        count = min(<Index>LANES, n - start)
        for j in range(count):
            sums[j] = -ep[start + j]
        for k in range(n):
            if beta[k] != 0:
                row = rows + stride * slots[k] + start
                for j in range(count):
                    sums[j] += beta[k] * row[j]
        for j in range(count):
            G[start + j] = <real>sums[j]
        start += count
