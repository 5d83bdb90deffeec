# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pairs of classes solved from their points and certified, many in one compiled call without the interpreter's lock.

For each pair it does what `PointSearch` and `PointSums` of `direct.from_points` do in Python for larger
problems: a search that makes kernel rows on demand, in float32 first where that pays; a float64 subproblem over the
free and nearly free variables; and a certificate from kernel sums that are in float64 wherever float32 leaves the sign
of a multiplier undetermined.
"""

from time import monotonic

import numpy as np
from libc.math cimport NAN, fabs
from libc.string cimport memcpy, memset

from ..core.runtime.memory import arena_array
from ..core.radial import EXPONENTIAL_COST
from ..core.mixed_precision import TERMS_PER_SUM
from ._pairs import MIN_N_SHRINK, spare_for
from .descent import MIN_GAP_FLOAT32
from .dense import (KKT_TOL, MAX_LOOKS, MAX_NEARLY_FREE, MAX_RESTARTS, MAX_ROUNDS_FREE, MAX_UPDATES_EXACT,
                    NEARLY_FREE_FACTOR, TRUSTED_GAP_SHARE, UPDATES_PER_FREE)

from ..core._bound cimport error_bounds_of, has_error_bounds, undetermined_of
from ..core._pair_bound cimport PairCertificate, bound_one, n_numbers, project_one
from ._from_points cimport rows_of, search, search_rules
from ._loop cimport Index, memory_double, pairs_double, source_double
from ._wishes cimport mark_nearly_free, mean_of_free, violation_of

cdef extern from "loop.h":
    void radial_rows_double(Index count, Index n, Index m, const double *a, const double *half_a, const double *b,
                            const double *half_b, double *out, double *work, Index tiles, int upper) nogil
    void radial_sum_float(Index count, Index n, Index m, Index r, const float *a, const float *half_a, const float *b,
                          const float *half_b, const float *weights, double *out, float *work) nogil
    void radial_sum_double(Index count, Index n, Index m, Index r, const double *a, const double *half_a, const double *b,
                           const double *half_b, const double *weights, double *out, double *work) nogil
    void add_rows_double(Index n, Index stride, Index count, const double *rows, const long long *slots,
                         const double *weights, double *out) nogil
    void radial_square_double(Index n, Index m, const double *a, const double *half, const double *weights, Index start,
                              Index stop, double *out, double *work) nogil

#: Columns of the table that `solve_point_pairs` reads, a row for each pair.
cpdef enum:
    POINTS_N_FIRST = 0  # points of the first class
    POINTS_N_SECOND = 1  # points of the second class
    AT_FIRST = 2  # where the first class begins in `point_order` and `upper`
    AT_SECOND = 3  # where the second class begins there
    IN_FLOAT32 = 4  # whether the pair is searched in float32
    FILLS = 5  # this and the next three: parameters of `solve_points`
    MAX_UPDATES = 6
    MAX_ROWS = 7
    MAX_ROWS_BOUNDED = 8
    CONTINUES = 9  # whether the pair has the points of the row before: it keeps its kernel rows and starts from its solution
    POINTS_AT_ALPHA = 10  # where the pair's multipliers begin
    POINTS_N_COLUMNS = 11


# The constants of `dense`, `descent`, `core.radial` and `core.mixed_precision` as C numbers.

#: Replaces an infinite number.
cdef double INFINITE = 1e300
#: Numbers beyond this stand for infinity.
cdef double MAX_FINITE = 1e299
#: Numbers in those tiles of `radial_rows` that stay in the second-level cache together.
cdef Index CACHE_NUMBERS = 1 << 17
#: Points of a tile.
cdef Index TILE_WIDTH = 128
cdef double STOP_TOL = KKT_TOL
cdef double MIN_GAP = MIN_GAP_FLOAT32
cdef double TRUSTED_SHARE = TRUSTED_GAP_SHARE
cdef double MARGIN_FACTOR = NEARLY_FREE_FACTOR
cdef Index LOOKS = MAX_LOOKS
cdef Index ROUNDS_CHOSEN = MAX_ROUNDS_FREE
cdef Index UPDATES_EXACT = MAX_UPDATES_EXACT
cdef Index RESTARTS = MAX_RESTARTS
cdef Index UPDATES_EACH = UPDATES_PER_FREE
cdef Index CHOSEN = MAX_NEARLY_FREE
cdef Index TERMS = TERMS_PER_SUM
cdef Index EXPONENTIAL_PRODUCTS = EXPONENTIAL_COST


# The data of the current pair, and scratch arrays, all in one piece of memory that serves one pair after another.
cdef struct PairBuffers:
    # n points of m coordinates, `head` of them of the first class; m is `features` rounded up to a multiple of 4.
    Index n, m, head, features
    double sign, reach, growth, gap_tol, tol_float32, min_product_float32, max_uncertain_share, safe_errors
    # The points of all pairs; `point_order` are the places of this pair's.
    const double *all_points
    # This pair's points in float64, unless it is searched in float32.
    double *points
    double *half
    double *e
    double *upper
    double *low
    double *high
    double *beta
    double *G
    double *sums
    double *error_bound
    # Two parts of the points, with half their squared lengths; weights of one part, and sums over it.
    double *some_points
    double *some_half
    double *weight
    double *other_points
    double *other_half
    double *partial_sums
    # The subproblem over the chosen variables.
    double *sub_K
    double *sub_gradient
    double *sub_start
    double *sub_beta
    double *sub_low
    double *sub_high
    double *sub_diag
    double *work
    double *tiles
    float *points_32
    float *half_32
    float *ep_32
    float *G_32
    float *some_points_32
    float *some_half_32
    float *weight_32
    float *other_points_32
    float *other_half_32
    float *work_32
    void *rows
    void *packed
    void *spare
    Index spare_bytes, max_chosen, size
    # Kernel rows that the search has made for the current points.
    Index kept
    char *memory
    long long *point_order
    long long *slots
    long long *row_slots
    long long *subset
    long long *weighted
    unsigned char *chosen
    double entries


def solve_point_pairs(const double[:, ::1] points, const double[::1] half, const float[:, ::1] points_32,
                       const float[::1] half_32, const long long[::1] point_order, const double[::1] upper,
                       const long long[:, ::1] table, double sign, Index features, double reach, double growth,
                       double gap_tol, double tol_float32, double min_product_float32, double max_uncertain_share,
                       double safe_errors, const double[::1] start, double[::1] alpha, double[::1] point,
                       double[::1] weights, double[:, ::1] certificates,
                       double[::1] entries, double[::1] sums, Index begin, double seconds, Index max_free=1 << 62):
    """Solve and certify the hinge's dual with an intercept for pairs of classes, from number ``begin`` on.

    No array that is written to is shared: calls with results of their own may run at the same time.

    Parameters
    ----------
    points : array of shape (n, m)
        Scaled as in `RadialPoints`; m is a multiple of 4.
    half : array of shape (n,)
        Half of their squared lengths.
    points_32, half_32 : arrays
        The same in float32; empty if no pair is searched in float32.
    point_order, upper : arrays
        Places in ``points``, and upper bounds of the multipliers, of one class after another.
    table : array of shape (n_pairs, 11)
        A row for each pair, with the columns named above. A pair that continues the row before has all of its kernel
        rows, and starts from its solution if that row is solved in the same call; it is given up with that row. After a
        row with more than ``max_free`` free variables that the next one continues, the call ends.
    sign : float
        Label of the first class of each pair, ±1; the second has −``sign``.
    features : int
    reach : float
        A quarter of the largest squared distance.
    growth : float
        Growth of rounding errors, see `KernelMatrix.growth`.
    gap_tol : float
        Relative gap at which a pair is solved.
    tol_float32 : float
        KKT violation at which a float32 search stops; a multiple of it says which variables are nearly free.
    min_product_float32 : float
        Multiplications of a product, from which it is tried in float32.
    max_uncertain_share : float
        Part of the points whose sign float32 may leave undetermined.
    safe_errors : float
        See `core._bound.undetermined_signs`.
    start : array
        Feasible multipliers to start from, laid out as ``alpha``; 0 if it is empty.
    alpha, point, weights, certificates : arrays
        Receive what `core._pair_bound.certify_listed` says; a row is not written if the search was given up.
    entries : array of shape (n_pairs,)
        Receives the number of kernel entries evaluated for each pair.
    sums : array
        Receives K times the weights if it is as long as ``alpha``; NaN for a pair searched in float32.
    begin : int
        Number of the first pair to solve.
    seconds : float
        Time after which no further pair is started.
    max_free : int
        Free variables of a pair above which the call ends if the next row continues it.

    Returns
    -------
    int
        Number of the first pair that was not solved.
    """
    cdef Index count = table.shape[0], m = points.shape[1], max_n = 0, max_made = 0, row_bytes = 0, max_chosen = 0
    cdef Index made, spare, k, n, begins
    cdef bint single, keeps, is_solved = True
    cdef double until = monotonic() + seconds
    cdef PairBuffers pair
    cdef search_rules rules
    check_table(points, half, points_32, half_32, point_order, upper, table, alpha, sign)
    if not (alpha.shape[0] == point.shape[0] == weights.shape[0] and certificates.shape[0] == entries.shape[0] == count
            and certificates.shape[1] == n_numbers() and 0 <= begin <= count):
        raise ValueError("point and weights must be as long as alpha, certificates must be "
                         f"(n_pairs, {n_numbers()}), entries (n_pairs,), and begin from 0 to n_pairs")
    for k in range(begin, count):
        n = table[k, POINTS_N_FIRST] + table[k, POINTS_N_SECOND]
        made = max(table[k, MAX_ROWS], table[k, MAX_ROWS_BOUNDED])
        max_n, max_made = max(max_n, n), max(max_made, made)
        max_chosen = max(max_chosen, min(n, max(CHOSEN, made + 4) + CHOSEN // 4))
        row_bytes = max(row_bytes, rows_of(n, made, table[k, FILLS]) * (4 if table[k, IN_FLOAT32] else 8))
    if begin == count:
        return count
    if start.shape[0] and start.shape[0] != alpha.shape[0]:
        raise ValueError("start must be as long as alpha, or empty")
    if sums.shape[0] and sums.shape[0] != alpha.shape[0]:
        raise ValueError("sums must be as long as alpha, or empty")
    spare = max(spare_for(max_n, m, max_made + 4, np.float32) * 4, spare_for(max_n, m, max_made + 4, np.float64) * 8,
                spare_for(max_chosen, 0, 0, np.float64) * 8)
    lay_out(&pair, NULL, m, max_n, max_chosen, row_bytes, spare)
    cdef unsigned char[::1] memory = arena_array((pair.size,), np.uint8)
    lay_out(&pair, <char *>&memory[0], m, max_n, max_chosen, row_bytes, spare)
    pair.features, pair.sign, pair.reach, pair.growth = features, sign, reach, growth
    pair.gap_tol, pair.tol_float32 = gap_tol, tol_float32
    pair.min_product_float32 = min_product_float32
    pair.max_uncertain_share, pair.safe_errors = max_uncertain_share, safe_errors
    for k in range(begin, count):
        single, begins = table[k, IN_FLOAT32], table[k, POINTS_AT_ALPHA]
        rules.fills, rules.max_updates = table[k, FILLS], table[k, MAX_UPDATES]
        rules.max_rows = table[k, MAX_ROWS]
        rules.max_rows_bounded = max(table[k, MAX_ROWS], table[k, MAX_ROWS_BOUNDED])
        rules.tolerance, rules.rounds = tol_float32 if single else STOP_TOL, 1 if single else RESTARTS
        rules.exact_updates = UPDATES_EXACT
        rules.shrinks = table[k, POINTS_N_FIRST] + table[k, POINTS_N_SECOND] >= MIN_N_SHRINK
        keeps = table[k, CONTINUES] or (k + 1 < count and table[k + 1, CONTINUES])
        if k > begin and table[k, CONTINUES] and not is_solved:
            entries[k] = 0.0
            continue
        with nogil:
            if k > begin and table[k, CONTINUES]:
                continue_pair(&pair, upper, &table[k, 0])
            else:
                load_pair(&pair, points, half, points_32, half_32, point_order, upper, &table[k, 0],
                          &start[begins] if start.shape[0] else NULL)
            is_solved = solve_one(&pair, rules, single, keeps, &alpha[begins], &point[begins], &weights[begins],
                                  <PairCertificate *>&certificates[k, 0])
        entries[k] = pair.entries
        if sums.shape[0]:
            for n in range(pair.n):
                sums[begins + n] = NAN if single else pair.sums[n]
        if monotonic() > until or (k + 1 < count and table[k + 1, CONTINUES] and free_count(&pair, &alpha[begins]) > max_free):
            return k + 1
    return count


cdef Index free_count(const PairBuffers *pair, const double *alpha) noexcept nogil:
    """Return the number of variables of a pair that are between their bounds."""
    cdef Index k, free = 0
    for k in range(pair.n):
        free += 0 < alpha[k] < pair.upper[k]
    return free


cdef check_table(const double[:, ::1] points, const double[::1] half, const float[:, ::1] points_32,
                 const float[::1] half_32, const long long[::1] point_order, const double[::1] upper,
                 const long long[:, ::1] table, const double[::1] alpha, double sign):
    """Raise ValueError if a table leads out of the arrays given."""
    cdef Index k, size = point_order.shape[0]
    cdef long long m, n
    if points.shape[1] == 0 or points.shape[1] % 4 or half.shape[0] != points.shape[0] or upper.shape[0] != size:
        raise ValueError("points must be (n, multiple of 4), half (n,), and upper as long as point_order")
    if table.shape[1] != POINTS_N_COLUMNS or (sign != 1 and sign != -1):
        raise ValueError("a row of the table has 11 numbers, and sign must be ±1")
    for k in range(size):
        if not 0 <= point_order[k] < points.shape[0]:
            raise ValueError("point_order must be places of points")
    cdef bint has_single = (half_32.shape[0] == points_32.shape[0] == points.shape[0]
                            and points_32.shape[1] == points.shape[1])
    for k in range(table.shape[0]):
        m, n = table[k, POINTS_N_FIRST], table[k, POINTS_N_SECOND]
        if table[k, IN_FLOAT32] and not has_single:
            raise ValueError("points in float32 must be those in float64, with half of each")
        if not (0 < m <= size and 0 < n <= size and 0 <= table[k, AT_FIRST] <= size - m
                and 0 <= table[k, AT_SECOND] <= size - n and 0 <= table[k, POINTS_AT_ALPHA] <= alpha.shape[0] - m - n
                and 0 <= min(table[k, MAX_UPDATES], table[k, MAX_ROWS], table[k, MAX_ROWS_BOUNDED])):
            raise ValueError(f"pair {k} leads out of its arrays")
        if table[k, CONTINUES] and (k == 0 or not continues(point_order, table[k - 1], table[k])):
            raise ValueError(f"pair {k} must have all points of pair {k - 1}, the same precision, and room for all rows")


cdef bint continues(const long long[::1] point_order, const long long[:] before, const long long[:] row):
    """Return whether a row of the table may keep the kernel rows of the one before."""
    cdef Index column, k
    for column in (POINTS_N_FIRST, POINTS_N_SECOND, IN_FLOAT32):
        if before[column] != row[column]:
            return False
    if min(before[MAX_ROWS], row[MAX_ROWS]) < row[POINTS_N_FIRST] + row[POINTS_N_SECOND]:
        return False
    for column in range(2):
        for k in range(row[POINTS_N_FIRST + column]):
            if point_order[before[AT_FIRST + column] + k] != point_order[row[AT_FIRST + column] + k]:
                return False
    return True


cdef bint solve_one(PairBuffers *pair, search_rules rules, bint single, bint keeps, double *alpha, double *point,
                    double *weights, PairCertificate *row) noexcept nogil:
    """Solve and certify the loaded pair; return False, with row not written, if the search is given up.

    ``keeps`` says whether the kernel rows serve another pair, or have done so.
    """
    cdef Index *kept = &pair.kept if keeps else NULL
    cdef Index n = pair.n, looks = 0, chosen = 0, k
    cdef double made, objective, bound
    if single:
        made = search(n, pair.m, pair.points_32, pair.half_32, pair.ep_32, pair.low, pair.high, pair.beta, pair.G_32,
                      rules, <float *>pair.rows, <float *>pair.packed, pair.work_32, pair.row_slots, pair.slots,
                      <float *>pair.spare, pair.spare_bytes // sizeof(float), kept)
    else:
        made = search(n, pair.m, pair.points, pair.half, pair.e, pair.low, pair.high, pair.beta, pair.G, rules,
                      <double *>pair.rows, <double *>pair.packed, pair.work, pair.row_slots, pair.slots,
                      <double *>pair.spare, pair.spare_bytes // sizeof(double), kept)
    pair.entries += n * made
    if made == 0:
        return False
    if single:
        for k in range(n):
            pair.G[k] = pair.G_32[k]
        if pair.gap_tol <= MIN_GAP or gap_of(pair) > TRUSTED_SHARE * pair.gap_tol:
            chosen = mark_nearly_free_of(pair)
            if not solve_chosen(pair, chosen):
                return False
    while True:
        for k in range(n):
            alpha[k] = min(max(pair.e[k] * pair.beta[k], 0.0), pair.upper[k])
        if not project_one(pair.head, n, pair.upper, pair.upper + pair.head, pair.sign, alpha, point, weights, row,
                           pair.work):
            return False
        make_sums(pair, single, point, weights, row)
        objective, bound = row.objective, row.lower_bound
        if objective - bound <= pair.gap_tol * max(fabs(objective), fabs(bound)) or not single or looks == LOOKS:
            return True
        for k in range(n):
            pair.G[k] = pair.sums[k] - pair.e[k]
        if chosen == 0:
            chosen = mark_nearly_free_of(pair)
        else:
            k, chosen = chosen, mark_violators(pair)
            if k == chosen:
                return True
        looks += 1
        if chosen == 0 or not solve_chosen(pair, chosen):
            return True


cdef void make_sums(PairBuffers *pair, bint searched, const double *point, const double *weights,
                    PairCertificate *row) noexcept nogil:
    """Compute K times the weights and the numbers of the certificate.

    The sums are in float64 where float32 leaves the sign of a multiplier undetermined. ``searched`` says whether the
    pair was searched in float32. See `direct.from_points.PointSums`.
    """
    cdef Index n = pair.n, count = 0, missing = 0, left = <Index>(pair.max_uncertain_share * n), k
    cdef double least = INFINITE, largest = 0.0
    for k in range(n):
        if weights[k] != 0:
            pair.weighted[count] = k
            pair.weight[count] = weights[k]
            least, largest = min(least, fabs(weights[k])), max(largest, fabs(weights[k]))
            count += 1
        else:
            pair.subset[missing] = k
            missing += 1
    copy_points(pair, count, pair.weighted, pair.some_points, pair.some_half)
    pair.entries += <double>n * count
    cdef bint single = (searched and <double>n * count * (EXPONENTIAL_PRODUCTS + pair.features) >= pair.min_product_float32
                        and has_error_bounds(least, largest, pair.reach, pair.features))
    if not single and 4 * count <= n:
        if searched:
            for k in range(n):
                pair.subset[k] = k
            copy_points(pair, n, pair.subset, pair.points, pair.half)
        memset(pair.sums, 0, n * sizeof(double))
        radial_sum_double(count, n, pair.m, 1, pair.some_points, pair.some_half, pair.points, pair.half, pair.weight,
                          pair.sums, pair.tiles)
        update_bound(pair, point, row)
        return
    memset(pair.partial_sums, 0, count * sizeof(double))
    radial_square_double(count, pair.m, pair.some_points, pair.some_half, pair.weight, 0, count, pair.partial_sums,
                         pair.tiles)
    for k in range(count):
        pair.sums[pair.weighted[k]], pair.error_bound[pair.weighted[k]] = pair.partial_sums[k], -INFINITE
    if single:
        rough_sums(pair, count, missing)
    else:
        exact_sums(pair, count, missing)
    while True:
        update_bound(pair, point, row)
        if not (single and undetermined_of(n, pair.sums, pair.error_bound, pair.e, row.low, row.high, 1.0,
                                    pair.safe_errors, pair.subset, &missing)):
            return
        left -= missing
        if left < 0:
            missing = 0
            for k in range(n):
                if pair.error_bound[k] > -MAX_FINITE:
                    pair.subset[missing] = k
                    missing += 1
        exact_sums(pair, count, missing)


cdef void update_bound(PairBuffers *pair, const double *point, PairCertificate *row) noexcept nogil:
    """Compute the numbers of the certificate from the sums."""
    cdef Index n = pair.n, k
    for k in range(n):
        pair.work[k], pair.work[n + k], pair.work[2 * n + k] = pair.e[k] * pair.sums[k], pair.e[k], pair.upper[k]
    bound_one(n, point, row, pair.work, NULL, pair.growth)


cdef void exact_sums(PairBuffers *pair, Index count, Index missing) noexcept nogil:
    """Compute the sums of the ``missing`` points in `subset`, in float64, over the ``count`` points with weights."""
    cdef Index k
    copy_points(pair, missing, pair.subset, pair.other_points, pair.other_half)
    memset(pair.partial_sums, 0, missing * sizeof(double))
    radial_sum_double(count, missing, pair.m, 1, pair.some_points, pair.some_half, pair.other_points, pair.other_half,
                      pair.weight, pair.partial_sums, pair.tiles)
    for k in range(missing):
        pair.sums[pair.subset[k]], pair.error_bound[pair.subset[k]] = pair.partial_sums[k], -INFINITE


cdef void rough_sums(PairBuffers *pair, Index count, Index missing) noexcept nogil:
    """Compute the same sums in float32, with bounds on their errors, see `core.mixed_precision.rough_sums`."""
    cdef Index k
    cdef double total = 0.0, size
    copy_points_32(pair, count, pair.weighted, pair.some_points_32, pair.some_half_32)
    copy_points_32(pair, missing, pair.subset, pair.other_points_32, pair.other_half_32)
    for k in range(missing):
        pair.other_half[k] = pair.half[pair.subset[k]]
    for k in range(count):
        size = fabs(pair.weight[k])
        total += size
        pair.weight_32[3 * k], pair.weight_32[3 * k + 1] = <float>pair.weight[k], <float>size
        pair.weight_32[3 * k + 2] = <float>(size * pair.some_half[k])
    memset(pair.partial_sums, 0, 3 * missing * sizeof(double))
    radial_sum_float(count, missing, pair.m, 3, pair.some_points_32, pair.some_half_32, pair.other_points_32,
                     pair.other_half_32, pair.weight_32, pair.partial_sums, pair.work_32)
    error_bounds_of(missing, pair.features, TERMS, total, pair.other_half, pair.partial_sums)
    for k in range(missing):
        pair.sums[pair.subset[k]] = pair.partial_sums[3 * k]
        pair.error_bound[pair.subset[k]] = pair.partial_sums[3 * k + 1]


cdef void lay_out(PairBuffers *pair, char *memory, Index m, Index max_n, Index max_chosen, Index row_bytes,
                  Index spare) noexcept:
    """Place all arrays in memory, each at a cache line, and set `size` to the number of bytes they take.

    They serve pairs of up to ``max_n`` points, with subproblems of up to ``max_chosen`` variables; kernel rows have
    ``row_bytes``, and the search has ``spare`` bytes to work in.
    """
    cdef Index wide = (max_n + 127) // 128 * 128, tiles = TILE_WIDTH * (m + 8)
    pair.memory, pair.size, pair.m, pair.max_chosen, pair.spare_bytes = memory, 0, m, max_chosen, spare
    pair.points, pair.some_points = doubles(pair, wide * m), doubles(pair, wide * m)
    pair.other_points = doubles(pair, wide * m)
    pair.half, pair.e = doubles(pair, wide), doubles(pair, wide)
    pair.upper, pair.low = doubles(pair, wide), doubles(pair, wide)
    pair.high, pair.beta = doubles(pair, wide), doubles(pair, wide)
    pair.G, pair.sums = doubles(pair, wide), doubles(pair, wide)
    pair.error_bound, pair.some_half, pair.weight = doubles(pair, wide), doubles(pair, wide), doubles(pair, wide)
    pair.other_half, pair.partial_sums = doubles(pair, wide), doubles(pair, 3 * wide)
    pair.work = doubles(pair, 7 * wide)
    pair.sub_gradient, pair.sub_start = doubles(pair, wide), doubles(pair, wide)
    pair.sub_beta, pair.sub_low = doubles(pair, wide), doubles(pair, wide)
    pair.sub_high, pair.sub_diag = doubles(pair, wide), doubles(pair, wide)
    pair.tiles = doubles(pair, tiles + CACHE_NUMBERS // 4)
    pair.points_32, pair.some_points_32 = floats(pair, wide * m), floats(pair, wide * m)
    pair.other_points_32 = floats(pair, wide * m)
    pair.half_32, pair.ep_32 = floats(pair, wide), floats(pair, wide)
    pair.G_32, pair.some_half_32 = floats(pair, wide), floats(pair, wide)
    pair.other_half_32, pair.weight_32 = floats(pair, wide), floats(pair, 3 * wide)
    pair.work_32 = floats(pair, 7 * wide + tiles)
    pair.slots, pair.row_slots = <long long *>doubles(pair, wide), <long long *>doubles(pair, wide)
    pair.subset, pair.kept = <long long *>doubles(pair, wide), 0
    pair.weighted, pair.point_order = <long long *>doubles(pair, wide), <long long *>doubles(pair, wide)
    pair.chosen, pair.packed = <unsigned char *>doubles(pair, wide // 8), doubles(pair, wide * m)
    # Large arrays come last: often only their beginning is used.
    pair.spare, pair.rows = doubles(pair, spare // 8 + 1), doubles(pair, row_bytes // 8 + 1)
    pair.sub_K = doubles(pair, max_chosen * max_chosen)


cdef double *doubles(PairBuffers *pair, Index count) noexcept:
    """Return the place of the next array, of ``count`` doubles."""
    cdef double *here = <double *>(pair.memory + pair.size)
    pair.size += (8 * count + 63) // 64 * 64
    return here


cdef float *floats(PairBuffers *pair, Index count) noexcept:
    """Return the place of the next array, of ``count`` floats."""
    return <float *>doubles(pair, (count + 1) // 2)


cdef void load_pair(PairBuffers *pair, const double[:, ::1] points, const double[::1] half,
                    const float[:, ::1] points_32, const float[::1] half_32, const long long[::1] point_order,
                    const double[::1] upper, const long long *row, const double *start) noexcept nogil:
    """Copy the pair in a row of the table to the buffers; ``start`` may be NULL."""
    cdef Index k, place, own
    cdef bint single = row[IN_FLOAT32]
    pair.all_points, pair.head, pair.n = &points[0, 0], row[POINTS_N_FIRST], row[POINTS_N_FIRST] + row[POINTS_N_SECOND]
    pair.entries, pair.kept = 0.0, 0
    for k in range(pair.n):
        place = row[AT_FIRST] + k if k < pair.head else row[AT_SECOND] + k - pair.head
        own = pair.point_order[k] = point_order[place]
        pair.half[k], pair.e[k] = half[own], pair.sign if k < pair.head else -pair.sign
        if single:
            memcpy(pair.points_32 + k * pair.m, &points_32[own, 0], pair.m * sizeof(float))
            pair.half_32[k], pair.ep_32[k] = half_32[own], <float>pair.e[k]
        else:
            memcpy(pair.points + k * pair.m, &points[own, 0], pair.m * sizeof(double))
        pair.upper[k], pair.chosen[k] = upper[place], 0
        pair.beta[k] = pair.e[k] * start[k] if start else 0.0
        pair.low[k], pair.high[k] = (0.0, pair.upper[k]) if pair.e[k] > 0 else (-pair.upper[k], 0.0)


cdef void continue_pair(PairBuffers *pair, const double[::1] upper, const long long *row) noexcept nogil:
    """Take the bounds of a row that continues the one before, and move its solution into them.

    The bounds are a multiple of those before. If most support vectors are at their bounds, or the bounds become
    smaller, all multipliers are multiplied by as much; else they start where they are.
    """
    cdef Index k, place, moved = 0, free = 0
    cdef double factor = upper[row[AT_FIRST]] / pair.upper[0]
    cdef bint is_free
    for k in range(pair.n):
        moved += pair.beta[k] != 0
        free += pair.low[k] < pair.beta[k] < pair.high[k]
    pair.entries = 0.0
    for k in range(pair.n):
        place = row[AT_FIRST] + k if k < pair.head else row[AT_SECOND] + k - pair.head
        is_free = pair.low[k] < pair.beta[k] < pair.high[k]
        pair.upper[k], pair.chosen[k] = upper[place], 0
        pair.low[k], pair.high[k] = (0.0, pair.upper[k]) if pair.e[k] > 0 else (-pair.upper[k], 0.0)
        if (factor < 1 or 2 * free <= moved) and pair.beta[k] != 0:
            pair.beta[k] = pair.beta[k] * factor if is_free else pair.high[k] if pair.beta[k] > 0 else pair.low[k]


cdef void mirror(Index n, double *K) noexcept nogil:
    """Copy the upper triangle to the lower one, in blocks of 8 × 8: each cache line of a column is read once."""
    cdef Index i, j, first, start
    for first in range(0, n, 8):
        for start in range(0, first + 1, 8):
            for i in range(first, min(first + 8, n)):
                for j in range(start, min(start + 8, i)):
                    K[i * n + j] = K[j * n + i]


cdef void copy_points(const PairBuffers *pair, Index count, const long long *which, double *to,
                      double *to_half) noexcept nogil:
    """Copy the points ``which``, and half their squared lengths, in float64."""
    cdef Index k
    for k in range(count):
        memcpy(to + k * pair.m, pair.all_points + pair.point_order[which[k]] * pair.m, pair.m * sizeof(double))
        to_half[k] = pair.half[which[k]]


cdef void copy_points_32(const PairBuffers *pair, Index count, const long long *which, float *to,
                         float *to_half) noexcept nogil:
    """Copy them in float32; the pair must be searched in it."""
    cdef Index k
    for k in range(count):
        memcpy(to + k * pair.m, pair.points_32 + which[k] * pair.m, pair.m * sizeof(float))
        to_half[k] = pair.half_32[which[k]]


cdef double multiplier_of(const PairBuffers *pair) noexcept nogil:
    """Return the multiplier of the equality: the mean gradient of the free variables.

    If there are none it is halfway between the two worst violators.
    """
    cdef double top = -INFINITE, bottom = -INFINITE, mean
    cdef Index k, free = 0
    mean = mean_of_free(pair.n, pair.G, pair.beta, pair.low, pair.high, &free)
    if free:
        return mean
    for k in range(pair.n):
        if pair.beta[k] < pair.high[k]:
            top = max(top, -pair.G[k])
        if pair.beta[k] > pair.low[k]:
            bottom = max(bottom, pair.G[k])
    if top > -MAX_FINITE and bottom > -MAX_FINITE:
        return 0.5 * (bottom - top)
    return bottom if bottom > -MAX_FINITE else -top


cdef inline double excess_of(const PairBuffers *pair, Index k, double nu) noexcept nogil:
    """Return by how much variable k violates its KKT condition; negative is slack."""
    return violation_of(pair.G[k] - nu, pair.beta[k] < pair.high[k], pair.beta[k] > pair.low[k])


cdef double gap_of(const PairBuffers *pair) noexcept nogil:
    """Return the relative gap that the gradient gives: see `direct.from_points.PointSearch`."""
    cdef double nu = multiplier_of(pair), gap = 0.0, f = 0.0, away
    cdef Index k
    for k in range(pair.n):
        away = pair.G[k] - nu
        gap += (pair.beta[k] - pair.low[k] if away > 0 else pair.beta[k] - pair.high[k]) * away
        f += pair.beta[k] * (pair.G[k] - pair.e[k])
    return gap / max(fabs(0.5 * f), 1e-300)


cdef Index mark_nearly_free_of(PairBuffers *pair) noexcept nogil:
    """Choose the free variables of a pair and those that float32 cannot tell from free; return their number."""
    cdef double nu = multiplier_of(pair)
    cdef Index k
    for k in range(pair.n):
        pair.chosen[k] = pair.low[k] < pair.beta[k] < pair.high[k]
        pair.work[k] = excess_of(pair, k, nu)
    return mark_nearly_free(pair.n, pair.work, MARGIN_FACTOR * pair.tol_float32, CHOSEN, pair.chosen, pair.work + pair.n)


cdef Index mark_violators(PairBuffers *pair) noexcept nogil:
    """Choose the variables that violate their KKT condition, beside those chosen before; return their number."""
    cdef double nu = multiplier_of(pair)
    cdef Index k, count = 0
    for k in range(pair.n):
        if not pair.chosen[k] and excess_of(pair, k, nu) > STOP_TOL:
            pair.chosen[k] = 1
        count += pair.chosen[k]
    return count


cdef bint solve_chosen(PairBuffers *pair, Index w) noexcept nogil:
    """Optimise over the w chosen variables in float64, with all others fixed; return whether the buffers hold them."""
    cdef Index k, n_others = 0, used = w, moved, limit, turn, at = 0
    cdef double violation = 0.0
    cdef source_double none
    cdef memory_double memory = memory_double(<double *>pair.spare, pair.spare_bytes // sizeof(double), 0, NULL, 0)
    if w > pair.max_chosen:
        return False
    if w == 0:
        return True
    for k in range(pair.n):
        if pair.chosen[k]:
            pair.subset[at], pair.slots[at] = k, at
            pair.sub_beta[at] = pair.sub_start[at] = pair.beta[k]
            pair.sub_low[at], pair.sub_high[at], pair.sub_diag[at] = pair.low[k], pair.high[k], 1.0
            at += 1
        elif pair.beta[k] != 0:
            pair.weighted[n_others] = k
            pair.weight[n_others] = pair.beta[k]
            n_others += 1
    copy_points(pair, w, pair.subset, pair.some_points, pair.some_half)
    radial_rows_double(w, w, pair.m, pair.some_points, pair.some_half, pair.some_points, pair.some_half, pair.sub_K,
                       pair.tiles, max(1, min((w + 63) // 64, CACHE_NUMBERS // (512 * (pair.m + 1)))), 1)
    mirror(w, pair.sub_K)
    for k in range(w):
        pair.sub_diag[k], pair.sub_gradient[k] = pair.sub_K[k * w + k], -pair.e[pair.subset[k]]
    add_rows_double(w, w, w, pair.sub_K, pair.slots, pair.sub_beta, pair.sub_gradient)
    if n_others:
        copy_points(pair, n_others, pair.weighted, pair.other_points, pair.other_half)
        radial_sum_double(n_others, w, pair.m, 1, pair.other_points, pair.other_half, pair.some_points, pair.some_half,
                          pair.weight, pair.sub_gradient, pair.tiles)
    pair.entries += <double>w * (w + n_others)
    memset(&none, 0, sizeof(none))
    for turn in range(ROUNDS_CHOSEN):
        limit = max(UPDATES_EXACT, UPDATES_EACH * w)
        memcpy(pair.G, pair.sub_gradient, w * sizeof(double))
        if turn:
            for k in range(w):
                pair.work[k] = pair.sub_beta[k] - pair.sub_start[k]
            add_rows_double(w, w, w, pair.sub_K, pair.slots, pair.work, pair.G)
        moved = pairs_double(w, w, pair.sub_K, pair.slots, &used, &none, pair.G, pair.sub_diag, pair.sub_beta,
                             pair.sub_low, pair.sub_high, True, STOP_TOL, limit, w, pair.work, &violation, memory, True)
        if moved == 0 or (violation <= STOP_TOL and moved < UPDATES_EXACT):
            break
    for k in range(w):
        pair.beta[pair.subset[k]] = pair.sub_beta[k]
    return True
