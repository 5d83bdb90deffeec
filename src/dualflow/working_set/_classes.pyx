# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Two classes solved by the pair loop alone, from blocks of kernel values: many pairs of them in one call."""

from time import monotonic

import numpy as np
from libc.string cimport memset

from ..core._pair_bound import check_listed
from ..core._radial import aligned
from ..core.runtime.memory import borrowed
from ._loop cimport Index, memory_double, pairs_double, row_of_blocks_double, source_double
from ._pairs import spare_for


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
        if beta[k] == (high[k] if ep[k] > 0 else low[k]):
            alpha[k] = min(bound, 1e300 * unit)
        else:
            alpha[k] = min(max(ep[k] * beta[k] * unit, 0.0), bound)


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
