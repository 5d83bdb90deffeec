/* The pair loop of pairs.h in single and in double precision, for the compiled files of this folder. */
#include "clones.h"
#include "exponential.h"
#define BIG 1e30 /* stands for infinity in the loop */
#define TINY 1e-12 /* least curvature of an update */
#define MIN_M_TWO_ROWS 16 /* coordinates from which rows are made two at a time */
#define TEST_WIDTH 32 /* entries that a search compares together */
#define GRADIENT_ULPS 8 /* error of a gradient of order 1, in units of the last place */
#define MIN_UPDATES_PER_NEWTON 20 /* pair updates between two Newton steps, at least */
/* A Newton step over f free variables takes as long as f³ / NEWTON_SPEED / n pair updates of n variables, and longer
 * where its factor leaves the cache, beyond MAX_FREE_IN_CACHE free variables. */
#define NEWTON_SPEED 200
#define MAX_FREE_IN_CACHE 640.0
#define STABLE_UPDATES_PER_FREE 2 /* updates per free variable without a change of the free set, before a Newton step */
/* A Newton step ends when it has met this many bounds, and a third as many as it has variables. Each costs four solves by
 * the factor; pair updates find the others in less time. */
#define MAX_NEWTON_BOUNDS 8
#define MAX_NEWTON_REPEATS 10 /* times a Newton step is repeated, at most */
#define RIDGE_SINGLE 1e-5 /* added to the diagonal of a Newton step's matrix, as a part of its largest entry */
#define RIDGE_DOUBLE 1e-12
#include "newton_step.h"
#define REAL float
#include "radial.h"
#include "pairs.h"
#undef REAL
#define REAL double
#include "radial.h"
#include "pairs.h"
#undef REAL
