/* What both compiled files of this folder include: the pair loop of pairs.h in single and in double precision. */
#include "clones.h"
#include "exponential.h"
#define BIG 1e30
#define TINY 1e-12
#define COMPANY 16
#define LOOKED_AT 32
#define NOISE 8 /* what a gradient of order 1 may be wrong by, in units of the last place */
#define PAIRS_A_LEAP 20 /* at least */
/* A leap of f variables takes f³ over this and n pair updates of n, and more where its factor leaves the cache. */
#define LEAP_SPEED 25
#define LEAP_CACHED 640.0
#define SETTLE 2 /* updates without a change of who is free, for each that is free */
#define AGAIN 10 /* times a step is repeated, at most */
#define RIDGE_SINGLE 1e-5
#define RIDGE_DOUBLE 1e-12
#include "leap.h"
#define REAL float
#include "radial.h"
#include "pairs.h"
#undef REAL
#define REAL double
#include "radial.h"
#include "pairs.h"
#undef REAL
