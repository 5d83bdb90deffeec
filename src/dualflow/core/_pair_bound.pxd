# cython: language_level=3
"""What the certificate of a pair of classes and the description of a pair hold, for compiled code and Python."""

from ._bound cimport Index

#: The certificate of a pair: a row of the arrays `certificates`. `pair_certificate.CertificateRow` has the same fields.
cdef struct PairCertificate:
    double objective
    double lower_bound
    double infeasibility
    double projection_distance  # of the projection from α
    double low  # ends of the multiplier interval
    double high
    double quadratic  # αᵀQα
    double terms  # size of the objective's terms
    double rounding  # part of the gap that may be float64's round-off

cdef inline Index n_numbers() noexcept nogil:
    """Return the length of a row of `certificates`."""
    return sizeof(PairCertificate) // sizeof(double)

#: Columns of a list of pairs whose kernel values are in shared blocks, a row for each pair.
cpdef enum:
    N_FIRST = 0  # points of the first class
    N_SECOND = 1  # points of the second class
    WITHIN_FIRST = 2  # where the kernel values within the first class begin in `within`
    BETWEEN = 3  # where those between the two classes begin in `between`
    WITHIN_SECOND = 4  # where those within the second class begin in `within`
    STRIDE_FIRST = 5  # distance of the rows of each of these blocks
    STRIDE_BETWEEN = 6
    STRIDE_SECOND = 7
    UPPER_FIRST = 8  # where the upper bounds of the first class begin in `upper`
    UPPER_SECOND = 9  # where those of the second class begin
    AT_ALPHA = 10  # where the pair's multipliers begin in `alpha`
    N_COLUMNS = 11  # length of a row

cdef bint project_one(Index m, Index n, const double *upper, const double *others, double sign, const double *alpha,
                      double *point, double *weights, PairCertificate *row, double *work) noexcept nogil
cdef void bound_one(Index n, const double *point, PairCertificate *row, double *work, const double *root,
                    double growth) noexcept nogil
