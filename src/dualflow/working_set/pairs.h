/* The pair loop of the working-set solver: everything in it that must vectorise.
 *
 * Included twice by loop.h, for REAL = float and REAL = double. Variables are β = eα, so that Σβ = d, with
 * G = Mβ − ep, M = diag(e) Q diag(e); β rises where G is small and falls where it is large. Bounds are kept in G's
 * own units: `stop_up` is 0 where β can rise and BIG where it cannot, `stop_down` likewise, so that every search
 * is a plain minimum or maximum over a sum, without a branch.
 *
 * Compiled with -ffinite-math-only -fno-signed-zeros (min and max then vectorise), never with -ffast-math: loading
 * a library linked with that turns 1e-310 into 0 in the whole process. Hence no infinity may enter here.
 *
 * Where Q is ill-conditioned pairs crawl: tens of updates for each variable that is free, most of them undone by the
 * next. So every now and then the free variables leap, see leap.h. Pairs still say who is free. What a leap costs grows
 * with the number of free variables, and so does the number of updates until the next: (f/5)⁴/n, by trial. With many
 * of them that is never, with few it is a small part of the time, and saves most of it if C is large.
 *
 * Rows of M are either all there, or made when they are first asked for (radial kernels of few features): most
 * points of a problem never move, and a row costs about as much as an update with it.
 */
#define NAME2(base, type) base##_##type
#define NAME1(base, type) NAME2(base, type)
#define NAME(base) NAME1(base, REAL)
#define ROW(i) \
    (rows + stride * (slots[i] >= 0 ? slots[i] : NAME(fetch)(n, stride, i, G, stop_up, absent, from, rows, slots, used)))

/* G += t (Mi − Mj) (t = 0 with Mj = Mi: nothing), and the least G among those that can rise. */
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

