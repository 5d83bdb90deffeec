/* The pair loop of the working-set solver (SMO with second-order selection), in vectorised loops.
 *
 * Included twice by loop.h, for REAL = float and REAL = double. Variables are β = eα, so that Σβ = d, with
 * G = Mβ − ep, M = diag(e) Q diag(e); β rises where G is small and falls where it is large. Bounds are kept in G's
 * own units: `stop_up` is 0 where β can rise and BIG where it cannot, `stop_down` likewise, so that every search
 * is a plain minimum or maximum over a sum, without a branch.
 *
 * Compiled with -ffinite-math-only -fno-signed-zeros (min and max then vectorise), never with -ffast-math: loading
 * a library linked with that turns 1e-310 into 0 in the whole process. Hence no infinity may enter here.
 *
 * Where Q is ill-conditioned, pair updates converge slowly: each free variable needs tens of updates, and the next one
 * undoes most of each. Therefore all free variables take a projected Newton step at intervals (newton_step.h), while
 * pair updates decide which variables are free. The cost of a Newton step grows with the number f of free variables, and so does the number
 * of updates until the next one: (0.12 f)⁴/n, found by trial. With many free variables there is none; with few it takes a
 * small part of the time, and saves most of it if C is large.
 *
 * Rows of M are given, or made on demand (radial kernels of few features): most variables of a problem never move, and
 * a row costs about as much as an update with it.
 */
#define NAME2(base, type) base##_##type
#define NAME1(base, type) NAME2(base, type)
#define NAME(base) NAME1(base, REAL)
#define ROW(i) \
    (rows + stride * (slots[i] >= 0 ? slots[i] : NAME(fetch)(n, stride, i, G, stop_up, absent, from, rows, slots, used)))

/* G += t (Mi − Mj), which is nothing if t = 0 or Mi = Mj; returns the least G of the variables that can rise. */
CLONES static REAL NAME(advance)(int n, REAL *restrict G, const REAL *restrict Mi, const REAL *restrict Mj, REAL t,
                                 const REAL *restrict stop_up)
{
    REAL least = (REAL)BIG;
    for (int k = 0; k < n; k++) {
        REAL g = G[k] + t * (Mi[k] - Mj[k]);
        G[k] = g;
        g += stop_up[k];
        least = g < least ? g : least;
    }
    return least;
}

/* Compute the decrease of f for each partner of i (second-order rule); return the largest, and the KKT violation in
 * `worst`. */
CLONES static REAL NAME(partner_gains)(int n, const REAL *restrict G, REAL least, const REAL *restrict Mi,
                                 const REAL *restrict diag, REAL diag_i, const REAL *restrict stop_down,
                                 REAL *restrict gain, REAL *restrict worst)
{
    REAL best = 0, violation = -(REAL)BIG;
    for (int k = 0; k < n; k++) {
        REAL excess = G[k] - least - stop_down[k];
        REAL curvature = diag_i + diag[k] - 2 * Mi[k];
        violation = excess > violation ? excess : violation;
        excess = excess > 0 ? excess : 0;
        curvature = curvature > (REAL)TINY ? curvature : (REAL)TINY;
        REAL g = excess * excess / curvature;
        gain[k] = g;
        best = g > best ? g : best;
    }
    *worst = violation;
    return best;
}

/* The same for a problem without equality: the decrease for each variable alone. */
CLONES static REAL NAME(single_gains)(int n, const REAL *restrict G, const REAL *restrict diag,
                                       const REAL *restrict stop_up, const REAL *restrict stop_down,
                                       REAL *restrict gain, REAL *restrict worst)
{
    REAL best = 0, violation = 0;
    for (int k = 0; k < n; k++) {
        REAL rise = -G[k] - stop_up[k], fall = G[k] - stop_down[k];
        REAL excess = rise > fall ? rise : fall;
        REAL curvature = diag[k] > (REAL)TINY ? diag[k] : (REAL)TINY;
        excess = excess > 0 ? excess : 0;
        violation = excess > violation ? excess : violation;
        REAL g = excess * excess / curvature;
        gain[k] = g;
        best = g > best ? g : best;
    }
    *worst = violation;
    return best;
}

/* Return the first k with a[k] + b[k] = value; the sum is formed as it was when value was found. Entries are compared in
 * groups of TEST_WIDTH: a fixed number, so that the compiler vectorises the loop. */
CLONES static int NAME(find_sum)(int n, const REAL *restrict a, const REAL *restrict b, REAL value)
{
    Index k = 0;
    for (; k + TEST_WIDTH <= n; k += TEST_WIDTH) {
        int hit = 0;
        for (int j = 0; j < TEST_WIDTH; j++) hit |= a[k + j] + b[k + j] == value;
        if (hit) break;
    }
    for (; k < n; k++)
        if (a[k] + b[k] == value) return (int)k;
    return 0;
}

/* Return the first k with a[k] = value. */
CLONES static int NAME(find)(int n, const REAL *restrict a, REAL value)
{
    Index k = 0;
    for (; k + TEST_WIDTH <= n; k += TEST_WIDTH) {
        int hit = 0;
        for (int j = 0; j < TEST_WIDTH; j++) hit |= a[k + j] == value;
        if (hit) break;
    }
    for (; k < n; k++)
        if (a[k] == value) return (int)k;
    return 0;
}

