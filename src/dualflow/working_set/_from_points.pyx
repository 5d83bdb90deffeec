# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The dual of two classes solved by the pair loop from points of the radial kernel: rows of K are made on demand."""

import numpy as np

from ..core._radial import aligned
from ..core.runtime.memory import arena_array
from ._loop cimport (Index, fetch_wanted_double, fetch_wanted_float, memory_double, memory_float, pack_all_double,
                     pack_all_float, pairs_double, pairs_float, source_double, source_float)
from ._pairs import MIN_N_NEWTON, MIN_N_SHRINK, padded, spare_for


cdef enum:
    LANES = 256  # gradients that are summed together: their float64 sums stay in the first-level cache


def solve_points(const real[:, ::1] points, const real[::1] half, const real[::1] ep, const double[::1] low,
                 const double[::1] high, double[::1] beta, real[::1] G, double tolerance, Index max_updates,
                 Index max_rows, Index max_rows_bounded, bint fills, int rounds, Index exact_updates):
    """Minimise ½βᵀKβ − epᵀβ between bounds with Σβ fixed, by pair updates over kernel rows made on demand.

    Each round starts with a gradient from scratch, as in `solve_listed`.

    Parameters
    ----------
    points : array of shape (n, m), half : array of shape (n,)
        Points of the radial kernel as in `RowSource`.
    ep : array of shape (n,)
    low, high : arrays of shape (n,)
        Finite bounds.
    beta : array of shape (n,)
        Feasible start; receives the solution.
    G : array of shape (n,)
        Receives the gradient.
    tolerance : float
        KKT violation to stop at.
    max_updates : int
        Pair updates of a round.
    max_rows : int
        Rows that may be made.
    max_rows_bounded : int
        The same if at least half of the nonzero variables are at their bounds.
    fills : bool
        What happens beyond ``max_rows`` rows: all others are made, or the search is given up. It is given up after
        ``max_updates`` too, unless it ``fills``.
    rounds : int
    exact_updates : int
        A round that needs fewer pair updates is the last.

    Returns
    -------
    float
        Rows made, with parts of rows; 0 if the search was given up.
    """
    cdef Index n = points.shape[0], m = points.shape[1], stride = padded(points.shape[0])
    if not (n > 0 and half.shape[0] == ep.shape[0] == low.shape[0] == high.shape[0] == beta.shape[0] == G.shape[0] == n
            and m > 0 and m % 4 == 0):
        raise ValueError("points must be (n, multiple of 4), and half, ep, low, high, beta and G (n,), n > 0")
    dtype = np.float32 if real is float else np.float64
    cdef search_rules rules
    rules.tolerance, rules.max_updates = tolerance, max_updates
    rules.max_rows, rules.max_rows_bounded = max_rows, max(max_rows, max_rows_bounded)
    rules.fills, rules.rounds = fills, rounds
    rules.exact_updates, rules.shrinks = exact_updates, n >= MIN_N_SHRINK
    cdef real[::1] rows = arena_array((rows_of(n, rules.max_rows_bounded, fills),), dtype)
    cdef real[::1] tiles = arena_array((stride * m,), dtype)
    cdef real[::1] work = aligned((7 * stride,), dtype)
    cdef long long[::1] slots = np.empty(2 * n, dtype=np.int64)
    cdef real[::1] spare
    cdef real *spare_at = NULL
    cdef Index spare_size = 0
    if n >= MIN_N_NEWTON:
        spare = arena_array((spare_for(n, m, rules.max_rows_bounded + 4, dtype),), dtype)
        spare_at, spare_size = &spare[0], spare.shape[0]
    cdef double made
    with nogil:
        made = search(n, m, &points[0, 0], &half[0], &ep[0], &low[0], &high[0], &beta[0], &G[0], rules, &rows[0],
                      &tiles[0], &work[0], &slots[0], &slots[n], spare_at, spare_size, NULL)
    return made


