# cython: language_level=3
ctypedef Py_ssize_t Index

cdef void largest_at(Index n, const double *h, const double *e, const double *u, double d, double least, double most,
                     double *work, double *to_low, double *to_high) noexcept nogil
cdef double best_bound_of(Index n, const double *h, const double *e, const double *u, double d, double fixed, double low,
                          double high) noexcept nogil
cdef bint has_error_bounds(double least, double largest, double reach, Index features) noexcept nogil
cdef bint undetermined_of(Index n, const double *sums, const double *error_bound, const double *e, double low,
                   double high, double common_p, double ratio, long long *which, Index *count) noexcept nogil
cdef void error_bounds_of(Index n, Index features, Index terms, double total, const double *half, double *found) noexcept nogil
cdef double rounding_of(Index n, const double *h, const double *e, const double *u, const double *alpha,
                        const double *root, const double *beside, double nu, double growth, double terms, double shift) noexcept nogil
cdef double shortfall_of(Index n, const double *e, const double *alpha, const double *u, double d, Index *most) noexcept nogil