CLONES static void NAME(add)(int n, REAL *restrict G, REAL t, const REAL *restrict row)
{
    for (int k = 0; k < n; k++) G[k] += t * row[k];
}

/* Set the stops of variable k for its bounds. */
static void NAME(mark)(int k, const double *beta, const double *low, const double *high, REAL *stop_up, REAL *stop_down)
{
    stop_up[k] = beta[k] < high[k] ? 0 : (REAL)BIG;
    stop_down[k] = beta[k] > low[k] ? 0 : (REAL)BIG;
}

#include "rows.h"
#include "part.h"

/* Return the number of free variables; `spread` receives the spread of their gradients (with 0, without the equality). */
static int NAME(free_spread)(int n, const REAL *G, const double *beta, const double *low, const double *high,
                           int equality, REAL *spread)
{
    int f = 0;
    REAL least = equality ? (REAL)BIG : 0, most = equality ? -(REAL)BIG : 0;
    for (int k = 0; k < n; k++)
        if (beta[k] > low[k] && beta[k] < high[k]) {
            f++;
            least = G[k] < least ? G[k] : least;
            most = G[k] > most ? G[k] : most;
        }
    *spread = most - least;
    return f;
}

/* Move the free variables to the minimum over them, or to the bounds that they meet on the way. */
static void NAME(newton_over_free)(int n_free, int n, Index stride, REAL *rows, long long *slots, Index *used,
                          const NAME(source) *from, REAL *G, double *beta, const double *low, const double *high,
                          int equality, double newton_tol, REAL *stop_up, REAL *stop_down, REAL *absent,
                          NAME(memory) memory)
{
    const Index f = n_free, w = (f + 7) & ~(Index)7;
    const Index bytes = (f + 14 + PANEL) * w * sizeof(double) + 2 * f * sizeof(int);
    const int is_borrowed = memory.size * (Index)sizeof(REAL) >= bytes; /* the spare memory is not in use now */
    double *space = is_borrowed ? (double *)memory.spare : malloc(bytes);
    if (!space) return; /* pair updates reach the minimum too */
    double *A = space + (10 + PANEL) * w, *x = A + f * w, *g = x + w, *l = g + w, *u = l + w;
    int *index = (int *)(u + w), count = 0;
    for (int k = 0; k < n; k++)
        if (beta[k] > low[k] && beta[k] < high[k]) index[count++] = k;
    for (Index a = 0; a < f; a++) {
        const int i = index[a];
        const REAL *row = ROW(i);
        for (Index b = 0; b < f; b++) A[a * w + b] = row[index[b]];
        for (Index b = f; b < w; b++) A[a * w + b] = 0;
        x[a] = beta[i];
        g[a] = G[i];
        l[a] = low[i];
        u[a] = high[i];
    }
    const double ridge = sizeof(REAL) == sizeof(float) ? RIDGE_SINGLE : RIDGE_DOUBLE;
    newton_step(f, w, A, ridge, newton_tol, equality, l, u, x, g, space, index + f);
    for (Index a = 0; a < f; a++) {
        const int i = index[a];
        const REAL t = (REAL)(x[a] - beta[i]);
        if (x[a] == beta[i]) continue;
        beta[i] = x[a];
        NAME(mark)(i, beta, low, high, stop_up, stop_down);
        NAME(add)(n, G, t, ROW(i));
    }
    if (!is_borrowed) free(space);
}

/* Return the update after which f free variables take a Newton step: long after the last one, or when the free variables
 * have stayed the same for a number of updates that grows with f and the updates since the last step cost as much as a
 * step. */
static Index NAME(next_newton)(int f, int n, Index last, Index changed, Index limit)
{
    const double part = 0.12 * f, cost = part * part * part * part / n, far = f / MAX_FREE_IN_CACHE;
    const double price = (double)f * f * f / NEWTON_SPEED / n * (1 + far * far);
    const Index least = MIN_UPDATES_PER_NEWTON, most_stable = f * STABLE_UPDATES_PER_FREE;
    const Index wait = cost < least ? least : cost < (double)limit ? (Index)cost : limit;
    const Index stable = most_stable > least ? most_stable : least;
    const Index spent = last + (price > stable ? price < (double)limit ? (Index)price : limit : stable);
    const Index early = changed + stable > spent ? changed + stable : spent;
    return last + wait < early ? last + wait : early;
}

/* Make up to `limit` updates of β and G in place, while at most `max_rows` rows are used; return their number. Row i of M
 * is at rows + stride slots[i]; where slots[i] < 0 it is made from `from` and put at the next of `used` places. `work`
 * holds 4n numbers; `memory` is for Newton steps and for shrinking, see part.h. With `starts_newton` the free variables
 * take a Newton step before the first update. */
