# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled pair loop; see pairs.h for the loop itself and `engine` for who calls it."""

import numpy as np

cdef extern from *:
    """
    #define BIG 1e30
    #define TINY 1e-12
    /* One binary for every x86-64: the loader picks the widest vectors the machine has. */
    #if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
    #define CLONES __attribute__((target_clones("default", "avx2", "arch=skylake-avx512")))
    #else
    #define CLONES
    #endif
    #if defined(_MSC_VER)
    #define restrict __restrict
    #endif
    #define REAL float
    #include "pairs.h"
    #undef REAL
    #define REAL double
    #include "pairs.h"
    #undef REAL
    """
    long pairs_float(int n, const float *M, float *G, const float *diag, double *beta, const double *low,
                     const double *high, int equality, double tolerance, long limit, float *work,
                     double *violation) nogil
    long pairs_double(int n, const double *M, double *G, const double *diag, double *beta, const double *low,
                      const double *high, int equality, double tolerance, long limit, double *work,
                      double *violation) nogil
    void add_rows_float(long n, long count, const float *rows, const long long *slots, const double *weights,
                        double *out) nogil
    void add_rows_double(long n, long count, const double *rows, const long long *slots, const double *weights,
                         double *out) nogil

ctypedef fused real:
    float
    double


def solve_pairs(real[:, ::1] M, real[::1] G, double[::1] beta, double[::1] low, double[::1] high,
                bint equality, double tolerance, long limit):
    """Update β and G in place by pairs (single variables without the equality).

    Returns
    -------
    updates : int
    violation : float
        Worst KKT violation when the loop ended, in units of G.
    """
    cdef int n = M.shape[0]
    if n == 0 or M.shape[1] != n or G.shape[0] != n or beta.shape[0] != n or low.shape[0] != n or high.shape[0] != n:
        raise ValueError("M must be (n, n) and the vectors (n,), n > 0")
    cdef real[::1] diag = np.diagonal(M).copy()
    cdef real[::1] work = np.empty(3 * n, dtype=np.asarray(G).dtype)
    cdef double violation = 0.0
    cdef long updates
    with nogil:
        if real is float:
            updates = pairs_float(n, &M[0, 0], &G[0], &diag[0], &beta[0], &low[0], &high[0], equality, tolerance,
                                  limit, &work[0], &violation)
        else:
            updates = pairs_double(n, &M[0, 0], &G[0], &diag[0], &beta[0], &low[0], &high[0], equality, tolerance,
                                   limit, &work[0], &violation)
    return updates, violation


def add_rows(real[:, ::1] rows, long long[::1] slots, double[::1] weights, double[::1] out):
    """out += Σ_r weights[r] · rows[slots[r], :], summed in double."""
    cdef long n = rows.shape[1], count = slots.shape[0]
    if out.shape[0] != n or weights.shape[0] != count:
        raise ValueError("out must be as long as a row, and weights as slots")
    if count == 0:
        return
    with nogil:
        if real is float:
            add_rows_float(n, count, &rows[0, 0], &slots[0], &weights[0], &out[0])
        else:
            add_rows_double(n, count, &rows[0, 0], &slots[0], &weights[0], &out[0])