/* Promised decrease of f for each partner of i (second-order rule), the best of them and the worst violation. */
CLONES static REAL NAME(promise)(int n, const REAL *restrict G, REAL least, const REAL *restrict Mi,
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

/* The same without an equality: each variable alone. */
CLONES static REAL NAME(promise_alone)(int n, const REAL *restrict G, const REAL *restrict diag,
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

/* First k with a[k] + b[k] = value; the sum is formed as it was when value was found. So many are looked at together as
 * fill some vectors, and no fewer but at the end: their number is the compiler's to know. */
CLONES static int NAME(find_sum)(int n, const REAL *restrict a, const REAL *restrict b, REAL value)
{
    Index k = 0;
    for (; k + LOOKED_AT <= n; k += LOOKED_AT) {
        int hit = 0;
        for (int j = 0; j < LOOKED_AT; j++) hit |= a[k + j] + b[k + j] == value;
        if (hit) break;
    }
    for (; k < n; k++)
        if (a[k] + b[k] == value) return (int)k;
    return 0;
}

CLONES static int NAME(find)(int n, const REAL *restrict a, REAL value)
{
    Index k = 0;
    for (; k + LOOKED_AT <= n; k += LOOKED_AT) {
        int hit = 0;
        for (int j = 0; j < LOOKED_AT; j++) hit |= a[k + j] == value;
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

static void NAME(mark)(int k, const double *beta, const double *low, const double *high, REAL *stop_up, REAL *stop_down)
{
    stop_up[k] = beta[k] < high[k] ? 0 : (REAL)BIG;
    stop_down[k] = beta[k] > low[k] ? 0 : (REAL)BIG;
}

#include "rows.h"
#include "part.h"

/* How many are free, and how far their gradients are from being all equal (from 0, without the equality). */
static int NAME(free_ones)(int n, const REAL *G, const double *beta, const double *low, const double *high,
                           int equality, REAL *away)
{
    int f = 0;
    REAL least = equality ? (REAL)BIG : 0, most = equality ? -(REAL)BIG : 0;
    for (int k = 0; k < n; k++)
        if (beta[k] > low[k] && beta[k] < high[k]) {
            f++;
            least = G[k] < least ? G[k] : least;
            most = G[k] > most ? G[k] : most;
        }
    *away = most - least;
    return f;
}

/* The free variables go to the minimum over them, or stop at their bounds, all at once. */
static void NAME(leap_of)(int free_ones, int n, Index stride, REAL *rows, long long *slots, Index *used,
                          const NAME(source) *from, REAL *G, double *beta, const double *low, const double *high,
                          int equality, double enough, REAL *stop_up, REAL *stop_down, REAL *absent,
                          NAME(memory) memory)
{
    const Index f = free_ones, w = (f + 7) & ~(Index)7;
    const Index bytes = (f + 14 + PANEL) * w * sizeof(double) + 2 * f * sizeof(int);
    const int lent = memory.size * (Index)sizeof(REAL) >= bytes; /* nobody else is at work there now */
    double *room = lent ? (double *)memory.spare : malloc(bytes);
    if (!room) return; /* pairs get there too */
    double *A = room + (10 + PANEL) * w, *x = A + f * w, *g = x + w, *l = g + w, *u = l + w;
    int *member = (int *)(u + w), count = 0;
    for (int k = 0; k < n; k++)
        if (beta[k] > low[k] && beta[k] < high[k]) member[count++] = k;
    for (Index a = 0; a < f; a++) {
        const int i = member[a];
        const REAL *row = ROW(i);
        for (Index b = 0; b < f; b++) A[a * w + b] = row[member[b]];
        for (Index b = f; b < w; b++) A[a * w + b] = 0;
        x[a] = beta[i];
        g[a] = G[i];
        l[a] = low[i];
        u[a] = high[i];
    }
    const double ridge = sizeof(REAL) == sizeof(float) ? RIDGE_SINGLE : RIDGE_DOUBLE;
    leap(f, w, A, ridge, enough, equality, l, u, x, g, room, member + f);
    for (Index a = 0; a < f; a++) {
        const int i = member[a];
        const REAL t = (REAL)(x[a] - beta[i]);
        if (x[a] == beta[i]) continue;
        beta[i] = x[a];
        NAME(mark)(i, beta, low, high, stop_up, stop_down);
        NAME(add)(n, G, t, ROW(i));
    }
    if (!lent) free(room);
}

/* After which update f free variables leap, if they are those that are free now: long after the last time, or as soon
 * as they have been the same for as many updates as there are of them, and what a leap costs has been spent on pairs. */
static Index NAME(next_leap)(int f, int n, Index last, Index changed, Index limit)
{
    const double fifth = 0.2 * f, cost = fifth * fifth * fifth * fifth / n, far = f / LEAP_CACHED;
    const double price = (double)f * f * f / LEAP_SPEED / n * (1 + far * far);
    const Index wait = cost < PAIRS_A_LEAP ? PAIRS_A_LEAP : cost < (double)limit ? (Index)cost : limit;
    const Index settled = f * SETTLE > PAIRS_A_LEAP ? (Index)(f * SETTLE) : PAIRS_A_LEAP;
    const Index spent = last + (price > settled ? price < (double)limit ? (Index)price : limit : settled);
    const Index early = changed + settled > spent ? changed + settled : spent;
    return last + wait < early ? last + wait : early;
}

/* Up to `limit` updates of β and G in place, while no more than `room` rows are used; returns how many. Row i of M is at
 * rows[slots[i]], `stride` apart; where slots[i] < 0 it is made from `from` and put at the next of `used` places. `work`
 * holds 4n; `memory` is for parts, see part.h, and leaps. Where it is `settled` who is free, they leap at once. */
static Index NAME(pairs)(int n, Index stride, REAL *rows, long long *slots, Index *used, const NAME(source) *from, REAL *G,
                        const REAL *diag, double *beta, const double *low, const double *high, int equality,
                        double tolerance, Index limit, Index room, REAL *work, double *violation, NAME(memory) memory,
                        int settled)
{
    REAL *stop_up = work, *stop_down = work + n, *gain = work + 2 * (Index)n, *absent = work + 3 * (Index)n;
    for (int k = 0; k < n; k++) NAME(mark)(k, beta, low, high, stop_up, stop_down);
    if (from->m) NAME(fetch_free)(n, stride, beta, low, high, from, rows, slots, used);
    for (int k = 0; k < n; k++) absent[k] = slots[k] < 0 ? 0 : (REAL)BIG;
    const REAL *Mi = stop_up, *Mj = stop_up; /* any finite numbers: nothing is pending, and rows may be empty yet */
    REAL pending = 0, worst = 0;
    const double noise = NOISE * (sizeof(REAL) == sizeof(float) ? FLT_EPSILON : DBL_EPSILON);
    const double enough = 0.25 * tolerance > noise ? 0.25 * tolerance : noise;
    Index done = 0, last = 0, changed = 0, look = settled ? 0 : PAIRS_A_LEAP, leave = n / PART_EVERY;
    const int may_leave = memory.leaves && from->m && n >= PART_FROM;
    for (; done < limit && *used <= room; done++) {
        if (may_leave && done >= leave) {
            NAME(advance)(n, G, Mi, Mj, pending, stop_up);
            pending = 0;
            const Index moved = NAME(part)(n, stride, rows, slots, used, from, G, diag, beta, low, high, equality, tolerance,
                                           limit - done, room, memory);
            done += moved;
            leave = done + n / PART_EVERY;
            if (moved) {
                for (int k = 0; k < n; k++) NAME(mark)(k, beta, low, high, stop_up, stop_down);
                for (int k = 0; k < n; k++) absent[k] = slots[k] < 0 ? 0 : (REAL)BIG;
                last = changed = done;
                look = done + PAIRS_A_LEAP;
                if (done >= limit || *used > room) break;
            }
        }
        if (done >= look) {
            NAME(advance)(n, G, Mi, Mj, pending, stop_up);
            pending = 0;
            REAL away;
            const int f = NAME(free_ones)(n, G, beta, low, high, equality, &away);
            look = done ? NAME(next_leap)(f, memory.all ? memory.all : n, last, changed, limit) : 0;
            if (done >= look) {
                if (away > enough)
                    NAME(leap_of)(f, n, stride, rows, slots, used, from, G, beta, low, high, equality, enough, stop_up,
                                  stop_down, absent, memory);
                last = changed = done;
                look = done + PAIRS_A_LEAP;
            }
        }
        REAL least = NAME(advance)(n, G, Mi, Mj, pending, stop_up);
        pending = 0;
        if (equality) {
            if (least >= (REAL)BIG / 2) { worst = 0; break; }
            int i = NAME(find_sum)(n, G, stop_up, least);
            Mi = ROW(i);
            REAL best = NAME(promise)(n, G, G[i], Mi, diag, diag[i], stop_down, gain, &worst);
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
            REAL best = NAME(promise_alone)(n, G, diag, stop_up, stop_down, gain, &worst);
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
