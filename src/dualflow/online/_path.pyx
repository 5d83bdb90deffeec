# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compiled path following for the incremental solver: Cauwenberghs & Poggio (2001, CP), sections 2.2 to 2.4.

`follow` moves the optimum while one variable, or the right-hand side d, changes. The other functions read or change the
margin between two paths. Three things are added to CP's bookkeeping:

- A dependent point, whose kernel column lies in the span of the margin points' columns, is exchanged for a margin point.
- Ties between breakpoints are broken by the largest rate among those within round-off.
- The residual of every direction is computed at no cost, and measures the drift of the inverse.

A rank-one update reads and writes the whole inverse, which is larger than a processor cache. Up to `DELAY` updates are
therefore kept as vectors: a product with the inverse adds their contribution, and when `DELAY` of them are there they
are applied in one pass. All are applied before `follow` returns to Python, unless it returns `WANTS_COLUMN`.
"""

import numpy as np

from libc.float cimport DBL_EPSILON
from libc.math cimport INFINITY, fabs
from libc.string cimport memcpy

cdef extern from "path.h":
    void combine(Py_ssize_t n, Py_ssize_t stride, Py_ssize_t count, const double *rows, const long long *slots, const double *weights,
                 double *out) nogil
    void symmetric_product(Py_ssize_t m, Py_ssize_t ld, const double *A, const double *x, double *y) nogil
    void delayed_product(Py_ssize_t m, Py_ssize_t stride, Py_ssize_t count, const double *V, const double *W, const double *x,
                         double *y) nogil
    void delayed_updates(Py_ssize_t m, Py_ssize_t ld, double *A, Py_ssize_t stride, Py_ssize_t count, const double *V,
                         const double *W) nogil
    void advance(Py_ssize_t n, double t, const double *gamma, double *g) nogil
    void add_other_rates(Py_ssize_t n, double beta0, const double *e, double v, const double *column, const double *p,
                         double *gamma) nogil
    double first_zero(Py_ssize_t n, const signed char *where, const double *g, const double *gamma, double noise,
                      double violation, double slack, double most) nogil
    Py_ssize_t steepest_zero(Py_ssize_t n, const signed char *where, const double *g, const double *gamma, double noise,
                             double violation, double most) nogil
    Py_ssize_t copy_set(Py_ssize_t n, const signed char *where, signed char set, const double *alpha, long long *index,
                        double *to) nogil

ctypedef Py_ssize_t Index

# Values of ``where``: the set a variable belongs to.
cpdef enum:
    AT_LOWER = 0  # α = 0 (CP's R)
    AT_UPPER = 1  # α = u (CP's E)
    FREE = 2  # a margin point (CP's S)
    PENDING = 3  # not learned, or unlearned
    MOVING = 4  # the variable that a path moves

# How a call of `follow` ended.
cpdef enum:
    ARRIVED = 0
    AT_MARGIN = 1
    WANTS_COLUMN = 2
    DRIFTED = 3
    PAUSED = 4
    STUCK = 5
    INDEFINITE = 6

# Indices into ``counters``.
cpdef enum:
    COUNT = 0  # margin points
    ENTERING = 1  # variable that has reached g = 0 and joins the margin next, or -1
    PIVOTS = 2  # breakpoints passed
    CHANGES = 3  # updates of the inverse since it was last computed from scratch
    WANTED = 4  # variable whose column of Q `follow` needs
    READY = 5  # whether beta and gamma of the last call still hold
    REFACTORED = 6  # times the inverse was computed from scratch
    REFRESHED = 7  # value of PIVOTS when all g were last computed from scratch

# Indices into ``figures``.
cpdef enum:
    MULTIPLIER = 0  # b
    DRIFT = 1  # largest relative residual of a direction before its refinement
    TRAVELLED = 2  # distance d has moved on this path
    FLOOR = 3  # round-off error of g

#: Ratio gamma_cc / Q_cc below which a point is dependent: its column lies in the span of the margin points' columns.
cdef double MAX_DEPENDENT_RATIO = 1e-9
#: A variable violates its KKT condition if g has the wrong sign by more than this many times its round-off error.
VIOLATION_FACTOR = 64.0
#: Relative residual of a direction above which the inverse is computed from scratch.
cdef double MAX_DRIFT = 1e-9

#: Updates of the inverse that are kept as vectors before they are applied.
DELAY = 32
#: Rows of ``work``: beta, right, direction, the weights of the delayed updates, and one row for each update's vector.
WORK_ROWS = 4 + DELAY
#: Columns of ``work`` beyond the rows of the inverse: the compiled loops read the vectors in blocks of up to 16.
WORK_PADDING = 24
cdef enum:
    _DELAY = 32
    _WEIGHTS = 3
    _VECTORS = 4


cdef struct Buffers:
    # Pointers to the arrays of an engine; `State` describes those with its attributes' names.
    Index n
    Index stride  # length of a row of ``rows``
    Index ld  # length of a row of the inverse
    Index border  # whether there is an equality
    double *alpha
    double *g
    const double *e
    const double *u
    const double *diag
    signed char *where
    const double *rows  # cached columns of Q, one in each row (a slot)
    const long long *slot  # slot of each variable's complete column, or -1
    const long long *place  # slot of each variable's column, complete or not, or -1
    const long long *filled  # number of entries in each slot
    long long *members  # the margin points
    long long *member_slots  # the slots of their columns
    double *inverse
    long long *counters
    double *figures
    double *beta  # rates of the multiplier and of the margin points' α (CP 5)
    double *right  # right-hand side of a system; later a column of the inverse
    double *direction  # second vector of this kind
    double *gamma  # rates of g
    double violation  # |g| of the wrong sign that counts as a violation
    Index n_initial_margin  # the first variables, which were on the margin when the near variables were chosen
    long long *waiting  # number of delayed updates
    double *weights  # their weights
    double *updates  # their vectors, one in each row
    Index updates_stride  # length of a row of ``updates``
    Index log_rows  # rows of the log of breakpoints; 0 if there is none
    Index log_room  # numbers that fit into ``log_alpha``
    long long *log_used  # number of rows and of numbers in the log
    double *log_t  # distance travelled at each breakpoint
    signed char *log_where  # sets of all variables, one breakpoint in each row
    long long *log_ends  # number of numbers up to each breakpoint
    long long *log_free  # the free variables, one breakpoint after the other
    double *log_alpha  # their α


cdef struct Step:
    # A step along the path, to a breakpoint or to its end.
    double t
    Index chosen  # variable that reaches g = 0, or -1
    Index leaving  # place in the margin of the point that reaches a bound, or -1


cdef void set_update_buffers(Buffers *R, double *work, Index width) noexcept nogil:
    """Point to the rows of ``work`` that hold the delayed updates."""
    R.weights, R.updates, R.updates_stride = work + _WEIGHTS * width, work + _VECTORS * width, width


cdef void apply_updates(Buffers *R) noexcept nogil:
    """Apply the delayed updates to the inverse."""
    delayed_updates(R.counters[COUNT] + 1, R.ld, R.inverse, R.updates_stride, R.waiting[0], R.updates, R.weights)
    R.waiting[0] = 0


cdef void queue_update(Buffers *R, Index m, double weight, const double *v) noexcept nogil:
    """Queue the update inverse += weight v vᵀ, of order m; apply all queued ones when there are `DELAY`."""
    cdef double *to = R.updates + R.waiting[0] * R.updates_stride
    cdef Index j
    for j in range(m):
        to[j] = v[j]
    R.weights[R.waiting[0]] = weight
    R.waiting[0] += 1
    if R.waiting[0] == _DELAY:
        delayed_updates(m, R.ld, R.inverse, R.updates_stride, R.waiting[0], R.updates, R.weights)
        R.waiting[0] = 0


cdef void multiply_inverse(Buffers *R, const double *x, double *y) noexcept nogil:
    """Set y = inverse · x, delayed updates included."""
    cdef Index m = R.counters[COUNT] + 1
    symmetric_product(m, R.ld, R.inverse, x, y)
    delayed_product(m, R.updates_stride, R.waiting[0], R.updates, R.weights, x, y)


cdef double border_direction(Buffers *R, Index k) noexcept nogil:
    """Set direction = −inverse [e_k; Q_Sk] (CP 8), followed by 1 for k itself; return gamma_kk (CP 12)."""
    cdef Index j, m = R.counters[COUNT]
    cdef const double *column = R.rows + R.slot[k] * R.stride
    cdef double curvature = R.diag[k]
    R.right[0] = R.e[k] if R.border else 0.0
    for j in range(m):
        R.right[j + 1] = column[R.members[j]]
    multiply_inverse(R, R.right, R.direction)
    for j in range(m + 1):
        R.direction[j] = -R.direction[j]
        curvature += R.right[j] * R.direction[j]
    R.direction[m + 1] = 1.0
    return curvature


cdef void set_single_inverse(Buffers *R, Index k) noexcept nogil:
    """Set the inverse for k as the only margin point, [−Q_kk e_k; e_k 0]."""
    R.waiting[0] = 0
    R.inverse[0] = -R.diag[k]
    R.inverse[R.ld] = R.e[k]
    R.inverse[R.ld + 1] = 0.0


cdef void append(Buffers *R, Index k, double curvature) noexcept nogil:
    """Make k a margin point (CP 14); direction must be that of `border_direction`."""
    cdef Index j, m = R.counters[COUNT]
    cdef double *last
    if m == 0 and R.border:
        set_single_inverse(R, k)
    else:
        last = R.inverse + (m + 1) * R.ld
        for j in range(m + 2):
            last[j] = 0.0
        for j in range(R.waiting[0]):
            R.updates[j * R.updates_stride + m + 1] = 0.0
        queue_update(R, m + 2, 1.0 / curvature, R.direction)
    R.members[m] = k
    R.member_slots[m] = R.slot[k]
    R.where[k] = FREE
    R.counters[COUNT] = m + 1
    R.counters[CHANGES] += 1


cdef double remove(Buffers *R, Index j) noexcept nogil:
    """Remove the j-th margin point and contract the inverse (CP Algorithm 2); the last margin point takes place j.

    Returns the removed diagonal entry of the inverse, or 0 if no margin point is left. The removed column is left in
    ``right``.
    """
    cdef Index i, k = j + 1, m = R.counters[COUNT], last = R.counters[COUNT], ld = R.ld
    cdef double *A = R.inverse
    cdef double *column = R.right
    cdef double pivot = 0.0, weight
    cdef double *v
    cdef Index r
    if m > 1 or not R.border:
        for i in range(k):
            column[i] = A[k * ld + i]
        for i in range(k, m + 1):
            column[i] = A[i * ld + k]
        for r in range(R.waiting[0]):
            v = R.updates + r * R.updates_stride
            weight = R.weights[r] * v[k]
            for i in range(m + 1):
                column[i] += weight * v[i]
            v[k] = v[last]
        pivot = column[k]
        # Swap k and last, then contract the inverse by its last row.
        if k != last:
            for i in range(k):
                A[k * ld + i] = A[last * ld + i]
            A[k * ld + k] = A[last * ld + last]
            for i in range(k + 1, last):
                A[i * ld + k] = A[last * ld + i]
            column[k] = column[last]
        if m == 2 and R.border:
            # For two nearly equal points the contraction cancels all digits; the inverse of one point is exact.
            set_single_inverse(R, R.members[2 - k])
        else:
            queue_update(R, m, -1.0 / pivot, column)
    else:
        R.waiting[0] = 0  # the inverse is empty
    R.members[j] = R.members[m - 1]
    R.member_slots[j] = R.member_slots[m - 1]
    R.counters[COUNT] = m - 1
    R.counters[CHANGES] += 1
    return pivot


cdef void set_to_bound(Buffers *R, Index k, bint at_upper) noexcept nogil:
    """Set alpha_k to its upper bound or to 0."""
    R.alpha[k] = R.u[k] if at_upper else 0.0
    R.where[k] = AT_UPPER if at_upper else AT_LOWER


cdef inline bint reaches_zero(Buffers *R, Index i, double rate, double noise) noexcept nogil:
    """Return whether i reaches g = 0 at this rate.

    A variable that already violates its KKT condition by more than round-off does not: it is corrected after the path.
    """
    if R.where[i] == AT_LOWER:
        return rate < -noise and R.g[i] >= -R.violation
    return R.where[i] == AT_UPPER and rate > noise and R.g[i] <= R.violation


cdef void log_breakpoint(Buffers *R) noexcept nogil:
    """Add the sets of all variables and α of the free ones to the log; a variable that joins the margin is free."""
    cdef Index row = R.log_used[0], count = R.log_used[1]
    cdef signed char *to = R.log_where + row * R.n
    memcpy(to, R.where, R.n)
    if R.counters[ENTERING] >= 0:
        to[R.counters[ENTERING]] = FREE
    count += copy_set(R.n, to, FREE, R.alpha, R.log_free + count, R.log_alpha + count)
    R.log_t[row], R.log_ends[row] = R.figures[TRAVELLED], count
    R.log_used[0], R.log_used[1] = row + 1, count


cdef inline bint log_is_full(Buffers *R) noexcept nogil:
    """Return whether the log has no room for two more breakpoints."""
    return R.log_rows > 0 and (
        R.log_used[0] + 2 > R.log_rows or R.log_used[1] + 2 * (R.counters[COUNT] + 2) > R.log_room
    )


cdef bint exchange(Buffers *R, Index k, double v) noexcept nogil:
    """Make a dependent k, which has just reached g = 0, a margin point in place of the first one to reach its bound.

    α moves along Δα_k = ±1, Δα_S = ±direction. In exact arithmetic no g changes along it; g is updated all the same,
    since `MAX_DEPENDENT_RATIO` is relative to Q_kk, which a constant in the kernel makes large. Returns True if k
    reached its other bound instead.
    """
    cdef Index j, m = R.counters[COUNT], first = -1
    cdef double s = 1.0 if R.where[k] == AT_LOWER else (-1.0 if R.where[k] == AT_UPPER else v)
    cdef double change = R.u[k] - R.alpha[k] if s > 0 else R.alpha[k], rate, room
    cdef Index i
    cdef const double *column
    for j in range(m):
        rate = s * R.direction[j + 1]
        if fabs(rate) <= 1e-12:
            continue
        i = R.members[j]
        room = (R.u[i] - R.alpha[i]) / rate if rate > 0 else R.alpha[i] / -rate
        if room < change:
            change = room
            first = j
    if change == INFINITY:
        return True
    change = max(change, 0.0)
    for j in range(m):
        R.alpha[R.members[j]] += s * change * R.direction[j + 1]
    R.figures[MULTIPLIER] += s * change * R.direction[0]
    column = R.rows + R.slot[k] * R.stride
    combine(R.n, R.stride, m, R.rows, R.member_slots, R.direction + 1, R.gamma)
    for i in range(R.n):
        R.gamma[i] += column[i] + R.e[i] * R.direction[0]
    advance(R.n, s * change, R.gamma, R.g)
    if first < 0:
        set_to_bound(R, k, s > 0)
        return True
    R.alpha[k] += s * change
    i = R.members[first]
    set_to_bound(R, i, s * R.direction[first + 1] > 0)
    remove(R, first)
    return False


cdef void rates(Buffers *R, Index c, double v, const double *p_rate, bint all_rates) noexcept nogil:
    """Set gamma (CP 10), the rate of every g along beta; on the margin it is the residual of the direction.

    Unless ``all_rates``, the rates of the first ``n_initial_margin`` variables are set to 0 while these are on the
    margin; one of them is computed in each call, to measure the drift of the inverse. For the few that have left the
    margin, the columns are read at one entry each.
    """
    cdef Index i, j, m = R.counters[COUNT], n_skipped = 0 if all_rates else R.n_initial_margin
    cdef Index sample = R.counters[PIVOTS] % n_skipped if n_skipped > 0 else 0
    cdef const double *own
    cdef Index k, known
    cdef double rate
    combine(R.n - n_skipped, R.stride, m, R.rows + n_skipped, R.member_slots, R.beta + 1, R.gamma + n_skipped)
    for i in range(n_skipped):
        rate = 0.0
        if R.where[i] != FREE or i == sample:
            # Row i of Q holds the same entries next to each other, as far as it is cached.
            own = R.rows + R.place[i] * R.stride if R.place[i] >= 0 else NULL
            known = R.filled[R.place[i]] if R.place[i] >= 0 else 0
            for j in range(m):
                k = R.members[j]
                rate += R.beta[j + 1] * (own[k] if k < known else R.rows[R.member_slots[j] * R.stride + i])
        R.gamma[i] = rate
    add_other_rates(R.n, R.beta[0], R.e, v, R.rows + R.slot[c] * R.stride if c >= 0 else NULL, p_rate, R.gamma)
    for i in range(n_skipped):
        if R.where[i] == FREE and i != sample:
            R.gamma[i] = 0.0


cdef int set_log(Buffers *R, log) except -1:
    """Point to the arrays of a log of breakpoints."""
    cdef double[::1] t = log.t, alpha = log.alpha
    cdef signed char[:, ::1] where = log.where
    cdef long long[::1] used = log.used, ends = log.ends, free = log.free
    cdef Index rows = t.shape[0]
    if where.shape[0] != rows or where.shape[1] != R.n or ends.shape[0] != rows or free.shape[0] != alpha.shape[0]:
        raise ValueError("the arrays of the log do not have the sizes of the engine")
    if not (0 <= used[0] <= rows - 2 and 0 <= used[1] <= alpha.shape[0] - 2 * (R.n + 2)):
        raise ValueError("the log has no room for two more breakpoints")
    R.log_rows, R.log_room, R.log_used = rows, alpha.shape[0], &used[0]
    R.log_t, R.log_where, R.log_ends, R.log_free, R.log_alpha = &t[0], &where[0, 0], &ends[0], &free[0], &alpha[0]
    return 0


def follow(engine, Index c, double v, bint to_margin, double d_rate, p_rate, double distance, Index limit):
    """Follow the optimum while variable ``c`` moves at rate ``v`` = ±1, or d = eᵀα at rate ``d_rate`` and p at ``p_rate``.

    Parameters
    ----------
    engine : Engine or Near
        Its arrays are read and changed in place.
    c : int
        The variable that moves, or −1 if d moves.
    v : float
        +1 or −1; 0 if d moves.
    to_margin : bool
        Whether to stop where g_c = 0.
    d_rate : float
    p_rate : array of shape (n,) or None
    distance : float
        Distance that d is to move.
    limit : int
        Number of breakpoints after which the call returns.

    Returns
    -------
    code : int
        `ARRIVED`: c has reached its bound, or d has moved by ``distance``. `AT_MARGIN`: c has become a margin point. The
        path goes on with another call after `WANTS_COLUMN` (once column ``counters[WANTED]`` is cached), `DRIFTED`
        (once the inverse is computed from scratch) and `PAUSED` (immediately). `STUCK`: no variable can take up the
        change. `INDEFINITE`: γ_cc < 0.
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
    cdef Buffers buffers
    cdef Index code
    buffers.n, buffers.stride, buffers.ld, buffers.border = alpha.shape[0], rows.shape[1], inverse.shape[1], engine.bordered
    if buffers.n == 0:
        return ARRIVED
    buffers.alpha, buffers.g, buffers.e, buffers.u, buffers.diag = &alpha[0], &g[0], &e[0], &u[0], &diag[0]
    buffers.where, buffers.rows, buffers.slot = &where[0], &rows[0, 0], &slot[0]
    buffers.members, buffers.member_slots, buffers.inverse = &members[0], &member_slots[0], &inverse[0, 0]
    buffers.counters, buffers.figures = &counters[0], &figures[0]
    buffers.n_initial_margin = engine.n_initial_margin
    buffers.violation = VIOLATION_FACTOR * figures[FLOOR]
    buffers.beta, buffers.right, buffers.direction, buffers.gamma = &work[0, 0], &work[1, 0], &work[2, 0], &gamma[0]
    buffers.place, buffers.filled, buffers.waiting = &place[0], &filled[0], &waiting[0]
    set_update_buffers(&buffers, &work[0, 0], work.shape[1])
    buffers.log_rows = 0
    if c < 0 and engine.log is not None:
        set_log(&buffers, engine.log)
    with nogil:
        code = _follow(&buffers, c, v, to_margin, d_rate, &p_change[0] if has_p else NULL, distance, limit)
        if code != WANTS_COLUMN:
            apply_updates(&buffers)
    return code


