# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The certificate of two classes' hinge, with nothing between it and the numbers: what `Certifier` says, to round-off;
and what the pairs of several classes come to together.

Compiled with strict arithmetic, as the bound itself.
"""

import numpy as np
from libc.math cimport INFINITY, NAN, fabs, sqrt
from libc.float cimport DBL_EPSILON, DBL_MIN

from ._bound cimport Index, largest_at, rounding_of


#: Numbers of a row of figures.
cdef enum:
    FIGURES = 9


def check_listed(const double[::1] within, const double[::1] between, const long long[:, ::1] listed,
                 const double[::1] upper, const double[::1] alpha, double sign):
    """Refuse a list of pairs of classes that leads out of its arrays.

    A row of ``listed`` is m, n: how many points the classes have; where their blocks of kernel values begin, that within
    the first class, between the two, and within the second; how far apart the rows of each are; where in ``upper`` the
    bounds of each class begin; and where in ``alpha`` the pair's multipliers do.
    """
    cdef Index k
    cdef long long m, n
    if listed.shape[1] != 11 or (sign != 1 and sign != -1):
        raise ValueError("a pair is 11 numbers, and sign ±1")
    for k in range(listed.shape[0]):
        m, n = listed[k, 0], listed[k, 1]
        if not (0 < m < 1 << 30 and 0 < n < 1 << 30 and ends(listed[k, 2], m, m, listed[k, 5], within.shape[0])
                and ends(listed[k, 3], m, n, listed[k, 6], between.shape[0])
                and ends(listed[k, 4], n, n, listed[k, 7], within.shape[0])
                and ends(listed[k, 8], 1, m, m, upper.shape[0]) and ends(listed[k, 9], 1, n, n, upper.shape[0])
                and ends(listed[k, 10], 1, m + n, m + n, alpha.shape[0])):
            raise ValueError(f"pair {k} leads out of its arrays")


cdef inline bint ends(long long start, long long rows, long long columns, long long apart, Index size) noexcept:
    return 0 <= start <= size and columns <= apart <= size and start + (rows - 1) * apart + columns <= size


def certify_listed(const double[::1] within, const double[::1] between, const long long[:, ::1] listed,
                   const double[::1] upper, double sign, const double[::1] alpha, double[::1] point,
                   double[::1] weights, double[:, ::1] figures, double growth):
    """What the α of listed pairs of classes, see `check_listed`, are worth: as `Certifier` says, to round-off.

    Nothing that is written is shared. ``point`` receives their projections, laid out as they are, ``weights`` these
    with the labels' signs, and a row of ``figures`` objective, lower bound,
    infeasibility, distance of the projection, the two ends of ν, αᵀQα, how large f's terms may be, and what float64 may
    have rounded away of the gap, with ``growth`` as of `_bound.rounding_of`. They are NaN where the α is not feasible to round-off: that wants a real projection.
    """
    check_listed(within, between, listed, upper, alpha, sign)
    cdef Index count = listed.shape[0], largest = 0, k
    if not point.shape[0] == weights.shape[0] == alpha.shape[0] or figures.shape[0] != count or figures.shape[1] != FIGURES:
        raise ValueError("point and weights must be as long as alpha, and figures (count, 9)")
    for k in range(count):
        largest = max(largest, <Index>(listed[k, 0] + listed[k, 1]))
    cdef double[::1] work = np.empty(max(1, 6 * largest))
    with nogil:
        for k in range(count):
            certify_one(&within[0], &between[0], &listed[k, 0], &upper[0], sign,
                        &alpha[listed[k, 10]], &point[listed[k, 10]], &weights[listed[k, 10]],
                        &figures[k, 0], &work[0], growth)


def read_listed(const double[::1] weights, const long long[::1] starts, double left):
    """What the weights of pairs of classes (0, 1), (0, 2), … are together; they are given one pair after another, those
    of the points of its first class before those of its second.

    ``starts`` is where each class begins in the order of all points, and the end. Weights within ``left`` times the
    largest of their pair count as 0.

    Returns places of the support vectors in that order, how many each class has, and their coefficients, in the pairs
    (n_SV, n_pairs) and in LIBSVM's layout (n_classes − 1, n_SV).
    """
    cdef Index classes = starts.shape[0] - 1, pairs = classes * (classes - 1) // 2, n, m, k = 0, i, j, t, at = 0
    for i in range(classes):
        at = min(at, starts[0], starts[i + 1] - starts[i])
    if classes < 2 or starts[0] != 0 or at < 0 or weights.shape[0] != starts[classes] * (classes - 1):
        raise ValueError("two classes or more, one after another, and for each point a weight for each other class")
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
                 double[::1] weights, double[::1] figures):
    """What `certify_listed` says of one pair but for its kernel values: ``point``, ``weights``, and the two figures of
    the projection."""
    cdef Index n = alpha.shape[0]
    check_pair(m, n, upper, point, weights, figures)
    cdef double[::1] work = np.empty(2 * n)
    project_one(m, n, &upper[0], &upper[m], sign, &alpha[0], &point[0], &weights[0], &figures[0], &work[0])


def certify_pair(Index m, const double[::1] upper, double sign, const double[::1] point, const double[::1] weights,
                 const double[::1] values, double[::1] figures, double growth):
    """The other figures of `certify_listed`, of one pair with K weights = ``values`` at hand, of a radial kernel."""
    cdef Index n = point.shape[0], k
    check_pair(m, n, upper, values, weights, figures)
    if figures[0] != figures[0]:
        return
    cdef double[::1] work = np.empty(5 * n)
    for k in range(n):
        work[k], work[n + k] = sign * (values[k] if k < m else -values[k]), sign if k < m else -sign
        work[2 * n + k] = upper[k]
    bound_one(n, &point[0], &figures[0], &work[0], NULL, growth)


cdef check_pair(Index m, Index n, const double[::1] upper, const double[::1] one, const double[::1] other,
                const double[::1] figures):
    if not (0 < m < n and upper.shape[0] == one.shape[0] == other.shape[0] == n and figures.shape[0] == FIGURES):
        raise ValueError("a pair's vectors must be of one length, with points of both classes, and its figures 9")


cdef void certify_one(const double *within, const double *between, const long long *pair, const double *upper, double sign,
                      const double *alpha, double *point, double *weights, double *figures, double *work, double growth) noexcept nogil:
    cdef Index m = pair[0], n = pair[0] + pair[1], k
    cdef double *root = work + 5 * n
    if project_one(m, n, upper + pair[8], upper + pair[9], sign, alpha, point, weights, figures, work + n):
        product(within, between, pair, point, work)
        for k in range(n):
            root[k] = within[pair[2] + k * (pair[5] + 1)] if k < m else within[pair[4] + (k - m) * (pair[7] + 1)]
            root[k] = sqrt(max(root[k], 0.0))
        bound_one(n, point, figures, work, root, growth)


cdef bint project_one(Index m, Index n, const double *upper, const double *others, double sign, const double *alpha,
                      double *point, double *weights, double *figures, double *work) noexcept nogil:
    """Labels and bounds go to ``work``, which holds 2n; whether α is feasible to round-off."""
    cdef Index k, most = 0
    cdef double *e = work
    cdef double *u = work + n
    cdef double missing = 0.0, given = 0.0, total = 0.0, off = 0.0, room, widest = -1.0, moved = 0.0, round_off
    for k in range(FIGURES):
        figures[k] = NAN
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
    if fabs(missing) > round_off:  # a sum's rounding goes to one within its bounds, see `project_onto`
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
    figures[0] = 0.0
    figures[2], figures[3] = max(off, fabs(given)), sqrt(moved)
    return True


cdef void bound_one(Index n, const double *point, double *figures, double *work, const double *root,
                    double growth) noexcept nogil:
    """Of Qα, labels and bounds in ``work``, which holds 5n; ``root`` is √Kᵢᵢ, NULL where that is 1."""
    cdef Index k
    cdef double *h = work
    cdef double *e = work + n
    cdef double *u = work + 2 * n
    cdef double quadratic = 0.0, total = 0.0, best = -INFINITY, left, low, high, nu, bound
    cdef double least = INFINITY, most = -INFINITY
    cdef int turn
    for k in range(n):
        quadratic += point[k] * h[k]
        h[k] -= 1.0
        if 0.0 < point[k] < u[k]:  # at the optimum ν is where these are
            least, most = min(least, h[k] / e[k]), max(most, h[k] / e[k])
    if least > most:
        least, most = -INFINITY, INFINITY
    largest_at(n, h, e, u, 0.0, least, most, work + 3 * n, &low, &high)
    for k in range(n):
        total += point[k]
    for turn in range(3):
        nu = low if turn == 0 else (high if turn == 1 else 0.5 * (low + high))
        left = 0.0
        for k in range(n):
            bound = h[k] - nu * e[k]
            if bound < 0:
                left += u[k] * bound
        best = max(best, -0.5 * quadratic + left)
    figures[0], figures[1] = 0.5 * quadratic - total, best
    figures[4], figures[5], figures[6], figures[7] = low, high, quadratic, 0.5 * quadratic + total
    figures[8] = rounding_of(n, h, e, u, point, root, NULL, 0.5 * (low + high), growth, figures[7])


cdef void product(const double *within, const double *between, const long long *pair, const double *point,
                  double *out) noexcept nogil:
    """Qα of a pair, by the columns where α is not 0."""
    cdef Index m = pair[0], n = pair[1], k, j
    cdef const double *row
    cdef double weight
    for j in range(m + n):
        out[j] = 0.0
    for k in range(m + n):
        if point[k] == 0:
            continue
        weight = point[k] if k < m else -point[k]
        if k < m:
            row = within + pair[2] + k * pair[5]
            for j in range(m):
                out[j] += weight * row[j]
            row = between + pair[3] + k * pair[6]
            for j in range(n):
                out[m + j] += weight * row[j]
        else:
            row = between + pair[3] + (k - m)
            for j in range(m):
                out[j] += weight * row[j * pair[6]]
            row = within + pair[4] + (k - m) * pair[7]
            for j in range(n):
                out[m + j] += weight * row[j]
    for j in range(n):
        out[m + j] = -out[m + j]
