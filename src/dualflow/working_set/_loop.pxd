# cython: language_level=3
"""The pair loop, for the compiled files of this folder; see pairs.h, rows.h and part.h."""

ctypedef Py_ssize_t Index

cdef extern from "loop.h":
    const int PANEL, MIN_N_SHRINKING
    ctypedef struct source_float:
        Index m
        const float *points
        const float *half
        const float *tiles
        const float *halves
        const float *sign
        const float *ridge
        float factor
        float offset
        Index head
        const float *first
        const float *between
        const float *second
        Index first_stride
        Index between_stride
        Index second_stride
        int degree
    ctypedef struct source_double:
        Index m
        const double *points
        const double *half
        const double *tiles
        const double *halves
        const double *sign
        const double *ridge
        double factor
        double offset
        Index head
        const double *first
        const double *between
        const double *second
        Index first_stride
        Index between_stride
        Index second_stride
        int degree
    ctypedef struct memory_float:
        float *spare
        Index size
        int all
        Index *entries
        int shrinks
    ctypedef struct memory_double:
        double *spare
        Index size
        int all
        Index *entries
        int shrinks
    void pack_all_float(Index n, Index stride, Index m, const float *points, const float *half, float *tiles, float *halves) nogil
    void pack_all_double(Index n, Index stride, Index m, const double *points, const double *half, double *tiles, double *halves) nogil
    void row_of_blocks_double(Index n, Index i, const source_double *origin, double *row) nogil
    void fetch_wanted_float(Index stride, Index count, const long long *wanted, const source_float *origin, float *rows, long long *slots, Index *used) nogil
    void fetch_wanted_double(Index stride, Index count, const long long *wanted, const source_double *origin, double *rows, long long *slots, Index *used) nogil
    Index pairs_float(int n, Index stride, float *rows, long long *slots, Index *used, const source_float *origin,
                     float *G, const float *diag, double *beta, const double *low, const double *high, int equality,
                     double tolerance, Index limit, Index room, float *work, double *violation, memory_float memory,
                     int starts_newton) nogil
    Index pairs_double(int n, Index stride, double *rows, long long *slots, Index *used, const source_double *origin,
                      double *G, const double *diag, double *beta, const double *low, const double *high, int equality,
                      double tolerance, Index limit, Index room, double *work, double *violation, memory_double memory,
                      int starts_newton) nogil
