// Runs of numbers to f32 and back: what every kernel does with operands of 16 bits, so it is on vectors.
#include "numbers.h"

#define RUNS(name, dtype)                                                                              \
  static void widen_##name(float *restrict to, const uint16_t *restrict from, size n) {          \
    size i = 0;                                                                                  \
    for (; PAIRS_IN_ORDER && i + 2 * LANES <= n; i += 2 * LANES) {                               \
      const struct pair x = load_pair(dtype, from, i);                                           \
      store(to + i, x.a);                                                                        \
      store(to + i + LANES, x.b);                                                                \
    }                                                                                            \
    for (; i + LANES <= n; i += LANES) store(to + i, load_##name(from + i));                     \
    for (; i < n; i++) to[i] = from_##name(from[i]);                                             \
  }                                                                                              \
  static void narrow_##name(uint16_t *restrict to, const float *restrict from, size n) {         \
    size i = 0;                                                                                  \
    for (; PAIRS_IN_ORDER && i + 2 * LANES <= n; i += 2 * LANES)                                 \
      store_pair(dtype, to, i, (struct pair){load(from + i), load(from + i + LANES)});           \
    for (; i + LANES <= n; i += LANES) store_##name(to + i, load(from + i));                     \
    for (; i < n; i++) to[i] = to_##name(from[i]);                                               \
  }

RUNS(bf16, DTYPE_BF16)
RUNS(f16, DTYPE_F16)

void widen(float *restrict to, struct numbers from, size n) {
  if (from.dtype == DTYPE_BF16)
    widen_bf16(to, (const uint16_t *)from.at, n);
  else if (from.dtype == DTYPE_F16)
    widen_f16(to, (const uint16_t *)from.at, n);
  else
    __builtin_memcpy(to, from.at, (size_t)n * 4);
}

void narrow(struct numbers to, const float *restrict from, size n) {
  if (to.dtype == DTYPE_BF16)
    narrow_bf16((uint16_t *)to.at, from, n);
  else if (to.dtype == DTYPE_F16)
    narrow_f16((uint16_t *)to.at, from, n);
  else
    __builtin_memcpy(to.at, from, (size_t)n * 4);
}
