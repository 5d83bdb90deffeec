/* Products with Q and values of f of children, computed from those of their parents. */
#ifndef DUALFLOW_MATING_H
#define DUALFLOW_MATING_H

#include "clones.h"

/* products[c] += sum over j of (children[c][j] - parents[order[c]][j]) Q[j]. Few genes differ once a population has
 * converged, and a row of Q is read once for all children. */
CLONES static void add_changes(Index k, Index n, const double *parents, const long long *order, const double *children,
                               const double *Q, double *restrict products)
{
    for (Index j = 0; j < n; j++) {
        const double *restrict row = Q + j * n;
        for (Index c = 0; c < k; c++) {
            const double step = children[c * n + j] - parents[order[c] * n + j];
            double *restrict to = products + c * n;
            if (step != 0.0)
                for (Index i = 0; i < n; i++) to[i] += step * row[i];
        }
    }
}

/* The child has the genes of the first parent, or of the second where swapped. */
CLONES static void cross(Index n, const double *restrict first, const double *restrict second,
                         const unsigned char *restrict swapped, double *restrict child)
{
    for (Index i = 0; i < n; i++) child[i] = swapped[i] ? second[i] : first[i];
}

/* The sum of alpha (product / 2 - p). */
CLONES static double value_of(Index n, const double *restrict alpha, const double *restrict product,
                              const double *restrict p)
{
    double part[8] = {0, 0, 0, 0, 0, 0, 0, 0}, sum = 0.0;
    Index i = 0;
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++) part[lane] += alpha[i + lane] * (0.5 * product[i + lane] - p[i + lane]);
    for (; i < n; i++) sum += alpha[i] * (0.5 * product[i] - p[i]);
    for (int lane = 0; lane < 8; lane++) sum += part[lane];
    return sum;
}

#endif
