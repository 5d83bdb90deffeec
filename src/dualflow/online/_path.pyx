# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The path of the optimum while one thing changes, compiled: Cauwenberghs & Poggio (2001), sections 2.2 to 2.4.

Their bookkeeping with three additions: directions along which nothing but the multiplier-free coefficients moves
(dependent points) are slid along, ties are broken by the largest rate within round-off, and the residual of every
direction, which is there for free, is the measure of the drift of the inverse.
"""

import numpy as np

from libc.float cimport DBL_EPSILON
from libc.math cimport INFINITY, fabs

cdef extern from "path.h":
    void combine(Py_ssize_t n, Py_ssize_t stride, Py_ssize_t count, const double *rows, const long long *slots, const double *weights,
                 double *out) nogil
    void symmetric_product(Py_ssize_t m, Py_ssize_t ld, const double *A, const double *x, double *y) nogil
    void delayed_product(Py_ssize_t m, Py_ssize_t stride, Py_ssize_t count, const double *V, const double *W, const double *x,
                         double *y) nogil
    void delayed_updates(Py_ssize_t m, Py_ssize_t ld, double *A, Py_ssize_t stride, Py_ssize_t count, const double *V,
                         const double *W) nogil
    void advance(Py_ssize_t n, double t, const double *gamma, double *g) nogil

ctypedef Py_ssize_t Index

include "_delayed.pxi"
include "_margin.pxi"


def follow(engine, Index c, double v, bint to_margin, double d_rate, p_rate, double reach, Index limit):
    """Follow the optimum while variable ``c`` moves at rate ``v`` = ±1, or eᵀα at rate ``d_rate`` and p at ``p_rate``.

    Ends where c reaches its bound or ``reach`` is travelled (`ARRIVED`), or, if ``to_margin``, where g_c = 0 and c
    has become a margin point (`AT_MARGIN`). Otherwise to be called again, after a column is there (`WANTS_COLUMN`:
    the one of ``counters[ENTERING]``), the inverse has been made anew (`DRIFTED`) or at once (`PAUSED`, after
    ``limit`` pivots). `STUCK`: no variable can take up the change. `INDEFINITE`: γ_cc < 0.
    """
    cdef double[::1] alpha = engine.alpha, g = engine.g, e = engine.e, u = engine.u, diag = engine.diag
    cdef signed char[::1] where = engine.where
    cdef double[:, ::1] rows = engine.pool.rows
    cdef long long[::1] slot = engine.pool.slot, members = engine.members, member_slots = engine.member_slots
    cdef long long[::1] place = engine.pool.place, filled = engine.pool.filled, waiting = engine.waiting
    cdef double[:, ::1] inverse = engine.inverse
    cdef long long[::1] counters = engine.counters
    cdef double[::1] figures = engine.figures
    cdef double[:, ::1] work = engine.work
    cdef double[::1] gamma = engine.gamma
    cdef double[::1] p_change = alpha if p_rate is None else p_rate
    cdef bint has_p = p_rate is not None
    cdef Room room
    cdef Index code
    room.n, room.stride, room.ld, room.border = alpha.shape[0], rows.shape[1], inverse.shape[1], engine.bordered
    if room.n == 0:
        return ARRIVED
    room.alpha, room.g, room.e, room.u, room.diag = &alpha[0], &g[0], &e[0], &u[0], &diag[0]
    room.where, room.rows, room.slot = &where[0], &rows[0, 0], &slot[0]
    room.members, room.member_slots, room.inverse = &members[0], &member_slots[0], &inverse[0, 0]
    room.counters, room.figures = &counters[0], &figures[0]
    room.quiet = engine.quiet
    room.strayed = STRAYED * figures[_FLOOR]
    room.beta, room.right, room.direction, room.gamma = &work[0, 0], &work[1, 0], &work[2, 0], &gamma[0]
    room.place, room.filled, room.waiting = &place[0], &filled[0], &waiting[0]
    look_at_updates(&room, &work[0, 0], work.shape[1])
    with nogil:
        code = _follow(&room, c, v, to_margin, d_rate, &p_change[0] if has_p else NULL, reach, limit)
        if code != _WANTS_COLUMN:
            catch_up(&room)
    return code


cdef Index _follow(Room *R, Index c, double v, bint to_margin, double d_rate, const double *p_rate, double reach,
                   Index limit) noexcept nogil:
    cdef Index i, j, k, m, chosen, leaving, done = 0, tries
    cdef double need, t, t_max, rate, space, noise, tolerance, size, worst, sign, best, curvature, drift
    cdef const double *column
    cdef bint dependent, refined, terminal, whole
    cdef bint ready = R.counters[_READY]  # whether the direction and the rates of the last call still hold
    R.counters[_READY] = False
    while True:
        # A point at g = 0 joins the margin.
        k = R.counters[_ENTERING]
        if k >= 0:
            if R.slot[k] < 0:
                R.counters[_WANTED] = k
                R.counters[_READY] = ready
                return _WANTS_COLUMN
            if R.counters[_COUNT] + 2 >= R.ld:
                return _PAUSED  # room for the inverse is made outside
            curvature = border_with(R, k)
            if curvature != curvature:
                return _DRIFTED if R.counters[_CHANGES] > 0 else _STUCK
            if R.counters[_COUNT] == 0 and R.border:
                append(R, k, 1.0)
                ready = False
            elif curvature > DEPENDENT * R.diag[k]:
                if ready:
                    # The direction goes on with k so that g_k stays: no product with the inverse is needed.
                    rate = -R.gamma[k] / curvature
                    for j in range(R.counters[_COUNT] + 2):
                        R.beta[j] = (0.0 if j > R.counters[_COUNT] else R.beta[j]) + rate * R.direction[j]
                append(R, k, curvature)
            elif not exchange(R, k, v):
                ready = False
                continue
            elif k == c:
                R.counters[_ENTERING] = -1
                return _ARRIVED
            R.counters[_ENTERING] = -1
            if k == c:
                return _AT_MARGIN
        if done >= limit:
            return _PAUSED
        done += 1
        R.counters[_PIVOTS] += 1
        m = R.counters[_COUNT]
        need = d_rate - (R.e[c] * v if c >= 0 and R.border else 0.0)
        size = 0.0
        for j in range(m):
            size += fabs(R.alpha[R.members[j]])

        if R.border and m == 0 and need != 0.0:
            # No margin point: the multiplier moves alone until a point that can take up the change reaches g = 0.
            sign = -1.0 if need > 0 else 1.0
            t = INFINITY
            chosen = -1
            for i in range(R.n):
                rate = R.e[i] * sign
                if R.u[i] > 0 and blocks(R, i, rate, 0.0):
                    space = max(0.0, R.g[i] if rate < 0 else -R.g[i])
                    if space < t:
                        t, chosen = space, i
            if c >= 0 and to_margin and R.e[c] * sign * R.g[c] < 0 and fabs(R.g[c]) <= t:
                t, chosen = fabs(R.g[c]), c
            if chosen < 0:
                return _STUCK
            R.figures[_MULTIPLIER] += sign * t
            for i in range(R.n):
                R.g[i] += R.e[i] * sign * t
            R.g[chosen] = 0.0
            R.counters[_ENTERING] = chosen
            continue

        # Rates (CP 5-7, 10-12).
        if c >= 0 and R.slot[c] < 0:
            R.counters[_WANTED] = c
            return _WANTS_COLUMN
        column = R.rows + R.slot[c] * R.stride if c >= 0 else NULL
        R.right[0] = need if R.border else 0.0
        for j in range(m):
            i = R.members[j]
            R.right[j + 1] = (0.0 if p_rate == NULL else p_rate[i]) - (v * column[i] if c >= 0 else 0.0)
        refined = whole = False
        if not ready:
            times_inverse(R, R.right, R.beta)
            if m == 0:
                R.beta[0] = 0.0
        while True:
            rates(R, c, v, p_rate, whole)
            # On the margin the rates vanish; what is left of them is what the inverse has drifted.
            worst, size = 0.0, 0.0
            need = R.right[0]
            for j in range(m):
                worst = max(worst, fabs(R.gamma[R.members[j]]))
                size = max(size, fabs(R.right[j + 1]))
                need -= R.e[R.members[j]] * R.beta[j + 1]
            if not fabs(need) < INFINITY:  # an update has spoilt the inverse
                return _DRIFTED if R.counters[_CHANGES] > 0 else _STUCK
            size = max(size, fabs(R.right[0]), 1e-300)
            drift = max(worst, fabs(need) if R.border else 0.0) / size
            if not refined and not (drift > DRIFT_MOST and R.counters[_CHANGES] > 0):
                R.figures[_DRIFT] = max(R.figures[_DRIFT], drift)
            if refined or drift <= 1e-12 or m == 0:
                break
            if drift > DRIFT_MOST and R.counters[_CHANGES] > 0:
                return _DRIFTED
            if R.quiet > 0 and not whole:
                whole = True
                continue
            # One step of iterative refinement takes the direction back to round-off.
            R.right[0] = need if R.border else 0.0
            for j in range(m):
                R.right[j + 1] = -R.gamma[R.members[j]]
            times_inverse(R, R.right, R.direction)
            for j in range(m + 1):
                R.beta[j] += R.direction[j]
            refined = True
        size = fabs(R.beta[0]) + fabs(v)
        best = 0.0
        for j in range(m):
            size += fabs(R.beta[j + 1]) * R.diag[R.members[j]]
            best = max(best, fabs(R.beta[j + 1]))
        noise = 4.0 * worst + 32.0 * DBL_EPSILON * size
        dependent = c >= 0 and v * R.gamma[c] <= max(DEPENDENT * R.diag[c], noise)
        if c >= 0 and v * R.gamma[c] < -(1e-6 * R.diag[c] + 1e3 * noise):
            return _INDEFINITE
        tolerance = R.figures[_FLOOR]

        # The longest step that violates nothing by more than round-off (Harris), then the largest rate within it.
        t_max = reach - R.figures[_TRAVELLED] if c < 0 else (R.u[c] - R.alpha[c] if v > 0 else R.alpha[c])
        t_max = max(t_max, 0.0)
        t = t_max
        terminal = True
        chosen = leaving = -1
        if c >= 0 and to_margin and not dependent and v * R.g[c] <= 0 and fabs(R.g[c]) < t * fabs(R.gamma[c]):
            t = t_max = fabs(R.g[c] / R.gamma[c])
            chosen = c
        best = 1e-13 * max(best, 1.0 if c >= 0 else 0.0)
        for j in range(m):
            i = R.members[j]
            rate = R.beta[j + 1]
            if fabs(rate) > best:
                space = R.u[i] - R.alpha[i] if rate > 0 else R.alpha[i]
                t_max = min(t_max, (max(space, 0.0) + 1e-14 * min(R.u[i], 1.0 + R.alpha[i])) / fabs(rate))
        if not dependent:
            for i in range(R.n):
                rate = R.gamma[i]
                if blocks(R, i, rate, noise):
                    space = R.g[i] if rate < 0 else -R.g[i]
                    t_max = min(t_max, (max(space, 0.0) + tolerance) / fabs(rate))
        if t > t_max:
            terminal = False
            chosen = -1
            rate = 0.0
            for j in range(m):
                i = R.members[j]
                if fabs(R.beta[j + 1]) > max(best, rate):
                    space = R.u[i] - R.alpha[i] if R.beta[j + 1] > 0 else R.alpha[i]
                    if max(space, 0.0) <= t_max * fabs(R.beta[j + 1]):
                        rate = fabs(R.beta[j + 1])
                        t = max(space, 0.0) / rate
                        leaving = j
            if leaving < 0:
                rate = 0.0
                for i in range(R.n):
                    if blocks(R, i, R.gamma[i], noise):
                        space = max(0.0, R.g[i] if R.gamma[i] < 0 else -R.g[i])
                        if space <= t_max * fabs(R.gamma[i]) and fabs(R.gamma[i]) > rate:
                            rate = fabs(R.gamma[i])
                            t = space / rate
                            chosen = i
            if leaving < 0 and chosen < 0:
                return _STUCK
        if t == INFINITY:
            return _STUCK

        # The step.
        for j in range(m):
            R.alpha[R.members[j]] += t * R.beta[j + 1]
        R.figures[_MULTIPLIER] += t * R.beta[0]
        advance(R.n, t, R.gamma, R.g)
        if c >= 0:
            R.alpha[c] += t * v
        else:
            R.figures[_TRAVELLED] += t
        if leaving >= 0:
            i = R.members[leaving]
            settle_at(R, i, R.beta[leaving + 1] > 0)
            rate = drop(R, leaving)
            ready = rate != 0.0
            if ready:
                rate = R.beta[leaving + 1] / rate
                R.beta[leaving + 1] = R.beta[m]
                for j in range(m):
                    R.beta[j] -= rate * R.right[j]
        elif chosen >= 0:
            R.g[chosen] = 0.0
            R.counters[_ENTERING] = chosen
            ready = True
        else:
            if c >= 0:
                settle_at(R, c, v > 0)
            return _ARRIVED


include "_reading.pxi"
