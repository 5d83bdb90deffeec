# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The passes over the rows of an interior-point iteration, each of which reads each row once.

A pass reads rows start … stop in chunks that stay in the cache. A chunk, minus the centre, is multiplied by a vector or
weighted; the variables of its rows are updated (passes.h), and their contributions to the sums are added. The caller
adds the sums of different stretches of rows, which may be computed in different threads.
"""

import numpy as np
import scipy.linalg.cython_blas as blas
import scipy.linalg.cython_lapack as lapack
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport INFINITY, fabs, sqrt
from libc.string cimport memset

from ..core.runtime.clock import check_time

cdef extern from "passes.h":
    ctypedef Py_ssize_t Index
    ctypedef struct Variables:
        const double *alpha
        const double *room
        const double *low
        const double *high
        const double *upper
        const double *ridge
        const double *p
        const double *sigma
        const double *e
    cpdef enum:
        SUM_Q
        SUM_EQR
        SUM_EA
        SUM_PRODUCTS
        SUM_PA
        SUM_RAA
        SUM_RESIDUAL
        SUM_EQ
        SUM_QR
        SUM_A
        SUM_BOUND
        SUMS
        SUM_FIXED
        SUM_FREE
        SUM_FIRST
        SUM_SECOND
        SUM_QFIXED
        SUM_QFREE
        MOST_INVERSE
        AHEAD
    void weigh(Index m, Index at, const Variables *v, const double *values, double nu, double level, double scale,
               double *q, double *rho, double *by_q, double *by_qe, double *by_qr, double *by_a, double *by_qs,
               double *sums) nogil
    void predict(Index m, Index at, const Variables *v, const double *change, double d_nu, double d_level, double scale,
                 const double *q, const double *rho, double *ahead, double *by_fixed, double *by_free, double *sums) nogil
    double correct(Index m, Index at, const Variables *v, const double *change, double d_nu, double d_level,
                   double scale, double mu, const double *q, const double *rho, double *da, double *dl, double *dh) nogil
    void advance_stretch "advance"(Index m, Index at, const Variables *v, const double *da, const double *dl,
                                   const double *dh, double length, double *alpha, double *room, double *low,
                                   double *high) nogil
    cdef enum:
        RELAXED_EA
        RELAXED_PA
        RELAXED_LEFT
        RELAXED_EEQ
        RELAXED_U
        RELAXED_FREE
        RELAXED
    void relax(Index m, Index at, const Variables *v, const double *center, const double *values, double nu, double scale,
               double stiff, double *slopes, double *alpha, double *by_q, double *by_qe, double *by_a, double *sums) nogil
    void turn(Index m, Index at, const Variables *v, const double *change, double d_nu, double scale,
              double *turned) nogil
    double along(Index n, const double *upper, const double *center, const double *slopes, const double *turned,
                 double stiff, double length) nogil

ctypedef void (*Gemv)(char *, int *, int *, double *, double *, int *, double *, int *, double *, double *, int *) noexcept nogil
ctypedef void (*Potrf)(char *, int *, double *, int *, int *) noexcept nogil
ctypedef void (*Potrs)(char *, int *, int *, double *, int *, double *, int *, int *) noexcept nogil
ctypedef void (*Syrk)(char *, char *, int *, int *, double *, double *, int *, double *, double *, int *) noexcept nogil


cdef void *routine(library, str name, int pointers) except NULL:
    """Return a routine of SciPy's BLAS or LAPACK. It is looked up at import, so that compiling needs no SciPy."""
    cdef object capsule = library.__pyx_capi__[name]
    cdef const char *signature = PyCapsule_GetName(capsule)
    if (<bytes>signature).count(b"int *") != pointers:
        raise ImportError(f"{library.__name__}.{name} has another signature than 32-bit BLAS: install SciPy >= 1.13")
    return PyCapsule_GetPointer(capsule, signature)


cdef Gemv gemv = <Gemv>routine(blas, "dgemv", 5)
cdef Syrk syrk = <Syrk>routine(blas, "dsyrk", 4)
cdef Potrf potrf = <Potrf>routine(lapack, "dpotrf", 3)
cdef Potrs potrs = <Potrs>routine(lapack, "dpotrs", 5)

#: Numbers of a chunk, 128 kB: it stays in the second-level cache.
cdef Index CHUNK = 1 << 14


