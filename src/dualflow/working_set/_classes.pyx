# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Two classes solved by the pair loop alone: from blocks of kernel values, many in one call, or from points."""

from time import monotonic

import numpy as np
from libc.string cimport memset

from ..core._pair_bound import check_listed
from ..core._radial import aligned
from ..core.arena import borrowed
from ._loop cimport (Index, fetch_wanted_double, fetch_wanted_float, memory_double, memory_float, pack_all_double,
                     pack_all_float, pairs_double, pairs_float, row_of_blocks_double, source_double, source_float)
from ._pairs import LEAPS_FROM, LEAVES_FROM, padded, spare_for

ctypedef fused real:
    float
    double


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
    cdef double[::1] spare = borrowed((spare_for(largest, 0, 0, np.float64),), np.float64)
    for k in range(begin, count):
        n = listed[k, 0] + listed[k, 1]
        with nogil:
            solve_one(&within[0], &between[0], &listed[k, 0], &upper[0], sign, &alpha[listed[k, 10]], tolerance,
                      updates * n if n <= small else most, n > small, rounds, few, &rows[0], &work[0], &slots[0],
                      &spare[0], spare.shape[0])
        if monotonic() > until:
            return k + 1
    return count


cdef void solve_one(const double *within, const double *between, const long long *pair, const double *upper,
                    double sign, double *alpha, double tolerance, Index limit, bint once, int rounds, Index few,
                    double *rows, double *work, long long *slots, double *spare, Index spare_size) noexcept nogil:
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
    cdef memory_double none
    none.spare, none.size, none.all, none.entries, none.leaves = spare, spare_size, 0, NULL, 0
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
                             work, &violation, none, False)
        if moved == 0 or (violation <= tolerance and moved < few) or (once and moved == limit):
            break
    for k in range(n):  # a bound is given back as it came: (u/b)·b may be an ulp off
        bound = upper[pair[8] + k] if k < head else upper[pair[9] + k - head]
        alpha[k] = min(max(ep[k] * beta[k] * unit, 0.0), bound)


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
    cdef Index n = points.shape[0], m = points.shape[1], stride = padded(points.shape[0]), used = 0, moved
    if not (n > 0 and half.shape[0] == ep.shape[0] == low.shape[0] == high.shape[0] == beta.shape[0] == G.shape[0] == n
            and m > 0 and m % 4 == 0):
        raise ValueError("points must be (n, multiple of 4), and half, ep, low, high, beta and G (n,), n > 0")
    dtype = np.float32 if real is float else np.float64
    # Filled here: numpy's own ways to make such arrays take longer than a small problem does.
    cdef long long[::1] wanted = np.empty(n, dtype=np.int64)
    cdef Index begun = 0, k
    for k in range(n):
        if beta[k] != 0:
            wanted[begun] = k
            begun += 1
    more = max(room, more)
    if begun > more and not fills:
        return 0
    # An update asks for two rows, and each may come with another.
    cdef real[::1] rows = borrowed(((n if fills else min(n, more + 4)) * stride,), dtype)
    cdef real[::1] tiles = borrowed((stride * m,), dtype)
    cdef real[::1] work = aligned((7 * stride,), dtype)
    cdef long long[::1] slots = np.empty(n, dtype=np.int64)
    cdef real *halves = &work[4 * stride]
    cdef real *ones = &work[5 * stride]
    cdef real *ridge = &work[6 * stride]
    cdef double violation = 0.0
    for k in range(stride):
        ones[k], ridge[k] = 1, 0
    for k in range(n):
        slots[k] = -1
    cdef int turn = 0
    cdef bint gave_up = False
    cdef real[::1] spare
    cdef real *spare_at = NULL
    cdef Index spare_size = 0, entries = 0
    if n >= LEAPS_FROM:
        spare = borrowed((spare_for(n, m, more + 4, dtype),), dtype)
        spare_at, spare_size = &spare[0], spare.shape[0]
    if real is float:
        source = source_float(m, &points[0, 0], &half[0], &tiles[0], halves, ones, ridge, 1.0, 0.0, 0, NULL, NULL,
                              NULL, 0, 0, 0)
        memory = memory_float(spare_at, spare_size, 0, &entries, n >= LEAVES_FROM)
    else:
        source = source_double(m, &points[0, 0], &half[0], &tiles[0], halves, ones, ridge, 1.0, 0.0, 0, NULL,
                               NULL, NULL, 0, 0, 0)
        memory = memory_double(spare_at, spare_size, 0, &entries, n >= LEAVES_FROM)
    with nogil:
        if real is float:
            pack_all_float(n, stride, m, &points[0, 0], &half[0], &tiles[0], halves)
        else:
            pack_all_double(n, stride, m, &points[0, 0], &half[0], &tiles[0], halves)
        if begun:
            fetch(stride, begun, &wanted[0], &source, &rows[0], &slots[0], &used)
        while turn < rounds:
            if used <= room:
                gradient_of_rows(n, stride, &beta[0], &ep[0], &rows[0], &slots[0], &G[0])
                if real is float:
                    moved = pairs_float(n, stride, &rows[0], &slots[0], &used, &source, &G[0], ones, &beta[0], &low[0],
                                        &high[0], True, tolerance, limit, room, &work[0], &violation, memory, False)
                else:
                    moved = pairs_double(n, stride, &rows[0], &slots[0], &used, &source, &G[0], ones, &beta[0], &low[0],
                                         &high[0], True, tolerance, limit, room, &work[0], &violation, memory, False)
            if used > room:
                if room < more and are_held(n, &beta[0], &low[0], &high[0]):
                    room = more
                    continue
                gave_up = not fills
                if gave_up:
                    break
                room = n
                for k in range(n):
                    wanted[k] = k
                fetch(stride, n, &wanted[0], &source, &rows[0], &slots[0], &used)
                continue
            if moved == 0 or (violation <= tolerance and moved < few):
                break
            gave_up = not fills and moved == limit
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
    """G = Mβ − ep: whoever moved has a row."""
    cdef Index k, j
    cdef const real *row
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
