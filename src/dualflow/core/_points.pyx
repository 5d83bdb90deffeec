# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Points as they are checked, measured and scaled, compiled."""

import numpy as np
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcpy

ctypedef Py_ssize_t Index

cdef extern from "points.h":
    int are_finite(Index n, const double *x) nogil
    void scale_row_float(Index m, const double *row, const double *center, double scale, float *to) nogil
    void scale_row_double(Index m, const double *row, const double *center, double scale, double *to) nogil
    double square_row(Index m, const double *row, const double *center) nogil

ctypedef fused real:
    float
    double


def scale_points(const double[:, ::1] X, const double[::1] center, double scale, real[:, ::1] out):
    """out = scale (X − center), with zeros appended to each point where ``out`` is wider."""
    cdef Index n = X.shape[0], m = X.shape[1], width = out.shape[1], i, k
    if out.shape[0] != n or center.shape[0] != m or width < m:
        raise ValueError("center must be as long as a point, and out have a row for each, which may be longer")
    if n == 0 or width == 0:
        return
    with nogil:
        for i in range(n):
            if real is float:
                scale_row_float(m, &X[i, 0], &center[0], scale, &out[i, 0])
            else:
                scale_row_double(m, &X[i, 0], &center[0], scale, &out[i, 0])
            for k in range(m, width):
                out[i, k] = 0


def scaled_points(const double[:, ::1] X, const double[::1] center, double scale, Index width, bytes mark):
    """What `scale_points` writes, in float64, as bytes that nobody else has seen, with a mark behind them."""
    cdef Index size = X.shape[0] * width * sizeof(double)
    cdef bytes owner = PyBytes_FromStringAndSize(NULL, size + len(mark))
    cdef char *start = owner
    cdef double[:, ::1] out
    if size:
        out = <double[:X.shape[0], :width]>(<double *>start)
        scale_points(X, center, scale, out)
    memcpy(start + size, <char *>mark, len(mark))
    return owner


def square_points(const double[:, ::1] X, const double[::1] center):
    """‖x − center‖² of points, shape (len(X),)."""
    cdef Index n = X.shape[0], m = X.shape[1], i
    squares = np.zeros(n)
    if center.shape[0] != m:
        raise ValueError("center must be as long as a point")
    cdef double[::1] out = squares
    if n and m:
        with nogil:
            for i in range(n):
                out[i] = square_row(m, &X[i, 0], &center[0])
    return squares


def all_finite(const double[:, ::1] X):
    """Whether no entry of a matrix is NaN or infinite."""
    cdef Index size = X.shape[0] * X.shape[1]
    cdef bint fine = True
    if size:
        with nogil:
            fine = are_finite(size, &X[0, 0])
    return bool(fine)


def mean_and_squares(const double[:, ::1] X):
    """The mean of points, shape (m,), and their ‖x − mean‖², shape (n,)."""
    cdef Index n = X.shape[0], m = X.shape[1], i, k
    mean, squares = np.empty(m), np.empty(n)
    cdef double[::1] center = mean
    cdef double[::1] out = squares
    if n == 0 or m == 0:
        raise ValueError("there must be points, and coordinates")
    with nogil:
        for k in range(m):
            center[k] = 0
        for i in range(n):
            for k in range(m):
                center[k] += X[i, k]
        for k in range(m):
            center[k] /= n
        for i in range(n):
            out[i] = square_row(m, &X[i, 0], &center[0])
    return mean, squares