cdef class PassRows:
    """Rows of features and their variables.

    Row i has ``copies`` variables, i + c·len(F): one in classification, two in regression. A row's features are those
    of F minus ``center``, followed by ``extra`` if that is not 0.

    Parameters
    ----------
    F : array of shape (N, r)
    center : array of shape (r,) or None
    extra : float
    copies : int
    upper, ridge, p, sigma : arrays of shape (copies · N,)
    e : array of shape (copies · N,), or None
    scale : float
    """

    cdef readonly Index n, width
    cdef const double[:, ::1] F
    cdef const double[::1] center, upper, ridge, p, sigma, e
    cdef bint moves, bordered
    cdef double extra, scale
    cdef readonly Index copies

    def __init__(self, const double[:, ::1] F, center, double extra, Index copies, const double[::1] upper,
                 const double[::1] ridge, const double[::1] p, const double[::1] sigma, e, double scale):
        cdef Index size = copies * F.shape[0]
        self.F, self.n, self.extra, self.copies, self.scale = F, F.shape[0], extra, copies, scale
        self.width = F.shape[1] + (extra != 0)
        self.moves, self.bordered = center is not None, e is not None
        self.center = center if self.moves else p
        self.upper, self.ridge, self.p, self.sigma = upper, ridge, p, sigma
        self.e = e if self.bordered else p
        if not upper.shape[0] == ridge.shape[0] == p.shape[0] == sigma.shape[0] == self.e.shape[0] == size:
            raise ValueError("there must be as many bounds, ridges, slopes and signs as variables")
        if self.moves and self.center.shape[0] != F.shape[1]:
            raise ValueError("center must be as long as a row")

    @property
    def height(self):
        """Number of rows of a chunk."""
        return self._height()

    cdef Index _height(self) noexcept nogil:
        return max(<Index>16, min(<Index>1024, CHUNK // max(<Index>1, self.width)))

    cdef const double *load(self, Index start, Index m, double *buffer) noexcept nogil:
        """Return rows start … start + m minus the centre, with ``extra``; in ``buffer`` if they differ from F."""
        cdef Index i, j, r = self.F.shape[1], w = self.width
        cdef const double *row
        if not self.moves and self.extra == 0:
            return &self.F[start, 0]
        for i in range(m):
            row = &self.F[start + i, 0]
            if self.moves:
                for j in range(r):
                    buffer[i * w + j] = row[j] - self.center[j]
            else:
                for j in range(r):
                    buffer[i * w + j] = row[j]
            if self.extra != 0:
                buffer[i * w + r] = self.extra
        return buffer

    cdef Variables at(self, double[:, ::1] state) noexcept nogil:
        """Return the variables of a state whose rows are α, room, low and high."""
        cdef Variables v
        v.alpha, v.room, v.low, v.high = &state[0, 0], &state[1, 0], &state[2, 0], &state[3, 0]
        v.upper, v.ridge, v.p, v.sigma = &self.upper[0], &self.ridge[0], &self.p[0], &self.sigma[0]
        v.e = &self.e[0] if self.bordered else NULL
        return v

    def values(self, Index start, Index stop, const double[::1] w, double[::1] out):
        """out[start:stop] = products of the rows with w."""
        cdef Index h = self._height(), i, m
        cdef double[::1] buffer = np.empty(h * self.width)
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                self.dot(self.load(i, m, &buffer[0]), m, &w[0], &out[i])
                i += h

    def gather(self, Index start, Index stop, const double[::1] weights, double[::1] out):
        """out += Σ weightsᵢ rowᵢ over rows start … stop; weights of shape (N,)."""
        cdef Index h = self._height(), i, m
        cdef double[::1] buffer = np.empty(h * self.width)
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                self.collect(self.load(i, m, &buffer[0]), m, &weights[i], &out[0])
                i += h

    cdef void dot(self, const double *rows, Index m, const double *w, double *out) noexcept nogil:
        cdef int width = <int>self.width, count = <int>m, one = 1
        cdef double unit = 1.0, zero = 0.0
        gemv(b"T", &width, &count, &unit, <double *>rows, &width, <double *>w, &one, &zero, out, &one)

    cdef void collect(self, const double *rows, Index m, const double *weights, double *out) noexcept nogil:
        cdef int width = <int>self.width, count = <int>m, one = 1
        cdef double unit = 1.0
        gemv(b"N", &width, &count, &unit, <double *>rows, &width, <double *>weights, &one, &unit, out, &one)

    cdef void square(self, const double *rows, Index m, const double *weights, double least, double *scaled,
                     double *gram) noexcept nogil:
        """gram += Σ weightsᵢ rowᵢ rowᵢᵀ, its lower triangle, without rows of no weight."""
        cdef Index i, j, w = self.width, kept = 0
        cdef int width = <int>w, count
        cdef double unit = 1.0, root
        for i in range(m):
            if weights[i] <= least:
                continue
            root = sqrt(weights[i])
            for j in range(w):
                scaled[kept * w + j] = root * rows[i * w + j]
            kept += 1
        count = <int>kept
        if kept:
            syrk(b"U", b"N", &width, &count, &unit, scaled, &width, &unit, gram, &width)

    def weigh(self, Index start, Index stop, double[:, ::1] state, const double[::1] values, double nu, double level,
              double least, double[::1] q, double[::1] rho, double[:, ::1] gram, double[:, ::1] vectors, double[::1] sums):
        """The first pass: compute q and ρ of each variable, and add to the sums.

        ``gram`` receives Σ q row rowᵀ; ``vectors`` the sums of rows times qe, qρ, α and, if there is a fourth, q;
        ``sums`` the SUM_… of passes.h.
        """
        cdef Index h = self._height(), i, m, c, k, count = vectors.shape[0]
        cdef double[::1] buffer = np.empty((2 * h * self.width + 5 * h))
        cdef double *scaled = &buffer[h * self.width]
        cdef double *by = &buffer[2 * h * self.width]
        cdef const double *rows
        cdef Variables v = self.at(state)
        if sums.shape[0] != SUMS or not 3 <= count <= 4 or gram.shape[0] != self.width:
            raise ValueError(f"there are {SUMS} sums")
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                for k in range(5 * h):
                    by[k] = 0.0
                for c in range(self.copies):
                    weigh(m, i + c * self.n, &v, &values[i], nu, level, self.scale, &q[0], &rho[0], by, by + h,
                          by + 2 * h, by + 3 * h, by + 4 * h, &sums[0])
                rows = self.load(i, m, &buffer[0])
                self.square(rows, m, by, least, scaled, &gram[0, 0])
                for k in range(count):
                    self.collect(rows, m, by + (k + 1) * h, &vectors[k, 0])
                i += h

    def predict(self, Index start, Index stop, double[:, ::1] state, const double[::1] dw, double d_nu, double d_level,
                const double[::1] q, const double[::1] rho, double[::1] ahead, double[:, ::1] vectors, double[::1] sums):
        """The second pass: compute the predictor's change of each variable, and add to the corrector's right side.

        That is in ``vectors`` and ``sums``.
        """
        cdef Index h = self._height(), i, m, c, k
        cdef double[::1] buffer = np.empty(h * self.width + 3 * h)
        cdef double *by = &buffer[h * self.width]
        cdef const double *rows
        cdef Variables v = self.at(state)
        if sums.shape[0] != AHEAD:
            raise ValueError(f"there are {AHEAD} sums")
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                rows = self.load(i, m, &buffer[0])
                self.dot(rows, m, &dw[0], by)
                for k in range(h, 3 * h):
                    by[k] = 0.0
                for c in range(self.copies):
                    predict(m, i + c * self.n, &v, by, d_nu, d_level, self.scale, &q[0], &rho[0], &ahead[0], by + h, by + 2 * h,
                            &sums[0])
                for k in range(2):
                    self.collect(rows, m, by + (k + 1) * h, &vectors[k, 0])
                i += h

    def correct(self, Index start, Index stop, double[:, ::1] state, const double[::1] dw, double d_nu, double d_level,
                double mu, const double[::1] q, const double[::1] rho, double[:, ::1] changes, double[::1] change):
        """The third pass: compute the changes of variables, multipliers and values.

        The first row of ``changes`` holds the predictor's change. Returns the largest inverse of a step length that ends
        at a bound.
        """
        cdef Index h = self._height(), i, m, c
        cdef double[::1] buffer = np.empty(h * self.width)
        cdef double most = 0.0
        cdef Variables v = self.at(state)
        with nogil:
            i = start
            while i < stop:
                m = min(h, stop - i)
                self.dot(self.load(i, m, &buffer[0]), m, &dw[0], &change[i])
                for c in range(self.copies):
                    most = max(most, correct(m, i + c * self.n, &v, &change[i], d_nu, d_level, self.scale, mu, &q[0],
                                             &rho[0], &changes[0, 0], &changes[1, 0], &changes[2, 0]))
                i += h
        return most

    def advance(self, Index start, Index stop, double[:, ::1] state, const double[:, ::1] changes, double length,
                double[:, ::1] after):
        """Compute the state after a step of the given length."""
        cdef Index c
        cdef Variables v = self.at(state)
        with nogil:
            for c in range(self.copies):
                advance_stretch(stop - start, start + c * self.n, &v, &changes[0, 0], &changes[1, 0], &changes[2, 0],
                                length, &after[0, 0], &after[1, 0], &after[2, 0], &after[3, 0])

    cdef void collect_all(self, const double *weights, double *out, double *work) noexcept nogil:
        cdef Index h = self._height(), i = 0, m
        while i < self.n:
            m = min(h, self.n - i)
            self.collect(self.load(i, m, work), m, weights + i, out)
            i += h

    cdef void dot_all(self, const double *x, double *out, double *work) noexcept nogil:
        cdef Index h = self._height(), i = 0, m
        while i < self.n:
            m = min(h, self.n - i)
            self.dot(self.load(i, m, work), m, x, out + i)
            i += h

    cdef void square_free(self, const double *q, const double *qe, double *gram, double *side, double *work) noexcept nogil:
        """gram += Σ qᵢ rowᵢ rowᵢᵀ, its lower triangle, and side += Σ qeᵢ rowᵢ, from the rows with q > 0."""
        cdef Index h = self._height(), i, j, r = self.width, kept = 0
        cdef double *ratio = work + 2 * h * r
        cdef const double *row
        cdef double root
        for i in range(self.n):
            if q[i] > 0:
                row, root = self.load(i, 1, work), sqrt(q[i])
                for j in range(r):
                    work[(h + kept) * r + j] = root * row[j]
                ratio[kept] = qe[i] / root
                kept += 1
            if kept == h or (i == self.n - 1 and kept):
                self._add_square(work + h * r, kept, ratio, gram, side)
                kept = 0

    cdef void _add_square(self, double *scaled, Index kept, double *ratio, double *gram, double *side) noexcept nogil:
        cdef int width = <int>self.width, count = <int>kept
        cdef double unit = 1.0
        syrk(b"U", b"N", &width, &count, &unit, scaled, &width, &unit, gram, &width)
        self.collect(scaled, kept, ratio, side)


cdef class Relaxation:
    """The dual with δ/(2u) (α − center)² added to each variable's part, minimised by Newton's method in w and ν.

    There is one equality, no ridge and no infinite bound.

    Parameters
    ----------
    rows : PassRows
    fixed_rows : array of shape (r,)
        The part of Fᵀσα of variables outside of the problem, which are fixed.
    d : float
        Right side of the equality.
    fixed_p : float
        The part of pᵀα of the fixed variables.
    stop_gap : float
        Relative gap of the problem without δ at which it ends.
    most : int
        Newton steps, at most.
    """

    cdef PassRows rows
    cdef const double[::1] fixed_rows, center
    cdef double d, fixed_p, stop_gap, delta, stiff, largest, shortfall, gap
    cdef Index most
    cdef double sums[RELAXED]
    cdef double[::1] w, values, alpha, memory
    # Of variables: slopes and their changes. Of rows: change of the values; sums of q, of qe, and of α.
    cdef double *slopes
    cdef double *turned
    cdef double *change
    cdef double *by
    # Of columns: Gram matrix of the free rows, Newton's matrix and factor, residual of w, step, right side, and more.
    cdef double *gram
    cdef double *M
    cdef double *missing
    cdef double *x
    cdef double *side
    cdef double *spare
    cdef double *work

    def __init__(self, PassRows rows, const double[::1] fixed_rows, double d, double fixed_p, double stop_gap, Index most):
        cdef Index n = rows.n, r = rows.width, m = r + 1, size = rows.copies * n, k
        if fixed_rows.shape[0] != r:
            raise ValueError("there must be as many numbers of fixed rows as columns")
        if not rows.bordered:
            raise ValueError("there must be an equality")
        self.rows, self.fixed_rows, self.d, self.fixed_p = rows, fixed_rows, d, fixed_p
        self.stop_gap, self.most, self.largest = stop_gap, most, 0.0
        for k in range(size):
            self.largest = max(self.largest, rows.upper[k])
        self.memory = np.empty(2 * size + 4 * n + r * r + 2 * m * m + 6 * m + 2 * rows._height() * m)
        self.slopes = &self.memory[0]
        self.turned = self.slopes + size
        self.change = self.turned + size
        self.by = self.change + n
        self.gram = self.by + 3 * n
        self.M = self.gram + r * r
        self.missing = self.M + 2 * m * m
        self.x = self.missing + m
        self.side = self.x + m
        self.spare = self.side + m
        self.work = self.spare + 3 * m

    def minimise(self, const double[::1] center, double delta, double accuracy, double[::1] w, double nu,
                 double[::1] values, double[::1] alpha):
        """Minimise for one δ; ``w``, ``values`` = F w and ``alpha`` are changed in place.

        It ends after the step whose decrement is at most ``accuracy`` times δ Σu of the free variables. The time limit
        and Ctrl-C are checked before each step.

        Returns
        -------
        nu : float
        gap : float
            Relative gap of the problem without δ.
        free : int
            Variables inside their bounds.
        steps : int
            Newton steps; if they are as many as allowed, the ``accuracy`` may not have been met.
        """
        cdef Index n = self.rows.n, size = self.rows.copies * n, step = 0
        cdef double decrement
        cdef bint last = False
        if not (center.shape[0] == alpha.shape[0] == size and values.shape[0] == n and w.shape[0] == self.rows.width):
            raise ValueError("there must be as many numbers as variables, rows and columns")
        self.center, self.w, self.values, self.alpha = center, w, values, alpha
        self.delta, self.stiff = delta, 1.0 / delta
        while True:
            with nogil:
                self._evaluate(nu)
            if last or self.gap <= self.stop_gap or step >= self.most or not self.gap < INFINITY:
                break
            check_time()
            with nogil:
                decrement = self._direct()
                if decrement > 0:
                    last = decrement <= accuracy * delta * self.sums[RELAXED_U]
                    nu += self._move(decrement)
            if not decrement > 0:
                break
            step += 1
        return nu, self.gap, <Index>self.sums[RELAXED_FREE], step

    cdef Variables _variables(self) noexcept nogil:
        cdef Variables v
        v.alpha = v.room = v.low = v.high = NULL
        v.upper, v.ridge, v.p = &self.rows.upper[0], &self.rows.ridge[0], &self.rows.p[0]
        v.sigma, v.e = &self.rows.sigma[0], &self.rows.e[0]
        return v

    cdef void _evaluate(self, double nu) noexcept nogil:
        """Compute α and slopes of w and ν, what is missing in w and in the equality, and the gap."""
        cdef Index n = self.rows.n, r = self.rows.width, j, c
        cdef double objective = 0.0, gap = 0.0, s = self.rows.scale
        cdef Variables v = self._variables()
        memset(self.by, 0, 3 * n * sizeof(double))
        memset(self.sums, 0, RELAXED * sizeof(double))
        for c in range(self.rows.copies):
            relax(n, c * n, &v, &self.center[0], &self.values[0], nu, s, self.stiff, self.slopes, &self.alpha[0],
                  self.by, self.by + n, self.by + 2 * n, self.sums)
        memset(self.missing, 0, r * sizeof(double))
        self.rows.collect_all(self.by + 2 * n, self.missing, self.work)
        for j in range(r):
            self.missing[j] += self.fixed_rows[j]
            objective += self.missing[j] * self.missing[j]
            self.missing[j] -= self.w[j]
            gap += self.missing[j] * self.missing[j]
        self.shortfall = self.d - self.sums[RELAXED_EA]
        objective = 0.5 * s * objective - self.sums[RELAXED_PA] - self.fixed_p
        gap = self.sums[RELAXED_LEFT] + 0.5 * s * gap + fabs(nu * self.shortfall)
        self.gap = gap / max(fabs(objective), 1e-300)

    cdef double _direct(self) noexcept nogil:
        """Compute Newton's step of w and ν, and return its decrement; -1 if there is no step."""
        cdef Index n = self.rows.n, r = self.rows.width, j
        cdef double decrement
        memset(self.gram, 0, r * r * sizeof(double))
        memset(self.side, 0, (r + 1) * sizeof(double))
        self.rows.square_free(self.by, self.by + n, self.gram, self.side, self.work)
        if not self._newton():
            return -1.0
        decrement = self.shortfall * self.x[r]
        for j in range(r):
            decrement += self.rows.scale * self.missing[j] * self.x[j]
        return decrement

    cdef double _move(self, double decrement) noexcept nogil:
        """Move w and the values by a step of the length that is searched for; return the change of ν."""
        cdef Index n = self.rows.n, r = self.rows.width, j, c
        cdef double length
        cdef double *values = &self.values[0]
        cdef double *change = self.change
        cdef Variables v = self._variables()
        self.rows.dot_all(self.x, change, self.work)
        for c in range(self.rows.copies):
            turn(n, c * n, &v, change, self.x[r], self.rows.scale, self.turned)
        length = self._length(decrement)
        for j in range(r):
            self.w[j] += length * self.x[j]
        for j in range(n):
            values[j] += length * change[j]
        return length * self.x[r]

    cdef double _slope(self, double begin, double square, double length) noexcept nogil:
        """Return the derivative after a step of the given length: that of w and ν, minus that of the minimisers."""
        cdef Index size = self.rows.copies * self.rows.n
        return begin + length * square - along(size, &self.rows.upper[0], &self.center[0], self.slopes, self.turned,
                                               self.stiff, length)

    cdef double _length(self, double decrement) noexcept nogil:
        """Return the length of a step at which the derivative has fallen to a tenth, or at which it is still negative."""
        cdef Index r = self.rows.width, j, k
        cdef double begin = -self.d * self.x[r], square = 0.0, s = self.rows.scale
        cdef double low = 0.0, high = 1.0, at_low = -decrement, at_high, length, at
        for j in range(r):
            begin += s * (self.w[j] - self.fixed_rows[j]) * self.x[j]
            square += s * self.x[j] * self.x[j]
        at_high = self._slope(begin, square, high)
        for k in range(30):
            if at_high >= -0.5 * decrement:
                break
            low, at_low, high = high, at_high, 2.0 * high
            at_high = self._slope(begin, square, high)
        length = high
        if at_high <= 0.1 * decrement:
            return length
        for k in range(30):
            length = low - at_low * (high - low) / (at_high - at_low)
            length = min(max(length, low + 0.01 * (high - low)), high - 0.01 * (high - low))
            at = self._slope(begin, square, length)
            if fabs(at) <= 0.1 * decrement:
                break
            if at > 0:
                high, at_high, at_low = length, at, 0.5 * at_low
            else:
                low, at_low, at_high = length, at, 0.5 * at_high
        return length

    cdef bint _newton(self) noexcept nogil:
        """Solve Newton's system, scaled to a unit diagonal and refined once; return whether that was possible."""
        cdef Index r = self.rows.width, m = r + 1, i, j, k
        cdef double s = self.rows.scale, left
        cdef double *M = self.M
        cdef double *factor = M + m * m
        cdef double *unit = self.spare
        cdef double *right = unit + m
        cdef double *y = right + m
        cdef int order = <int>m, one = 1, failed = 0
        for i in range(r):
            for j in range(i + 1):
                M[i * m + j] = s * s * self.gram[i * r + j] + (s if i == j else 0.0)
            M[r * m + i] = -s * self.side[i]
            right[i] = s * self.missing[i]
        # Without free variables one of them stands for the equality: the step's length is searched for.
        M[r * m + r], right[r] = max(self.sums[RELAXED_EEQ], self.stiff * self.largest), self.shortfall
        if not factorised(M, m, unit, factor):
            return False
        memset(self.x, 0, m * sizeof(double))
        for k in range(2):
            for i in range(m):
                left = right[i]
                for j in range(m):
                    left -= (M[i * m + j] if j <= i else M[j * m + i]) * self.x[j]
                y[i] = unit[i] * left
            potrs(b"U", &order, &one, factor, &order, y, &order, &failed)
            for i in range(m):
                self.x[i] += unit[i] * y[i]
        return True


cdef bint factorised(const double *M, Index m, double *unit, double *factor) noexcept nogil:
    """Compute units of 1/√Mᵢᵢ and the factor of M scaled by them; return whether that was possible.

    Its diagonal is raised by as many units of round-off as the factor needs.
    """
    cdef double lift = 8.9e-16
    cdef int order = <int>m, failed = 1
    cdef Index i, j
    for i in range(m):
        unit[i] = 1.0 / sqrt(M[i * m + i])
    while failed:
        if lift > 1.0:
            return False
        for i in range(m):
            for j in range(i):
                factor[i * m + j] = unit[i] * unit[j] * M[i * m + j]
            factor[i * m + i] = 1.0 + lift
        potrf(b"U", &order, factor, &order, &failed)
        lift *= 10.0
    return True
