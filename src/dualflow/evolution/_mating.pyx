# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Crossover, the mutations that change few genes, and the values of the children from the genes that changed.

Populations are buffers of 2k rows with the parents above and the children below. In numpy a generation would take some
twenty calls, each of which takes longer than its arithmetic.
"""

from libc.string cimport memcpy

cdef extern from "mating.h":
    void add_changes(Py_ssize_t k, Py_ssize_t n, const double *parents, const long long *order, const double *children,
                     const double *Q, double *products) nogil
    void cross(Py_ssize_t n, const double *first, const double *second, const unsigned char *swapped,
               double *child) nogil
    double value_of(Py_ssize_t n, const double *alpha, const double *product, const double *p) nogil

ctypedef Py_ssize_t Index


def mate(double[:, ::1] alphas, const long long[::1] order, const long long[::1] partners,
         const unsigned char[:, ::1] swapped, const long long[::1] mutated, const double[::1] above,
         const double[::1] target):
    """Write the children into the lower half of ``alphas``, shape (2k, n).

    Child c has the genes of parent ``order[c]``, and of parent ``partners[c]`` where ``swapped[c]``. Then each gene
    ``mutated``, an index into all children in one row, becomes 0 if it is larger than ``above``, else ``target``.
    """
    cdef Index k = order.shape[0], n = alphas.shape[1], c, hit
    if alphas.shape[0] != 2 * k or partners.shape[0] != k or swapped.shape[0] != k or swapped.shape[1] != n:
        raise ValueError("alphas must have two rows an entry of order, and swapped their columns")
    if above.shape[0] != mutated.shape[0] or target.shape[0] != mutated.shape[0]:
        raise ValueError("mutated, above and target must have equal lengths")
    if n == 0:
        return
    for c in range(k):
        if not (0 <= order[c] < k and 0 <= partners[c] < k):
            raise ValueError("order and partners are rows of parents")
    cdef double *genes = &alphas[k, 0]
    for c in range(k):
        cross(n, &alphas[order[c], 0], &alphas[partners[c], 0], &swapped[c, 0], genes + c * n)
    for c in range(mutated.shape[0]):
        hit = mutated[c]
        if not 0 <= hit < k * n:
            raise ValueError("mutated must be indices of genes of the children")
        genes[hit] = 0.0 if genes[hit] > above[c] else target[c]


def evaluate(const double[:, ::1] Q, const double[::1] p, const double[:, ::1] alphas, double[:, ::1] products,
             double[::1] values, const long long[::1] order):
    """Write αᵀQ and f = ½ αᵀQα − pᵀα of the children into the lower halves of ``products`` and ``values``.

    They are updated from parent ``order[c]`` of child c, whose product must be in the upper half.
    """
    cdef Index k = order.shape[0], n = p.shape[0], c
    if Q.shape[0] != n or Q.shape[1] != n or alphas.shape[1] != n or products.shape[1] != n:
        raise ValueError("Q, p, alphas and products must be of one n")
    if alphas.shape[0] != 2 * k or products.shape[0] != 2 * k or values.shape[0] != 2 * k:
        raise ValueError("alphas, products and values must have two rows an entry of order")
    if n == 0:
        return
    for c in range(k):
        if not 0 <= order[c] < k:
            raise ValueError("order are rows of parents")
        memcpy(&products[k + c, 0], &products[order[c], 0], n * sizeof(double))
    with nogil:
        add_changes(k, n, &alphas[0, 0], &order[0], &alphas[k, 0], &Q[0, 0], &products[k, 0])
        for c in range(k):
            values[k + c] = value_of(n, &alphas[k + c, 0], &products[k + c, 0], &p[0])
