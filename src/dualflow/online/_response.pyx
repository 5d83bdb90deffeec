# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compiled block pivoting for `leave_one_out.Response`: the optimum after some variables are removed."""

import numpy as np

from libc.math cimport INFINITY, fabs, isfinite

cdef extern from "path.h":
    void advance(Py_ssize_t n, double t, const double *gamma, double *g) nogil

ctypedef Py_ssize_t Index

cdef enum:
    LOW = -1
    FREE = 0
    UP = 1


cdef bint solve(double *A, double *x, Index k) noexcept nogil:
    """Overwrite x with the solution of A x' = x, by Gaussian elimination with row pivots; False if A is singular."""
    cdef Index i, j, c, pivot
    cdef double factor, held
    for c in range(k):
        pivot = c
        for i in range(c + 1, k):
            if fabs(A[i * k + c]) > fabs(A[pivot * k + c]):
                pivot = i
        if A[pivot * k + c] == 0.0 or not isfinite(A[pivot * k + c]):
            return False
        if pivot != c:
            for j in range(k):
                held = A[c * k + j]
                A[c * k + j] = A[pivot * k + j]
                A[pivot * k + j] = held
            held = x[c]
            x[c] = x[pivot]
            x[pivot] = held
        for i in range(c + 1, k):
            factor = A[i * k + c] / A[c * k + c]
            if factor != 0.0:
                for j in range(c + 1, k):
                    A[i * k + j] -= factor * A[c * k + j]
                x[i] -= factor * x[c]
    for i in range(k - 1, -1, -1):
        for j in range(i + 1, k):
            x[i] -= A[i * k + j] * x[j]
        x[i] /= A[i * k + i]
        if not isfinite(x[i]):
            return False
    return True


def optimum_without(
    const double[:, ::1] rows,
    const double[::1] upper,
    const double[::1] held,
    const double[::1] base,
    const signed char[::1] where,
    const unsigned char[::1] is_removed,
    double rho_tolerance,
    double alpha_tolerance,
    Index max_changed,
    Index max_stalled,
):
    """Return the optimum without the variables marked 2 in ``is_removed``, shape (n,); None if it is not found.

    Arguments are the attributes of `Response` of these names, for n variables; ``where`` is −1, 0 or 1 for a variable
    that is at 0, free or at its upper bound in the optimum of all, and ``is_removed`` is 1 for one whose upper bound
    is 0. All violators change sets in one step.
    """
    cdef Index n = base.shape[0], i, j, k, m, exchanges, outside, fewest = max_changed + 1, stalled = 0
    cdef double value, bound
    cdef bint is_free, is_wrong
    cdef signed char new
    # The set of each variable, and those whose set differs from that in the optimum of all.
    cdef signed char[::1] current = np.array(where)
    cdef signed char[::1] turned = np.empty(n, dtype=np.int8)  # the set of a violator after the exchange
    cdef unsigned char[::1] is_changed = (np.asarray(is_removed) == 2).astype(np.uint8)
    cdef Index[::1] opened = np.empty(max_changed, dtype=np.intp)
    cdef double[::1] found = np.empty(n), inputs = np.zeros(n), x = np.empty(max_changed)
    cdef double[::1] A = np.empty(64), out
    for i in range(n):
        if is_changed[i]:
            current[i] = LOW
    while stalled <= max_stalled:
        m = 0
        found[:] = base
        with nogil:
            for i in range(n):
                if not is_changed[i]:
                    continue
                if where[i] != FREE and current[i] != FREE:
                    bound = (upper[i] if current[i] == UP else 0.0) - held[i]
                    if bound != 0.0:
                        advance(n, bound, &rows[i, 0], &found[0])
                elif m == max_changed:
                    m += 1
                    break
                else:
                    opened[m] = i
                    m += 1
        if m > max_changed:
            return None
        if m * m > A.shape[0]:
            A = np.empty(2 * m * m)
        with nogil:
            for j in range(m):
                i = opened[j]
                x[j] = (upper[i] if current[i] == UP else 0.0) - found[i]
                for k in range(m):
                    A[j * m + k] = rows[opened[k], i]
            is_wrong = m > 0 and not solve(&A[0], &x[0], m)
            if not is_wrong:
                for j in range(m):
                    advance(n, x[j], &rows[opened[j], 0], &found[0])
                    inputs[opened[j]] = x[j]
        if is_wrong:
            return None
        exchanges = outside = 0
        with nogil:
            for i in range(n):
                is_free, new = where[i] == FREE, current[i]
                if is_changed[i]:
                    if is_removed[i] == 2:
                        turned[i] = new
                        continue
                    # ρ of a variable that is at a bound now, α of one that is free now
                    value = inputs[i] if is_free or new == FREE else found[i]
                    if new == FREE:
                        value += held[i]
                        if value < -alpha_tolerance or value > upper[i] + alpha_tolerance:
                            new = LOW if value < 0 else UP
                    elif new * value > rho_tolerance:
                        new = FREE
                elif is_removed[i]:
                    pass
                elif is_free:
                    if found[i] < -alpha_tolerance or found[i] > upper[i] + alpha_tolerance:
                        new = UP if found[i] > 0 else LOW
                        outside += 1
                elif where[i] * found[i] > rho_tolerance:
                    new = FREE
                    outside += 1
                turned[i] = new
                if new != current[i]:
                    exchanges += 1
        if outside > max_changed:
            return None
        if exchanges == 0:
            alpha = np.empty(n)
            out = alpha
            for i in range(n):
                if not is_changed[i]:
                    value = found[i] if where[i] == FREE else held[i]
                elif current[i] == FREE:
                    value = inputs[i] + held[i]
                else:
                    value = upper[i] if current[i] == UP else 0.0
                out[i] = min(max(value, 0.0), upper[i])
            return alpha
        if exchanges < fewest:
            fewest, stalled = exchanges, 0
        else:
            stalled += 1
        for i in range(n):
            if turned[i] != current[i]:
                current[i] = turned[i]
                is_changed[i] = current[i] != where[i]
    return None