cdef Index join_margin(Buffers *R, Index c, double v, bint *ready) noexcept nogil:
    """Make the variable that has reached g = 0 a margin point; return how the call ends, or -1 if the path goes on."""
    cdef Index j, k = R.counters[ENTERING]
    cdef double rate, curvature
    while k >= 0:
        if R.slot[k] < 0:
            R.counters[WANTED] = k
            R.counters[READY] = ready[0]
            return WANTS_COLUMN
        if R.counters[COUNT] + 2 >= R.ld:
            return PAUSED  # the caller enlarges the inverse
        curvature = border_direction(R, k)
        if curvature != curvature:
            return DRIFTED if R.counters[CHANGES] > 0 else STUCK
        if R.counters[COUNT] == 0 and R.border:
            append(R, k, 1.0)
            ready[0] = False
        elif curvature > MAX_DEPENDENT_RATIO * R.diag[k]:
            if ready[0]:
                # The new direction keeps g_k at 0; it follows from the last one without a product with the inverse.
                rate = -R.gamma[k] / curvature
                for j in range(R.counters[COUNT] + 2):
                    R.beta[j] = (0.0 if j > R.counters[COUNT] else R.beta[j]) + rate * R.direction[j]
            append(R, k, curvature)
        elif not exchange(R, k, v):
            ready[0] = False
            continue
        elif k == c:
            R.counters[ENTERING] = -1
            return ARRIVED
        R.counters[ENTERING] = -1
        return AT_MARGIN if k == c else -1
    return -1


