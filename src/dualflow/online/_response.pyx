# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compiled block pivoting for `leave_one_out.Response`: the optimum after some variables are removed."""

import numpy as np

from libc.math cimport fabs, isfinite
from libc.string cimport memcpy

cdef extern from "path.h":
    void advance(Py_ssize_t n, double t, const double *gamma, double *g) nogil

ctypedef Py_ssize_t Index

cdef enum:
    LOW = -1
    FREE = 0
    UP = 1
    HELD = 2

# Least pivot, relative to the largest entry, of a regular system: the equal rows of copies differ by round-off.
cdef double MIN_PIVOT = 1e-13


cdef bint solve(double *A, double *x, Index k) noexcept nogil:
    """Overwrite x with the solution of A x' = x, by Gaussian elimination with row pivots; False if A is singular."""
    cdef Index i, j, c, pivot
    cdef double factor, held, largest = 0.0
    for i in range(k * k):
        largest = max(largest, fabs(A[i]))
    for c in range(k):
        pivot = c
        for i in range(c + 1, k):
            if fabs(A[i * k + c]) > fabs(A[pivot * k + c]):
                pivot = i
        if not fabs(A[pivot * k + c]) > MIN_PIVOT * largest:  # NaN included
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


cdef enum Found:
    OPTIMAL = 1
    NONE = 0


def optima_without(
    const double[:, ::1] rows,
    const double[::1] upper,
    const double[::1] held,
    const double[::1] base,
    const signed char[::1] where,
    const unsigned char[::1] is_fixed_at_0,
    const Index[::1] removed,
    const Index[::1] starts,
    double rho_tolerance,
    double alpha_tolerance,
    Index max_changed,
    Index max_stalled,
    Index max_steps,
):
    """Return optima without some variables each, shape (k, n), and whether each was found, bool array of shape (k,).

    Optimum k is without the variables ``removed[starts[k]:starts[k + 1]]``. The other arguments are attributes of
    `Response` of these names, for n variables; ``where`` is −1, 0 or 1 for a variable that is at 0, free or at its
    upper bound in the optimum of all, and 2 for one that is between its bounds and held there. All violators change
    sets in one step; where this has not reduced their number ``max_stalled`` times, or the free variables would be
    dependent, the last violator alone does (Murty's rule, which ends).
    """
    cdef Index n = base.shape[0], count = starts.shape[0] - 1, k
    alpha, is_found = np.zeros((count, n)), np.zeros(count, dtype=bool)
    cdef double[:, ::1] out = alpha
    cdef unsigned char[::1] good = is_found.view(np.uint8)
    # The set of each variable, that before the last exchange, and which differ from the optimum of all.
    cdef signed char[::1] current = np.empty(n, dtype=np.int8), previous = np.empty(n, dtype=np.int8)
    cdef unsigned char[::1] is_changed = np.empty(n, dtype=np.uint8), is_removed = np.empty(n, dtype=np.uint8)
    cdef Index[::1] opened = np.empty(max_changed, dtype=np.intp)
    cdef double[::1] inputs = np.zeros(n), x = np.empty(max_changed), A = np.empty(max_changed * max_changed)
    cdef Index i
    with nogil:
        for k in range(count):
            for i in range(n):
                current[i], is_changed[i], is_removed[i] = where[i], 0, is_fixed_at_0[i]
            for i in range(starts[k], starts[k + 1]):
                current[removed[i]], is_changed[removed[i]], is_removed[removed[i]] = LOW, 1, 2
            good[k] = optimum_without(
                n, &rows[0, 0], &upper[0], &held[0], &base[0], &where[0], &is_removed[0], rho_tolerance,
                alpha_tolerance, max_changed, max_stalled, max_steps, &current[0], &previous[0], &is_changed[0], &opened[0],
                &inputs[0], &x[0], &A[0], &out[k, 0],
            )
    return alpha, is_found