static Index NAME(pairs)(int n, Index stride, REAL *rows, long long *slots, Index *used, const NAME(source) *from, REAL *G,
                        const REAL *diag, double *beta, const double *low, const double *high, int equality,
                        double tolerance, Index limit, Index max_rows, REAL *work, double *violation, NAME(memory) memory,
                        int starts_newton)
{
    REAL *stop_up = work, *stop_down = work + n, *gain = work + 2 * (Index)n, *absent = work + 3 * (Index)n;
    for (int k = 0; k < n; k++) NAME(mark)(k, beta, low, high, stop_up, stop_down);
    if (from->m) NAME(fetch_free)(n, stride, beta, low, high, from, rows, slots, used);
    for (int k = 0; k < n; k++) absent[k] = slots[k] < 0 ? 0 : (REAL)BIG;
    const REAL *Mi = stop_up, *Mj = stop_up; /* any finite numbers: no update is pending, and there may be no rows yet */
    REAL pending = 0, worst = 0;
    const double noise = GRADIENT_ULPS * (sizeof(REAL) == sizeof(float) ? FLT_EPSILON : DBL_EPSILON);
    const double newton_tol = 0.25 * tolerance > noise ? 0.25 * tolerance : noise;
    Index done = 0, last = 0, changed = 0, newton_at = starts_newton ? 0 : MIN_UPDATES_PER_NEWTON;
    Index shrink_at = n / N_PER_SHRINK;
    const int may_shrink = memory.shrinks && from->m && n >= MIN_N_SHRINKING;
    for (; done < limit && *used <= max_rows; done++) {
        if (may_shrink && done >= shrink_at) {
            NAME(advance)(n, G, Mi, Mj, pending, stop_up);
            pending = 0;
            const Index moved = NAME(solve_active)(n, stride, rows, slots, used, from, G, diag, beta, low, high, equality,
                                                   tolerance, limit - done, max_rows, memory);
            done += moved;
            shrink_at = done + n / N_PER_SHRINK;
            if (moved) {
                for (int k = 0; k < n; k++) NAME(mark)(k, beta, low, high, stop_up, stop_down);
                for (int k = 0; k < n; k++) absent[k] = slots[k] < 0 ? 0 : (REAL)BIG;
                last = changed = done;
                newton_at = done + MIN_UPDATES_PER_NEWTON;
                if (done >= limit || *used > max_rows) break;
            }
        }
        if (done >= newton_at) {
            NAME(advance)(n, G, Mi, Mj, pending, stop_up);
            pending = 0;
            REAL spread;
            const int f = NAME(free_spread)(n, G, beta, low, high, equality, &spread);
            newton_at = done ? NAME(next_newton)(f, memory.all ? memory.all : n, last, changed, limit) : 0;
            if (done >= newton_at) {
                if (spread > newton_tol)
                    NAME(newton_over_free)(f, n, stride, rows, slots, used, from, G, beta, low, high, equality, newton_tol,
                                           stop_up, stop_down, absent, memory);
                last = changed = done;
                newton_at = done + MIN_UPDATES_PER_NEWTON;
            }
        }
        REAL least = NAME(advance)(n, G, Mi, Mj, pending, stop_up);
        pending = 0;
        if (equality) {
            if (least >= (REAL)BIG / 2) { worst = 0; break; }
            int i = NAME(find_sum)(n, G, stop_up, least);
            Mi = ROW(i);
            REAL best = NAME(partner_gains)(n, G, G[i], Mi, diag, diag[i], stop_down, gain, &worst);
            if (worst <= tolerance || best <= 0) break;
            int j = NAME(find)(n, gain, best);
            Mj = ROW(j);
            double curvature = (double)diag[i] + diag[j] - 2.0 * Mi[j];
            double t = ((double)G[j] - G[i]) / (curvature > TINY ? curvature : TINY);
            /* A bound that stops the move is met exactly, not to round-off. */
            double room_i = high[i] - beta[i], room_j = beta[j] - low[j];
            int full_i = room_i <= t && room_i <= room_j, full_j = room_j <= t && room_j <= room_i;
            if (full_i || full_j || beta[i] <= low[i] || beta[j] >= high[j]) changed = done;
            t = full_i ? room_i : full_j ? room_j : t;
            beta[i] = full_i ? high[i] : beta[i] + t;
            beta[j] = full_j ? low[j] : beta[j] - t;
            NAME(mark)(i, beta, low, high, stop_up, stop_down);
            NAME(mark)(j, beta, low, high, stop_up, stop_down);
            pending = (REAL)t;
        } else {
            REAL best = NAME(single_gains)(n, G, diag, stop_up, stop_down, gain, &worst);
            if (worst <= tolerance || best <= 0) break;
            int j = NAME(find)(n, gain, best);
            double before = beta[j], after = before - G[j] / (diag[j] > TINY ? diag[j] : TINY);
            after = after < low[j] ? low[j] : after > high[j] ? high[j] : after;
            beta[j] = after;
            if (before <= low[j] || before >= high[j] || after <= low[j] || after >= high[j]) changed = done;
            NAME(mark)(j, beta, low, high, stop_up, stop_down);
            REAL t = (REAL)(after - before);
            NAME(add)(n, G, t, ROW(j));
        }
    }
    *violation = worst;
    return done;
}

#undef ROW
#undef NAME
#undef NAME1
#undef NAME2