cdef bint move_multiplier(Buffers *R, Index c, bint to_margin, double need) noexcept nogil:
    """Move the multiplier, without margin points, until a variable that can take up the change reaches g = 0.

    Returns False if there is none.
    """
    cdef Index i, chosen = -1
    cdef double rate, space, t = INFINITY, sign = -1.0 if need > 0 else 1.0
    for i in range(R.n):
        rate = R.e[i] * sign
        if R.u[i] > 0 and reaches_zero(R, i, rate, 0.0):
            space = max(0.0, R.g[i] if rate < 0 else -R.g[i])
            if space < t:
                t, chosen = space, i
    if c >= 0 and to_margin and R.e[c] * sign * R.g[c] < 0 and fabs(R.g[c]) <= t:
        t, chosen = fabs(R.g[c]), c
    if chosen < 0:
        return False
    R.figures[MULTIPLIER] += sign * t
    for i in range(R.n):
        R.g[i] += R.e[i] * sign * t
    R.g[chosen] = 0.0
    R.counters[ENTERING] = chosen
    return True


cdef Index find_direction(Buffers *R, Index c, double v, double need, const double *p_rate, bint ready,
                          double *residual) noexcept nogil:
    """Set beta and gamma (CP 5-7, 10-12), unless ``ready`` beta alone; return how the call ends, or -1.

    ``residual`` is set to the largest rate on the margin, where all rates are 0 in exact arithmetic.
    """
    cdef Index i, j, m = R.counters[COUNT]
    cdef double size, drift
    cdef const double *column
    cdef bint refined = False, all_rates = False
    if c >= 0 and R.slot[c] < 0:
        R.counters[WANTED] = c
        return WANTS_COLUMN
    column = R.rows + R.slot[c] * R.stride if c >= 0 else NULL
    R.right[0] = need if R.border else 0.0
    for j in range(m):
        i = R.members[j]
        R.right[j + 1] = (0.0 if p_rate == NULL else p_rate[i]) - (v * column[i] if c >= 0 else 0.0)
    if not ready:
        multiply_inverse(R, R.right, R.beta)
        if m == 0:
            R.beta[0] = 0.0
    while True:
        rates(R, c, v, p_rate, all_rates)
        residual[0], size = 0.0, 0.0
        need = R.right[0]
        for j in range(m):
            residual[0] = max(residual[0], fabs(R.gamma[R.members[j]]))
            size = max(size, fabs(R.right[j + 1]))
            need -= R.e[R.members[j]] * R.beta[j + 1]
        if not fabs(need) < INFINITY:  # an update has spoilt the inverse
            return DRIFTED if R.counters[CHANGES] > 0 else STUCK
        size = max(size, fabs(R.right[0]), 1e-300)
        drift = max(residual[0], fabs(need) if R.border else 0.0) / size
        if not refined and not (drift > MAX_DRIFT and R.counters[CHANGES] > 0):
            R.figures[DRIFT] = max(R.figures[DRIFT], drift)
        if refined or drift <= 1e-12 or m == 0:
            return -1
        if drift > MAX_DRIFT and R.counters[CHANGES] > 0:
            return DRIFTED
        if R.n_initial_margin > 0 and not all_rates:
            all_rates = True
            continue
        # One step of iterative refinement takes the direction back to round-off.
        R.right[0] = need if R.border else 0.0
        for j in range(m):
            R.right[j + 1] = -R.gamma[R.members[j]]
        multiply_inverse(R, R.right, R.direction)
        for j in range(m + 1):
            R.beta[j] += R.direction[j]
        refined = True


