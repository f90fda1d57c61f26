#include "random.h"
#include "kernels.h"

INLINE uint32_t philox_first(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t k0, uint32_t k1) {
  uint32_t c3 = 0;
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)b;
    c3 = (uint32_t)a;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c0;
}

// Within one value of the index's upper half.
static void factors_of(float *restrict factors, struct mask mask, uint32_t low, uint32_t high, size n) {
  for (size i = 0; i < n; i++) {
    const uint32_t word = philox_first(low + (uint32_t)i, high, mask.step, mask.seed, mask.name);
    factors[i] = word >= (uint32_t)mask.threshold ? mask.scale : 0;
  }
}

void mask_factors(float *factors, struct mask mask, uint64_t index, size n) {
  while (n > 0) {
    const uint64_t until_carry = 0x100000000ull - (index & 0xffffffffull);
    const size count = (uint64_t)n < until_carry ? n : (size)until_carry;
    if (mask.threshold > 0xffffffffull)
      for (size i = 0; i < count; i++) factors[i] = 0;
    else
      factors_of(factors, mask, (uint32_t)index, (uint32_t)(index >> 32), count);
    factors += count;
    index += (uint64_t)count;
    n -= count;
  }
}

#define CHUNK 256
static void drop_row(float *y, const float *x, struct mask mask, uint64_t index, size n) {
  float factors[CHUNK];
  for (size start = 0; start < n; start += CHUNK) {
    const size count = min_size(CHUNK, n - start);
    mask_factors(factors, mask, index + (uint64_t)start, count);
    for (size i = 0; i < count; i++) y[start + i] = factors[i] == 0 ? 0 : x[start + i] * factors[i];
  }
}

COMMAND(dropout) {
  float *y = floats(c, w[DROPOUT_Y]);
  const float *x = floats(c, w[DROPOUT_X]);
  const size n1 = (size)w[DROPOUT_N1], n2 = (size)w[DROPOUT_N2];
  const struct mask mask = mask_of(w[DROPOUT_RATE], w[DROPOUT_SEED], w[DROPOUT_NAME], w[DROPOUT_STEP]);
  for (size i = 0; i < (size)w[DROPOUT_N0]; i++)
    for (size j = 0; j < n1; j++, x += n2, y += n2) {
      const double index = w[DROPOUT_BASE] + (double)i * w[DROPOUT_STRIDE0] + (double)j * w[DROPOUT_STRIDE1];
      drop_row(y, x, mask, (uint64_t)index, n2);
    }
}
