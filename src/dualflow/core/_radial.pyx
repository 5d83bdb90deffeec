# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The radial kernel, compiled: kernel rows, weighted sums without stored rows, and rows from inner products.

Also compiled here: the kernel of binary points, weighted sums of cached rows, and copies of parts of a matrix.
"""

from math import prod

import numpy as np

ctypedef Py_ssize_t Index

cdef extern from *:
    """
    #include "clones.h"
    #include "exponential.h"
    #define REAL float
    #include "radial.h"
    #include "hamming.h"
    #undef REAL
    #define REAL double
    #include "radial.h"
    #include "hamming.h"
    #undef REAL
    """
    void radial_rows_float(Index count, Index n, Index m, const float *a, const float *half_a, const float *b,
                           const float *half_b, float *out, float *work, Index tiles, int upper) nogil
    void radial_rows_double(Index count, Index n, Index m, const double *a, const double *half_a, const double *b,
                            const double *half_b, double *out, double *work, Index tiles, int upper) nogil
    void radial_sum_float(Index count, Index n, Index m, Index r, const float *a, const float *half_a, const float *b,
                          const float *half_b, const float *weights, double *out, float *work) nogil
    void radial_sum_double(Index count, Index n, Index m, Index r, const double *a, const double *half_a,
                           const double *b, const double *half_b, const double *weights, double *out,
                           double *work) nogil
    void radial_square_float(Index n, Index m, const float *a, const float *half, const float *weights, Index start, Index stop,
                             double *out, float *work) nogil
    void radial_square_double(Index n, Index m, const double *a, const double *half, const double *weights, Index start,
                              Index stop, double *out, double *work) nogil
    void radial_apply_float(Index n, float half_a, const float *half_b, float *row) nogil
    void radial_apply_double(Index n, double half_a, const double *half_b, double *row) nogil
    void hamming_row_float(Index n, Index words, const unsigned long long *a, const unsigned long long *b, const float *table,
                           float *row) nogil
    void hamming_row_double(Index n, Index words, const unsigned long long *a, const unsigned long long *b,
                            const double *table, double *row) nogil
    void weigh_float(Index n, Index r, const float *row, const float *weights, double *sums) nogil
    void weigh_double(Index n, Index r, const double *row, const double *weights, double *sums) nogil
    void add_rows_float(Index n, Index stride, Index count, const float *rows, const long long *slots, const double *weights,
                        double *out) nogil
    void add_rows_double(Index n, Index stride, Index count, const double *rows, const long long *slots, const double *weights,
                         double *out) nogil
    void lift_float(Index n, const double *matrix, double scale, double offset, const double *sign, float *to) nogil
    void lift_double(Index n, const double *matrix, double scale, double offset, const double *sign, double *to) nogil

ctypedef fused real:
    float
    double

#: Bytes of one feature of a tile, see radial.h.
cdef Index TILE_BYTES = 512
#: Bytes of the tiles that are worked on together: they stay in the second-level cache.
cdef Index MAX_TILES_BYTES = 1 << 17
#: Binary points of one piece of a sum: their words, weights and values stay in the first-level cache.
cdef Index PIECE_POINTS = 512


def aligned(shape, dtype):
    """Return an empty array that starts at a cache line: loads of vectors across two lines take twice as long."""
    cdef Index size = prod(shape) * dtype().itemsize
    raw = np.empty(size + 64, dtype=np.uint8)
    cdef unsigned char[::1] bytes_ = raw
    cdef Index start = -(<Index>&bytes_[0]) & 63
    return raw[start : start + size].view(dtype).reshape(shape)


def radial_rows(const real[:, ::1] A, const real[::1] half_a, const real[:, ::1] B, const real[::1] half_b, real[:, ::1] values,
                bint upper=False):
    """Set values[i, c] = k(aᵢ, b_c) = exp(aᵢᵀb_c − half_aᵢ − half_b_c), shape (len(A), len(B)).

    The points are scaled by √(2γ) and have a multiple of 4 columns; ``half_a`` and ``half_b`` are half their squared
    lengths. With ``upper``, entries below the diagonal may keep their old values.
    """
    cdef Index count = A.shape[0], n = B.shape[0], m = A.shape[1]
    _check(m, B.shape[1], count, half_a.shape[0], n, half_b.shape[0])
    if values.shape[0] != count or values.shape[1] != n:
        raise ValueError("values must have a row for each point of A and a column for each of B")
    if count == 0 or n == 0:
        return
    cdef Index tile = TILE_BYTES // sizeof(real), tiles = max(1, min(-(-n // tile), MAX_TILES_BYTES // (TILE_BYTES * (m + 1))))
    cdef real[::1] work = aligned((tile * (tiles * (m + 1) + 2),), np.float32 if real is float else np.float64)
    cdef const real *a = &A[0, 0] if m else NULL
    cdef const real *b = &B[0, 0] if m else NULL
    with nogil:
        if real is float:
            radial_rows_float(count, n, m, a, &half_a[0], b, &half_b[0], &values[0, 0], &work[0], tiles, upper)
        else:
            radial_rows_double(count, n, m, a, &half_a[0], b, &half_b[0], &values[0, 0], &work[0], tiles, upper)


def radial_sum(const real[:, ::1] A, const real[::1] half_a, const real[:, ::1] B, const real[::1] half_b,
               const real[:, ::1] weights):
    """Return Σᵢ k(aᵢ, b_c) weights[i, :], shape (len(B), r), in float64; kernel values are not stored."""
    cdef Index count = A.shape[0], n = B.shape[0], m = A.shape[1], r = weights.shape[1]
    _check(m, B.shape[1], count, half_a.shape[0], n, half_b.shape[0])
    if weights.shape[0] != count:
        raise ValueError("weights must have a row for each point of A")
    out = np.zeros((n, r))
    if count == 0 or n == 0 or r == 0:
        return out
    cdef double[:, ::1] sums = out
    cdef real[::1] work = aligned(((m + 3 + r) * 128,), np.float32 if real is float else np.float64)
    cdef const real *a = &A[0, 0] if m else NULL
    cdef const real *b = &B[0, 0] if m else NULL
    with nogil:
        if real is float:
            radial_sum_float(count, n, m, r, a, &half_a[0], b, &half_b[0], &weights[0, 0], &sums[0, 0], &work[0])
        else:
            radial_sum_double(count, n, m, r, a, &half_a[0], b, &half_b[0], &weights[0, 0], &sums[0, 0], &work[0])
    return out


def radial_square(const real[:, ::1] A, const real[::1] half, const real[::1] weights, Index start, Index stop):
    """Return a part of Σᵢ k(aᵢ, a_c) weights[i], shape (len(A),), in float64, that uses each kernel value twice.

    It has the terms of the pairs with one point among ``start`` … ``stop`` − 1 and the other before it; both are
    multiples of 128, or ``stop`` is len(A). The sum of the parts from 0 to len(A) is the whole sum.
    """
    cdef Index n = A.shape[0], m = A.shape[1]
    _check(m, m, n, half.shape[0], n, weights.shape[0])
    if start < 0 or start % 128 or stop > n or (stop % 128 and stop < n):
        raise ValueError("start and stop must be multiples of 128, or stop the number of points")
    out = np.zeros(n)
    if start >= stop:
        return out
    cdef double[::1] sums = out
    cdef real[::1] work = aligned(((m + 5) * 128,), np.float32 if real is float else np.float64)
    cdef const real *a = &A[0, 0] if m else NULL
    with nogil:
        if real is float:
            radial_square_float(n, m, a, &half[0], &weights[0], start, stop, &sums[0], &work[0])
        else:
            radial_square_double(n, m, a, &half[0], &weights[0], start, stop, &sums[0], &work[0])
    return out


def radial_apply(real[:, :] products, const real[::1] half_a, const real[::1] half_b):
    """Turn inner products aᵢᵀb_c into kernel values, in place; rows may have any stride."""
    cdef Index count = products.shape[0], n = products.shape[1], i
    if half_a.shape[0] != count or half_b.shape[0] != n or (n > 1 and products.strides[1] != sizeof(real)):
        raise ValueError("half_a needs one entry per row of products, half_b one per column, and rows must be contiguous")
    if n == 0:
        return
    with nogil:
        for i in range(count):
            if real is float:
                radial_apply_float(n, half_a[i], &half_b[0], &products[i, 0])
            else:
                radial_apply_double(n, half_a[i], &half_b[0], &products[i, 0])


def hamming_rows(const unsigned long long[:, ::1] A, const unsigned long long[:, ::1] B, const real[::1] table, real[:, :] values):
    """Set values[i, c] = table[number of bits in which aᵢ and b_c differ], shape (len(A), len(B)); rows of values may
    have any stride."""
    cdef Index count = A.shape[0], n = B.shape[0], words = A.shape[1], i
    _check_bits(words, B.shape[1], table.shape[0])
    if values.shape[0] != count or values.shape[1] != n or (n > 1 and values.strides[1] != sizeof(real)):
        raise ValueError("values must have a row for each point of A and a column for each of B, and contiguous rows")
    if n == 0:
        return
    with nogil:
        for i in range(count):
            if real is float:
                hamming_row_float(n, words, &A[i, 0], &B[0, 0], &table[0], &values[i, 0])
            else:
                hamming_row_double(n, words, &A[i, 0], &B[0, 0], &table[0], &values[i, 0])


def hamming_sum(const unsigned long long[:, ::1] A, const unsigned long long[:, ::1] B, const real[::1] table, const real[:, ::1] weights):
    """Return Σᵢ table[number of bits in which aᵢ and b_c differ] weights[i, :], shape (len(B), r), in float64."""
    cdef Index count = A.shape[0], n = B.shape[0], words = A.shape[1], r = weights.shape[1], c, start = 0, width
    _check_bits(words, B.shape[1], table.shape[0])
    if weights.shape[0] != count:
        raise ValueError("weights must have a row for each point of A")
    out = np.zeros((n, r))
    if count == 0 or n == 0 or r == 0:
        return out
    cdef double[:, ::1] sums = out
    cdef real[::1] row = np.empty(PIECE_POINTS, np.float32 if real is float else np.float64)
    with nogil:
        while start < count:
            width = min(PIECE_POINTS, count - start)
            for c in range(n):
                if real is float:
                    hamming_row_float(width, words, &B[c, 0], &A[start, 0], &table[0], &row[0])
                    weigh_float(width, r, &row[0], &weights[start, 0], &sums[c, 0])
                else:
                    hamming_row_double(width, words, &B[c, 0], &A[start, 0], &table[0], &row[0])
                    weigh_double(width, r, &row[0], &weights[start, 0], &sums[c, 0])
            start += width
    return out


def _check_bits(Index words, Index others, Index entries):
    if not words == others > 0 or entries <= 64 * words:
        raise ValueError("A and B must be (n, words), and table must have a value for each number of bits")


def add_rows(real[:, ::1] rows, long long[::1] slots, double[::1] weights, double[::1] out, Index start=0):
    """Add Σ_r weights[r] · rows[slots[r], start:] to out, summed in float64."""
    cdef Index stride = rows.shape[1], n = out.shape[0], count = slots.shape[0]
    if start < 0 or n > stride - start or weights.shape[0] != count:
        raise ValueError("out must be no longer than a row, and weights as long as slots")
    if count == 0 or n == 0:
        return
    with nogil:
        if real is float:
            add_rows_float(n, stride, count, &rows[0, start], &slots[0], &weights[0], &out[0])
        else:
            add_rows_double(n, stride, count, &rows[0, start], &slots[0], &weights[0], &out[0])


def lift(const double[:, ::1] matrix, double scale, double offset, const double[::1] sign, real[:, ::1] out):
    """Set out = scale (matrix + offset) + sign signᵀ on and above the diagonal; entries below are not read or written."""
    cdef Index n = sign.shape[0]
    if not matrix.shape[0] == matrix.shape[1] == out.shape[0] == out.shape[1] == n:
        raise ValueError("matrix and out must be (n, n), and sign (n,)")
    if n == 0:
        return
    with nogil:
        if real is float:
            lift_float(n, &matrix[0, 0], scale, offset, &sign[0], &out[0, 0])
        else:
            lift_double(n, &matrix[0, 0], scale, offset, &sign[0], &out[0, 0])


def gather(const real[:, ::1] matrix, const long long[::1] rows, const long long[::1] columns, real[:, ::1] out):
    """Set out[i, j] = matrix[rows[i], columns[j]]; an `IndexError` for an index outside the matrix, negative ones too."""
    cdef Index height = rows.shape[0], width = columns.shape[0], i, j
    cdef const real *row
    cdef bint inside = True
    if not (out.shape[0] == height and out.shape[1] == width):
        raise ValueError("out must be (len(rows), len(columns))")
    with nogil:
        for i in range(height):
            inside &= 0 <= rows[i] < matrix.shape[0]
        for j in range(width):
            inside &= 0 <= columns[j] < matrix.shape[1]
        if inside and width:
            for i in range(height):
                row = &matrix[rows[i], 0]
                for j in range(width):
                    out[i, j] = row[columns[j]]
    if not inside:
        raise IndexError("rows and columns must be indices of the matrix, 0 or more")


cdef _check(Index m, Index mb, Index count, Index count_a, Index n, Index n_b):
    if m % 4 or m != mb or count != count_a or n != n_b:
        raise ValueError("A and B must have the same number of columns, a multiple of 4, and one half for each row")
