# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pairs of classes solved and certified from their points, many in one call: `FromPoints` and `PointSums` of each, with
nothing between them and the numbers."""

from time import monotonic

import numpy as np
from libc.math cimport NAN, fabs
from libc.string cimport memcpy, memset

from ..core.runtime.memory import borrowed
from ..core.radial import AN_EXPONENTIAL
from ..core.mixed_precision import AT_A_TIME, LARGEST_ERROR, ORDINARY, UNIT
from ._pairs import LEAVES_FROM, spare_for
from .descent import SINGLE_GAP
from .whole import AGAIN, AMONG, BETWEEN_LEAPS, ENOUGH, FEW_UPDATES, LOOKS, NEAR, NEARLY, ROUNDS

from ..core._bound cimport doubtful, doubts_of
from ..core._pair_bound cimport bound_one, project_one
from ._from_points cimport rows_of, rules, search
from ._loop cimport Index, memory_double, pairs_double, source_double
from ._wishes cimport mean_of_free, violation_of

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

#: In the place of an infinite number, and beyond what is one.
cdef double NONE = 1e300, SOME = 1e299
#: What those tiles of `radial_rows` take together that stay in the second-level cache.
cdef Index CACHED = 1 << 17, TILE = 128
cdef double END = ENOUGH, GAP = SINGLE_GAP, SURE = NEARLY, CLOSE = NEAR
cdef Index MOST_LOOKS = LOOKS, TURNS = ROUNDS, LEAST = FEW_UPDATES, AFRESH = AGAIN, FOR_EACH = BETWEEN_LEAPS, CROWD = AMONG
cdef double U = UNIT, SMALLEST = ORDINARY[0], LARGEST = ORDINARY[1], TOO_MUCH = LARGEST_ERROR
cdef Index IN_A_SUM = AT_A_TIME, EXPONENTIAL = AN_EXPONENTIAL

include "_point_desk.pxi"
include "_point_steps.pxi"


def settle_point_pairs(const double[:, ::1] points, const double[::1] half, const float[:, ::1] points_32,
                       const float[::1] half_32, const long long[::1] members, const double[::1] upper,
                       const long long[:, ::1] table, double sign, Index features, double reach, double growth, double enough,
                       double rough, double worth, double few, double ease, const double[::1] start,
                       double[::1] alpha, double[::1] point, double[::1] weights, double[:, ::1] figures,
                       double[::1] entries, double[::1] sums, Index begin, double seconds):
    """The hinge's optima with an intercept for pairs of classes, from number ``begin`` on, and what they are worth.

    A row of ``table`` is m, n: how many points the classes have; where in ``members`` and in ``upper`` each begins;
    whether it is searched in float32; fills, limit, room and more of `solve_points`; and where in ``alpha`` the pair's
    multipliers begin. ``members`` are places in ``points``, which are scaled as `RadialPoints` has them, ``half`` with
    half their squared lengths, of so many ``features``, their squared distances up to 4 ``reach`` times, the ``growth`` of their rounding errors that of `growth_of`; the same in
    float32, or none where no pair is searched in it. The first class of each has the label ``sign``, the other
    −``sign``.

    It ends at a relative gap of ``enough``, or at what there is; a search in float32 at a KKT violation of ``rough``,
    who is nearly free within a multiple of that. Products of ``worth`` multiplications are tried in
    float32, which may leave a part ``few`` of all in doubt, see `PointSums`, of which ``ease`` is what is looked at.
    ``start`` holds feasible multipliers to begin with, as ``alpha`` does; if it is empty they are 0.

    ``alpha``, ``point``, ``weights`` and ``figures`` receive what `certify_listed` says; figures stay as they are where
    a search was given up. ``entries`` receives the kernel entries evaluated for each, and ``sums``, if it is as long as
    ``alpha``, K times the weights, NaN where that is not all in float64.

    Returns the number of the first pair that was not solved: after ``seconds`` no other is begun. Nothing that is
    written is shared: calls with results of their own may run at once.
    """
    cdef Index count = table.shape[0], m = points.shape[1], most = 0, more = 0, rows = 0, room = 0, made, spare, k, n
    cdef double until = monotonic() + seconds
    cdef Desk desk
    cdef rules told
    check_table(points, half, points_32, half_32, members, upper, table, alpha, sign)
    if not (alpha.shape[0] == point.shape[0] == weights.shape[0] and figures.shape[0] == entries.shape[0] == count
            and figures.shape[1] == 9 and 0 <= begin <= count):
        raise ValueError("results must be as long as alpha, or have a row for each pair, of which begin is one, or the end")
    for k in range(begin, count):
        n, made = table[k, 0] + table[k, 1], max(table[k, 7], table[k, 8])
        most, more, room = max(most, n), max(more, made), max(room, min(n, max(CROWD, made + 4) + CROWD // 4))
        rows = max(rows, rows_of(n, made, table[k, 5]) * (4 if table[k, 4] else 8))
    if begin == count:
        return count
    if start.shape[0] and start.shape[0] != alpha.shape[0]:
        raise ValueError("start must be as long as alpha, or empty")
    if sums.shape[0] and sums.shape[0] != alpha.shape[0]:
        raise ValueError("sums must be as long as alpha, or empty")
    spare = max(spare_for(most, m, more + 4, np.float32) * 4, spare_for(most, m, more + 4, np.float64) * 8,
                spare_for(room, 0, 0, np.float64) * 8)
    lay_out(&desk, NULL, m, most, room, rows, spare)
    cdef unsigned char[::1] memory = borrowed((desk.size,), np.uint8)
    lay_out(&desk, <char *>&memory[0], m, most, room, rows, spare)
    desk.features, desk.sign, desk.reach, desk.growth = features, sign, reach, growth
    desk.enough, desk.rough = enough, rough
    desk.worth, desk.few, desk.ease = worth, few, ease
    for k in range(begin, count):
        told.fills, told.limit, told.room, told.more = table[k, 5], table[k, 6], table[k, 7], max(table[k, 7], table[k, 8])
        told.tolerance, told.rounds, told.few = rough if table[k, 4] else END, 1 if table[k, 4] else AFRESH, LEAST
        told.leaves = table[k, 0] + table[k, 1] >= LEAVES_FROM
        with nogil:
            sit_down(&desk, points, half, points_32, half_32, members, upper, &table[k, 0],
                     &start[table[k, 9]] if start.shape[0] else NULL)
            settle_one(&desk, told, table[k, 4], &alpha[table[k, 9]], &point[table[k, 9]], &weights[table[k, 9]],
                       &figures[k, 0])
        entries[k] = desk.entries
        if sums.shape[0]:
            for n in range(desk.n):
                sums[table[k, 9] + n] = NAN if table[k, 4] else desk.sums[n]
        if monotonic() > until:
            return k + 1
    return count


cdef check_table(const double[:, ::1] points, const double[::1] half, const float[:, ::1] points_32,
                 const float[::1] half_32, const long long[::1] members, const double[::1] upper,
                 const long long[:, ::1] table, const double[::1] alpha, double sign):
    cdef Index k, size = members.shape[0]
    cdef long long m, n
    if points.shape[1] == 0 or points.shape[1] % 4 or half.shape[0] != points.shape[0] or upper.shape[0] != size:
        raise ValueError("points must be (n, multiple of 4), half (n,), and upper as long as members")
    if table.shape[1] != 10 or (sign != 1 and sign != -1):
        raise ValueError("a pair is 10 numbers, and sign ±1")
    for k in range(size):
        if not 0 <= members[k] < points.shape[0]:
            raise ValueError("members must be places of points")
    cdef bint has_single = half_32.shape[0] == points_32.shape[0] == points.shape[0] and points_32.shape[1] == points.shape[1]
    for k in range(table.shape[0]):
        m, n = table[k, 0], table[k, 1]
        if table[k, 4] and not has_single:
            raise ValueError("points in float32 must be those in float64, with half of each")
        if not (0 < m <= size and 0 < n <= size and 0 <= table[k, 2] <= size - m and 0 <= table[k, 3] <= size - n
                and 0 <= table[k, 9] <= alpha.shape[0] - m - n and 0 <= min(table[k, 6], table[k, 7], table[k, 8])):
            raise ValueError(f"pair {k} leads out of its arrays")


cdef void settle_one(Desk *d, rules told, bint single, double *alpha, double *point, double *weights,
                     double *figures) noexcept nogil:
    cdef Index n = d.n, looks = 0, w = 0, k
    cdef double made, objective, bound
    if single:
        made = search(n, d.m, d.points_32, d.half_32, d.ep_32, d.low, d.high, d.beta, d.G_32, told, <float *>d.rows,
                      <float *>d.packed, d.work_32, d.slots, d.slots + n, <float *>d.spare, d.spare_bytes // sizeof(float))
    else:
        made = search(n, d.m, d.points, d.half, d.e, d.low, d.high, d.beta, d.G, told, <double *>d.rows,
                      <double *>d.packed, d.work, d.slots, d.slots + n, <double *>d.spare, d.spare_bytes // sizeof(double))
    d.entries += n * made
    if made == 0:
        return
    if single:
        for k in range(n):
            d.G[k] = d.G_32[k]
        if d.enough <= GAP or gap_of(d) > SURE * d.enough:
            w = nearly_free(d)
            if not among(d, w):
                return
    while True:
        for k in range(n):
            alpha[k] = min(max(d.e[k] * d.beta[k], 0.0), d.upper[k])
        if not project_one(d.head, n, d.upper, d.upper + d.head, d.sign, alpha, point, weights, figures, d.work):
            return
        sum_up(d, single, point, weights, figures)
        objective, bound = figures[0], figures[1]
        if objective - bound <= d.enough * max(fabs(objective), fabs(bound)) or not single or looks == MOST_LOOKS:
            return
        for k in range(n):
            d.G[k] = d.sums[k] - d.e[k]
        if w == 0:
            w = nearly_free(d)
        else:
            k, w = w, joined(d)
            if k == w:
                return
        looks += 1
        if w == 0 or not among(d, w):
            return


cdef void sum_up(Desk *d, bint searched, const double *point, const double *weights, double *figures) noexcept nogil:
    """K times the weights, in float64 where float32 leaves a doubt, see `PointSums`; and the figures of that."""
    cdef Index n = d.n, count = 0, missing = 0, left = <Index>(d.few * n), k
    cdef double least = NONE, largest = 0.0
    for k in range(n):
        if weights[k] != 0:
            d.others[count] = k
            d.shares[count] = weights[k]
            least, largest = min(least, fabs(weights[k])), max(largest, fabs(weights[k]))
            count += 1
        else:
            d.W[missing] = k
            missing += 1
    exactly(d, count, d.others, d.near, d.near_half)
    d.entries += <double>n * count
    cdef bint single = (searched and <double>n * count * (EXPONENTIAL + d.features) >= d.worth and SMALLEST < least
                        and largest < LARGEST and 4 * (d.features + 8) * U * d.reach <= TOO_MUCH)
    if not single and 4 * count <= n:
        if searched:
            for k in range(n):
                d.W[k] = k
            exactly(d, n, d.W, d.points, d.half)
        memset(d.sums, 0, n * sizeof(double))
        radial_sum_double(count, n, d.m, 1, d.near, d.near_half, d.points, d.half, d.shares, d.sums, d.tiles)
        look_at(d, point, figures)
        return
    memset(d.found, 0, count * sizeof(double))
    radial_square_double(count, d.m, d.near, d.near_half, d.shares, 0, count, d.found, d.tiles)
    for k in range(count):
        d.sums[d.others[k]], d.doubt[d.others[k]] = d.found[k], -NONE
    if single:
        rough_sums(d, count, missing)
    else:
        exact_sums(d, count, missing)
    while True:
        look_at(d, point, figures)
        if not (single and doubtful(n, d.sums, d.doubt, d.e, figures[4], figures[5], 1.0, d.ease, d.W, &missing)):
            return
        left -= missing
        if left < 0:
            missing = 0
            for k in range(n):
                if d.doubt[k] > -SOME:
                    d.W[missing] = k
                    missing += 1
        exact_sums(d, count, missing)


cdef void look_at(Desk *d, const double *point, double *figures) noexcept nogil:
    cdef Index n = d.n, k
    for k in range(n):
        d.work[k], d.work[n + k], d.work[2 * n + k] = d.e[k] * d.sums[k], d.e[k], d.upper[k]
    bound_one(n, point, figures, d.work, NULL, d.growth)


cdef void exact_sums(Desk *d, Index count, Index missing) noexcept nogil:
    """Of those in W, in float64, over those who are near."""
    cdef Index k
    exactly(d, missing, d.W, d.rest, d.rest_half)
    memset(d.found, 0, missing * sizeof(double))
    radial_sum_double(count, missing, d.m, 1, d.near, d.near_half, d.rest, d.rest_half, d.shares, d.found, d.tiles)
    for k in range(missing):
        d.sums[d.W[k]], d.doubt[d.W[k]] = d.found[k], -NONE


cdef void rough_sums(Desk *d, Index count, Index missing) noexcept nogil:
    """The same in float32, and what they may be wrong by, see `screening.rough_sums`."""
    cdef Index k
    cdef double total = 0.0, size
    roughly(d, count, d.others, d.near_32, d.near_half_32)
    roughly(d, missing, d.W, d.rest_32, d.rest_half_32)
    for k in range(missing):
        d.rest_half[k] = d.half[d.W[k]]
    for k in range(count):
        size = fabs(d.shares[k])
        total += size
        d.shares_32[3 * k], d.shares_32[3 * k + 1] = <float>d.shares[k], <float>size
        d.shares_32[3 * k + 2] = <float>(size * d.near_half[k])
    memset(d.found, 0, 3 * missing * sizeof(double))
    radial_sum_float(count, missing, d.m, 3, d.near_32, d.near_half_32, d.rest_32, d.rest_half_32, d.shares_32, d.found,
                     d.work_32)
    doubts_of(missing, d.features, IN_A_SUM, total, d.rest_half, d.found)
    for k in range(missing):
        d.sums[d.W[k]], d.doubt[d.W[k]] = d.found[3 * k], d.found[3 * k + 1]
