# cython: language_level=3
"""The search over points of the radial kernel, for the compiled files of this folder; see _from_points.pyx."""

from ._loop cimport Index

ctypedef fused real:
    float
    double

# When a search stops, and when it is given up; see `solve_points`.
cdef struct search_rules:
    double tolerance
    Index max_updates
    Index max_rows
    Index max_rows_bounded
    bint fills
    int rounds
    Index exact_updates
    bint shrinks

cdef double search(Index n, Index m, const real *points, const real *half, const real *ep, const double *low,
                   const double *high, double *beta, real *G, search_rules rules, real *rows, real *tiles, real *work,
                   long long *slots, long long *wanted, real *spare, Index spare_size,
                   Index *kept) noexcept nogil


cdef inline Index rows_of(Index n, Index max_rows, bint fills) noexcept:
    """Return the numbers in all rows that `search` may make: an update needs two, and each may bring another one."""
    return (n if fills else min(n, max_rows + 4)) * ((n + 127) // 128 * 128)
