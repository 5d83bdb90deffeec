/* exp(x) for x ≤ 0 without a branch, so that loops over it vectorise; 0 where the result would be denormal.
 *
 * Cody-Waite reduction x = k ln 2 + r, |r| ≤ ln(2)/2, where adding a large number rounds k; then the Taylor polynomial
 * in r, accurate to the last bit of the type (relative error 2e-7 in float, 4e-16 in double). */
#ifndef DUALFLOW_EXPONENTIAL_H
#define DUALFLOW_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

static ALWAYS_INLINE float exp_float(float x)
{
    int dead = x < -87.0f;
    x = dead ? -87.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f, k = shifted - 12582912.0f;
    float r = x - k * 0.693145752f - k * 1.42860677e-6f;
    float p = 1.0f / 720 * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t bits;
    float power;
    memcpy(&bits, &shifted, 4);
    bits = (int32_t)((uint32_t)bits << 23) + 0x3f800000;
    memcpy(&power, &bits, 4);
    return dead ? 0.0f : p * power;
}

static ALWAYS_INLINE double exp_double(double x)
{
    int64_t dead = x < -708.0;
    x = dead ? -708.0 : x;
    double shifted = x * 1.4426950408889634 + 6755399441055744.0, k = shifted - 6755399441055744.0;
    double r = x - k * 6.93147180369123816490e-01 - k * 1.90821492927058770002e-10;
    /* Estrin's scheme: in Horner's each step would wait for the one before. */
    double r2 = r * r, r4 = r2 * r2;
    double p0 = 1.0 + r, p1 = 1.0 / 2 + r * (1.0 / 6), p2 = 1.0 / 24 + r * (1.0 / 120);
    double p3 = 1.0 / 720 + r * (1.0 / 5040), p4 = 1.0 / 40320 + r * (1.0 / 362880);
    double p5 = 1.0 / 3628800 + r * (1.0 / 39916800), p6 = 1.0 / 479001600;
    double p = (p0 + r2 * p1) + r4 * ((p2 + r2 * p3) + r4 * ((p4 + r2 * p5) + r4 * p6));
    int64_t bits;
    double power;
    memcpy(&bits, &shifted, 8);
    bits = (int64_t)((uint64_t)bits << 52) + 0x3ff0000000000000LL;
    memcpy(&power, &bits, 8);
    return dead ? 0.0 : p * power;
}

#endif