cdef double search(Index n, Index m, const real *points, const real *half, const real *ep, const double *low,
                   const double *high, double *beta, real *G, search_rules rules, real *rows, real *tiles, real *work,
                   long long *slots, long long *wanted, real *spare, Index spare_size,
                   Index *kept) noexcept nogil:
    """`solve_points` with memory from the caller.

    ``rows`` holds `rows_of` numbers, ``tiles`` the padded points, ``work`` 7 times the padded n, ``spare`` `spare_for`
    numbers or none, and ``slots`` and ``wanted`` n each. If ``kept`` is given, ``slots`` and ``rows`` hold that number
    of rows of the same points, and it receives their new number; the rows returned are those that were made anew.
    """
    cdef Index stride = (n + 127) // 128 * 128, used = 0, begun = 0, entries = 0, max_rows = rules.max_rows, moved = 0, k
    cdef Index before = 0
    cdef real *halves = work + 4 * stride
    cdef real *ones = work + 5 * stride
    cdef real *ridge = work + 6 * stride
    cdef double violation = 0.0
    cdef int turn = 0
    cdef bint is_given_up = False
    if kept:
        used = before = kept[0]
    for k in range(n):
        if before == 0:
            slots[k] = -1
        if beta[k] != 0:
            wanted[begun] = k
            begun += 1
    if begun > rules.max_rows_bounded and not rules.fills:
        return 0.0
    for k in range(stride):
        ones[k], ridge[k] = 1, 0
    if real is float:
        source = source_float(m, points, half, tiles, halves, ones, ridge, 1.0, 0.0, 0, NULL, NULL, NULL, 0, 0, 0, 0)
        memory = memory_float(spare, spare_size, 0, &entries, rules.shrinks)
        pack_all_float(n, stride, m, points, half, tiles, halves)
    else:
        source = source_double(m, points, half, tiles, halves, ones, ridge, 1.0, 0.0, 0, NULL, NULL, NULL, 0, 0, 0, 0)
        memory = memory_double(spare, spare_size, 0, &entries, rules.shrinks)
        pack_all_double(n, stride, m, points, half, tiles, halves)
    if begun:
        fetch(stride, begun, wanted, &source, rows, slots, &used)
    while turn < rules.rounds:
        if used <= max_rows:
            gradient_of_rows(n, stride, beta, ep, rows, slots, G)
            if real is float:
                moved = pairs_float(n, stride, rows, slots, &used, &source, G, ones, beta, low, high, True,
                                    rules.tolerance, rules.max_updates, max_rows, work, &violation, memory, False)
            else:
                moved = pairs_double(n, stride, rows, slots, &used, &source, G, ones, beta, low, high, True,
                                     rules.tolerance, rules.max_updates, max_rows, work, &violation, memory, False)
        if used > max_rows:
            if max_rows < rules.max_rows_bounded and are_half_bounded(n, beta, low, high):
                max_rows = rules.max_rows_bounded
                continue
            is_given_up = not rules.fills
            if is_given_up:
                break
            max_rows = n
            for k in range(n):
                wanted[k] = k
            fetch(stride, n, wanted, &source, rows, slots, &used)
            continue
        if moved == 0 or (violation <= rules.tolerance and moved < rules.exact_updates):
            break
        is_given_up = not rules.fills and moved == rules.max_updates
        if is_given_up:
            break
        turn += 1
    if kept:
        kept[0] = used
    if is_given_up:
        return 0.0
    # A search over kept rows may need no other; 0 would say that it was given up.
    return max(used - before + <double>entries / n, 1.0 / n) if kept else used + <double>entries / n


ctypedef fused a_source:
    source_float
    source_double


cdef void fetch(Index stride, Index count, const long long *wanted, const a_source *source, real *rows,
                long long *slots, Index *used) noexcept nogil:
    if a_source is source_float and real is float:
        fetch_wanted_float(stride, count, wanted, source, rows, slots, used)
    elif a_source is source_double and real is double:
        fetch_wanted_double(stride, count, wanted, source, rows, slots, used)


cdef bint are_half_bounded(Index n, const double *beta, const double *low, const double *high) noexcept nogil:
    """Whether at least half of the nonzero variables are at their bounds."""
    cdef Index k, moved = 0, free = 0
    for k in range(n):
        moved += beta[k] != 0
        free += low[k] < beta[k] < high[k]
    return 2 * free <= moved


cdef void gradient_of_rows(Index n, Index stride, const double *beta, const real *ep, const real *rows,
                           const long long *slots, real *G) noexcept nogil:
    """G = Mβ − ep, summed in float64: points of one class come first, so that partial sums are large.

    Each nonzero variable has a row.
    """
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
