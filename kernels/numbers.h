// Numbers as they lie in memory. Kernels compute in f32; where an operand is stored in 16 bits, a run of it is widened into
// room of the kernel's own, and a result is rounded once, to nearest even, when it is stored: a NaN stays one. A word that names a
// tensor says what its numbers are in, so that each operand may be in something else:
//
//   const float *x = wide(tensor, first, n, space);  // where it lies, if it is f32; else a copy in space
//   float *y = room(result, first, space);           // where to write n numbers
//   put(result, first, n, y);                        // rounds what was written elsewhere
#pragma once
#include "kernels.h"

struct numbers {
  char *at;
  int dtype;
};

// The fraction of such a word is the code of the dtype, in eighths.
INLINE int dtype_of(double word) { return (int)((word - (double)(int64_t)word) * 8); }
INLINE struct numbers numbers_of(const struct context *c, double word) {
  return (struct numbers){address(c, word), dtype_of(word)};
}
INLINE int is_narrow(int dtype) { return dtype != DTYPE_F32; }
INLINE size width_of(int dtype) { return is_narrow(dtype) ? 2 : 4; }
INLINE struct numbers from_number(struct numbers x, size first) {
  return (struct numbers){x.at + first * width_of(x.dtype), x.dtype};
}

INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
INLINE float of_bits(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

INLINE float from_bf16(uint16_t x) { return of_bits((uint32_t)x << 16); }
// Every NaN becomes the one of all ones, which vectors make in one instruction.
INLINE uint16_t to_bf16(float x) {
  const uint32_t bits = bits_of(x);
  return (uint16_t)(x != x ? 0xffff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// An f16 with its exponent where that of an f32 is, is too small by 2^112; infinity and NaN have the largest exponent.
INLINE float from_f16(uint16_t x) {
  const uint32_t bits = (uint32_t)(x & 0x7fff) << 13, sign = (uint32_t)(x & 0x8000) << 16;
  const uint32_t finite = bits_of(of_bits(bits) * 0x1p112f);
  return of_bits((bits >= 0x0f800000 ? bits | 0x7f800000 : finite) | sign);
}
// Below 2^-14 there are units of 2^-24, which are the last bits of a number from 1/2 to 1.
INLINE uint16_t to_f16(float x) {
  const uint32_t all = bits_of(x), bits = all & 0x7fffffff;
  const uint32_t small = bits_of(of_bits(bits) + 0.5f) - 0x3f000000;
  const uint32_t normal = ((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112 << 10);
  const uint32_t large = bits > 0x7f800000 ? 0x7e00 : 0x7c00;
  return (uint16_t)((bits >= 0x477ff000 ? large : bits < 0x38800000 ? small : normal) | (all >> 16 & 0x8000));
}

INLINE float number_at(struct numbers x, size index) {
  const char *at = x.at + index * width_of(x.dtype);
  return x.dtype == DTYPE_BF16  ? from_bf16(*(const uint16_t *)at)
         : x.dtype == DTYPE_F16 ? from_f16(*(const uint16_t *)at)
                                : *(const float *)at;
}

// A vector of them.
typedef uint32_t bits_vec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t shorts_vec __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint16_t shorts_at __attribute__((vector_size(VECTOR_BYTES / 2), aligned(2), may_alias));

INLINE bits_vec load_shorts(const uint16_t *p) { return __builtin_convertvector(*(const shorts_at *)p, bits_vec); }
INLINE void store_shorts(uint16_t *p, bits_vec x) { *(shorts_at *)p = __builtin_convertvector(x, shorts_vec); }
INLINE bits_vec choose(ivec mask, bits_vec yes, bits_vec no) { return ((bits_vec)mask & yes) | (~(bits_vec)mask & no); }

INLINE vec load_bf16(const uint16_t *p) { return (vec)(load_shorts(p) << 16); }
// Rounded, in the upper half of each; what is below is not to be looked at.
#if LANES == 16
INLINE bits_vec rounded_bf16(vec x) {
  const __m512i bits = (__m512i)x, half = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  const __mmask16 is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_add_epi32(half, is_odd, half, _mm512_set1_epi32(1));
  return (bits_vec)_mm512_mask_set1_epi32(rounded, is_nan, -1);
}
INLINE void store_bf16(uint16_t *p, vec x) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)(rounded_bf16(x) >> 16)));
}
#else
INLINE bits_vec rounded_bf16(vec x) {
  const bits_vec bits = (bits_vec)x;
  return (bits + 0x7fff + (bits >> 16 & 1)) | (bits_vec)(x != x);
}
INLINE void store_bf16(uint16_t *p, vec x) { store_shorts(p, rounded_bf16(x) >> 16); }
#endif

