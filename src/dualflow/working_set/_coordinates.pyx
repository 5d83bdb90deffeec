# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One variable after another over sparse points, the weights w = Σσαx kept up to date (Hsieh et al. 2008).

Each takes the best value it can have while the others stay: a product of its row with w says its gradient, and w moves
by its row. Variables at a bound whose gradient points farther out than any did in the round before are set aside.
"""

import numpy as np
from libc.math cimport fabs, INFINITY

ctypedef Py_ssize_t Index
ctypedef fused Place:
    int
    long long


cdef class Round:
    """Where a round over the variables is.

    Attributes
    ----------
    order : int array of shape (n,)
        The variables; those of the round come first.
    at, active : int
        The next one to look at, and how many are in the round.
    w : array of shape (m,)
    total, nu : float
        Σσα, and the multiplier of eᵀα = d less ρ(eᵀα − d).
    low, high : float
        The least and the largest gradient, of those that may move there, of the round before.
    least, most : float
        The same of this round.
    """

    cdef public Index at, active, updates
    cdef public double total, nu, low, high, least, most
    cdef double[::1] alpha, w
    cdef Index[::1] order
    cdef unsigned long long seed

    def __init__(self, double[::1] alpha, double[::1] w, double total, double nu, unsigned long long seed):
        self.alpha, self.w, self.total, self.nu = alpha, w, total, nu
        self.order = np.arange(alpha.shape[0], dtype=np.intp)
        self.active, self.at, self.updates = alpha.shape[0], alpha.shape[0], 0
        self.least, self.most = -INFINITY, INFINITY
        self.seed = 2 * seed + 88172645463325252

    def begin(self):
        """Begin another round over the variables that are left, in another order."""
        cdef Index k, other, i
        cdef unsigned long long s = self.seed
        self.low = self.least if self.least < 0 else -INFINITY
        self.high = self.most if self.most > 0 else INFINITY
        self.least, self.most, self.at = INFINITY, -INFINITY, 0
        for k in range(self.active - 1):
            s ^= s << 13
            s ^= s >> 7
            s ^= s << 17
            other = k + <Index>((s >> 11) % <unsigned long long>(self.active - k))
            i = self.order[k]
            self.order[k] = self.order[other]
            self.order[other] = i
        self.seed = s

    @property
    def violation(self):
        """How far the gradients of a round that is over were from one another."""
        return max(self.most, 0.0) - min(self.least, 0.0) if self.most >= self.least else 0.0

    def go_on(self, const double[::1] data, const Place[::1] indices, const Place[::1] indptr, const Index[::1] points,
              const double[::1] p, const double[::1] upper, const double[::1] ridge, const double[::1] sigma,
              const double[::1] e, const double[::1] curvature, double scale, double offset, double rho, Index most):
        """Go on with the round for about ``most`` multiplications; returns whether it is over."""
        cdef Index k = self.at, active = self.active, i, done = 0, moves = 0
        cdef Place j, start, stop
        cdef double f, slope, free, before, after, change, total = self.total, nu = self.nu
        cdef double least = self.least, largest = self.most, low = self.low, high = self.high
        cdef double *w = &self.w[0]
        cdef double *alpha = &self.alpha[0]
        cdef Index *order = &self.order[0]
        with nogil:
            while k < active and done < most:
                i = order[k]
                start, stop = indptr[points[i]], indptr[points[i] + 1]
                done += stop - start + 4
                f = offset * total
                for j in range(start, stop):
                    f += data[j] * w[indices[j]]
                before = alpha[i]
                slope = scale * sigma[i] * f + ridge[i] * before - p[i] - nu * e[i]
                free = slope
                if before <= 0 and slope >= 0:
                    free = 0
                    if slope > high:
                        active -= 1
                        order[k], order[active] = order[active], i
                        continue
                elif before >= upper[i] and slope <= 0:
                    free = 0
                    if slope < low:
                        active -= 1
                        order[k], order[active] = order[active], i
                        continue
                least, largest = min(least, free), max(largest, free)
                k += 1
                if free == 0:
                    continue
                after = min(max(before - slope / curvature[i], 0.0), upper[i])
                change = after - before
                if change == 0:
                    continue
                alpha[i] = after
                nu -= rho * e[i] * change
                change *= sigma[i]
                total += change
                for j in range(start, stop):
                    w[indices[j]] += change * data[j]
                moves += 1
        self.at, self.active, self.total, self.nu = k, active, total, nu
        self.least, self.most = least, largest
        self.updates += moves
        return k >= active
