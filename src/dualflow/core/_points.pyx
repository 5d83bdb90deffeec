# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Checks, measures and scaling of points, and codes of their labels, compiled."""

import numpy as np
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcpy

ctypedef Py_ssize_t Index

cdef object FLOAT64 = np.dtype(np.float64)

cdef extern from "points.h":
    int are_finite(Index n, const double *x) nogil
    void scale_row_float(Index m, const double *row, const double *center, double scale, float *to) nogil
    void scale_row_double(Index m, const double *row, const double *center, double scale, double *to) nogil
    double square_row(Index m, const double *row, const double *center) nogil
    double compare_transpose(Index n, const double *K, double *mean) nogil
    ctypedef unsigned long long uint64_t
    unsigned long long hash_of(Index m, const double *row, Index step) nogil
    unsigned long long fold_of(Index n, const uint64_t *words, const uint64_t *places) nogil

ctypedef fused real:
    float
    double


cdef void scale_to(const double[:, ::1] X, const double[::1] center, double scale, Index width, real *out) noexcept nogil:
    cdef Index m = X.shape[1], i, k
    for i in range(X.shape[0]):
        if real is float:
            scale_row_float(m, &X[i, 0], &center[0], scale, out + i * width)
        else:
            scale_row_double(m, &X[i, 0], &center[0], scale, out + i * width)
        for k in range(m, width):
            out[i * width + k] = 0


def scale_points(const double[:, ::1] X, const double[::1] center, double scale, real[:, ::1] out):
    """Set out = scale (X − center), with zeros appended to each point where ``out`` is wider."""
    if out.shape[0] != X.shape[0] or center.shape[0] != X.shape[1] or out.shape[1] < X.shape[1]:
        raise ValueError("center must be as long as a point, and out must have a row per point, at least as long")
    if X.shape[0] and out.shape[1]:
        with nogil:
            scale_to(X, center, scale, out.shape[1], &out[0, 0])


def scaled_points(const double[:, ::1] X, const double[::1] center, double scale, Index width, bytes mark):
    """Return what `scale_points` writes, in float64, as new bytes, with the bytes ``mark`` appended."""
    cdef Index size = X.shape[0] * width * sizeof(double)
    cdef bytes owner = PyBytes_FromStringAndSize(NULL, size + len(mark))
    cdef char *start = owner
    if center.shape[0] != X.shape[1] or width < X.shape[1]:
        raise ValueError("center must be as long as a point, and width at least as large")
    if size:
        with nogil:
            scale_to(X, center, scale, width, <double *>start)
    memcpy(start + size, <char *>mark, len(mark))
    return owner


def scale_columns(const double[:, ::1] X, const Index[::1] rows, const double[::1] center, double scale, Index start,
                  double[:, ::1] out):
    """Set out = scale (X[rows, start:stop] − center[start:stop]), where ``out`` has stop − start columns."""
    cdef Index width = out.shape[1], i
    if out.shape[0] != rows.shape[0] or center.shape[0] != X.shape[1] or not 0 <= start <= X.shape[1] - width:
        raise ValueError("center must be as long as a point, and out must have a row per point, with columns of X")
    for i in range(rows.shape[0]):
        if not 0 <= rows[i] < X.shape[0]:
            raise IndexError(f"row {rows[i]} of a matrix with {X.shape[0]} rows")
    if width:
        with nogil:
            for i in range(rows.shape[0]):
                scale_row_double(width, &X[rows[i], start], &center[start], scale, &out[i, 0])


def square_points(const double[:, ::1] X, const double[::1] center):
    """Return ‖x − center‖² of the points, shape (len(X),)."""
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


