# Part of _path.pyx: the arrays of an engine, and changes of the inverse that are kept beside it for a while.
#
# A rank-one update reads and writes the whole inverse, which is larger than a cache. So the vectors of some updates wait:
# a product with the inverse adds theirs, which is little, and when there are `DELAY` of them the inverse gets them all at
# once. None waits outside a path: whoever reads the inverse finds it complete.

#: Updates that wait at most.
DELAY = 32
cdef enum:
    _DELAY = 32
#: Rows of ``work``: beta, right, direction, the weights of the updates, and their vectors, which are read in blocks: so
#: many entries more than the inverse has rows are there.
WORK, WORK_MORE = 4 + DELAY, 24
cdef enum:
    _WEIGHTS = 3
    _VECTORS = 4


cdef struct Room:
    # The arrays of an engine, as pointers.
    Index n
    Index stride
    Index ld
    Index border
    double *alpha
    double *g
    const double *e
    const double *u
    const double *diag
    signed char *where
    const double *rows
    const long long *slot
    const long long *place
    const long long *filled
    long long *members
    long long *member_slots
    double *inverse
    long long *counters
    double *figures
    double *beta
    double *right
    double *direction
    double *gamma
    double strayed
    Index quiet
    long long *waiting
    double *weights
    double *updates
    Index apart


cdef void look_at_updates(Room *R, double *work, Index width) noexcept nogil:
    R.weights, R.updates, R.apart = work + _WEIGHTS * width, work + _VECTORS * width, width


cdef void catch_up(Room *R) noexcept nogil:
    """Bring the inverse up to date."""
    delayed_updates(R.counters[_COUNT] + 1, R.ld, R.inverse, R.apart, R.waiting[0], R.updates, R.weights)
    R.waiting[0] = 0


cdef void update(Room *R, Index m, double weight, const double *v) noexcept nogil:
    """inverse += weight v vᵀ, of order m, soon; it is of that order already, or about to be."""
    cdef double *to = R.updates + R.waiting[0] * R.apart
    cdef Index j
    for j in range(m):
        to[j] = v[j]
    R.weights[R.waiting[0]] = weight
    R.waiting[0] += 1
    if R.waiting[0] == _DELAY:
        delayed_updates(m, R.ld, R.inverse, R.apart, R.waiting[0], R.updates, R.weights)
        R.waiting[0] = 0


cdef void times_inverse(Room *R, const double *x, double *y) noexcept nogil:
    cdef Index m = R.counters[_COUNT] + 1
    symmetric_product(m, R.ld, R.inverse, x, y)
    delayed_product(m, R.apart, R.waiting[0], R.updates, R.weights, x, y)
