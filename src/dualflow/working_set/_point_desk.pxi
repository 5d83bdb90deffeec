# Where a pair of classes is worked at, for _point_pairs.pyx.

cdef struct Desk:
    # One pair: n points of m coordinates (of which so many are `features`), `head` of the first class.
    Index n, m, head, features
    double sign, reach, growth, enough, rough, worth, few, ease
    # Of all pairs; `at` says which of them are this one's.
    const double *all
    # This one's own, if it is not searched in float32.
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
    Index spare_bytes, room, size
    char *memory
    long long *at
    long long *slots
    long long *W
    long long *others
    unsigned char *chosen
    double entries


cdef void lay_out(Desk *d, char *memory, Index m, Index most, Index room, Index rows, Index spare) noexcept:
    """Where everything is, each from a cache line on, for pairs of up to so many points, of whom up to ``room`` are
    brought to their end together; with bytes for rows and to spare. It takes ``size`` bytes of memory."""
    cdef Index wide = (most + 127) // 128 * 128, tiles = TILE * (m + 8)
    d.memory, d.size, d.m, d.room, d.spare_bytes = memory, 0, m, room, spare
    d.points, d.near, d.rest = doubles(d, wide * m), doubles(d, wide * m), doubles(d, wide * m)
    d.half, d.e, d.upper, d.low = doubles(d, wide), doubles(d, wide), doubles(d, wide), doubles(d, wide)
    d.high, d.beta, d.G, d.sums = doubles(d, wide), doubles(d, wide), doubles(d, wide), doubles(d, wide)
    d.doubt, d.near_half, d.shares = doubles(d, wide), doubles(d, wide), doubles(d, wide)
    d.rest_half, d.found, d.work = doubles(d, wide), doubles(d, 3 * wide), doubles(d, 7 * wide)
    d.gradient, d.start, d.some, d.floor = doubles(d, wide), doubles(d, wide), doubles(d, wide), doubles(d, wide)
    d.ceiling, d.diag, d.tiles = doubles(d, wide), doubles(d, wide), doubles(d, tiles + CACHED // 4)
    d.points_32, d.near_32, d.rest_32 = floats(d, wide * m), floats(d, wide * m), floats(d, wide * m)
    d.half_32, d.ep_32, d.G_32, d.near_half_32 = floats(d, wide), floats(d, wide), floats(d, wide), floats(d, wide)
    d.rest_half_32, d.shares_32, d.work_32 = floats(d, wide), floats(d, 3 * wide), floats(d, 7 * wide + tiles)
    d.slots, d.W = <long long *>doubles(d, 2 * wide), <long long *>doubles(d, wide)
    d.others, d.at = <long long *>doubles(d, wide), <long long *>doubles(d, wide)
    d.chosen, d.packed = <unsigned char *>doubles(d, wide // 8), doubles(d, wide * m)
    # What is large comes last, for little of it may be used.
    d.spare, d.rows, d.K = doubles(d, spare // 8 + 1), doubles(d, rows // 8 + 1), doubles(d, room * room)


cdef double *doubles(Desk *d, Index count) noexcept:
    cdef double *here = <double *>(d.memory + d.size)
    d.size += (8 * count + 63) // 64 * 64
    return here


cdef float *floats(Desk *d, Index count) noexcept:
    return <float *>doubles(d, (count + 1) // 2)


cdef void sit_down(Desk *d, const double[:, ::1] points, const double[::1] half, const float[:, ::1] points_32,
                   const float[::1] half_32, const long long[::1] members, const double[::1] upper,
                   const long long *pair, const double *start) noexcept nogil:
    cdef Index k, place, own
    cdef bint single = pair[4]
    d.all, d.head, d.n, d.entries = &points[0, 0], pair[0], pair[0] + pair[1], 0.0
    for k in range(d.n):
        place = pair[2] + k if k < d.head else pair[3] + k - d.head
        own = d.at[k] = members[place]
        d.half[k], d.e[k] = half[own], d.sign if k < d.head else -d.sign
        if single:
            memcpy(d.points_32 + k * d.m, &points_32[own, 0], d.m * sizeof(float))
            d.half_32[k], d.ep_32[k] = half_32[own], <float>d.e[k]
        else:
            memcpy(d.points + k * d.m, &points[own, 0], d.m * sizeof(double))
        d.upper[k], d.chosen[k] = upper[place], 0
        d.beta[k] = d.e[k] * start[k] if start else 0.0
        d.low[k], d.high[k] = (0.0, d.upper[k]) if d.e[k] > 0 else (-d.upper[k], 0.0)


cdef void mirror(Index n, double *K) noexcept nogil:
    """What is below the diagonal as what is above, eight by eight: a column's cache lines are then not met eight times."""
    cdef Index i, j, first, start
    for first in range(0, n, 8):
        for start in range(0, first + 1, 8):
            for i in range(first, min(first + 8, n)):
                for j in range(start, min(start + 8, i)):
                    K[i * n + j] = K[j * n + i]


cdef void exactly(const Desk *d, Index count, const long long *which, double *to, double *to_half) noexcept nogil:
    """Some of the points, in float64, one after the other."""
    cdef Index k
    for k in range(count):
        memcpy(to + k * d.m, d.all + d.at[which[k]] * d.m, d.m * sizeof(double))
        to_half[k] = d.half[which[k]]


cdef void roughly(const Desk *d, Index count, const long long *which, float *to, float *to_half) noexcept nogil:
    """The same in float32, in which a pair was searched."""
    cdef Index k
    for k in range(count):
        memcpy(to + k * d.m, d.points_32 + which[k] * d.m, d.m * sizeof(float))
        to_half[k] = d.half_32[which[k]]
