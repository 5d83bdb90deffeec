# Part of _path.pyx: what is asked of an engine between two paths.

def take_out(engine, Index j):
    """Take the j-th margin point out of the inverse; its coefficient and the others' stay as they are."""
    cdef double[:, ::1] inverse = engine.inverse
    cdef double[:, ::1] work = engine.work
    cdef long long[::1] members = engine.members, member_slots = engine.member_slots, counters = engine.counters
    cdef long long[::1] waiting = engine.waiting
    cdef const double[::1] e = engine.e, diag = engine.diag
    cdef Room room
    if not 0 <= j < counters[_COUNT]:
        raise IndexError(f"there are {counters[_COUNT]} margin points, not {j + 1}")
    room.ld, room.border, room.inverse = inverse.shape[1], engine.bordered, &inverse[0, 0]
    room.e, room.diag = &e[0], &diag[0]
    room.members, room.member_slots, room.counters = &members[0], &member_slots[0], &counters[0]
    room.right, room.waiting = &work[1, 0], &waiting[0]
    look_at_updates(&room, &work[0, 0], work.shape[1])
    drop(&room, j)
    catch_up(&room)


def inverse_times(engine, double[::1] x):
    """The inverse of the bordered margin block times x, shape (m + 1,)."""
    cdef double[:, ::1] inverse = engine.inverse
    out = np.zeros(x.shape[0])
    cdef double[::1] y = out
    if not 0 < x.shape[0] <= inverse.shape[0]:
        raise ValueError(f"x has {x.shape[0]} entries, the inverse {inverse.shape[0]} rows")
    symmetric_product(x.shape[0], inverse.shape[1], &inverse[0, 0], &x[0], &y[0])
    return out


def combined(double[:, ::1] rows, long long[::1] slots, double[::1] weights, double[::1] out):
    """out = Σ_r weights[r] · rows[slots[r], :len(out)]."""
    cdef Index n = out.shape[0], count = slots.shape[0]
    if n > rows.shape[1] or weights.shape[0] != count:
        raise ValueError("out must be no longer than a row, and weights as long as slots")
    if n and count:
        with nogil:
            combine(n, rows.shape[1], count, &rows[0, 0], &slots[0], &weights[0], &out[0])
    else:
        out[:] = 0.0


def tally(engine):
    """Put α within its bounds, which round-off exceeds, and add up what the relative gap is made of.

    Returns Σα, eᵀα − d, αᵀg, αᵀp, Σ uᵢ max(−gᵢ, 0) over the learned variables, and the same with every g lower by what
    it is known to (``figures[FLOOR]``, which is set). Infinite bounds count as d.
    """
    cdef double[::1] alpha = engine.alpha, g = engine.g, figures = engine.figures
    cdef const double[::1] e = engine.e, u = engine.u, p = engine.p, diag = engine.diag
    cdef const signed char[::1] where = engine.where
    cdef Index i, n = alpha.shape[0]
    cdef double weight = 0.0, total = 0.0, slack = 0.0, price = 0.0, short = 0.0, most = 0.0
    cdef double d = engine.d, largest = 0.0, dearest = 0.0, floor, bound
    for i in range(n):
        if alpha[i] < 0.0:
            alpha[i] = 0.0
        elif alpha[i] > u[i]:
            alpha[i] = u[i]
        weight += alpha[i]
        total += e[i] * alpha[i]
        slack += alpha[i] * g[i]
        price += alpha[i] * p[i]
        largest = max(largest, diag[i])
        dearest = max(dearest, fabs(p[i]))
    floor = 16.0 * DBL_EPSILON * (weight * largest + fabs(figures[_MULTIPLIER]) + dearest)
    figures[_FLOOR] = floor
    for i in range(n):
        if where[i] != _PENDING and g[i] < floor:
            bound = u[i] if u[i] < INFINITY else d
            short += bound * max(-g[i], 0.0)
            most += bound * (floor - g[i])
    return weight, total - d if engine.bordered else 0.0, slack, price, short, most
