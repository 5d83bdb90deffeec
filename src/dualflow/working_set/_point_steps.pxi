# What `FromPoints` does between a search and a certificate, for _point_pairs.pyx.

cdef double multiplier_of(const Desk *d) noexcept nogil:
    """Of the equality, from the gradients of those who are free, or halfway between who wants to move most."""
    cdef double top = -NONE, bottom = -NONE, mean
    cdef Index k, free = 0
    mean = mean_of_free(d.n, d.G, d.beta, d.low, d.high, &free)
    if free:
        return mean
    for k in range(d.n):
        if d.beta[k] < d.high[k]:
            top = max(top, -d.G[k])
        if d.beta[k] > d.low[k]:
            bottom = max(bottom, d.G[k])
    if top > -SOME and bottom > -SOME:
        return 0.5 * (bottom - top)
    return bottom if bottom > -SOME else -top


cdef inline double wish_of(const Desk *d, Index k, double nu) noexcept nogil:
    return violation_of(d.G[k] - nu, d.beta[k] < d.high[k], d.beta[k] > d.low[k])


cdef double gap_of(const Desk *d) noexcept nogil:
    """The relative gap, given the gradient: see `FromPoints`."""
    cdef double nu = multiplier_of(d), gap = 0.0, f = 0.0, away
    cdef Index k
    for k in range(d.n):
        away = d.G[k] - nu
        gap += (d.beta[k] - d.low[k] if away > 0 else d.beta[k] - d.high[k]) * away
        f += d.beta[k] * (d.G[k] - d.e[k])
    return gap / max(fabs(0.5 * f), 1e-300)


cdef Index nearly_free(Desk *d) noexcept nogil:
    """Choose who is free, or at a bound and no further than a multiple of the search's violation from wanting to leave
    it, of half that, a quarter, … where these are many; how many are chosen."""
    cdef double nu = multiplier_of(d), margin = CLOSE * d.rough
    cdef Index k, count, free = 0
    for k in range(d.n):
        free += d.low[k] < d.beta[k] < d.high[k]
    while True:
        count = 0
        for k in range(d.n):
            d.chosen[k] = d.low[k] < d.beta[k] < d.high[k] or (margin > END and wish_of(d, k, nu) > -margin)
            count += d.chosen[k]
        if count <= max(CROWD, free) or margin <= END:
            return count
        margin *= 0.5


cdef Index joined(Desk *d) noexcept nogil:
    """Choose who else violates the KKT conditions; how many are chosen."""
    cdef double nu = multiplier_of(d)
    cdef Index k, count = 0
    for k in range(d.n):
        if not d.chosen[k] and wish_of(d, k, nu) > END:
            d.chosen[k] = 1
        count += d.chosen[k]
    return count


cdef bint among(Desk *d, Index w) noexcept nogil:
    """The optimum over those chosen, in float64; others with a weight keep it. Whether there is room for them."""
    cdef Index k, n_others = 0, used = w, moved, limit, turn, at = 0
    cdef double violation = 0.0
    cdef source_double none
    cdef memory_double memory = memory_double(<double *>d.spare, d.spare_bytes // sizeof(double), 0, NULL, 0)
    if w > d.room:
        return False
    if w == 0:
        return True
    for k in range(d.n):
        if d.chosen[k]:
            d.W[at], d.slots[at] = k, at
            d.some[at] = d.start[at] = d.beta[k]
            d.floor[at], d.ceiling[at], d.diag[at] = d.low[k], d.high[k], 1.0
            at += 1
        elif d.beta[k] != 0:
            d.others[n_others] = k
            d.shares[n_others] = d.beta[k]
            n_others += 1
    exactly(d, w, d.W, d.near, d.near_half)
    radial_rows_double(w, w, d.m, d.near, d.near_half, d.near, d.near_half, d.K, d.tiles,
                       max(1, min((w + 63) // 64, CACHED // (512 * (d.m + 1)))), 1)
    mirror(w, d.K)
    for k in range(w):
        d.diag[k], d.gradient[k] = d.K[k * w + k], -d.e[d.W[k]]
    add_rows_double(w, w, w, d.K, d.slots, d.some, d.gradient)
    if n_others:
        exactly(d, n_others, d.others, d.rest, d.rest_half)
        radial_sum_double(n_others, w, d.m, 1, d.rest, d.rest_half, d.near, d.near_half, d.shares, d.gradient, d.tiles)
    d.entries += <double>w * (w + n_others)
    memset(&none, 0, sizeof(none))
    for turn in range(TURNS):
        limit = max(LEAST, FOR_EACH * w)
        memcpy(d.G, d.gradient, w * sizeof(double))
        if turn:
            for k in range(w):
                d.work[k] = d.some[k] - d.start[k]
            add_rows_double(w, w, w, d.K, d.slots, d.work, d.G)
        moved = pairs_double(w, w, d.K, d.slots, &used, &none, d.G, d.diag, d.some, d.floor, d.ceiling, True, END, limit, w,
                             d.work, &violation, memory, True)
        if moved == 0 or (violation <= END and moved < LEAST):
            break
    for k in range(w):
        d.beta[d.W[k]] = d.some[k]
    return True