cdef void choose_breakpoint(Buffers *R, double t_max, double min_rate, double noise, Step *step) noexcept nogil:
    """Choose among the breakpoints up to ``t_max`` the one with the largest rate; a margin point goes first."""
    cdef Index i, j
    cdef double space, rate = 0.0
    step.chosen = -1
    for j in range(R.counters[COUNT]):
        i = R.members[j]
        if fabs(R.beta[j + 1]) > max(min_rate, rate):
            space = R.u[i] - R.alpha[i] if R.beta[j + 1] > 0 else R.alpha[i]
            if max(space, 0.0) <= t_max * fabs(R.beta[j + 1]):
                rate = fabs(R.beta[j + 1])
                step.t = max(space, 0.0) / rate
                step.leaving = j
    if step.leaving >= 0:
        return
    step.chosen = i = steepest_zero(R.n, R.where, R.g, R.gamma, noise, R.violation, t_max)
    if i >= 0:
        step.t = max(0.0, R.g[i] if R.gamma[i] < 0 else -R.g[i]) / fabs(R.gamma[i])


cdef Index choose_step(Buffers *R, Index c, double v, bint to_margin, double distance, double residual,
                       Step *step) noexcept nogil:
    """Set the step to the next breakpoint, or to the end of the path; return how the call ends, or -1.

    The step is the longest that violates nothing by more than round-off (Harris), then the largest rate within it.
    """
    cdef Index i, j, m = R.counters[COUNT]
    cdef double t_max, rate, space, noise, size = fabs(R.beta[0]) + fabs(v), min_rate = 0.0
    cdef bint dependent
    for j in range(m):
        size += fabs(R.beta[j + 1]) * R.diag[R.members[j]]
        min_rate = max(min_rate, fabs(R.beta[j + 1]))
    noise = 4.0 * residual + 32.0 * DBL_EPSILON * size
    dependent = c >= 0 and v * R.gamma[c] <= max(MAX_DEPENDENT_RATIO * R.diag[c], noise)
    if c >= 0 and v * R.gamma[c] < -(1e-6 * R.diag[c] + 1e3 * noise):
        return INDEFINITE
    t_max = distance - R.figures[TRAVELLED] if c < 0 else (R.u[c] - R.alpha[c] if v > 0 else R.alpha[c])
    t_max = max(t_max, 0.0)
    step.t = t_max
    step.chosen = step.leaving = -1
    if c >= 0 and to_margin and not dependent and v * R.g[c] <= 0 and fabs(R.g[c]) < step.t * fabs(R.gamma[c]):
        step.t = t_max = fabs(R.g[c] / R.gamma[c])
        step.chosen = c
    min_rate = 1e-13 * max(min_rate, 1.0 if c >= 0 else 0.0)
    for j in range(m):
        i = R.members[j]
        rate = R.beta[j + 1]
        if fabs(rate) > min_rate:
            space = R.u[i] - R.alpha[i] if rate > 0 else R.alpha[i]
            t_max = min(t_max, (max(space, 0.0) + 1e-14 * min(R.u[i], 1.0 + R.alpha[i])) / fabs(rate))
    if not dependent:
        t_max = first_zero(R.n, R.where, R.g, R.gamma, noise, R.violation, R.figures[FLOOR], t_max)
    if step.t > t_max:
        choose_breakpoint(R, t_max, min_rate, noise, step)
        if step.leaving < 0 and step.chosen < 0:
            return STUCK
    return STUCK if step.t == INFINITY else -1


