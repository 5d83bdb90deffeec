# cython: language_level=3
"""The passes of _wishes.pyx that other compiled files use."""

ctypedef Py_ssize_t Index

ctypedef fused real:
    float
    double


cdef inline double mean_of_free(Index n, const real *G, const double *beta, const double *low, const double *high,
                                Index *free) noexcept nogil:
    """Return the mean gradient of the free variables, 0 if there are none; ``free`` receives their number."""
    cdef double total = 0.0
    cdef Index k
    free[0] = 0
    for k in range(n):
        if low[k] < beta[k] < high[k]:
            total += G[k]
            free[0] += 1
    return total / free[0] if free[0] else 0.0


cdef inline double violation_of(double away, bint rises, bint falls) noexcept nogil:
    """Return by how much a variable violates its KKT condition; negative is slack.

    ``away`` is its gradient less the multiplier; it ``rises`` if it is below its upper bound, ``falls`` if above its
    lower one.
    """
    cdef double rise = -away if rises else -1e300, fall = away if falls else -1e300
    return max(rise, fall)


cdef Index mark_nearly_free(Index n, const double *excess, double margin, Index most, unsigned char *chosen,
                            double *slack) noexcept nogil
