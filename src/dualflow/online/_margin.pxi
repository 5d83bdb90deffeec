# Part of _path.pyx: the arrays of an engine, the inverse of the bordered margin block as points come and go (CP 2001,
# sections 2.2 and 2.3), and the rates along a direction.

# Where a variable is.
REST, BOUND, FREE, PENDING, DRIVEN = range(5)
cdef enum:
    _REST = 0
    _BOUND = 1
    _FREE = 2
    _PENDING = 3

# How a call ended.
ARRIVED, AT_MARGIN, WANTS_COLUMN, DRIFTED, PAUSED, STUCK, INDEFINITE = range(7)
cdef enum:
    _ARRIVED = 0
    _AT_MARGIN = 1
    _WANTS_COLUMN = 2
    _DRIFTED = 3
    _PAUSED = 4
    _STUCK = 5
    _INDEFINITE = 6

# Places of the counters and of the figures.
COUNT, ENTERING, PIVOTS, CHANGES, WANTED, READY, REFACTORED, REFRESHED = range(8)
MULTIPLIER, DRIFT, TRAVELLED, FLOOR = range(4)
cdef enum:
    _COUNT = 0
    _ENTERING = 1
    _PIVOTS = 2
    _CHANGES = 3
    _WANTED = 4
    _READY = 5
    _MULTIPLIER = 0
    _DRIFT = 1
    _TRAVELLED = 2
    _FLOOR = 3

#: gamma_cc below this part of Q_cc: the point lies in the span of the margin points (theory: distance to the span).
cdef double DEPENDENT = 1e-9
#: g on the wrong side by so many times what it is known to is no round-off.
STRAYED = 64.0
#: Drift of the inverse from which it is made anew.
cdef double DRIFT_MOST = 1e-9


cdef double border_with(Room *R, Index k) noexcept nogil:
    """direction = −inverse [e_k; Q_Sk] (CP 8), with k itself appended as 1; returns gamma_kk (CP 12)."""
    cdef Index j, m = R.counters[_COUNT]
    cdef const double *column = R.rows + R.slot[k] * R.stride
    cdef double curvature = R.diag[k]
    R.right[0] = R.e[k] if R.border else 0.0
    for j in range(m):
        R.right[j + 1] = column[R.members[j]]
    times_inverse(R, R.right, R.direction)
    for j in range(m + 1):
        R.direction[j] = -R.direction[j]
        curvature += R.right[j] * R.direction[j]
    R.direction[m + 1] = 1.0
    return curvature


cdef void alone(Room *R, Index k) noexcept nogil:
    """The inverse of k as the only margin point, [−Q_kk e_k; e_k 0]."""
    R.waiting[0] = 0
    R.inverse[0] = -R.diag[k]
    R.inverse[R.ld] = R.e[k]
    R.inverse[R.ld + 1] = 0.0


cdef void append(Room *R, Index k, double curvature) noexcept nogil:
    """Make k a margin point (CP 14); direction is that of `border_with`."""
    cdef Index j, m = R.counters[_COUNT]
    cdef double *last
    if m == 0 and R.border:
        alone(R, k)
    else:
        last = R.inverse + (m + 1) * R.ld
        for j in range(m + 2):
            last[j] = 0.0
        for j in range(R.waiting[0]):
            R.updates[j * R.apart + m + 1] = 0.0
        update(R, m + 2, 1.0 / curvature, R.direction)
    R.members[m] = k
    R.member_slots[m] = R.slot[k]
    R.where[k] = _FREE
    R.counters[_COUNT] = m + 1
    R.counters[_CHANGES] += 1


cdef double drop(Room *R, Index j) noexcept nogil:
    """Take the j-th margin point out (CP Algorithm 2's contraction of the inverse); the last takes its place.

    Returns its entry on the diagonal, or 0 if there is no inverse any more; its column is left in ``right``.
    """
    cdef Index i, k = j + 1, m = R.counters[_COUNT], last = R.counters[_COUNT], ld = R.ld
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
            v = R.updates + r * R.apart
            weight = R.weights[r] * v[k]
            for i in range(m + 1):
                column[i] += weight * v[i]
            v[k] = v[last]
        pivot = column[k]
        # Swap k and last, then contract by the last.
        if k != last:
            for i in range(k):
                A[k * ld + i] = A[last * ld + i]
            A[k * ld + k] = A[last * ld + last]
            for i in range(k + 1, last):
                A[i * ld + k] = A[last * ld + i]
            column[k] = column[last]
        if m == 2 and R.border:
            alone(R, R.members[2 - k])  # of nearly equal points nothing else is left of it
        else:
            update(R, m, -1.0 / pivot, column)
    else:
        R.waiting[0] = 0  # nothing is left of the inverse
    R.members[j] = R.members[m - 1]
    R.member_slots[j] = R.member_slots[m - 1]
    R.counters[_COUNT] = m - 1
    R.counters[_CHANGES] += 1
    return pivot


