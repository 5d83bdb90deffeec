/* The radial kernel of points whose coordinates are all 0 or 1: ‖x − z‖² is the number of coordinates that differ, so
 * kernel values come from a table. Included twice, as radial.h; points are rows of `words` words of 64 bits. */

#ifndef DUALFLOW_HAMMING_H
#define DUALFLOW_HAMMING_H

/* Number of bits that are set. */
static ALWAYS_INLINE Index count_bits(unsigned long long x)
{
#if defined(__GNUC__)
    return __builtin_popcountll(x);
#else
    x -= (x >> 1) & 0x5555555555555555ULL;
    x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
    return (Index)((((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL) * 0x0101010101010101ULL) >> 56);
#endif
}

/* Number of bits in which two points differ. */
static ALWAYS_INLINE Index hamming_distance(Index words, const unsigned long long *a, const unsigned long long *b)
{
    Index count = 0;
    for (Index w = 0; w < words; w++) count += count_bits(a[w] ^ b[w]);
    return count;
}

#endif

#define NAME2(base, type) base##_##type
#define NAME1(base, type) NAME2(base, type)
#define NAME(base) NAME1(base, REAL)

/* row[c] = table[number of bits in which a and b_c differ]; separate loops for one and two words, the usual cases. */
CLONES static void NAME(hamming_row)(Index n, Index words, const unsigned long long *a, const unsigned long long *b,
                                     const REAL *restrict table, REAL *restrict row)
{
    if (words == 1)
        for (Index c = 0; c < n; c++) row[c] = table[hamming_distance(1, a, b + c)];
    else if (words == 2)
        for (Index c = 0; c < n; c++) row[c] = table[hamming_distance(2, a, b + 2 * c)];
    else
        for (Index c = 0; c < n; c++) row[c] = table[hamming_distance(words, a, b + words * c)];
}

/* sums[k] += Σ_c row[c] weights[c, k], in double. */
CLONES static void NAME(weigh)(Index n, Index r, const REAL *restrict row, const REAL *restrict weights,
                               double *restrict sums)
{
    Index c = 0;
    if (r == 1) { /* eight partial sums: with one, each addition would wait for the last */
        double parts[8] = {0};
        for (; c + 8 <= n; c += 8)
            for (int k = 0; k < 8; k++) parts[k] += (double)row[c + k] * (double)weights[c + k];
        for (int k = 0; k < 8; k++) sums[0] += parts[k];
    }
    for (; c < n; c++)
        for (Index k = 0; k < r; k++) sums[k] += (double)row[c] * (double)weights[c * r + k];
}

#undef NAME
#undef NAME1
#undef NAME2
