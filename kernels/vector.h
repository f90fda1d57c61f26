// Vectors of f32 as wide as the target's registers, by GCC and clang vector extensions: one source for AVX-512, AVX2,
// NEON and WebAssembly. Loads and stores take any address that is a multiple of 4. A loop over n elements runs
//
//   for (size i = 0; i < n; i += LANES) store_some(y + i, f(load_some(x + i, n - i)), n - i);
//
// so that the last, partial vector goes through the same arithmetic as the others: an element's bits depend on its
// operands alone, never on where it lies.
#pragma once
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES (VECTOR_BYTES / 4)

typedef ptrdiff_t size;
typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef double dvec __attribute__((vector_size(VECTOR_BYTES)));
typedef float vec4 __attribute__((vector_size(16)));

// The same at any address of a float.
typedef float vec_at __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef float half_at __attribute__((vector_size(VECTOR_BYTES / 2), aligned(4), may_alias));
typedef float vec4_at __attribute__((vector_size(16), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline, unused))

INLINE vec load(const float *p) { return *(const vec_at *)p; }
INLINE void store(float *p, vec x) { *(vec_at *)p = x; }
INLINE vec4 load4(const float *p) { return *(const vec4_at *)p; }
INLINE void store4(float *p, vec4 x) { *(vec4_at *)p = x; }
INLINE vec splat(float x) { return x - (vec){}; }
INLINE dvec splat_wide(double x) { return x - (dvec){}; }

// LANES / 2 floats as doubles: sums that must not lose small terms run in these.
INLINE dvec load_wide(const float *p) { return __builtin_convertvector(*(const half_at *)p, dvec); }

INLINE vec load_some(const float *p, size left) {
  if (left >= LANES) return load(p);
  vec x = {};
  for (size i = 0; i < left; i++) x[i] = p[i];
  return x;
}

INLINE void store_some(float *p, vec x, size left) {
  if (left >= LANES) {
    store(p, x);
    return;
  }
  for (size i = 0; i < left; i++) p[i] = x[i];
}

INLINE vec select_lanes(ivec mask, vec yes, vec no) { return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }
INLINE vec greater(vec a, vec b) { return select_lanes(a > b, a, b); }
INLINE vec lesser(vec a, vec b) { return select_lanes(a < b, a, b); }
INLINE vec magnitude(vec x) { return (vec)((ivec)x & 0x7fffffff); }

// a * b + c, in one rounding where the target has it.
INLINE vec fma_lanes(vec a, vec b, vec c) {
#ifdef __wasm_relaxed_simd__
  return __builtin_wasm_relaxed_madd_f32x4(a, b, c);
#else
  return a * b + c;
#endif
}

// Lanes are combined by halves, always in this order.
INLINE float sum_lanes(vec x) {
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) x[i] += x[i + half];
  return x[0];
}

INLINE double sum_wide(dvec x) {
  for (int half = LANES / 4; half > 0; half /= 2)
    for (int i = 0; i < half; i++) x[i] += x[i + half];
  return x[0];
}

INLINE float max_lanes(vec x) {
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      if (x[i + half] > x[i]) x[i] = x[i + half];
  return x[0];
}

INLINE size min_size(size a, size b) { return a < b ? a : b; }
INLINE size max_size(size a, size b) { return a > b ? a : b; }
INLINE size round_up(size n, size to) { return (n + to - 1) / to * to; }