cdef void settle_at(Room *R, Index k, bint at_upper) noexcept nogil:
    R.alpha[k] = R.u[k] if at_upper else 0.0
    R.where[k] = _BOUND if at_upper else _REST


cdef inline bint blocks(Room *R, Index i, double rate, double noise) noexcept nogil:
    """Whether i reaches g = 0 at this rate; one that is on the wrong side by more than round-off waits to be mended."""
    if R.where[i] == _REST:
        return rate < -noise and R.g[i] >= -R.strayed
    return R.where[i] == _BOUND and rate > noise and R.g[i] <= R.strayed


cdef bint exchange(Room *R, Index k, double v) noexcept nogil:
    """Let a dependent k that has just reached its margin in, for a margin point that the slide takes to its bound.

    Along Δα_k = ±1, Δα_S = ±direction g changes by little, but it may be more than round-off: `DEPENDENT` is a part of
    Q_kk, which a constant in the kernel makes large. True if k ended at its other bound instead.
    """
    cdef Index j, m = R.counters[_COUNT], first = -1
    cdef double s = 1.0 if R.where[k] == _REST else (-1.0 if R.where[k] == _BOUND else v)
    cdef double reach = R.u[k] - R.alpha[k] if s > 0 else R.alpha[k], rate, room
    cdef Index i
    cdef const double *column
    for j in range(m):
        rate = s * R.direction[j + 1]
        if fabs(rate) <= 1e-12:
            continue
        i = R.members[j]
        room = (R.u[i] - R.alpha[i]) / rate if rate > 0 else R.alpha[i] / -rate
        if room < reach:
            reach = room
            first = j
    if reach == INFINITY:
        return True
    reach = max(reach, 0.0)
    for j in range(m):
        R.alpha[R.members[j]] += s * reach * R.direction[j + 1]
    R.figures[_MULTIPLIER] += s * reach * R.direction[0]
    column = R.rows + R.slot[k] * R.stride
    combine(R.n, R.stride, m, R.rows, R.member_slots, R.direction + 1, R.gamma)
    for i in range(R.n):
        R.gamma[i] += column[i] + R.e[i] * R.direction[0]
    advance(R.n, s * reach, R.gamma, R.g)
    if first < 0:
        settle_at(R, k, s > 0)
        return True
    R.alpha[k] += s * reach
    i = R.members[first]
    settle_at(R, i, s * R.direction[first + 1] > 0)
    drop(R, first)
    return False


cdef void rates(Room *R, Index c, double v, const double *p_rate, bint whole) noexcept nogil:
    """gamma (CP 10), how fast every g moves along beta; on the margin what is left of 0.

    Of the first ``quiet`` variables those on the margin are passed over, but for one that is looked at for the drift of
    the inverse; a column is read across all rows for each of the few others.
    """
    cdef Index i, j, m = R.counters[_COUNT], quiet = 0 if whole else R.quiet
    cdef Index sample = R.counters[_PIVOTS] % quiet if quiet > 0 else 0
    cdef const double *column
    cdef const double *own
    cdef Index k, known
    cdef double rate
    combine(R.n - quiet, R.stride, m, R.rows + quiet, R.member_slots, R.beta + 1, R.gamma + quiet)
    for i in range(quiet):
        rate = 0.0
        if R.where[i] != _FREE or i == sample:
            # Its own row, as far as it is there, has the same entries, and they lie together.
            own = R.rows + R.place[i] * R.stride if R.place[i] >= 0 else NULL
            known = R.filled[R.place[i]] if R.place[i] >= 0 else 0
            for j in range(m):
                k = R.members[j]
                rate += R.beta[j + 1] * (own[k] if k < known else R.rows[R.member_slots[j] * R.stride + i])
        R.gamma[i] = rate
    for i in range(R.n):
        R.gamma[i] += R.e[i] * R.beta[0]
    if c >= 0:
        column = R.rows + R.slot[c] * R.stride
        for i in range(R.n):
            R.gamma[i] += v * column[i]
    if p_rate != NULL:
        for i in range(R.n):
            R.gamma[i] -= p_rate[i]
    for i in range(quiet):
        if R.where[i] == _FREE and i != sample:
            R.gamma[i] = 0.0
