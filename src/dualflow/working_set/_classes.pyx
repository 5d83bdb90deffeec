# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The duals of pairs of classes solved by the pair loop from given blocks of kernel values, many in one call."""

from time import monotonic

import numpy as np
from libc.string cimport memset

from ..core._pair_bound import check_listed
from ..core._radial import aligned
from ..core.runtime.memory import arena_array
from ..core._pair_bound cimport (AT_ALPHA, BETWEEN, N_FIRST, N_SECOND, STRIDE_BETWEEN, STRIDE_FIRST, STRIDE_SECOND,
                                 UPPER_FIRST, UPPER_SECOND, WITHIN_FIRST, WITHIN_SECOND)
from ._loop cimport Index, memory_double, pairs_double, row_of_blocks_double, source_double
from ._pairs import spare_for


def solve_listed(const double[::1] within, const double[::1] between, const long long[:, ::1] listed,
                 const double[::1] upper, double sign, double[::1] alpha, Index begin, double tolerance,
                 Index updates_per_variable, Index max_n_unlimited, Index max_updates, int rounds, Index exact_updates,
                 double seconds):
    """Solve the hinge's dual with an intercept for listed pairs of classes, from number ``begin`` on.

    A pair is solved by pair updates in rounds. A round starts with a gradient from scratch. The last one moves nothing,
    or reaches the tolerance with so few updates that its gradient is exact. Rows of a pair's matrix are assembled from
    the blocks on demand. Nothing that is written is shared: calls with an ``alpha`` of their own may run at the same
    time.

    Parameters
    ----------
    within, between, listed, upper
        See `core._pair_bound.check_listed`.
    sign : float
        Label of the first class of each pair, ±1; the second has −``sign``.
    alpha : array
        Receives the multipliers.
    begin : int
        Number of the first pair to solve.
    tolerance : float
        KKT violation to stop at.
    updates_per_variable : int
        Pair updates of a round, per variable.
    max_n_unlimited : int
        Points of a pair beyond which a round has ``max_updates`` instead, and the pair is given up after these.
    max_updates : int
    rounds : int
    exact_updates : int
        Number of updates up to which a gradient is exact.
    seconds : float
        Time after which no further pair is started.

    Returns
    -------
    int
        Number of the first pair that was not solved.
    """
    check_listed(within, between, listed, upper, alpha, sign)
    cdef Index count = listed.shape[0], n, largest = 0, k
    cdef double until = monotonic() + seconds
    for k in range(begin, count):
        largest = max(largest, <Index>(listed[k, N_FIRST] + listed[k, N_SECOND]))
    if not 0 <= begin <= count:
        raise ValueError("begin must be from 0 to the number of pairs")
    cdef double[::1] rows = arena_array((largest * largest,), np.float64)
    cdef double[::1] work = aligned((10 * largest,), np.float64)
    cdef long long[::1] slots = np.empty(largest, dtype=np.int64)
    cdef double[::1] spare = arena_array((spare_for(largest, 0, 0, np.float64),), np.float64)
    for k in range(begin, count):
        n = listed[k, N_FIRST] + listed[k, N_SECOND]
        with nogil:
            solve_one(&within[0], &between[0], &listed[k, 0], &upper[0], sign, &alpha[listed[k, AT_ALPHA]],
                      tolerance, updates_per_variable * n if n <= max_n_unlimited else max_updates,
                      n > max_n_unlimited, rounds, exact_updates, &rows[0], &work[0], &slots[0], &spare[0],
                      spare.shape[0])
        if monotonic() > until:
            return k + 1
    return count


cdef void solve_one(const double *within, const double *between, const long long *pair, const double *upper,
                    double sign, double *alpha, double tolerance, Index limit, bint one_round, int rounds,
                    Index exact_updates, double *rows, double *work, long long *slots, double *spare,
                    Index spare_size) noexcept nogil:
    """Solve one pair; ``pair`` is its row of the list."""
    cdef Index head = pair[N_FIRST], n = pair[N_FIRST] + pair[N_SECOND], used = 0, moved, k
    # β = yα/b with b = 1 / max Kᵢᵢ, see `ScaledVariables`. The compiled loop expects finite numbers.
    cdef double *G = work + 4 * n
    cdef double *diag = work + 5 * n
    cdef double *ep = work + 6 * n
    cdef double *beta = work + 7 * n
    cdef double *low = work + 8 * n
    cdef double *high = work + 9 * n
    cdef double unit = 0.0, bound, violation = 0.0
    cdef int turn
    cdef source_double source
    cdef memory_double memory
    memory.spare, memory.size, memory.all, memory.entries, memory.shrinks = spare, spare_size, 0, NULL, 0
    memset(&source, 0, sizeof(source))
    source.head = head
    source.first = within + pair[WITHIN_FIRST]
    source.between = between + pair[BETWEEN]
    source.second = within + pair[WITHIN_SECOND]
    source.first_stride = pair[STRIDE_FIRST]
    source.between_stride = pair[STRIDE_BETWEEN]
    source.second_stride = pair[STRIDE_SECOND]
    for k in range(n):
        if k < head:
            diag[k] = source.first[k * (source.first_stride + 1)]
        else:
            diag[k] = source.second[(k - head) * (source.second_stride + 1)]
        unit = max(unit, diag[k])
    unit = 1.0 / unit if unit > 0 else 1.0
    source.factor = unit
    for k in range(n):
        bound = upper[pair[UPPER_FIRST] + k] if k < head else upper[pair[UPPER_SECOND] + k - head]
        bound = min(bound, 1e300 * unit) / unit
        ep[k] = sign if k < head else -sign
        low[k], high[k] = (0.0, bound) if ep[k] > 0 else (-bound, 0.0)
        diag[k] *= unit
        beta[k] = 0.0
        slots[k] = -1
    for turn in range(rounds):
        gradient_of_blocks(n, beta, ep, &source, rows, slots, &used, G)
        moved = pairs_double(n, n, rows, slots, &used, &source, G, diag, beta, low, high, True, tolerance, limit, n,
                             work, &violation, memory, False)
        if moved == 0 or (violation <= tolerance and moved < exact_updates) or (one_round and moved == limit):
            break
    for k in range(n):  # a variable at its bound gets the bound itself: (u/b)·b may differ by an ulp
        bound = upper[pair[UPPER_FIRST] + k] if k < head else upper[pair[UPPER_SECOND] + k - head]
        if beta[k] == (high[k] if ep[k] > 0 else low[k]):
            alpha[k] = min(bound, 1e300 * unit)
        else:
            alpha[k] = min(max(ep[k] * beta[k] * unit, 0.0), bound)


cdef void gradient_of_blocks(Index n, const double *beta, const double *ep, const source_double *source, double *rows,
                             long long *slots, Index *used, double *G) noexcept nogil:
    """G = Mβ − ep, from the rows of the nonzero variables."""
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