cdef Found optimum_without(
    Index n, const double *rows, const double *upper, const double *held, const double *base,
    const signed char *where, const unsigned char *is_removed, double rho_tolerance, double alpha_tolerance,
    Index max_changed, Index max_stalled, Index max_steps, signed char *current, signed char *previous,
    unsigned char *is_changed, Index *opened, double *inputs, double *x, double *A, double *found,
) noexcept nogil:
    """Write the optimum without the variables marked 2 in ``is_removed`` to ``found``; see `optima_without`."""
    cdef Index i, j, k, m, exchanges, step, last = -1, fewest = n + 1, stalled = 0, limit = n
    cdef double value, bound
    cdef bint is_single = False, is_reverted = False
    cdef signed char new, last_new
    for step in range(max_steps):
        m = 0
        memcpy(found, base, n * sizeof(double))
        for i in range(n):
            if not is_changed[i]:
                continue
            if where[i] != FREE and current[i] != FREE:
                bound = (upper[i] if current[i] == UP else 0.0) - held[i]
                if bound != 0.0:
                    advance(n, bound, rows + i * n, found)
            elif m == max_changed:
                m += 1
                break
            else:
                opened[m] = i
                m += 1
        if m <= max_changed:
            for j in range(m):
                i = opened[j]
                x[j] = (upper[i] if current[i] == UP else 0.0) - found[i]
                for k in range(m):
                    A[j * m + k] = rows[opened[k] * n + i]
        if m > max_changed or not solve(A, x, m):
            if m > max_changed and is_single or step == 0:
                return NONE
            if is_single:
                limit = last  # another violator is tried
            is_single = is_reverted = True
            for i in range(n):
                current[i] = previous[i]
                is_changed[i] = is_removed[i] == 2 or current[i] != where[i]
            continue
        if not is_reverted:
            limit = n
        is_reverted = False
        for j in range(m):
            advance(n, x[j], rows + opened[j] * n, found)
            inputs[opened[j]] = x[j]
        exchanges, last = 0, -1
        for i in range(n):
            previous[i] = current[i]
            if is_removed[i]:
                continue
            new = current[i]
            if is_changed[i]:
                # ρ of a variable that is at a bound now, α of one that is free now
                value = inputs[i] if where[i] == FREE or new == FREE else found[i]
                if new == FREE:
                    value += held[i]
                    if value < -alpha_tolerance or value > upper[i] + alpha_tolerance:
                        new = LOW if value < 0 else UP
                elif new * value > rho_tolerance:
                    new = FREE
            elif new == FREE:
                if found[i] < -alpha_tolerance or found[i] > upper[i] + alpha_tolerance:
                    new = UP if found[i] > 0 else LOW
            elif (fabs(found[i]) if new == HELD else new * found[i]) > rho_tolerance:
                new = FREE
            if new != current[i]:
                exchanges += 1
                if i < limit:
                    last, last_new = i, new
                if not is_single:
                    current[i] = new
        if exchanges == 0:
            for i in range(n):
                if not is_changed[i]:
                    value = found[i] if where[i] == FREE else held[i]
                elif current[i] == FREE:
                    value = inputs[i] + held[i]
                else:
                    value = upper[i] if current[i] == UP else 0.0
                found[i] = min(max(value, 0.0), upper[i])
            return OPTIMAL
        if is_single and last < 0:
            return NONE
        if is_single:
            current[last] = last_new
        if exchanges < fewest:
            fewest, stalled, is_single = exchanges, 0, False
        else:
            stalled += 1
            is_single = is_single or stalled > max_stalled
        for i in range(n):
            is_changed[i] = is_removed[i] == 2 or current[i] != where[i]
    return NONE


def left_out_gaps(
    const double[:, ::1] alpha,
    const double[:, ::1] product,
    const double[::1] p,
    const double[::1] sigma,
    const double[::1] upper,
    const Index[::1] removed,
    bint balanced,
    double min_free,
    double max_infeasibility,
):
    """Return biases, absolute and relative gaps of models without one variable each, arrays of shape (k,).

    The dual bound is that of the model's bias: the mean over its free variables, or the middle of the interval of
    optimal biases if none is free. A gap is ∞ where the interval has no end or the equality does not hold.

    Parameters
    ----------
    alpha, product : arrays of shape (k, n)
        Row r is α without variable ``removed[r]``, and Qα.
    p, sigma, upper : arrays of shape (n,)
        Of the problem of all variables; ``sigma`` is the equality's row if ``balanced``.
    removed : int array of shape (k,)
    balanced : bool
    min_free : float
        Least distance of a free variable from its bounds, relative to the largest.
    max_infeasibility : float
        Largest |Σσα| relative to Σα.
    """
    cdef Index k = alpha.shape[0], n = p.shape[0], r, i, own, count
    biases, absolutes, relatives = np.zeros(k), np.empty(k), np.empty(k)
    cdef double[::1] bias = biases, absolute = absolutes, relative = relatives
    cdef double largest, total, signed, linear, quadratic, short, low, high, value, slack, size
    cdef double INF = float("inf")
    with nogil:
        for r in range(k):
            own, count, largest, total, signed, linear, quadratic, short = removed[r], 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            low, high = -INF, INF
            for i in range(n):
                value = alpha[r, i]
                largest = max(largest, value)
                total += value
                signed += sigma[i] * value
                linear += p[i] * value
                quadratic += value * product[r, i]
            if balanced:
                for i in range(n):
                    if i == own or upper[i] <= 0:
                        continue
                    slack = sigma[i] * (product[r, i] - p[i])  # ν of a free variable
                    if alpha[r, i] <= min_free * largest:
                        if sigma[i] > 0:
                            high = min(high, slack)
                        else:
                            low = max(low, slack)
                    elif upper[i] - alpha[r, i] <= min_free * largest:
                        if sigma[i] > 0:
                            low = max(low, slack)
                        else:
                            high = min(high, slack)
                    else:
                        count += 1
                        bias[r] -= slack
                bias[r] = bias[r] / count if count else -0.5 * (low + high)
            for i in range(n):
                if i != own:
                    short += min(product[r, i] - p[i] + (bias[r] * sigma[i] if balanced else 0.0), 0.0) * upper[i]
            absolute[r] = quadratic - linear - short
            size = max(fabs(0.5 * quadratic - linear), fabs(short - 0.5 * quadratic))
            relative[r] = max(absolute[r], 0.0) / size if size > 0 else (0.0 if absolute[r] <= 0 else INF)
            if not isfinite(relative[r]) or balanced and fabs(signed) > max_infeasibility * total:
                relative[r] = absolute[r] = INF
    return biases, absolutes, relatives
