# Where a pair of classes is worked at, for _point_pairs.pyx.

cdef struct Desk:
    # One pair: n points of m coordinates (of which so many are `features`), `head` of the first class.
    Index n, m, head, features
    double sign, reach, enough, rough, worth, few, ease
    double *points
    double *half
    double *e
    double *upper
    double *low
    double *high
    double *beta
    double *G
    double *sums
    double *doubt
    # Some of the points, their weights, and others; and sums of these.
    double *near
    double *near_half
    double *shares
    double *rest
    double *rest_half
    double *found
    # Those who are brought to their end together.
    double *K
    double *gradient
    double *start
    double *some
    double *floor
    double *ceiling
    double *diag
    double *work
    double *tiles
    float *points_32
    float *half_32
    float *ep_32
    float *G_32
    float *near_32
    float *near_half_32
    float *shares_32
    float *rest_32
    float *rest_half_32
    float *work_32
    void *rows
    void *packed
    void *spare
    Index spare_bytes, room
    long long *slots
    long long *W
    long long *others
    unsigned char *chosen
    double entries


cdef void lay_out(Desk *d, Index m, Index wide, double *doubles, float *floats, long long *places) noexcept:
    """Where everything is, each from a cache line on."""
    cdef double **to_doubles[18]
    cdef float **to_floats[5]
    cdef Index k
    d.points, d.near, d.rest = doubles, doubles + wide * m, doubles + 2 * wide * m
    doubles += 3 * wide * m
    to_doubles[:] = [&d.half, &d.e, &d.upper, &d.low, &d.high, &d.beta, &d.G, &d.sums, &d.doubt, &d.near_half, &d.shares,
                     &d.rest_half, &d.gradient, &d.start, &d.some, &d.floor, &d.ceiling, &d.diag]
    for k in range(18):
        to_doubles[k][0] = doubles + k * wide
    d.found, d.work = doubles + 18 * wide, doubles + 21 * wide  # 3 and 7 of them
    d.points_32, d.near_32, d.rest_32 = floats, floats + wide * m, floats + 2 * wide * m
    floats += 3 * wide * m
    to_floats[:] = [&d.half_32, &d.ep_32, &d.G_32, &d.near_half_32, &d.rest_half_32]
    for k in range(5):
        to_floats[k][0] = floats + k * wide
    d.shares_32, d.work_32 = floats + 5 * wide, floats + 8 * wide  # 3, and 7 or a few tiles
    d.slots, d.W, d.others = places, places + 2 * wide, places + 3 * wide


cdef void sit_down(Desk *d, const double[:, ::1] points, const double[::1] half, const long long[::1] members,
                   const double[::1] upper, const long long *pair) noexcept nogil:
    cdef Index k, place
    d.head, d.n, d.entries = pair[0], pair[0] + pair[1], 0.0
    for k in range(d.n):
        place = pair[2] + k if k < d.head else pair[3] + k - d.head
        memcpy(d.points + k * d.m, &points[members[place], 0], d.m * sizeof(double))
        d.half[k] = half[members[place]]
        d.e[k] = d.sign if k < d.head else -d.sign
        d.upper[k], d.beta[k], d.chosen[k] = upper[place], 0.0, 0
        d.low[k], d.high[k] = (0.0, d.upper[k]) if d.e[k] > 0 else (-d.upper[k], 0.0)


cdef inline void add_row(Index n, double weight, const double *row, double *out) noexcept nogil:
    cdef Index k
    for k in range(n):
        out[k] += weight * row[k]


cdef void gather(Index count, Index m, const long long *which, const real *points, const real *half, real *to,
                 real *to_half) noexcept nogil:
    cdef Index k
    for k in range(count):
        memcpy(to + k * m, points + which[k] * m, m * sizeof(real))
        to_half[k] = half[which[k]]