def all_finite(array):
    """Whether all entries of a contiguous float64 array, of any dimension, are finite."""
    cdef Py_buffer numbers
    cdef bint fine
    if array.dtype != FLOAT64:
        raise ValueError(f"array must have dtype float64, has {array.dtype}")
    PyObject_GetBuffer(array, &numbers, PyBUF_C_CONTIGUOUS)
    try:
        with nogil:
            fine = are_finite(numbers.len // sizeof(double), <const double *>numbers.buf)
    finally:
        PyBuffer_Release(&numbers)
    return bool(fine)


def asymmetry(const double[:, ::1] K, double[:, ::1] mean=None):
    """Return the largest |K[i, j] − K[j, i]| of a square matrix, and write (K + Kᵀ)/2 to ``mean`` if that is given.

    Return −1 if an entry, or a difference, is not finite.
    """
    cdef Index n = K.shape[0]
    cdef double most
    cdef double *to = NULL
    if K.shape[1] != n or (mean is not None and (mean.shape[0] != n or mean.shape[1] != n)):
        raise ValueError("K must be square, and mean must have its shape")
    if n == 0:
        return 0.0
    if mean is not None:
        to = &mean[0, 0]
    with nogil:
        most = compare_transpose(n, &K[0, 0], to)
    return most


def hash_rows(const double[:, ::1] X, const Index[::1] rows=None, Index step=1):
    """Return a 64-bit hash of every step-th number of all rows, or of some; −0 counts as 0."""
    cdef Index n = X.shape[0] if rows is None else rows.shape[0], m = X.shape[1], i, at
    hashes = np.zeros(n, dtype=np.uint64)
    cdef unsigned long long[::1] out = hashes
    if step < 1:
        raise ValueError(f"step must be ≥ 1, is {step}")
    if not m:
        return hashes
    for i in range(n):
        at = i if rows is None else rows[i]
        if not 0 <= at < X.shape[0]:
            raise IndexError(f"row {at} of a matrix with {X.shape[0]} rows")
        out[i] = hash_of(m, &X[at, 0], step)
    return hashes


def fold_words(const uint64_t[::1] words, const uint64_t[::1] places):
    """Return the sums of blocks of words, as long as ``places``, each word times that of its place, modulo 2⁶⁴."""
    cdef Index n = words.shape[0], height = places.shape[0], k
    if not height:
        raise ValueError("places must not be empty")
    sums = np.zeros((n + height - 1) // height, dtype=np.uint64)
    cdef unsigned long long[::1] out = sums
    with nogil:
        for k in range(out.shape[0]):
            out[k] = fold_of(min(height, n - k * height), &words[k * height], &places[0])
    return sums


def mean_and_squares(const double[:, ::1] X):
    """Return the mean of the points, shape (m,), and their ‖x − mean‖², shape (n,)."""
    cdef Index n = X.shape[0], m = X.shape[1], i, k
    mean, squares = np.empty(m), np.empty(n)
    cdef double[::1] center = mean
    cdef double[::1] out = squares
    if n == 0 or m == 0:
        raise ValueError(f"X must have points and features, has shape ({n}, {m})")
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


ctypedef fused number:
    double
    long long


def two_labels(const number[::1] labels):
    """Return the two values of the labels, the smaller first, and the code, 0 or 1, of each label.

    Return None if the labels have one value or more than two, or are NaN.
    """
    cdef Index n = labels.shape[0], i
    cdef number low, high
    if n == 0:
        return None
    low = high = labels[0]
    for i in range(1, n):
        if labels[i] != low:
            high = labels[i]
            break
    if not low != high:  # all are equal, or NaN
        return None
    low, high = min(low, high), max(low, high)
    codes = np.empty(n, dtype=np.intp)
    cdef Index[::1] which = codes
    for i in range(n):
        if labels[i] != low and labels[i] != high:
            return None
        which[i] = labels[i] == high
    return low, high, codes


def small_numbers(const long long[::1] labels):
    """Return the values of integer labels, ascending, and the code of each label.

    Return None if the range of the values is not smaller than the number of labels.
    """
    cdef Index n = labels.shape[0], i, count = 0
    cdef long long low, high
    if n == 0:
        return None
    low = high = labels[0]
    for i in range(1, n):
        low, high = min(low, labels[i]), max(high, labels[i])
    cdef unsigned long long span = <unsigned long long>high - <unsigned long long>low
    if span >= <unsigned long long>n:
        return None
    codes = np.empty(n, dtype=np.intp)
    cdef Index[::1] which = codes, place = np.empty(span + 1, dtype=np.intp)
    for i in range(<Index>span + 1):
        place[i] = 0
    for i in range(n):
        place[labels[i] - low] = 1
    found = []
    for i in range(<Index>span + 1):
        if place[i]:
            found.append(low + i)
            place[i] = count
            count += 1
    for i in range(n):
        which[i] = place[labels[i] - low]
    return found, codes


def by_class(const Index[::1] codes, Index classes):
    """Return the points ordered by class, ascending within a class, and where each class begins, shape (classes + 1,).

    Points of code −1 are left out.
    """
    cdef Index n = codes.shape[0], i, k
    starts = np.empty(classes + 1, dtype=np.intp)
    cdef Index[::1] begin = starts, next_ = np.empty(classes + 1, dtype=np.intp)
    for k in range(classes + 1):
        begin[k] = 0
    for i in range(n):
        if not -1 <= codes[i] < classes:
            raise ValueError(f"codes must be from 0 to {classes - 1}, or -1, found {codes[i]}")
        if codes[i] >= 0:
            begin[codes[i] + 1] += 1
    for k in range(classes):
        begin[k + 1] += begin[k]
        next_[k] = begin[k]
    order = np.empty(begin[classes], dtype=np.intp)
    cdef Index[::1] points = order
    for i in range(n):
        if codes[i] >= 0:
            points[next_[codes[i]]] = i
            next_[codes[i]] += 1
    return order, starts
