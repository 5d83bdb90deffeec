/* Transpose four features of four points into a tile, in which the features are `stride` stride; with vector
 * instructions, which take a third of the time. */
#ifndef DUALFLOW_PACK_H
#define DUALFLOW_PACK_H

#include <string.h>

#include "clones.h"

#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
typedef float four_floats __attribute__((vector_size(16)));
typedef double two_doubles __attribute__((vector_size(16)));

static ALWAYS_INLINE void pack_four_float(Index m, const float *points, Index stride, float *tile)
{
    four_floats a, b, c, d;
    memcpy(&a, points, sizeof a);
    memcpy(&b, points + m, sizeof b);
    memcpy(&c, points + 2 * m, sizeof c);
    memcpy(&d, points + 3 * m, sizeof d);
    const four_floats low = __builtin_shufflevector(a, b, 0, 4, 1, 5), high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const four_floats less = __builtin_shufflevector(c, d, 0, 4, 1, 5), more = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    a = __builtin_shufflevector(low, less, 0, 1, 4, 5);
    b = __builtin_shufflevector(low, less, 2, 3, 6, 7);
    c = __builtin_shufflevector(high, more, 0, 1, 4, 5);
    d = __builtin_shufflevector(high, more, 2, 3, 6, 7);
    memcpy(tile, &a, sizeof a);
    memcpy(tile + stride, &b, sizeof b);
    memcpy(tile + 2 * stride, &c, sizeof c);
    memcpy(tile + 3 * stride, &d, sizeof d);
}

static ALWAYS_INLINE void pack_four_double(Index m, const double *points, Index stride, double *tile)
{
    for (int k = 0; k < 4; k += 2)
        for (int i = 0; i < 4; i += 2) {
            two_doubles a, b, first, second;
            memcpy(&a, points + i * m + k, sizeof a);
            memcpy(&b, points + (i + 1) * m + k, sizeof b);
            first = __builtin_shufflevector(a, b, 0, 2);
            second = __builtin_shufflevector(a, b, 1, 3);
            memcpy(tile + k * stride + i, &first, sizeof first);
            memcpy(tile + (k + 1) * stride + i, &second, sizeof second);
        }
}
#else
#define PACK_FOUR(type)                                                                                   \
    static ALWAYS_INLINE void pack_four_##type(Index m, const type *points, Index stride, type *tile)        \
    {                                                                                                     \
        for (int k = 0; k < 4; k++)                                                                       \
            for (int i = 0; i < 4; i++) tile[k * stride + i] = points[i * m + k];                          \
    }
PACK_FOUR(float)
PACK_FOUR(double)
#undef PACK_FOUR
#endif

#endif
