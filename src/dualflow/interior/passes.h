/* The operations on single variables in each pass of an interior-point iteration, over a stretch of variables.
 *
 * A variable has a value a, its room u − a, and the multipliers low and high of its two bounds. If u is infinite there is
 * no room and no multiplier high; if u is 0 the variable is fixed at 0. */
#ifndef DUALFLOW_PASSES_H
#define DUALFLOW_PASSES_H

#include <math.h>

#include "clones.h"

/* The variables' state and data, each (n,); e is NULL without an equality. */
typedef struct {
    const double *alpha, *room, *low, *high;
    const double *upper, *ridge, *p, *sigma, *e;
} Variables;

/* Sums of `weigh`, in this order: q, e q rho, e a, a low + room high, p a, ridge a a, |residual| a, e q, q rho, a, the
 * contribution of finite upper bounds to the dual bound, and the largest |residual|. */
enum {
    SUM_Q, SUM_EQR, SUM_EA, SUM_PRODUCTS, SUM_PA, SUM_RAA, SUM_RESIDUAL, SUM_EQ, SUM_QR, SUM_A, SUM_BOUND, MAX_RESIDUAL,
    SUMS
};

/* Compute q = 1/(low/a + high/room + ridge) and the predictor's right side
 * rho = p + nu e + level − (scale sigma values + ridge a); add each variable to the sums of its point (by_q, by_qe,
 * by_qr, by_a, by_qs). */
CLONES static void weigh(Index m, Index at, const Variables *v, const double *values, double nu, double level,
                         double scale, double *q, double *rho, double *by_q, double *by_qe, double *by_qr, double *by_a,
                         double *by_qs, double *sums)
{
    for (Index i = 0; i < m; i++) {
        const Index k = at + i;
        const double u = v->upper[k], e = v->e ? v->e[k] : 0.0, sigma = v->sigma[k];
        const int live = u > 0, capped = live && u < INFINITY;
        const double a = live ? v->alpha[k] : 1.0, room = capped ? v->room[k] : 1.0;
        const double low = live ? v->low[k] : 0.0, high = capped ? v->high[k] : 0.0;
        const double slope = scale * sigma * values[i] + v->ridge[k] * v->alpha[k] - v->p[k] - nu * e - level;
        const double weight = live ? 1.0 / (low / a + high / room + v->ridge[k]) : 0.0;
        const double drive = live ? -slope : 0.0, residual = live ? fabs(low - high - slope) : 0.0;
        q[k] = weight;
        rho[k] = drive;
        by_q[i] += weight;
        by_qe[i] += sigma * e * weight;
        by_qr[i] += sigma * weight * drive;
        by_a[i] += sigma * v->alpha[k];
        by_qs[i] += sigma * weight;
        sums[SUM_Q] += weight;
        sums[SUM_EQR] += e * weight * drive;
        sums[SUM_EA] += e * v->alpha[k];
        sums[SUM_PRODUCTS] += (live ? a * low : 0.0) + (capped ? room * high : 0.0);
        sums[SUM_PA] += v->p[k] * v->alpha[k];
        sums[SUM_RAA] += v->ridge[k] * v->alpha[k] * v->alpha[k];
        sums[SUM_RESIDUAL] += residual * v->alpha[k];
        sums[SUM_EQ] += e * weight;
        sums[SUM_QR] += weight * drive;
        sums[SUM_A] += v->alpha[k];
        sums[SUM_BOUND] += capped && slope < 0 ? u * slope : 0.0;
        sums[MAX_RESIDUAL] = residual > sums[MAX_RESIDUAL] ? residual : sums[MAX_RESIDUAL];
    }
}

/* Sums of `predict`, in this order: e q fixed, e q free, the first- and second-order change of the products
 * a low + room high, q fixed, q free, and the largest inverse of a step length that ends at a bound. */
enum { SUM_FIXED, SUM_FREE, SUM_FIRST, SUM_SECOND, SUM_QFIXED, SUM_QFREE, MOST_INVERSE, AHEAD };