#if defined(__F16C__) && LANES == 16
INLINE vec load_f16(const uint16_t *p) { return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
INLINE void store_f16(uint16_t *p, vec x) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x, 0)); }
#elif defined(__F16C__) && LANES == 8
INLINE vec load_f16(const uint16_t *p) { return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
INLINE void store_f16(uint16_t *p, vec x) { _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)x, 0)); }
#else  // as from_f16 and to_f16
INLINE vec load_f16(const uint16_t *p) {
  const bits_vec x = load_shorts(p), bits = (x & 0x7fff) << 13, sign = (x & 0x8000) << 16;
  const bits_vec finite = (bits_vec)((vec)bits * 0x1p112f);
  return (vec)(choose((ivec)bits >= 0x0f800000, bits | 0x7f800000, finite) | sign);
}
INLINE void store_f16(uint16_t *p, vec x) {
  const bits_vec all = (bits_vec)x, bits = all & 0x7fffffff;
  const bits_vec small = (bits_vec)((vec)bits + 0.5f) - 0x3f000000;
  const bits_vec normal = ((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112 << 10);
  const bits_vec large = choose((ivec)bits > 0x7f800000, (bits_vec){} + 0x7e00, (bits_vec){} + 0x7c00);
  const bits_vec finite = choose((ivec)bits < 0x38800000, small, normal);
  store_shorts(p, choose((ivec)bits >= 0x477ff000, large, finite) | (all >> 16 & 0x8000));
}
#endif

INLINE vec load_numbers(struct numbers x, size first) {
  const char *at = x.at + first * width_of(x.dtype);
  return x.dtype == DTYPE_BF16  ? load_bf16((const uint16_t *)at)
         : x.dtype == DTYPE_F16 ? load_f16((const uint16_t *)at)
                                : load((const float *)at);
}

// Kernels of vectors may be compiled once for every dtype: load_as and store_as are what load_some and store_some are in f32.
#define EACH_DTYPE(dtype, kernel, ...)                                                    \
  ((dtype) == DTYPE_BF16  ? kernel(DTYPE_BF16, __VA_ARGS__)                               \
   : (dtype) == DTYPE_F16 ? kernel(DTYPE_F16, __VA_ARGS__)                                \
                          : kernel(DTYPE_F32, __VA_ARGS__))

static __attribute__((noinline, unused)) vec load_shorts_part(const int dtype, const uint16_t *p, size left) {
  uint16_t part[LANES] = {};
  for (size i = 0; i < left; i++) part[i] = p[i];
  return dtype == DTYPE_BF16 ? load_bf16(part) : load_f16(part);
}

static __attribute__((noinline, unused)) void store_shorts_part(const int dtype, uint16_t *p, vec x, size left) {
  uint16_t part[LANES];
  if (dtype == DTYPE_BF16) store_bf16(part, x);
  else store_f16(part, x);
  for (size i = 0; i < left; i++) p[i] = part[i];
}

INLINE vec load_as(const int dtype, const void *at, size i, size left) {
  const uint16_t *p = (const uint16_t *)at + i;
  if (dtype == DTYPE_F32) return load_some((const float *)at + i, left);
  if (left < LANES) return load_shorts_part(dtype, p, left);
  return dtype == DTYPE_BF16 ? load_bf16(p) : load_f16(p);
}

INLINE void store_as(const int dtype, void *at, size i, vec x, size left) {
  uint16_t *p = (uint16_t *)at + i;
  if (dtype == DTYPE_F32)
    store_some((float *)at + i, x, left);
  else if (left < LANES)
    store_shorts_part(dtype, p, x, left);
  else if (dtype == DTYPE_BF16)
    store_bf16(p, x);
  else
    store_f16(p, x);
}

// Two vectors at once, of elements i ... of which the first holds every other one where that is less work (bf16: no bits cross
// lanes), else half: for kernels that treat all elements alike. WebAssembly packs two vectors in one instruction, so there both
// hold elements in order.
struct pair {
  vec a, b;
};
#ifdef __wasm__
#define PAIRS_IN_ORDER 1
typedef int16_t both_vec __attribute__((vector_size(16)));
typedef int16_t both_at __attribute__((vector_size(16), aligned(2), may_alias));

INLINE struct pair load_pair_bf16(const uint16_t *p) {
  const both_vec both = *(const both_at *)p, zero = {};
  return (struct pair){(vec)__builtin_shufflevector(zero, both, 0, 8, 1, 9, 2, 10, 3, 11),
                       (vec)__builtin_shufflevector(zero, both, 4, 12, 5, 13, 6, 14, 7, 15)};
}
// Nothing saturates: the upper halves are 16 bits with a sign. NaN is told apart behind that, where LLVM cannot make a choice of
// it, which would be three instructions.
INLINE ivec upper_half(vec x) {
  const bits_vec bits = (bits_vec)x;
  return (ivec)(bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
INLINE void store_pair_bf16(uint16_t *p, struct pair x) {
  const both_vec is_nan = __builtin_wasm_narrow_s_i16x8_i32x4(x.a != x.a, x.b != x.b);
  *(both_at *)p = __builtin_wasm_narrow_s_i16x8_i32x4(upper_half(x.a), upper_half(x.b)) | is_nan;
}
#else
#define PAIRS_IN_ORDER 0
typedef uint32_t bits_at __attribute__((vector_size(VECTOR_BYTES), aligned(2), may_alias));

INLINE struct pair load_pair_bf16(const uint16_t *p) {
  const bits_vec both = *(const bits_at *)p;
  return (struct pair){(vec)(both << 16), (vec)(both & 0xffff0000)};
}
INLINE void store_pair_bf16(uint16_t *p, struct pair x) {
  *(bits_at *)p = rounded_bf16(x.a) >> 16 | (rounded_bf16(x.b) & 0xffff0000);
}
#endif

INLINE struct pair load_pair(const int dtype, const void *at, size i) {
  if (dtype == DTYPE_BF16) return load_pair_bf16((const uint16_t *)at + i);
  return (struct pair){load_as(dtype, at, i, LANES), load_as(dtype, at, i + LANES, LANES)};
}

INLINE void store_pair(const int dtype, void *at, size i, struct pair x) {
  if (dtype == DTYPE_BF16)
    store_pair_bf16((uint16_t *)at + i, x);
  else {
    store_as(dtype, at, i, x.a, LANES);
    store_as(dtype, at, i + LANES, x.b, LANES);
  }
}

// Numbers as pairs hold them: what belongs to the elements of a row is laid so once for all rows, or back.
INLINE size laid_as_pairs(const int dtype, size n) {
  return dtype == DTYPE_BF16 && !PAIRS_IN_ORDER ? n / (2 * LANES) * (2 * LANES) : 0;
}
INLINE void lay_as_pairs(const int dtype, float *restrict to, const float *restrict from, size n) {
  const size pairs = laid_as_pairs(dtype, n);
  for (size start = 0; start < pairs; start += 2 * LANES)
    for (size i = 0; i < LANES; i++) {
      to[start + i] = from[start + 2 * i];
      to[start + LANES + i] = from[start + 2 * i + 1];
    }
  for (size i = pairs; i < n; i++) to[i] = from[i];
}
INLINE void lay_in_order(const int dtype, float *restrict to, const float *restrict from, size n) {
  const size pairs = laid_as_pairs(dtype, n);
  for (size start = 0; start < pairs; start += 2 * LANES)
    for (size i = 0; i < LANES; i++) {
      to[start + 2 * i] = from[start + i];
      to[start + 2 * i + 1] = from[start + LANES + i];
    }
  for (size i = pairs; i < n; i++) to[i] = from[i];
}

// y = expression of the vectors v[0], v[1], ... of its operands, element by element. `count` of them at `from`.
#define EACH_ELEMENT(dtype, y, n, count, from, expression)                                              \
  do {                                                                                                  \
    size i = 0;                                                                                         \
    for (; i + 2 * LANES <= (n); i += 2 * LANES) {                                                      \
      struct pair pairs[count], made;                                                                   \
      for (int o = 0; o < (count); o++) pairs[o] = load_pair(dtype, (from)[o], i);                      \
      vec v[count];                                                                                     \
      for (int o = 0; o < (count); o++) v[o] = pairs[o].a;                                              \
      made.a = (expression);                                                                            \
      for (int o = 0; o < (count); o++) v[o] = pairs[o].b;                                              \
      made.b = (expression);                                                                            \
      store_pair(dtype, y, i, made);                                                                    \
    }                                                                                                   \
    for (; i < (n); i += LANES) {                                                                       \
      vec v[count];                                                                                     \
      for (int o = 0; o < (count); o++) v[o] = load_as(dtype, (from)[o], i, (n) - i);                   \
      store_as(dtype, y, i, (expression), (n) - i);                                                     \
    }                                                                                                   \
  } while (0)

// Runs of them (numbers.c).
void widen(float *restrict to, struct numbers from, size n);
void narrow(struct numbers to, const float *restrict from, size n);

INLINE const float *wide(struct numbers x, size first, size n, float *space) {
  if (!is_narrow(x.dtype)) return (const float *)x.at + first;
  widen(space, from_number(x, first), n);
  return space;
}
INLINE float *room(struct numbers y, size first, float *space) {
  return is_narrow(y.dtype) ? space : (float *)y.at + first;
}
INLINE void put(struct numbers y, size first, size n, const float *from) {
  if (is_narrow(y.dtype)) narrow(from_number(y, first), from, n);
}

// Room in the workspace behind what is taken, or an error.
INLINE float *take_room(struct context *c, size *used, size count) {
  float *at = (float *)(c->workspace + *used);
  *used += round_up(count * 4, 64);
  if (*used > c->workspace_bytes) c->error = LOCKSTEP_WORKSPACE;
  return at;
}
