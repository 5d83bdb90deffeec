# cython: language_level=3
"""The search over points, for the compiled files of this folder."""

from ._loop cimport Index

ctypedef fused real:
    float
    double

cdef struct rules:
    double tolerance
    Index limit
    Index room
    Index more
    bint fills
    int rounds
    Index few
    bint leaves

cdef double search(Index n, Index m, const real *points, const real *half, const real *ep, const double *low,
                   const double *high, double *beta, real *G, rules told, real *rows, real *tiles, real *work,
                   long long *slots, long long *wanted, real *spare, Index spare_size) noexcept nogil


cdef inline Index rows_of(Index n, Index more, bint fills) noexcept:
    """Numbers of the rows that `search` may make of n points: an update asks for two, and each may come with another."""
    return (n if fills else min(n, more + 4)) * ((n + 127) // 128 * 128)
