# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Vector operations of a search: scaled variables and their bounds, the multiplier, and KKT violations.

Each is a few passes over some thousand numbers, in a tenth of the time of the numpy calls that it replaces. numpy would
also release the interpreter's lock for each call.
"""

import numpy as np

from libc.stdlib cimport qsort

#: In place of an infinite bound.
cdef double FINITE_BOUND = 1e300


def scaled(const double[::1] e, const double[::1] sigma, const double[::1] p, const double[::1] upper,
           const double[::1] alpha, double unit, double slope):
    """Return eσ, ep/s, the bounds of β, and β = eα/b within them, for 0 ≤ α ≤ ``upper`` and units b and s.

    The compiled loop expects finite numbers: ∞ becomes a bound that no step can reach.
    """
    cdef Index n = e.shape[0], k
    cdef double bound
    check(n, sigma, p, upper)
    check(n, alpha, alpha, alpha)
    sign, ep, low, high, beta = np.empty((5, n))
    cdef double[::1] to_sign = sign, to_ep = ep, to_low = low, to_high = high, to_beta = beta
    for k in range(n):
        bound = min(upper[k] / unit, FINITE_BOUND)
        to_sign[k], to_ep[k] = e[k] * sigma[k], e[k] * p[k] / slope
        to_low[k], to_high[k] = (0.0, bound) if e[k] > 0 else (-bound, 0.0)
        to_beta[k] = min(max(e[k] * alpha[k] / unit, to_low[k]), to_high[k])
    return sign, ep, low, high, beta


def unscaled(const double[::1] e, const double[::1] beta, const double[::1] low, const double[::1] high,
             const double[::1] upper, double unit):
    """Return α = ebβ. A variable at its bound has the bound itself: (u/b)·b may differ by an ulp."""
    cdef Index n = e.shape[0], k
    cdef bint at_upper
    check(n, beta, low, high)
    check(n, upper, upper, upper)
    alpha = np.empty(n)
    cdef double[::1] to = alpha
    for k in range(n):
        at_upper = beta[k] >= high[k] if e[k] > 0 else beta[k] <= low[k]
        to[k] = upper[k] if at_upper else min(max(e[k] * beta[k] * unit, 0.0), upper[k])
    return alpha


def multiplier(const real[::1] G, const double[::1] beta, const double[::1] low, const double[::1] high):
    """Return the mean gradient of the free variables, and their number."""
    cdef Index n = G.shape[0], free = 0
    cdef double mean
    check(n, beta, low, high)
    if n == 0:
        return 0.0, 0
    mean = mean_of_free(n, &G[0], &beta[0], &low[0], &high[0], &free)
    return mean, free


def violations(const real[::1] G, double nu, const double[::1] beta, const double[::1] low, const double[::1] high):
    """Return by how much each variable violates its KKT condition, for a multiplier ``nu``; negative is slack."""
    cdef Index n = G.shape[0], k
    check(n, beta, low, high)
    excess = np.empty(n)
    cdef double[::1] to = excess
    for k in range(n):
        to[k] = violation_of(G[k] - nu, beta[k] < high[k], beta[k] > low[k])
    return excess


def nearly_free(const unsigned char[::1] free, const double[::1] excess, double margin, Index most):
    """Return the indices of the variables that are free, or nearly: see `mark_nearly_free`."""
    cdef Index n = free.shape[0]
    check(n, excess, excess, excess)
    chosen, slack = np.array(free), np.empty(n)
    cdef unsigned char[::1] to = chosen
    cdef double[::1] own = slack
    if n:
        mark_nearly_free(n, &excess[0], margin, most, &to[0], &own[0])
    return np.flatnonzero(chosen)


cdef Index mark_nearly_free(Index n, const double *excess, double margin, Index most, unsigned char *chosen,
                            double *slack) noexcept nogil:
    """Choose variables at bounds with a KKT slack below a margin, beside the free ones; return the number chosen.

    ``chosen`` has 1 for the free variables and receives 1 for the others. If more than ``most`` would be chosen, they
    are the free ones and those of least slack. ``slack`` is memory for n numbers.
    """
    cdef Index k, free = 0, near = 0, room, ties
    cdef double limit
    for k in range(n):
        free += chosen[k]
        if not chosen[k] and excess[k] > -margin:
            slack[near] = -excess[k]
            near += 1
    room = max(most - free, 0)
    if near <= room:
        for k in range(n):
            chosen[k] |= excess[k] > -margin
        return free + near
    if room == 0:
        return free
    qsort(slack, near, sizeof(double), ascending)
    limit, ties = slack[room - 1], 1
    while ties < room and slack[room - 1 - ties] == limit:
        ties += 1
    for k in range(n):
        if not chosen[k] and -excess[k] <= limit and (-excess[k] < limit or ties > 0):
            ties -= -excess[k] == limit
            chosen[k] = 1
    return free + room


cdef int ascending(const void *one, const void *other) noexcept nogil:
    cdef double a = (<const double *>one)[0], b = (<const double *>other)[0]
    return (a > b) - (a < b)


cdef check(Index n, const double[::1] a, const double[::1] b, const double[::1] c):
    if not a.shape[0] == b.shape[0] == c.shape[0] == n:
        raise ValueError("arrays must be of one length")