/* Compute the predictor's change of each variable from the change of the values; add q times the corrector's right side,
 * fixed + mu free, to the sums of its point. */
CLONES static void predict(Index m, Index at, const Variables *v, const double *change, double d_nu, double d_level,
                           double scale, const double *q, const double *rho, double *ahead, double *by_fixed, double *by_free,
                           double *sums)
{
    for (Index i = 0; i < m; i++) {
        const Index k = at + i;
        const double u = v->upper[k], e = v->e ? v->e[k] : 0.0, sigma = v->sigma[k];
        const int live = u > 0, capped = live && u < INFINITY;
        const double a = live ? v->alpha[k] : 1.0, low = live ? v->low[k] : 0.0;
        const double room = capped ? v->room[k] : 1.0, high = capped ? v->high[k] : 0.0;
        const double by_value = 1.0 / a, by_room = capped ? 1.0 / room : 0.0;
        const double da = q[k] * (rho[k] + d_nu * e + d_level - scale * sigma * change[i]);
        const double dl = -low - low * da * by_value, dh = -high + high * da * by_room;
        const double fixed = rho[k] - da * dl * by_value - da * dh * by_room;
        const double free_ = live ? by_value - by_room : 0.0;
        const double lower = -da * by_value, upper = da * by_room;
        const double least_low = live ? 1.0 + da * by_value : 0.0, least_high = capped ? 1.0 - da * by_room : 0.0;
        double most = lower > upper ? lower : upper;
        most = least_low > most ? least_low : most;
        most = least_high > most ? least_high : most;
        ahead[k] = da;
        by_fixed[i] += sigma * q[k] * fixed;
        by_free[i] += sigma * q[k] * free_;
        sums[SUM_FIXED] += e * q[k] * fixed;
        sums[SUM_FREE] += e * q[k] * free_;
        sums[SUM_QFIXED] += q[k] * fixed;
        sums[SUM_QFREE] += q[k] * free_;
        sums[SUM_FIRST] += a * dl + da * low + room * dh - da * high;
        sums[SUM_SECOND] += da * dl - da * dh;
        sums[MOST_INVERSE] = most > sums[MOST_INVERSE] ? most : sums[MOST_INVERSE];
    }
}

/* Compute the corrector's change of each variable and of its multipliers; return the largest inverse of a step length
 * that ends at a bound. ``da`` has the predictor's change before, and the corrector's after. */
CLONES static double correct(Index m, Index at, const Variables *v, const double *change, double d_nu, double d_level,
                             double scale, double mu, const double *q, const double *rho, double *da, double *dl, double *dh)
{
    double most = 0.0;
    for (Index i = 0; i < m; i++) {
        const Index k = at + i;
        const double u = v->upper[k], e = v->e ? v->e[k] : 0.0;
        const int live = u > 0, capped = live && u < INFINITY;
        const double a = live ? v->alpha[k] : 1.0, low = live ? v->low[k] : 1.0;
        const double room = capped ? v->room[k] : 1.0, high = capped ? v->high[k] : 1.0;
        const double by_value = 1.0 / a, by_room = capped ? 1.0 / room : 0.0;
        const double before = da[k];
        const double second_low = before * (-low - low * before * by_value);
        const double second_high = before * (-high + high * before * by_room);
        const double goal_low = mu - second_low, goal_high = mu + second_high;
        const double right = rho[k] + goal_low * by_value - goal_high * by_room;
        const double step = live ? q[k] * (right + d_nu * e + d_level - scale * v->sigma[k] * change[i]) : 0.0;
        const double d_low = (goal_low - low * step) * by_value - low, d_high = (goal_high + high * step) * by_room - high;
        const double lower = -step * by_value, upper = step * by_room;
        const double least_low = live ? -d_low / low : 0.0, least_high = capped ? -d_high / high : 0.0;
        double worst = lower > upper ? lower : upper;
        worst = least_low > worst ? least_low : worst;
        worst = least_high > worst ? least_high : worst;
        da[k] = step;
        dl[k] = live ? d_low : 0.0;
        dh[k] = capped ? d_high : 0.0;
        most = worst > most ? worst : most;
    }
    return most;
}

