# cython: language_level=3
from ._bound cimport Index

cdef bint project_one(Index m, Index n, const double *upper, const double *others, double sign, const double *alpha,
                      double *point, double *weights, double *figures, double *work) noexcept nogil
cdef void bound_one(Index n, const double *point, double *figures, double *work, const double *root,
                    double growth) noexcept nogil