cdef bint take_step(Buffers *R, Index c, double v, const Step *step) noexcept nogil:
    """Move all variables, g and the multiplier; return whether beta and gamma still hold after the breakpoint."""
    cdef Index i, j, m = R.counters[COUNT]
    cdef double rate
    for j in range(m):
        R.alpha[R.members[j]] += step.t * R.beta[j + 1]
    R.figures[MULTIPLIER] += step.t * R.beta[0]
    advance(R.n, step.t, R.gamma, R.g)
    if c >= 0:
        R.alpha[c] += step.t * v
    else:
        R.figures[TRAVELLED] += step.t
    if step.leaving >= 0:
        i = R.members[step.leaving]
        set_to_bound(R, i, R.beta[step.leaving + 1] > 0)
        rate = remove(R, step.leaving)
        if rate == 0.0:
            return False
        rate = R.beta[step.leaving + 1] / rate
        R.beta[step.leaving + 1] = R.beta[m]
        for j in range(m):
            R.beta[j] -= rate * R.right[j]
    elif step.chosen >= 0:
        R.g[step.chosen] = 0.0
        R.counters[ENTERING] = step.chosen
    elif c >= 0:
        set_to_bound(R, c, v > 0)
    return True


cdef Index _follow(Buffers *R, Index c, double v, bint to_margin, double d_rate, const double *p_rate, double distance,
                   Index limit) noexcept nogil:
    """Follow the path as `follow` describes, without Python objects; delayed updates are left in their queue."""
    cdef Index code, changes, done = 0
    cdef double need, residual
    cdef Step step
    cdef bint joined, ready = R.counters[READY]  # whether the direction and the rates of the last call still hold
    R.counters[READY] = False
    while True:
        if log_is_full(R):
            return PAUSED  # the caller empties it
        joined, changes = R.counters[ENTERING] >= 0, R.counters[CHANGES]
        code = join_margin(R, c, v, &ready)
        if joined and R.log_rows > 0 and R.counters[CHANGES] != changes + (1 if code < 0 else 0):
            log_breakpoint(R)  # an exchange of dependent points has moved α
        if code >= 0:
            return code
        if limit > 0 and done >= limit:
            return PAUSED
        done += 1
        R.counters[PIVOTS] += 1
        need = d_rate - (R.e[c] * v if c >= 0 and R.border else 0.0)
        if R.border and R.counters[COUNT] == 0 and need != 0.0:
            if not move_multiplier(R, c, to_margin, need):
                return STUCK
            continue
        code = find_direction(R, c, v, need, p_rate, ready, &residual)
        if code >= 0:
            return code
        code = choose_step(R, c, v, to_margin, distance, residual, &step)
        if code >= 0:
            return code
        ready = take_step(R, c, v, &step)
        if step.leaving < 0 and step.chosen < 0:
            return ARRIVED  # the caller adds the end to the log
        if R.log_rows > 0:
            log_breakpoint(R)


