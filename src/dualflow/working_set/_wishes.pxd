# cython: language_level=3
ctypedef Py_ssize_t Index

ctypedef fused real:
    float
    double


cdef inline double mean_of_free(Index n, const real *G, const double *beta, const double *low, const double *high,
                                Index *free) noexcept nogil:
    """The mean of the gradients of those who are free, 0 if there are none, and how many they are."""
    cdef double total = 0.0
    cdef Index k
    free[0] = 0
    for k in range(n):
        if low[k] < beta[k] < high[k]:
            total += G[k]
            free[0] += 1
    return total / free[0] if free[0] else 0.0


cdef inline double violation_of(double away, bint rises, bint falls) noexcept nogil:
    """How much one violates the KKT conditions whose gradient is that far from the multiplier; how far it is from it, if
    negative."""
    cdef double rise = -away if rises else -1e300, fall = away if falls else -1e300
    return max(rise, fall)
