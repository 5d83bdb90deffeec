/* Checks and measures of points: finite entries, squared lengths, scaling, symmetry of a matrix. */
#ifndef DUALFLOW_POINTS_H
#define DUALFLOW_POINTS_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "clones.h"

/* Whether all numbers are finite: the exponent bits of others are all ones. */
CLONES static int are_finite(Index n, const double *x)
{
    const uint64_t exponent = 0x7ff0000000000000ull;
    for (Index start = 0; start < n; start += 4096) {
        Index stop = n - start < 4096 ? n : start + 4096;
        uint64_t found = 0;
        for (Index k = start; k < stop; k++) {
            uint64_t bits;
            memcpy(&bits, x + k, sizeof bits);
            found |= (bits & exponent) == exponent;
        }
        if (found) return 0;
    }
    return 1;
}

/* to = scale (row - center), computed in double and rounded when stored. */
CLONES static void scale_row_float(Index m, const double *restrict row, const double *restrict center, double scale,
                                   float *restrict to)
{
    for (Index k = 0; k < m; k++) to[k] = (float)(scale * (row[k] - center[k]));
}

CLONES static void scale_row_double(Index m, const double *restrict row, const double *restrict center, double scale,
                                    double *restrict to)
{
    for (Index k = 0; k < m; k++) to[k] = scale * (row[k] - center[k]);
}

/* The squared length of row - center, as eight partial sums, which fill one vector. */
CLONES static double square_row(Index m, const double *restrict row, const double *restrict center)
{
    double sums[8] = {0, 0, 0, 0, 0, 0, 0, 0}, off;
    Index k = 0;
    for (; k + 8 <= m; k += 8)
        for (int j = 0; j < 8; j++) {
            off = row[k + j] - center[k + j];
            sums[j] += off * off;
        }
    for (; k < m; k++) {
        off = row[k] - center[k];
        sums[k & 7] += off * off;
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* A 64-bit hash of every step-th number of a row (that of SplitMix64 over their bits); -0 counts as 0. */
CLONES static unsigned long long hash_of(Index m, const double *restrict row, Index step)
{
    uint64_t found = 0;
    for (Index k = 0; k < m; k += step) {
        double value = row[k] + 0.0;
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        found ^= bits;
        found ^= found >> 30;
        found *= 0xBF58476D1CE4E5B9ull;
        found ^= found >> 27;
        found *= 0x94D049BB133111EBull;
        found ^= found >> 31;
    }
    return found;
}

/* Return the sum of words, each times a number of its place, modulo 2^64. Low bits of many floats are 0; those of the
   sum would be, too, without the shift. */
CLONES static unsigned long long fold_of(Index n, const uint64_t *restrict words, const uint64_t *restrict places)
{
    uint64_t sum = 0;
    for (Index k = 0; k < n; k++)
        sum += (words[k] ^ (words[k] >> 32)) * places[k];
    return sum;
}

/* Rows and columns of a tile that is compared with its transpose: 8 KB. */
#define TILE 32

/* Lanes of a largest value, which fill one vector. */
#define LANES 8

/* Return the largest |K[i, j] - K[j, i]| of a square matrix, or -1 if that is not finite, and write (K + K')/2 to mean
 * unless that is NULL. A tile is transposed before it is compared: if the stride is a power of 2, the rows of K share few
 * lines of the cache. */
CLONES static double compare_transpose(Index n, const double *restrict K, double *restrict mean)
{
    double tile[TILE][TILE], both[TILE][TILE], most[LANES] = {0}, largest = 0;
    int wrong = 0;
    for (Index top = 0; top < n; top += TILE)
        for (Index left = top; left < n; left += TILE) {
            Index height = n - top < TILE ? n - top : TILE, width = n - left < TILE ? n - left : TILE;
            for (Index j = 0; j < width; j++)
                for (Index i = 0; i < height; i++) tile[i][j] = K[(left + j) * n + top + i];
            for (Index i = 0; i < height; i++) {
                const double *row = K + (top + i) * n + left;
                Index j = 0;
                for (; j + LANES <= width; j += LANES)
                    for (int k = 0; k < LANES; k++) {
                        double off = fabs(row[j + k] - tile[i][j + k]);
                        most[k] = off > most[k] ? off : most[k];
                        wrong |= !(off <= DBL_MAX);
                    }
                for (; j < width; j++) {
                    double off = fabs(row[j] - tile[i][j]);
                    most[0] = off > most[0] ? off : most[0];
                    wrong |= !(off <= DBL_MAX);
                }
            }
            if (mean == NULL) continue;
            for (Index i = 0; i < height; i++) {
                const double *row = K + (top + i) * n + left;
                for (Index j = 0; j < width; j++) /* a sum of equal entries may overflow */
                    both[i][j] = row[j] == tile[i][j] ? row[j] : 0.5 * (row[j] + tile[i][j]);
                memcpy(mean + (top + i) * n + left, both[i], width * sizeof(double));
            }
            for (Index j = 0; j < width; j++)
                for (Index i = 0; i < height; i++) mean[(left + j) * n + top + i] = both[i][j];
        }
    for (int k = 0; k < LANES; k++) largest = most[k] > largest ? most[k] : largest;
    return wrong ? -1.0 : largest;
}

#endif