def remove_margin_point(engine, Index j):
    """Remove the j-th margin point from the inverse; its coefficient and the others' are unchanged."""
    cdef double[:, ::1] inverse = engine.inverse
    cdef double[:, ::1] work = engine.work
    cdef long long[::1] members = engine.members, member_slots = engine.member_slots, counters = engine.counters
    cdef long long[::1] waiting = engine.waiting
    cdef const double[::1] e = engine.e, diag = engine.diag
    cdef Buffers buffers
    if not 0 <= j < counters[COUNT]:
        raise IndexError(f"there are {counters[COUNT]} margin points, not {j + 1}")
    buffers.ld, buffers.border, buffers.inverse = inverse.shape[1], engine.bordered, &inverse[0, 0]
    buffers.e, buffers.diag = &e[0], &diag[0]
    buffers.members, buffers.member_slots, buffers.counters = &members[0], &member_slots[0], &counters[0]
    buffers.right, buffers.waiting = &work[1, 0], &waiting[0]
    set_update_buffers(&buffers, &work[0, 0], work.shape[1])
    remove(&buffers, j)
    apply_updates(&buffers)


def inverse_times(engine, double[::1] x):
    """Return the inverse of the bordered margin block times x, shape (m + 1,)."""
    cdef double[:, ::1] inverse = engine.inverse
    out = np.zeros(x.shape[0])
    cdef double[::1] y = out
    if not 0 < x.shape[0] <= inverse.shape[0]:
        raise ValueError(f"x has {x.shape[0]} entries, the inverse {inverse.shape[0]} rows")
    symmetric_product(x.shape[0], inverse.shape[1], &inverse[0, 0], &x[0], &y[0])
    return out


