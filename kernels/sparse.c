// The greatest numbers of a line with their places, and a line of nothing else. The bits of absolute values are ordered as these are; what is no
// number counts as infinite.
#include "numbers.h"

#define INFINITE 0x7f800000u
#define FIRST_BITS 11
#define OTHER_BITS 10

INLINE uint32_t order_of(float x) {
  const uint32_t bits = bits_of(x) & 0x7fffffffu;
  return bits < INFINITE ? bits : INFINITE;
}

// The magnitude that is the kept-th greatest, found digit by digit; `left` is how many that are equal to it belong to the greatest.
static uint32_t least_kept(const float *x, size n, size kept, size *left) {
  uint32_t counts[1 << FIRST_BITS], found = 0;
  int shift = 31;
  while (shift > 0) {
    const int digits = shift == 31 ? FIRST_BITS : OTHER_BITS, above = shift;
    shift -= digits;
    __builtin_memset(counts, 0, sizeof counts);
    for (size i = 0; i < n; i++) {
      const uint32_t m = order_of(x[i]);
      if ((m >> above) == (found >> above)) counts[(m >> shift) & ((1u << digits) - 1)]++;
    }
    uint32_t digit = (1u << digits) - 1;
    for (; (size)counts[digit] < kept; digit--) kept -= (size)counts[digit];
    found |= digit << shift;
  }
  *left = kept;
  return found;
}

COMMAND(greatest) {
  const float *x = floats(c, w[GREATEST_X]);
  float *values = floats(c, w[GREATEST_VALUES]);
  int *places = ints(c, w[GREATEST_PLACES]);
  const size n = (size)w[GREATEST_N];
  size left;
  const uint32_t least = least_kept(x, n, (size)w[GREATEST_KEPT], &left);
  for (size i = 0; i < n; i++) {
    const uint32_t m = order_of(x[i]);
    if (m < least || (m == least && left-- <= 0)) continue;
    *values++ = x[i];
    *places++ = (int)i;
  }
}

COMMAND(scatter) {
  float *out = floats(c, w[SCATTER_OUT]);
  const float *values = floats(c, w[SCATTER_VALUES]);
  const int *places = ints(c, w[SCATTER_PLACES]);
  const size all = (size)w[SCATTER_KEPT] * (size)w[SCATTER_ADDENDS];
  __builtin_memset(out, 0, (size_t)(size)w[SCATTER_N] * 4);
  for (size i = 0; i < all; i++) out[places[i]] += values[i];
}
