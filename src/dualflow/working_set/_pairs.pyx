# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled pair loop; see pairs.h for the loop itself and `Level` for who calls it."""

import numpy as np

from ..core._radial import aligned

cdef extern from *:
    """
    #include "clones.h"
    #include "exponential.h"
    #define BIG 1e30
    #define TINY 1e-12
    #define REAL float
    #include "radial.h"
    #include "pairs.h"
    #undef REAL
    #define REAL double
    #include "radial.h"
    #include "pairs.h"
    #undef REAL
    """
    ctypedef struct source_float:
        long m
        const float *points
        const float *half
        const float *tiles
        const float *halves
        const float *sign
        const float *ridge
        float factor
        float offset
    ctypedef struct source_double:
        long m
        const double *points
        const double *half
        const double *tiles
        const double *halves
        const double *sign
        const double *ridge
        double factor
        double offset
    void pack_all_float(long n, long stride, long m, const float *points, const float *half, float *tiles, float *halves) nogil
    void pack_all_double(long n, long stride, long m, const double *points, const double *half, double *tiles, double *halves) nogil
    long pairs_float(int n, long stride, float *rows, long long *slots, long *used, const source_float *origin,
                     float *G, const float *diag, double *beta, const double *low, const double *high, int equality,
                     double tolerance, long limit, float *work, double *violation) nogil
    long pairs_double(int n, long stride, double *rows, long long *slots, long *used, const source_double *origin,
                      double *G, const double *diag, double *beta, const double *low, const double *high, int equality,
                      double tolerance, long limit, double *work, double *violation) nogil
    void add_rows_float(long n, long stride, long count, const float *rows, const long long *slots, const double *weights,
                        double *out) nogil
    void add_rows_double(long n, long stride, long count, const double *rows, const long long *slots, const double *weights,
                         double *out) nogil

ctypedef fused real:
    float
    double


def solve_pairs(real[:, ::1] rows, long long[::1] slots, long used, real[::1] G, real[::1] diag, double[::1] beta,
                double[::1] low, double[::1] high, bint equality, double tolerance, long limit,
                const real[:, ::1] points=None, const real[::1] half=None, const real[::1] sign=None,
                const real[::1] ridge=None,
                double factor=1.0, double offset=0.0):
    """Update β and G in place by pairs (single variables without the equality).

    Row i of M is ``rows[slots[i]]``. Where ``slots[i]`` is negative it is made from the points (see pairs.h), which
    must be given then, and put in ``rows[used]``; rows are then as wide as `padded` says.

    Returns
    -------
    updates : int
    violation : float
        Worst KKT violation when the loop ended, in units of G.
    used : int
        Rows there are now.
    """
    cdef int n = G.shape[0]
    cdef long stride = rows.shape[1], m = 0
    if n == 0 or rows.shape[0] == 0 or stride < n or slots.shape[0] != n or diag.shape[0] != n:
        raise ValueError("rows must be (k, at least n), and slots, G and diag (n,), k > 0, n > 0")
    if beta.shape[0] != n or low.shape[0] != n or high.shape[0] != n:
        raise ValueError("the vectors must be (n,)")
    dtype = np.float32 if real is float else np.float64
    cdef real[::1] work = aligned((3 * padded(n),), dtype)
    cdef real[::1] tiles, halves, signs
    cdef double violation = 0.0
    cdef long updates
    cdef source_float single
    cdef source_double double_
    if points is None:
        if (np.asarray(slots) < 0).any():
            raise ValueError("rows are missing, and no points to make them from")
    else:
        m = points.shape[1]
        if points.shape[0] != n or m % 4 or half.shape[0] != n or sign.shape[0] != n or ridge.shape[0] != n:
            raise ValueError("points must be (n, multiple of 4), and half, sign and ridge (n,)")
        if stride != padded(n) or rows.shape[0] < n:
            raise ValueError("rows must be (n, padded(n)) where some are to be made")
        tiles, halves, signs = aligned((stride * m,), dtype), aligned((stride,), dtype), np.zeros(stride, dtype)
        signs[:n] = sign
        if real is float:
            pack_all_float(n, stride, m, &points[0, 0], &half[0], &tiles[0], &halves[0])
            single = source_float(m, &points[0, 0], &half[0], &tiles[0], &halves[0], &signs[0], &ridge[0], factor, offset)
        else:
            pack_all_double(n, stride, m, &points[0, 0], &half[0], &tiles[0], &halves[0])
            double_ = source_double(m, &points[0, 0], &half[0], &tiles[0], &halves[0], &signs[0], &ridge[0], factor, offset)
    with nogil:
        if real is float:
            updates = pairs_float(n, stride, &rows[0, 0], &slots[0], &used, &single, &G[0], &diag[0], &beta[0], &low[0],
                                  &high[0], equality, tolerance, limit, &work[0], &violation)
        else:
            updates = pairs_double(n, stride, &rows[0, 0], &slots[0], &used, &double_, &G[0], &diag[0], &beta[0], &low[0],
                                   &high[0], equality, tolerance, limit, &work[0], &violation)
    return updates, violation, used


def padded(n):
    """Width of rows that are made on demand: the next multiple of a tile."""
    return -(-n // 128) * 128


def add_rows(real[:, ::1] rows, long long[::1] slots, double[::1] weights, double[::1] out):
    """out += Σ_r weights[r] · rows[slots[r], :], summed in double."""
    cdef long stride = rows.shape[1], n = out.shape[0], count = slots.shape[0]
    if n > stride or weights.shape[0] != count:
        raise ValueError("out must be no longer than a row, and weights as long as slots")
    if count == 0:
        return
    with nogil:
        if real is float:
            add_rows_float(n, stride, count, &rows[0, 0], &slots[0], &weights[0], &out[0])
        else:
            add_rows_double(n, stride, count, &rows[0, 0], &slots[0], &weights[0], &out[0])
