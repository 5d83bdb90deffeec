# cython: language_level=3
ctypedef Py_ssize_t Index

cdef void largest_at(Index n, const double *h, const double *e, const double *u, double d, double *work, double *to_low,
                     double *to_high) noexcept nogil
