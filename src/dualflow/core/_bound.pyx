# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The dual bound as a function of the multiplier ν: its maximisers, its value, and its rounding error.

Compiled with strict arithmetic, since upper bounds may be infinite. Two selections find the two breakpoints that
enclose the maximum, so the breakpoints are not sorted.
"""

import numpy as np
from libc.math cimport INFINITY, NAN, fabs, isfinite, isnan, sqrt
from libc.float cimport DBL_EPSILON

#: Rounding error of a sum of n positive terms, as a part of the sum, in units of ε √n.
cdef double SUM_ERROR = 0.008
#: Unit round-off of float32.
cdef double UNIT_FLOAT32 = 2.0**-24
#: Relative error of a float32 kernel value without that of its exponent: of the exponential, and of its weight.
cdef double EXPONENTIAL_ERROR = 1e-6
#: A kernel value below this may be 0 in float32.
cdef double MIN_KERNEL_VALUE = 1e-37
#: Least and largest size of a weight: float32 holds such weights with all its digits, with room for sums of them.
cdef double MIN_WEIGHT = 1e-30
cdef double MAX_WEIGHT = 1e30
#: Largest relative error of a kernel value for which first-order error bounds, times 1.1, are valid.
cdef double MAX_KERNEL_ERROR = 0.05


def capped_sum(const double[::1] u, const double[::1] h, e, double nu):
    """Return Σ min(0, uᵢρᵢ) with ρ = h − νe (ρ = h if e is None) and 0·∞ = 0."""
    cdef Index n = u.shape[0]
    cdef const double[::1] signs = h if e is None else e
    if h.shape[0] != n or signs.shape[0] != n:
        raise ValueError("u, h and e must be of one length")
    return capped_sum_of(n, &u[0], &h[0], NULL if e is None else &signs[0], nu) if n else 0.0


cdef inline double capped_sum_of(Index n, const double *u, const double *h, const double *e, double nu) noexcept nogil:
    """As `capped_sum`, with e NULL for None."""
    cdef double total = 0.0, rho
    cdef Index i
    for i in range(n):
        rho = h[i] if e == NULL else h[i] - nu * e[i]
        if rho < 0:
            total += u[i] * rho
    return total


cdef double best_bound_of(Index n, const double *h, const double *e, const double *u, double d, double fixed, double low,
                          double high) noexcept nogil:
    """Return the largest of ``fixed`` + νd + Σ min(0, uᵢρᵢ) at ν = low, high and their midpoint.

    NaN at one of them is left out, since each of the three is a bound; the result is NaN if all are.
    """
    cdef double best = NAN, found, nu
    cdef int turn
    for turn in range(3):
        nu = low if turn == 0 else (high if turn == 1 else 0.5 * (low + high))
        found = fixed + nu * d + capped_sum_of(n, u, h, e, nu)
        if isnan(best) or found > best:
            best = found
        if low == high:
            break
    return best


def maximisers(const double[::1] h, const double[::1] e, const double[::1] u, double d):
    """Return the interval (low, high) where the concave, piecewise linear D(ν) = νd + Σ min(0, uᵢ(hᵢ − νeᵢ)) is largest.

    D'(ν) = d − Σ eᵢxᵢ(ν), where xᵢ = uᵢ if ρᵢ < 0, else 0. At the breakpoint hᵢ/eᵢ, as ν rises, uᵢ is added to that
    sum for either sign of eᵢ, so the maximum is where the running sum passes d. Both ends are NaN if h holds NaN.
    """
    cdef Index n = h.shape[0]
    if e.shape[0] != n or u.shape[0] != n:
        raise ValueError("h, e and u must be of one length")
    cdef double[::1] work = np.empty(2 * max(n, 1))
    cdef double low = 0.0, high = 0.0
    if n:
        largest_at(n, &h[0], &e[0], &u[0], d, -INFINITY, INFINITY, &work[0], &low, &high)
    else:
        largest_at(0, NULL, NULL, NULL, d, -INFINITY, INFINITY, &work[0], &low, &high)
    return low, high


def best_of(const double[::1] h, const double[::1] e, const double[::1] u, const double[::1] capped, double d,
            double fixed, const double[::1] alpha):
    """Return the ends of `maximisers`, and the best bound at these ends and at their midpoint.

    The bound is ``fixed`` + νd + Σ min(0, uᵢρᵢ), where u is replaced by ``capped``: u reduced to the largest values
    that the constraint admits. At an optimum ``alpha`` its free variables enclose the maximum, which saves most of the
    selection.
    """
    cdef Index n = h.shape[0]
    cdef double low = 0.0, high = 0.0, best
    cdef double[::1] work = np.empty(2 * max(n, 1))
    if not e.shape[0] == u.shape[0] == capped.shape[0] == alpha.shape[0] == n or n == 0:
        raise ValueError("h, e, u, capped and alpha must have one length, and a variable")
    best = best_at(n, &h[0], &e[0], &u[0], &capped[0], d, fixed, &alpha[0], &work[0], &low, &high)
    return low, high, best


cdef double best_at(Index n, const double *h, const double *e, const double *u, const double *capped, double d, double fixed,
                    const double *alpha, double *work, double *low, double *high) noexcept nogil:
    """As `best_of`; ``work`` holds 2n numbers."""
    cdef Index i
    cdef double least = INFINITY, most = -INFINITY
    for i in range(n):
        if 0 < alpha[i] < u[i]:
            least, most = min(least, h[i] / e[i]), max(most, h[i] / e[i])
    if not least <= most:
        least, most = -INFINITY, INFINITY
    largest_at(n, h, e, u, d, least, most, work, low, high)
    return best_bound_of(n, h, e, capped, d, fixed, low[0], high[0])


def appraised(const double[::1] alpha, const double[::1] Qa, double quadratic, const double[::1] p, e,
              const double[::1] u, const double[::1] capped, double d, const double[::1] diag, const double[::1] ridge,
              double growth):
    """Return the best bound, the ends of its multipliers (0 without e), its rounding error, and the size of f's terms.

    This is what `bounds.dual_bound`, `bounds.rounding` and `bounds.vanishing` compute, for finite ``capped`` bounds and
    at most one equality. ``quadratic`` is αᵀQα, and ``diag`` the diagonal of Q.
    """
    cdef Index n = Qa.shape[0], i, most = 0
    cdef const double[::1] signs = Qa if e is None else e
    cdef double lower, low = 0.0, high = 0.0, lacking = 0.0, size = 0.0, mass = 0.0, terms, ridges = 0.0
    if not (alpha.shape[0] == p.shape[0] == u.shape[0] == capped.shape[0] == diag.shape[0] == ridge.shape[0]
            == signs.shape[0] == n > 0):
        raise ValueError("alpha, Qa, p, e, u, capped, diag and ridge must have one length, and a variable")
    cdef double[:, ::1] work = np.empty((5, n))
    for i in range(n):
        work[0, i] = Qa[i] - p[i]
        size += fabs(p[i]) * fabs(alpha[i])
        mass += sqrt(max(diag[i], 0.0)) * fabs(alpha[i])
        ridges += ridge[i]
    if e is None:
        lower = -0.5 * quadratic + capped_sum_of(n, &capped[0], &work[0, 0], NULL, 0.0)
    else:
        lower = best_at(n, &work[0, 0], &signs[0], &u[0], &capped[0], d, -0.5 * quadratic, &alpha[0], &work[1, 0], &low,
                        &high)
        lacking = fabs(shortfall_of(n, &signs[0], &alpha[0], &capped[0], d, &most))
    terms = 0.5 * fabs(quadratic) + size + (fabs(0.5 * (low + high) * d) if d != 0 else 0.0)
    rounding = rounded_of(n, &Qa[0], &p[0], &signs[0], &capped[0], &alpha[0], &diag[0], &ridge[0], 0.5 * (low + high), 0.0,
                          growth, NAN, terms, 0 if e is None else 1, &lacking, &most, &work[0, 0])
    return lower, low, high, rounding, 0.5 * quadratic + size if size > 0 or ridges > 0 else 0.5 * mass * mass


def rounded(const double[::1] Qa, const double[::1] p, e, const double[::1] u, const double[::1] alpha,
            const double[::1] diag, const double[::1] ridge, double nu, double level, double growth, double terms, missing,
            exact_error=None):
    """Return the rounding error of a gap, see `rounding_of` and `bounds.rounding`. Without an equality e is None and ν is 0.

    ``diag`` is that of Q, and ``missing`` lists what each equality lacks and the variable that takes it up.
    """
    cdef Index n = Qa.shape[0], count = len(missing)
    cdef const double[::1] signs = Qa if e is None else e
    if not p.shape[0] == u.shape[0] == alpha.shape[0] == diag.shape[0] == ridge.shape[0] == signs.shape[0] == n:
        raise ValueError("Qa, p, e, u, alpha, diag and ridge must be of one length")
    if n == 0 or count > 2:
        return 0.0
    cdef double lacking[2]
    cdef Index which[2]
    for k, (lacks, m) in enumerate(missing):
        lacking[k], which[k] = lacks, m
    cdef double[:, ::1] work = np.empty((4, n))
    return rounded_of(n, &Qa[0], &p[0], &signs[0], &u[0], &alpha[0], &diag[0], &ridge[0], 0.0 if e is None else nu, level,
                      growth, NAN if exact_error is None else exact_error, terms, count, lacking, which, &work[0, 0])


cdef double rounded_of(Index n, const double *Qa, const double *p, const double *e, const double *u, const double *alpha,
                       const double *diag, const double *ridge, double nu, double level, double growth,
                       double exact_error, double terms, Index count, const double *lacking, const Index *which,
                       double *work) noexcept nogil:
    """As `rounded`; ``exact_error`` is NaN for None, and ``work`` holds 4n numbers."""
    cdef double *h = work
    cdef double *root = work + n
    cdef double *beside = work + 2 * n
    cdef double *length = work + 3 * n
    cdef double room, of_equality = 0.0, shift = 0.0
    cdef Index i, k
    for i in range(n):
        h[i] = (Qa[i] - p[i]) - level
        root[i] = sqrt(max(diag[i] - ridge[i], 0.0))
        beside[i] = fabs(p[i]) + fabs(level) + ridge[i] * fabs(alpha[i])
        length[i] = fabs(alpha[i]) * root[i]
    if not isnan(exact_error):
        room = sum_error_at(n, length)
        growth *= exact_error / (room if room != 0 else 1.0)
    for k in range(count):
        # f changes by h times this, ρₘ by the ridge, and every other ρᵢ by at most `shift` √Qᵢᵢ.
        i = which[k]
        room = max(alpha[i], u[i] - alpha[i]) if isfinite(u[i]) else fabs(alpha[i])
        shift += lacking[k] * root[i]
        of_equality += lacking[k] * (fabs(Qa[i] - p[i]) + ridge[i] * room)
    return of_equality + rounding_of(n, h, e, u, alpha, root, beside, nu, growth, terms, shift)


def violation(const double[::1] alpha, const double[::1] lower, const double[::1] upper):
    """Return the largest violation of a bound, at least 0; NaN if α holds NaN."""
    cdef Index i, n = alpha.shape[0]
    cdef double worst = 0.0
    if not lower.shape[0] == upper.shape[0] == n:
        raise ValueError("alpha, lower and upper must be of one length")
    for i in range(n):
        if isnan(alpha[i]):
            return NAN
        worst = max(worst, max(lower[i] - alpha[i], alpha[i] - upper[i]))
    return worst


def shortfall(const double[::1] e, const double[::1] alpha, const double[::1] u, double d):
    """Return d − eᵀα, exact but for its own rounding, and the variable that takes it up: the one with most room."""
    cdef Index n = e.shape[0], most = 0
    if n == 0 or not alpha.shape[0] == u.shape[0] == n:
        raise ValueError("e, alpha and u must have one length, and a variable")
    missing = shortfall_of(n, &e[0], &alpha[0], &u[0], d, &most)
    return missing, most


cdef double shortfall_of(Index n, const double *e, const double *alpha, const double *u, double d, Index *most) noexcept nogil:
    """As `shortfall`, with the rounding of each partial sum added up (Ogita, Rump and Oishi 2005, algorithm 4.4)."""
    cdef double sum = d, lost = 0.0, term, next, part, widest = -1.0, room
    cdef Index i
    for i in range(n):
        term = -e[i] * alpha[i]
        next = sum + term
        part = next - sum
        lost += (sum - (next - part)) + (term - part)
        sum = next
        room = min(alpha[i], u[i] - alpha[i]) if isfinite(u[i]) else fabs(alpha[i])
        if room > widest:
            widest, most[0] = room, i
    return sum + lost


cdef double rounding_of(Index n, const double *h, const double *e, const double *u, const double *alpha,
                        const double *root, const double *beside, double nu, double growth, double terms, double shift) noexcept nogil:
    """Return an estimate of the rounding error of f(α) − D(ν) = Σ αᵢρᵢ − min(0, uᵢρᵢ), ρ = h − νe.

    By Cauchy and Schwarz the error of (Qα)ᵢ is about δᵢ = ``growth`` · ε √Qᵢᵢ r, where r is the `sum_error` of |αⱼ|√Qⱼⱼ.
    The error of ρᵢ is δᵢ and the rounding of its other terms. A term of the sum has slope αᵢ where ρᵢ > 0 and αᵢ − uᵢ
    where ρᵢ < 0. Errors of terms mostly cancel, so the root of their squares counts.

    ``shift`` is |d − eᵀα| √Qₘₘ for the variable m that takes up what the equality lacks. At the feasible point ρᵢ
    differs by at most ``shift`` · √Qᵢᵢ. One number makes all these differences, so their sum counts.

    ``root`` is √Qᵢᵢ without the ridge, and ``beside`` the size of pᵢ and rᵢαᵢ; NULL stands for 1 in both. ``terms`` is
    the size of the terms of f and D; the rounding error of their sums grows with √n.
    """
    cdef Index i
    cdef double mass = 0.0, sum = 0.0, largest = 0.0, squares = 0.0, total = 0.0, shifted = 0.0
    cdef double error, rho, length, error_bound, room, slope
    for i in range(n):
        length = fabs(alpha[i]) * (root[i] if root != NULL else 1.0)
        mass += fabs(alpha[i])
        sum += length
        add_square(length, &largest, &squares)
    error = sum_error_of(n, sum, largest * sqrt(squares))
    largest = 0.0
    for i in range(n):
        rho = h[i] - nu * e[i] if nu != 0 else h[i]
        length = root[i] if root != NULL else 1.0
        error_bound = DBL_EPSILON * (growth * error * length + (beside[i] if beside != NULL else 1.0) + fabs(nu))
        room = u[i] - alpha[i] if isfinite(u[i]) else alpha[i]
        slope = max(alpha[i], room)
        if fabs(rho) > error_bound + shift * length:
            slope = alpha[i] if rho > 0 else room
        shifted += slope * length
        add_square(slope * error_bound, &largest, &total)
    return (largest * sqrt(total) + shift * shifted
            + DBL_EPSILON * (0.5 * (1.0 + sqrt(<double>n)) * terms + fabs(nu) * mass))


def sum_error(const double[::1] sizes):
    """Return the rounding error of a sum of terms of these sizes, in units of ε.

    It is the root of their squares, for the independent errors of the terms, plus a part of their sum that grows with
    the number of terms, for the errors of partial sums.
    """
    return sum_error_at(sizes.shape[0], &sizes[0]) if sizes.shape[0] else 0.0


cdef double sum_error_at(Index n, const double *sizes) noexcept nogil:
    """As `sum_error`."""
    cdef double sum = 0.0, largest = 0.0, squares = 0.0
    cdef Index i
    for i in range(n):
        sum += sizes[i]
        add_square(sizes[i], &largest, &squares)
    return sum_error_of(n, sum, largest * sqrt(squares))


cdef inline double sum_error_of(Index n, double sum, double norm) noexcept nogil:
    return norm + min(1.0, SUM_ERROR * sqrt(<double>n)) * sum


cdef inline void add_square(double size, double *largest, double *squares) noexcept nogil:
    """Add the square of a size ≥ 0 to ``squares``, in units of the square of the largest size, so none under- or overflows."""
    if size > largest[0]:
        squares[0] = 1.0 + squares[0] * (largest[0] / size) * (largest[0] / size)
        largest[0] = size
    elif size > 0:
        squares[0] += (size / largest[0]) * (size / largest[0])
    elif isnan(size):
        largest[0] = size


def undetermined_signs(const double[::1] sums, const double[::1] error_bound, const double[::1] e, double low, double high,
             double common_p, double ratio):
    """Return whether a sign of ρ = e(sums − ν) − common_p is undetermined, and the variables to recompute.

    ρ is the lesser of its values at ν = ``low`` and ν = ``high``. A sign is undetermined if ρ is at most the error
    bound; variables with ρ at most ``ratio`` times their error bound are to be recomputed. The error bound of
    an exact entry is −∞.
    """
    cdef Index n = sums.shape[0], count = 0
    if not error_bound.shape[0] == e.shape[0] == n:
        raise ValueError("sums, error_bound and e must have one length")
    found = np.empty(n, dtype=np.int64)
    cdef long long[::1] which = found
    cdef bint any_undetermined = n > 0 and undetermined_of(n, &sums[0], &error_bound[0], &e[0], low, high, common_p, ratio, &which[0], &count)
    return any_undetermined, found[:count]


cdef bint undetermined_of(Index n, const double *sums, const double *error_bound, const double *e, double low,
                   double high, double common_p, double ratio, long long *which, Index *count) noexcept nogil:
    cdef Index i
    cdef double rho
    cdef bint any_undetermined = False
    count[0] = 0
    for i in range(n):
        rho = min(e[i] * (sums[i] - low), e[i] * (sums[i] - high)) - common_p
        any_undetermined |= rho <= error_bound[i]
        if rho <= ratio * error_bound[i]:
            which[count[0]] = i
            count[0] += 1
    return any_undetermined


def has_rough_error_bounds(double least, double largest, double reach, Index features):
    """Whether the error bounds of float32 sums hold (`mixed_precision.rough_sums`).

    ``least`` and ``largest`` are the ends of the sizes of the weights; four times ``reach`` is the largest squared
    distance of two points, times γ.
    """
    return bool(has_error_bounds(least, largest, reach, features))


cdef bint has_error_bounds(double least, double largest, double reach, Index features) noexcept nogil:
    """As `has_rough_error_bounds`; False if there is no weight, ``least`` > ``largest``."""
    return (MIN_WEIGHT < least <= largest < MAX_WEIGHT
            and 4.0 * exponent_error(features) * reach <= MAX_KERNEL_ERROR)


cdef inline double exponent_error(Index features) noexcept nogil:
    """Return the error bound of an exponent, relative to the sum of the sizes of its terms."""
    return (features + 8) * UNIT_FLOAT32


def rough_error_bounds(double[:, ::1] found, const double[::1] half, Index features, Index terms, double total):
    """Write the error bounds of float32 sums (`mixed_precision.rough_sums`) over the second column of ``found``.

    Parameters
    ----------
    found : array of shape (n, 3)
        Σ w k, Σ |w| k and Σ |w| k ‖z‖²/2 of each point.
    half : array of shape (n,)
        Half the squared lengths of the points.
    features : int
    terms : int
        Terms that are summed in float32 before a partial sum is added in float64.
    total : float
        Σ |w|.
    """
    if found.shape[0] != half.shape[0] or found.shape[1] != 3:
        raise ValueError("found must be (n, 3), and half (n,)")
    if half.shape[0]:
        error_bounds_of(half.shape[0], features, terms, total, &half[0], &found[0, 0])


cdef void error_bounds_of(Index n, Index features, Index terms, double total, const double *half, double *found) noexcept nogil:
    """As `rough_error_bounds`: with ½(‖a‖ + ‖b‖)² ≤ ‖a‖² + ‖b‖² for each pair; first-order bounds, times 1.1."""
    cdef Index i
    cdef double exponents
    for i in range(n):
        exponents = 2.0 * exponent_error(features) * (half[i] * found[3 * i + 1] + found[3 * i + 2])
        found[3 * i + 1] = (1.1 * (exponents + (EXPONENTIAL_ERROR + terms * UNIT_FLOAT32) * found[3 * i + 1])
                            + MIN_KERNEL_VALUE * total)


cdef void largest_at(Index n, const double *h, const double *e, const double *u, double d, double least, double most,
                     double *work, double *to_low, double *to_high) noexcept nogil:
    """As `maximisers`. A guess that both are between ``least`` and ``most`` saves time; a wrong one is corrected.

    ``work`` holds 2n numbers.
    """
    cdef Index i, live = 0, finite = 0
    cdef double *keys = work
    cdef double *weights = work + n
    cdef double start = 0.0, jumps = 0.0, below = 0.0, inside = 0.0
    cdef double top = INFINITY, bottom = -INFINITY, knot, low, high, tolerance
    for i in range(n):
        if isnan(h[i]):
            to_low[0] = to_high[0] = NAN
            return
        if not u[i] > 0:
            continue
        live += 1
        knot = h[i] / e[i]
        if isfinite(u[i]):
            if e[i] < 0:
                start -= u[i]
            jumps += u[i]
            below += u[i] if knot < least else 0.0
            if least <= knot <= most:
                inside += u[i]
                keys[finite] = knot
                weights[finite] = u[i]
                finite += 1
        elif e[i] > 0:
            # Unbounded variables confine ν: below every such knot with e > 0, above every one with e < 0. D is finite
            # only inside that range.
            top = min(top, knot)
        else:
            bottom = max(bottom, knot)
    if bottom > top:
        to_low[0] = to_high[0] = 0.5 * (bottom + top)
        return
    tolerance = 8 * DBL_EPSILON * (fabs(start) + jumps + fabs(d)) * sqrt(<double>max(live, 1))
    if not (least == -INFINITY and most == INFINITY) and not (
            start + below < d - tolerance and d + tolerance < start + below + inside):
        largest_at(n, h, e, u, d, -INFINITY, INFINITY, work, to_low, to_high)
        return
    start += below
    # The slope is ≤ 0 from `low` on, and < 0 from `high` on.
    low = bottom if start >= d - tolerance else crossing(keys, weights, finite, start, d - tolerance, False, top)
    high = bottom if start > d + tolerance else crossing(keys, weights, finite, start, d + tolerance, True, top)
    # D is flat up to infinity (only a corner is feasible): the finite end stands for both.
    if not isfinite(low):
        low = high
    if not isfinite(high):
        high = low
    to_low[0], to_high[0] = min(max(low, bottom), top), min(max(high, bottom), top)


cdef double crossing(double *keys, double *weights, Index n, double base, double level, bint beyond, double none) noexcept nogil:
    """Return the smallest key at which ``base`` plus the weights of all keys up to it reaches ``level``.

    With ``beyond`` the sum must exceed the level. If no key reaches it, return ``none``. Quickselect in three parts,
    in place; equal keys are taken together.
    """
    cdef Index first = 0, end = n, below, above, i
    cdef double pivot, low_sum, same_sum, best = none
    while first < end:
        pivot = middle(keys[first], keys[(first + end) // 2], keys[end - 1])
        below, above, i, low_sum, same_sum = first, end, first, 0.0, 0.0
        while i < above:
            if keys[i] < pivot:
                low_sum += weights[i]
                swap(keys, weights, i, below)
                below += 1
                i += 1
            elif keys[i] > pivot:
                above -= 1
                swap(keys, weights, i, above)
            else:
                same_sum += weights[i]
                i += 1
        if reaches(base + low_sum, level, beyond) and below > first:
            end = below
        elif reaches(base + low_sum + same_sum, level, beyond):
            return pivot
        else:
            base += low_sum + same_sum
            first = above
            continue
        best = pivot  # a key left reaches the level, unless sums in another order round otherwise; then this is the one
    return best


cdef inline bint reaches(double total, double level, bint beyond) noexcept nogil:
    return total > level if beyond else total >= level


cdef inline double middle(double a, double b, double c) noexcept nogil:
    return max(min(a, b), min(max(a, b), c))


cdef inline void swap(double *keys, double *weights, Index i, Index j) noexcept nogil:
    keys[i], keys[j] = keys[j], keys[i]
    weights[i], weights[j] = weights[j], weights[i]
