// Rows become columns, in registers: what packs matrices that lie the other way round.
#pragma once
#include "vector.h"

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

// Four rows of four become four columns.
INLINE void transpose4(float *to, size to_stride, const float *from, size from_stride) {
  vec4 a = load4(from), b = load4(from + from_stride), c = load4(from + 2 * from_stride), d = load4(from + 3 * from_stride);
  vec4 ab_low = SHUFFLE(a, b, 0, 4, 1, 5), ab_high = SHUFFLE(a, b, 2, 6, 3, 7);
  vec4 cd_low = SHUFFLE(c, d, 0, 4, 1, 5), cd_high = SHUFFLE(c, d, 2, 6, 3, 7);
  store4(to, SHUFFLE(ab_low, cd_low, 0, 1, 4, 5));
  store4(to + to_stride, SHUFFLE(ab_low, cd_low, 2, 3, 6, 7));
  store4(to + 2 * to_stride, SHUFFLE(ab_high, cd_high, 0, 1, 4, 5));
  store4(to + 3 * to_stride, SHUFFLE(ab_high, cd_high, 2, 3, 6, 7));
}

// The same for LANES rows at once: register l, part q holds four elements of row 4 q + l, and the four by four transposes
// of all parts are one shuffle each.
#if LANES == 16
#define FOUR_ROWS(p, s)                                                                     \
  SHUFFLE(SHUFFLE(load4(p), load4((p) + 4 * (s)), 0, 1, 2, 3, 4, 5, 6, 7),                  \
          SHUFFLE(load4((p) + 8 * (s)), load4((p) + 12 * (s)), 0, 1, 2, 3, 4, 5, 6, 7), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, \
          11, 12, 13, 14, 15)
#define LOW(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH(a, b) SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW2(a, b) SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH2(a, b) SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#elif LANES == 8
#define FOUR_ROWS(p, s) SHUFFLE(load4(p), load4((p) + 4 * (s)), 0, 1, 2, 3, 4, 5, 6, 7)
#define LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(a, b) SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW2(a, b) SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH2(a, b) SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#else
#define FOUR_ROWS(p, s) load4(p)
#define LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#define LOW2(a, b) SHUFFLE(a, b, 0, 1, 4, 5)
#define HIGH2(a, b) SHUFFLE(a, b, 2, 3, 6, 7)
#endif
INLINE void transpose_lanes(float *to, size to_stride, const float *from, size s) {
  const vec a = FOUR_ROWS(from, s), b = FOUR_ROWS(from + s, s), c = FOUR_ROWS(from + 2 * s, s), d = FOUR_ROWS(from + 3 * s, s);
  const vec ab_low = LOW(a, b), ab_high = HIGH(a, b), cd_low = LOW(c, d), cd_high = HIGH(c, d);
  store(to, LOW2(ab_low, cd_low));
  store(to + to_stride, HIGH2(ab_low, cd_low));
  store(to + 2 * to_stride, LOW2(ab_high, cd_high));
  store(to + 3 * to_stride, HIGH2(ab_high, cd_high));
}
#undef LOW
#undef HIGH
#undef LOW2
#undef HIGH2
#undef FOUR_ROWS
