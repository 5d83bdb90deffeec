# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Certificates of C-SVC problems of two classes, compiled, and the model that pairs of several classes make together.

A certificate equals that of `Certifier` up to round-off, without the cost of its Python calls. Compiled with strict
arithmetic, as the bound itself (`_bound`).
"""

from collections import namedtuple

import numpy as np
from libc.math cimport INFINITY, NAN, fabs, sqrt
from libc.float cimport DBL_EPSILON, DBL_MIN

from ._bound cimport Index, best_bound_of, largest_at, rounding_of, shortfall_of


cdef PairCertificate BLANK
#: A row of certificates in Python: a named tuple with the fields of `PairCertificate`.
CertificateFields = namedtuple("CertificateFields", <dict>BLANK)
#: Length of a row.
N_NUMBERS = n_numbers()


def check_listed(const double[::1] within, const double[::1] between, const long long[:, ::1] listed,
                 const double[::1] upper, const double[::1] alpha, double sign):
    """Raise a ValueError if a pair of classes refers to a place outside its arrays.

    ``listed`` has one row of 11 numbers a pair, see `_pair_bound.pxd`.
    """
    cdef Index k
    cdef long long m, n
    if listed.shape[1] != N_COLUMNS or (sign != 1 and sign != -1):
        raise ValueError("a pair must be described by 11 numbers, and sign must be 1 or -1")
    for k in range(listed.shape[0]):
        m, n = listed[k, N_FIRST], listed[k, N_SECOND]
        if not (0 < m < 1 << 30 and 0 < n < 1 << 30
                and fits(listed[k, WITHIN_FIRST], m, m, listed[k, STRIDE_FIRST], within.shape[0])
                and fits(listed[k, BETWEEN], m, n, listed[k, STRIDE_BETWEEN], between.shape[0])
                and fits(listed[k, WITHIN_SECOND], n, n, listed[k, STRIDE_SECOND], within.shape[0])
                and fits(listed[k, UPPER_FIRST], 1, m, m, upper.shape[0])
                and fits(listed[k, UPPER_SECOND], 1, n, n, upper.shape[0])
                and fits(listed[k, AT_ALPHA], 1, m + n, m + n, alpha.shape[0])):
            raise ValueError(f"pair {k} refers to a place outside its arrays")


cdef inline bint fits(long long start, long long rows, long long columns, long long stride, Index size) noexcept:
    """Whether a block of rows and columns that begins at ``start`` ends within an array of this size."""
    return 0 <= start <= size and columns <= stride <= size and start + (rows - 1) * stride + columns <= size


def certify_listed(const double[::1] within, const double[::1] between, const long long[:, ::1] listed,
                   const double[::1] upper, double sign, const double[::1] alpha, double[::1] point,
                   double[::1] weights, double[:, ::1] certificates, double growth):
    """Certify the α of listed pairs of classes (see `check_listed`), as `Certifier` does, up to round-off.

    ``point`` receives the projections, laid out as ``alpha``; ``weights`` receives these with the signs of the labels;
    each row of ``certificates`` receives the `PairCertificate` of one pair. ``growth`` is as in `_bound.rounding_of`. If
    an α is not feasible to round-off, its row is NaN: `Certifier` must project it. Calls with separate output arrays may
    run in parallel.
    """
    check_listed(within, between, listed, upper, alpha, sign)
    cdef Index count = listed.shape[0], largest = 0, k
    if (not point.shape[0] == weights.shape[0] == alpha.shape[0] or certificates.shape[0] != count
            or certificates.shape[1] != n_numbers()):
        raise ValueError(f"point and weights must be as long as alpha, and certificates (count, {N_NUMBERS})")
    for k in range(count):
        largest = max(largest, <Index>(listed[k, N_FIRST] + listed[k, N_SECOND]))
    cdef double[::1] work = np.empty(max(1, 6 * largest))
    with nogil:
        for k in range(count):
            certify_one(&within[0], &between[0], &listed[k, 0], &upper[0], sign,
                        &alpha[listed[k, AT_ALPHA]], &point[listed[k, AT_ALPHA]], &weights[listed[k, AT_ALPHA]],
                        <PairCertificate *>&certificates[k, 0], &work[0], growth)


def read_listed(const double[::1] weights, const long long[::1] starts, double left):
    """Return the support vectors and coefficients of a multiclass model, given the weights of its pairs of classes.

    Parameters
    ----------
    weights : array of shape (n · (n_classes − 1),)
        Those of the pairs (0, 1), (0, 2), …, one pair after another, each with its first class first.
    starts : array of shape (n_classes + 1,)
        Where each class begins in the order of all points, and n.
    left : float
        Weights of at most ``left`` times the largest of their pair count as 0.

    Returns
    -------
    places : array of shape (n_SV,)
        Of the support vectors, in the order of the points.
    counts : array of shape (n_classes,)
        Support vectors of each class.
    pair_coef : array of shape (n_SV, n_pairs)
    dual_coef : array of shape (n_classes − 1, n_SV)
        The coefficients in LIBSVM's layout.
    """
    cdef Index classes = starts.shape[0] - 1, pairs = classes * (classes - 1) // 2, n, m, k = 0, i, j, t, at = 0
    for i in range(classes):
        at = min(at, starts[0], starts[i + 1] - starts[i])
    if classes < 2 or starts[0] != 0 or at < 0 or weights.shape[0] != starts[classes] * (classes - 1):
        raise ValueError("starts must list two or more classes, and weights must hold one number per point and other class")
    n = starts[classes]
    counts = np.zeros(classes, dtype=np.int64)
    cdef long long[::1] rank = np.zeros(n, dtype=np.int64), found = counts
    cdef double[::1] least = np.zeros(pairs)
    for i in range(classes):
        for j in range(i + 1, classes):
            m, n = starts[i + 1] - starts[i], starts[j + 1] - starts[j]
            for t in range(at, at + m + n):
                least[k] = max(least[k], fabs(weights[t]))
            least[k] *= left
            for t in range(m):
                rank[starts[i] + t] |= fabs(weights[at + t]) > least[k]
            for t in range(n):
                rank[starts[j] + t] |= fabs(weights[at + m + t]) > least[k]
            at, k = at + m + n, k + 1
    places = np.asarray(rank).nonzero()[0]
    pair_coef, dual_coef = np.zeros((len(places), pairs)), np.zeros((classes - 1, len(places)))
    cdef double[:, ::1] by_pair = pair_coef, by_class = dual_coef
    at = 0
    for i in range(classes):
        for t in range(starts[i], starts[i + 1]):
            found[i] += rank[t]
            rank[t], at = at, at + rank[t]
    k, at = 0, 0
    for i in range(classes):
        for j in range(i + 1, classes):
            m, n = starts[i + 1] - starts[i], starts[j + 1] - starts[j]
            for t in range(m):
                if fabs(weights[at + t]) > least[k]:
                    by_pair[rank[starts[i] + t], k] = by_class[j - 1, rank[starts[i] + t]] = weights[at + t]
            for t in range(n):
                if fabs(weights[at + m + t]) > least[k]:
                    by_pair[rank[starts[j] + t], k] = by_class[i, rank[starts[j] + t]] = weights[at + m + t]
            at, k = at + m + n, k + 1
    return places, counts, pair_coef, dual_coef


def project_pair(Index m, const double[::1] upper, double sign, const double[::1] alpha, double[::1] point,
                 double[::1] weights, double[::1] certificate):
    """Write the part of `certify_listed` for one pair that needs no kernel values: ``point``, ``weights``, and the
    infeasibility and distance of the projection."""
    cdef Index n = alpha.shape[0]
    check_pair(m, n, upper, point, weights, certificate)
    cdef double[::1] work = np.empty(2 * n)
    project_one(m, n, &upper[0], &upper[m], sign, &alpha[0], &point[0], &weights[0], <PairCertificate *>&certificate[0],
                &work[0])


def certify_pair(Index m, const double[::1] upper, double sign, const double[::1] point, const double[::1] weights,
                 const double[::1] values, double[::1] certificate, double growth):
    """Complete the row that `project_pair` began: objective, bound, multipliers, rounding.

    ``values`` = K weights of a radial kernel.
    """
    cdef Index n = point.shape[0], k
    cdef PairCertificate *row
    check_pair(m, n, upper, values, weights, certificate)
    row = <PairCertificate *>&certificate[0]
    if row.objective != row.objective:  # NaN: `project_pair` found α infeasible
        return
    cdef double[::1] work = np.empty(5 * n)
    for k in range(n):
        work[k], work[n + k] = sign * (values[k] if k < m else -values[k]), sign if k < m else -sign
        work[2 * n + k] = upper[k]
    bound_one(n, &point[0], row, &work[0], NULL, growth)


cdef check_pair(Index m, Index n, const double[::1] upper, const double[::1] one, const double[::1] other,
                const double[::1] certificate):
    if not (0 < m < n and upper.shape[0] == one.shape[0] == other.shape[0] == n and certificate.shape[0] == n_numbers()):
        raise ValueError("the vectors of a pair must have one length and points of both classes, and certificate "
                         f"{N_NUMBERS} numbers")


cdef void certify_one(const double *within, const double *between, const long long *pair, const double *upper, double sign,
                      const double *alpha, double *point, double *weights, PairCertificate *row, double *work,
                      double growth) noexcept nogil:
    """Certify one pair; ``work`` holds 6n numbers."""
    cdef Index m = pair[N_FIRST], n = pair[N_FIRST] + pair[N_SECOND], k
    cdef double *root = work + 5 * n
    if project_one(m, n, upper + pair[UPPER_FIRST], upper + pair[UPPER_SECOND], sign, alpha, point, weights, row,
                   work + n):
        product(within, between, pair, point, work)
        for k in range(n):
            if k < m:
                root[k] = within[pair[WITHIN_FIRST] + k * (pair[STRIDE_FIRST] + 1)]
            else:
                root[k] = within[pair[WITHIN_SECOND] + (k - m) * (pair[STRIDE_SECOND] + 1)]
            root[k] = sqrt(max(root[k], 0.0))
        bound_one(n, point, row, work, root, growth)


cdef bint project_one(Index m, Index n, const double *upper, const double *others, double sign, const double *alpha,
                      double *point, double *weights, PairCertificate *row, double *work) noexcept nogil:
    """Project α of one pair onto its feasible set, and return whether it was feasible to round-off.

    Labels and bounds are written to ``work``, which holds 2n numbers.
    """
    cdef Index k, most = 0
    cdef double *e = work
    cdef double *u = work + n
    cdef double missing = 0.0, given = 0.0, total = 0.0, off = 0.0, room, widest = -1.0, moved = 0.0, round_off
    for k in range(n_numbers()):
        (<double *>row)[k] = NAN
    for k in range(n):
        u[k] = upper[k] if k < m else others[k - m]
        e[k] = sign if k < m else -sign
        point[k] = min(max(alpha[k], 0.0), u[k])
        given += e[k] * alpha[k]
        missing += e[k] * point[k]
        total += point[k]
        off = max(off, max(-alpha[k], alpha[k] - u[k]))
    round_off = 4 * DBL_EPSILON * max(total, DBL_MIN)
    if not fabs(missing) <= round_off * sqrt(<double>n):
        return False
    if fabs(missing) > round_off:  # one free variable takes up the rounding of the sum, as in `project_onto`
        for k in range(n):
            room = min(point[k], u[k] - point[k])
            if room > widest:
                widest, most = room, k
        if widest < fabs(missing):
            widest = -1.0
            for k in range(n):
                room = point[k] if e[k] * missing > 0 else u[k] - point[k]
                if room > widest:
                    widest, most = room, k
        point[most] = min(max(point[most] - e[most] * missing, 0.0), u[most])
    for k in range(n):
        moved += (alpha[k] - point[k]) ** 2
        weights[k] = e[k] * point[k]
    row.objective = 0.0
    row.infeasibility, row.projection_distance = max(off, fabs(given)), sqrt(moved)
    return True


cdef void bound_one(Index n, const double *point, PairCertificate *row, double *work, const double *root,
                    double growth) noexcept nogil:
    """Write objective, bound, multipliers and rounding of one pair; ``work`` begins with Qα, labels and bounds, and
    holds 5n numbers. ``root`` is √Kᵢᵢ, NULL where that is 1."""
    cdef Index k, widest = 0
    cdef double *h = work
    cdef double *e = work + n
    cdef double *u = work + 2 * n
    cdef double missing = fabs(shortfall_of(n, e, point, u, 0.0, &widest))
    cdef double quadratic = 0.0, total = 0.0, low, high
    cdef double least = INFINITY, most = -INFINITY
    for k in range(n):
        quadratic += point[k] * h[k]
        h[k] -= 1.0
        if 0.0 < point[k] < u[k]:  # at the optimum ν = h/e of each free variable
            least, most = min(least, h[k] / e[k]), max(most, h[k] / e[k])
    if least > most:
        least, most = -INFINITY, INFINITY
    largest_at(n, h, e, u, 0.0, least, most, work + 3 * n, &low, &high)
    for k in range(n):
        total += point[k]
    row.objective = 0.5 * quadratic - total
    row.lower_bound = best_bound_of(n, h, e, u, 0.0, -0.5 * quadratic, low, high)
    row.low, row.high, row.quadratic, row.terms = low, high, quadratic, 0.5 * quadratic + total
    row.rounding = missing * fabs(h[widest]) + rounding_of(
        n, h, e, u, point, root, NULL, 0.5 * (low + high), growth, row.terms, missing * (root[widest] if root != NULL else 1.0))


cdef void product(const double *within, const double *between, const long long *pair, const double *point,
                  double *out) noexcept nogil:
    """Write Qα of a pair to ``out``: the sum of the columns where α is not 0."""
    cdef Index m = pair[N_FIRST], n = pair[N_SECOND], k, j
    cdef const double *row
    cdef double weight
    for j in range(m + n):
        out[j] = 0.0
    for k in range(m + n):
        if point[k] == 0:
            continue
        weight = point[k] if k < m else -point[k]
        if k < m:
            row = within + pair[WITHIN_FIRST] + k * pair[STRIDE_FIRST]
            for j in range(m):
                out[j] += weight * row[j]
            row = between + pair[BETWEEN] + k * pair[STRIDE_BETWEEN]
            for j in range(n):
                out[m + j] += weight * row[j]
        else:
            row = between + pair[BETWEEN] + (k - m)
            for j in range(m):
                out[j] += weight * row[j * pair[STRIDE_BETWEEN]]
            row = within + pair[WITHIN_SECOND] + (k - m) * pair[STRIDE_SECOND]
            for j in range(n):
                out[m + j] += weight * row[j]
    for j in range(n):
        out[m + j] = -out[m + j]