/* Compute the variables after a step of the given length; none reaches a bound. */
CLONES static void advance(Index m, Index at, const Variables *v, const double *da, const double *dl, const double *dh,
                           double length, double *alpha, double *room, double *low, double *high)
{
    for (Index k = at; k < at + m; k++) {
        const int live = v->upper[k] > 0, capped = live && v->upper[k] < INFINITY;
        const double a = v->alpha[k] + length * da[k], r = v->room[k] - length * da[k];
        const double l = v->low[k] + length * dl[k], h = v->high[k] + length * dh[k];
        alpha[k] = live ? (a > 1e-300 ? a : 1e-300) : 0.0;
        room[k] = capped ? (r > 1e-300 ? r : 1e-300) : v->room[k];
        low[k] = live ? (l > 1e-300 ? l : 1e-300) : 0.0;
        high[k] = capped ? (h > 1e-300 ? h : 1e-300) : 0.0;
    }
}

/* Sums of `relax`, in this order: e a, p a, the gap's part of each variable, e e q, u of free variables, and their number. */
enum { RELAXED_EA, RELAXED_PA, RELAXED_LEFT, RELAXED_EEQ, RELAXED_U, RELAXED_FREE, RELAXED };

/* Compute the slopes, the minimisers a of slope a + stiff⁻¹/(2u) (a − center)² between the bounds, and q = stiff u of
 * those inside them; add each variable to the sums of its point (by_q, by_qe, by_a). */
CLONES static void relax(Index m, Index at, const Variables *v, const double *center, const double *values, double nu,
                         double scale, double stiff, double *slopes, double *alpha, double *by_q, double *by_qe,
                         double *by_a, double *sums)
{
    /* Sums in registers: in an array they would be stored and loaded for each variable, as the arrays may overlap. */
    double ea = sums[RELAXED_EA], pa = sums[RELAXED_PA], left = sums[RELAXED_LEFT], eeq = sums[RELAXED_EEQ];
    double upper = sums[RELAXED_U], count = sums[RELAXED_FREE];
    for (Index i = 0; i < m; i++) {
        const Index k = at + i;
        const double u = v->upper[k], e = v->e[k], sigma = v->sigma[k], p = v->p[k];
        const double slope = scale * sigma * values[i] - p - nu * e, goal = center[k] - stiff * u * slope;
        const double a = goal > 0 ? (goal < u ? goal : u) : 0.0, inside = goal > 0 && goal < u ? u : 0.0;
        const double q = stiff * inside, above = slope > 0 ? 0.0 : u;
        slopes[k] = slope;
        alpha[k] = a;
        by_q[i] += q;
        by_qe[i] += sigma * e * q;
        by_a[i] += sigma * a;
        ea += e * a;
        pa += p * a;
        left += slope * (a - above);
        eeq += e * e * q;
        upper += inside;
        count += inside > 0;
    }
    sums[RELAXED_EA] = ea;
    sums[RELAXED_PA] = pa;
    sums[RELAXED_LEFT] = left;
    sums[RELAXED_EEQ] = eeq;
    sums[RELAXED_U] = upper;
    sums[RELAXED_FREE] = count;
}

/* Compute the change of the slopes. */
CLONES static void turn(Index m, Index at, const Variables *v, const double *change, double d_nu, double scale,
                        double *turned)
{
    for (Index i = 0; i < m; i++)
        turned[at + i] = scale * v->sigma[at + i] * change[i] - d_nu * v->e[at + i];
}

/* Return the sum of the minimisers times the change of the slopes after a step of the given length. */
CLONES static double along(Index n, const double *upper, const double *center, const double *slopes, const double *turned,
                           double stiff, double length)
{
    double sum = 0.0;
    for (Index k = 0; k < n; k++) {
        const double u = upper[k], goal = center[k] - stiff * u * (slopes[k] + length * turned[k]);
        sum += (goal > 0 ? (goal < u ? goal : u) : 0.0) * turned[k];
    }
    return sum;
}

#endif
