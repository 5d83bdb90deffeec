/* CLONES before a function compiles it for several x86-64 levels; the loader picks the widest vectors of the machine.
 *
 * The levels are named by architecture, not by model: processors of other makers do not match "arch=skylake-avx512",
 * and "avx2" does not include fused multiply-add. */
#ifndef DUALFLOW_CLONES_H
#define DUALFLOW_CLONES_H

#include <stddef.h>
#include <stdlib.h> /* __GLIBC__; and Visual C++ writes "restrict" in it, which is defined below */

typedef ptrdiff_t Index; /* long has 32 bits on Windows */

/* Not with musl, whose loader does not choose between clones. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CLONES
#endif

#if defined(_MSC_VER)
#define restrict __restrict
#define ALWAYS_INLINE __forceinline
#define CACHE_LINE __declspec(align(64))
#else
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define CACHE_LINE __attribute__((aligned(64)))
#endif

#endif