def combine_rows(double[:, ::1] rows, long long[::1] slots, double[::1] weights, double[::1] out):
    """Set out = Σ_r weights[r] · rows[slots[r], :len(out)]."""
    cdef Index n = out.shape[0], count = slots.shape[0]
    if n > rows.shape[1] or weights.shape[0] != count:
        raise ValueError("out must be no longer than a row, and weights as long as slots")
    if n and count:
        with nogil:
            combine(n, rows.shape[1], count, &rows[0, 0], &slots[0], &weights[0], &out[0])
    else:
        out[:] = 0.0


def gap_terms(engine):
    """Clip α to its bounds, which round-off exceeds, and return the sums that the relative gap is computed from.

    Sets ``figures[FLOOR]``, the round-off error of g. An infinite bound counts as d.

    Returns
    -------
    alpha_sum : float
        Σα.
    residual : float
        eᵀα − d; 0 without an equality.
    alpha_g : float
        αᵀg.
    alpha_p : float
        αᵀp.
    excess : float
        Σ uᵢ max(−gᵢ, 0) over the learned variables.
    max_excess : float
        The same with every g lower by its round-off error.
    """
    cdef double[::1] alpha = engine.alpha, g = engine.g, figures = engine.figures
    cdef const double[::1] e = engine.e, u = engine.u, p = engine.p, diag = engine.diag
    cdef const signed char[::1] where = engine.where
    cdef Index i, n = alpha.shape[0]
    cdef double alpha_sum = 0.0, e_sum = 0.0, alpha_g = 0.0, alpha_p = 0.0, excess = 0.0, max_excess = 0.0
    cdef double d = engine.d, max_diag = 0.0, max_p = 0.0, floor, bound
    for i in range(n):
        if alpha[i] < 0.0:
            alpha[i] = 0.0
        elif alpha[i] > u[i]:
            alpha[i] = u[i]
        alpha_sum += alpha[i]
        e_sum += e[i] * alpha[i]
        alpha_g += alpha[i] * g[i]
        alpha_p += alpha[i] * p[i]
        max_diag = max(max_diag, diag[i])
        max_p = max(max_p, fabs(p[i]))
    floor = 16.0 * DBL_EPSILON * (alpha_sum * max_diag + fabs(figures[MULTIPLIER]) + max_p)
    figures[FLOOR] = floor
    for i in range(n):
        if where[i] != PENDING and g[i] < floor:
            bound = u[i] if u[i] < INFINITY else d
            excess += bound * max(-g[i], 0.0)
            max_excess += bound * (floor - g[i])
    return alpha_sum, e_sum - d if engine.bordered else 0.0, alpha_g, alpha_p, excess, max_excess
