# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The dual bound as a function of the multiplier ν: where it is largest, and the part of it that is a sum.

Compiled with strict arithmetic (infinite bounds are ordinary here), and without the sorting of all breakpoints: two
selections find the two that matter.
"""

import numpy as np
from libc.math cimport INFINITY, fabs, isfinite, isnan, sqrt
from libc.float cimport DBL_EPSILON

ctypedef Py_ssize_t Index


def capped_sum(const double[::1] u, const double[::1] h, e, double nu):
    """Σ min(0, uᵢρᵢ) with ρ = h − νe (h where e is None) and 0·∞ = 0."""
    cdef double total = 0.0, rho
    cdef Index i, n = u.shape[0]
    cdef const double[::1] signs = h if e is None else e
    cdef bint alone = e is None
    if h.shape[0] != n or signs.shape[0] != n:
        raise ValueError("u, h and e must be of one length")
    for i in range(n):
        rho = h[i] if alone else h[i] - nu * signs[i]
        if rho < 0:
            total += u[i] * rho
    return total


def maximisers(const double[::1] h, const double[::1] e, const double[::1] u, double d):
    """The interval (low, high) where the concave, piecewise linear D(ν) = νd + Σ min(0, uᵢ(hᵢ − νeᵢ)) is largest.

    D'(ν) = d − Σ eᵢxᵢ(ν), where xᵢ = uᵢ if ρᵢ < 0, else 0. Passing the breakpoint hᵢ/eᵢ from below adds uᵢ to that
    sum whatever the sign of eᵢ, so the maximum is where the running sum passes d. NaN where h holds NaN.
    """
    cdef Index i, n = h.shape[0], live = 0, finite = 0
    if e.shape[0] != n or u.shape[0] != n:
        raise ValueError("h, e and u must be of one length")
    room = np.empty((2, max(n, 1)))
    cdef double[:, ::1] work = room
    cdef double start = 0.0, jumps = 0.0, top = INFINITY, bottom = -INFINITY, knot, low, high, tolerance
    for i in range(n):
        if isnan(h[i]):
            return np.nan, np.nan
        if not u[i] > 0:
            continue
        live += 1
        knot = h[i] / e[i]
        if isfinite(u[i]):
            if e[i] < 0:
                start -= u[i]
            jumps += u[i]
            work[0, finite] = knot
            work[1, finite] = u[i]
            finite += 1
        elif e[i] > 0:
            # Unbounded variables confine ν: below every such knot with e > 0, above every one with e < 0. A finite D
            # exists only if that range is not empty.
            top = min(top, knot)
        else:
            bottom = max(bottom, knot)
    if bottom > top:
        knot = 0.5 * (bottom + top)
        return knot, knot
    tolerance = 8 * DBL_EPSILON * (fabs(start) + jumps + fabs(d)) * sqrt(<double>max(live, 1))
    # The slope is ≤ 0 from `low` on, and < 0 from `high` on.
    low = bottom if start >= d - tolerance else crossing(&work[0, 0], &work[1, 0], finite, start, d - tolerance, False, top)
    high = bottom if start > d + tolerance else crossing(&work[0, 0], &work[1, 0], finite, start, d + tolerance, True, top)
    # Flat without end (only a corner is feasible): the finite end stands for both.
    if not isfinite(low):
        low = high
    if not isfinite(high):
        high = low
    return min(max(low, bottom), top), min(max(high, bottom), top)


cdef double crossing(double *keys, double *weights, Index n, double base, double level, bint beyond, double none) noexcept:
    """Smallest key up to which base and the weights sum to ``level`` (``beyond``: to more), ``none`` if all do not.

    Quickselect in three parts, in place; equal keys are one.
    """
    cdef Index first = 0, end = n, below, above, i
    cdef double pivot, low_sum, same_sum, best = none
    while first < end:
        pivot = middle(keys[first], keys[(first + end) // 2], keys[end - 1])
        below, above, i, low_sum, same_sum = first, end, first, 0.0, 0.0
        while i < above:
            if keys[i] < pivot:
                low_sum += weights[i]
                swap(keys, weights, i, below)
                below += 1
                i += 1
            elif keys[i] > pivot:
                above -= 1
                swap(keys, weights, i, above)
            else:
                same_sum += weights[i]
                i += 1
        if reaches(base + low_sum, level, beyond) and below > first:
            end = below
        elif reaches(base + low_sum + same_sum, level, beyond):
            return pivot
        else:
            base += low_sum + same_sum
            first = above
            continue
        best = pivot  # of those left some reach the level; rounding of sums in another order is the only way past them
    return best


cdef inline bint reaches(double total, double level, bint beyond) noexcept:
    return total > level if beyond else total >= level


cdef inline double middle(double a, double b, double c) noexcept:
    return max(min(a, b), min(max(a, b), c))


cdef inline void swap(double *keys, double *weights, Index i, Index j) noexcept:
    keys[i], keys[j] = keys[j], keys[i]
    weights[i], weights[j] = weights[j], weights[i]
