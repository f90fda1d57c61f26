// Vectors of f32 as wide as the target's registers, by GCC and clang vector extensions: one source for AVX-512, AVX2,
// NEON and WebAssembly. Loads and stores take any address that is a multiple of 4. A loop over n elements runs
//
//   EACH_VECTOR(i, left, n, { store_some(y + i, f(load_some(x + i, left)), left); })
//
// so that the last, partial vector goes through the same arithmetic as the others: an element's bits depend on its
// operands alone, never on where it lies.
#pragma once
#include <stddef.h>
#include <stdint.h>
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>  // a tenth of the above, which takes longer to read than most of our files
#endif

#if defined(VECTOR_BYTES)  // a variant of matmul may want narrower ones
#elif defined(__AVX512F__)
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
typedef int32_t ivec_at __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef double dvec_at __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
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

// The partial vector at the end; apart, because it is long code that is seldom run.
static __attribute__((noinline, unused)) vec load_part(const float *p, size left) {
  float part[LANES] = {};
  for (size i = 0; i < left; i++) part[i] = p[i];
  return load(part);
}

static __attribute__((noinline, unused)) void store_part(float *p, vec x, size left) {
  float part[LANES];
  store(part, x);
  for (size i = 0; i < left; i++) p[i] = part[i];
}

INLINE vec load_some(const float *p, size left) { return left >= LANES ? load(p) : load_part(p, left); }

INLINE void store_some(float *p, vec x, size left) {
  if (left >= LANES)
    store(p, x);
  else
    store_part(p, x, left);
}

// `left` is LANES but for the last, partial vector, which is written apart: the others need not ask.
#define EACH_VECTOR(i, left, n, ...)               \
  do {                                            \
    size i = 0;                                   \
    for (; i + LANES <= (n); i += LANES) {        \
      const size left = LANES;                    \
      __VA_ARGS__                                 \
    }                                             \
    if (i < (n)) {                                \
      const size left = (n) - i;                  \
      __VA_ARGS__                                 \
    }                                             \
  } while (0)

INLINE vec select_lanes(ivec mask, vec yes, vec no) { return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }
// The second where they cannot be compared.
#ifdef __wasm__
INLINE vec greater(vec a, vec b) { return __builtin_wasm_pmax_f32x4(b, a); }
INLINE vec lesser(vec a, vec b) { return __builtin_wasm_pmin_f32x4(b, a); }
#elif defined(__x86_64__)  // one instruction, of which GCC makes three
#if LANES == 16
#define X64(name) _mm512_##name
#elif LANES == 8
#define X64(name) _mm256_##name
#else
#define X64(name) _mm_##name
#endif
INLINE vec greater(vec a, vec b) { return X64(max_ps)(a, b); }
INLINE vec lesser(vec a, vec b) { return X64(min_ps)(a, b); }
#undef X64
#else
INLINE vec greater(vec a, vec b) { return select_lanes(a > b, a, b); }
INLINE vec lesser(vec a, vec b) { return select_lanes(a < b, a, b); }
#endif
INLINE vec magnitude(vec x) { return (vec)((ivec)x & 0x7fffffff); }

// a * b + c, in one rounding where the target has it.
INLINE vec fma_lanes(vec a, vec b, vec c) {
#ifdef __wasm_relaxed_simd__
  return __builtin_wasm_relaxed_madd_f32x4(a, b, c);
#else
  return a * b + c;
#endif
}

// Lanes are combined by halves, always in this order: eight into four, (0 2) and (1 3), the two.
#define LOWER_HALF_16(x) __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
#define UPPER_HALF_16(x) __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)
#define LOWER_HALF_8(x) __builtin_shufflevector(x, x, 0, 1, 2, 3)
#define UPPER_HALF_8(x) __builtin_shufflevector(x, x, 4, 5, 6, 7)

INLINE float sum_lanes(vec x) {
#if LANES == 16
  const float __attribute__((vector_size(32))) eight = LOWER_HALF_16(x) + UPPER_HALF_16(x);
  const vec4 four = LOWER_HALF_8(eight) + UPPER_HALF_8(eight);
#elif LANES == 8
  const vec4 four = LOWER_HALF_8(x) + UPPER_HALF_8(x);
#else
  const vec4 four = x;
#endif
  return (four[0] + four[2]) + (four[1] + four[3]);
}

INLINE double sum_wide(dvec x) {
#if LANES == 16
  const double __attribute__((vector_size(32))) four = LOWER_HALF_8(x) + UPPER_HALF_8(x);
  return (four[0] + four[2]) + (four[1] + four[3]);
#elif LANES == 8
  return (x[0] + x[2]) + (x[1] + x[3]);
#else
  return x[0] + x[1];
#endif
}

INLINE vec4 greater4(vec4 a, vec4 b) {
  typedef int32_t mask __attribute__((vector_size(16)));
  return (vec4)(((a > b) & (mask)a) | (~(a > b) & (mask)b));
}

INLINE float max_lanes(vec x) {
#if LANES == 16
  const float __attribute__((vector_size(32))) low = LOWER_HALF_16(x), high = UPPER_HALF_16(x);
  const vec4 four = greater4(greater4(LOWER_HALF_8(low), UPPER_HALF_8(low)), greater4(LOWER_HALF_8(high), UPPER_HALF_8(high)));
#elif LANES == 8
  const vec4 four = greater4(LOWER_HALF_8(x), UPPER_HALF_8(x));
#else
  const vec4 four = x;
#endif
  const float even = four[0] > four[2] ? four[0] : four[2], odd = four[1] > four[3] ? four[1] : four[3];
  return even > odd ? even : odd;
}

INLINE size min_size(size a, size b) { return a < b ? a : b; }
INLINE size max_size(size a, size b) { return a > b ? a : b; }
INLINE size round_up(size n, size to) { return (n + to - 1) / to * to; }
