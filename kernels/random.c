// Philox on the lanes of a vector, and dropout.
#include "random.h"
#include "numbers.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

// Elements at once. A word of philox sits in the lower half of a 64-bit lane; what is in the upper half does not matter.
#define WORDS (VECTOR_BYTES / 8)
typedef uint64_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t halves __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t lower_words __attribute__((vector_size(VECTOR_BYTES / 2)));

// The 64-bit products of the lower halves: an instruction that compilers do not find by themselves.
INLINE words multiply_lower(words a, uint32_t by) {
#if defined(__AVX512F__)
  return (words)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(by));
#elif defined(__AVX2__)
  return (words)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(by));
#elif defined(__aarch64__)
  return (words)vmull_u32(vmovn_u64((uint64x2_t)a), vdup_n_u32(by));
#else
  return (a & 0xffffffffull) * (uint64_t)by;
#endif
}

// The upper halves, moved down: by shuffle, as the multiplier's port is also the shifter's.
INLINE words upper(words a) {
  const halves h = (halves)a;
#if VECTOR_BYTES == 64
  return (words)__builtin_shufflevector(h, h, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15);
#elif VECTOR_BYTES == 32
  return (words)__builtin_shufflevector(h, h, 1, 1, 3, 3, 5, 5, 7, 7);
#else
  return (words)__builtin_shufflevector(h, h, 1, 1, 3, 3);
#endif
}

// The first of the four words, for the counters (c0, c1, step, use).
INLINE words philox_first(words c0, uint32_t high, struct mask mask) {
  words c1 = high - (words){}, c2 = mask.step - (words){}, c3 = mask.use - (words){};
  uint32_t k0 = mask.seed, k1 = mask.name;
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    const words a = multiply_lower(c0, 0xd2511f53u), b = multiply_lower(c2, 0xcd9e8d57u);
    c0 = upper(b) ^ c1 ^ (uint64_t)k0;
    c2 = upper(a) ^ c3 ^ (uint64_t)k1;
    c1 = b;
    c3 = a;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c0 & 0xffffffffull;
}

// Within one value of the index's upper half. The last block is computed whole, and a part of it copied.
static void factors_of(float *factors, struct mask mask, uint32_t low, uint32_t high, size n) {
  uint32_t scale;
  __builtin_memcpy(&scale, &mask.scale, 4);
  words lane;
  for (int i = 0; i < WORDS; i++) lane[i] = (uint64_t)i;
  for (size i = 0; i < n; i += WORDS) {
    const words word = philox_first(lane + (uint64_t)(low + (uint32_t)i), high, mask);
    const lower_words kept = __builtin_convertvector((words)(word >= mask.threshold) & (uint64_t)scale, lower_words);
    if (n - i >= WORDS)
      __builtin_memcpy(factors + i, &kept, sizeof kept);
    else
      __builtin_memcpy(factors + i, &kept, (size_t)(n - i) * 4);
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

void mask_draws(uint32_t *draws, struct mask mask, uint64_t index, size n) {
  words lane;
  for (int i = 0; i < WORDS; i++) lane[i] = (uint64_t)i;
  while (n > 0) {
    const uint64_t until_carry = 0x100000000ull - (index & 0xffffffffull);
    const size count = (uint64_t)n < until_carry ? n : (size)until_carry;
    for (size i = 0; i < count; i += WORDS) {
      const words word = philox_first(lane + (uint64_t)((uint32_t)index + (uint32_t)i), (uint32_t)(index >> 32), mask);
      const lower_words some = __builtin_convertvector(word & 0xffffull, lower_words);
      __builtin_memcpy(draws + i, &some, (size_t)min_size(WORDS, count - i) * 4);
    }
    draws += count;
    index += (uint64_t)count;
    n -= count;
  }
}

#define CHUNK 256
static void drop_row(struct numbers y, struct numbers x, struct mask mask, uint64_t index, size n) {
  float factors[CHUNK], of_x[CHUNK], of_y[CHUNK];
  for (size start = 0; start < n; start += CHUNK) {
    const size count = min_size(CHUNK, n - start);
    mask_factors(factors, mask, index + (uint64_t)start, count);
    const float *from = wide(x, start, count, of_x);
    float *to = room(y, start, of_y);
    for (size i = 0; i < count; i++) to[i] = factors[i] == 0 ? 0 : from[i] * factors[i];
    put(y, start, count, to);
  }
}

COMMAND(dropout) {
  struct numbers y = numbers_of(c, w[DROPOUT_Y]), x = numbers_of(c, w[DROPOUT_X]);
  const size n1 = (size)w[DROPOUT_N1], n2 = (size)w[DROPOUT_N2];
  const struct mask mask = mask_of(w[DROPOUT_RATE], w[DROPOUT_SEED], w[DROPOUT_NAME], w[DROPOUT_STEP]);
  const size slots = (size)w[DROPOUT_SLOTS], origin = (size)w[DROPOUT_ORIGIN];
  const int *order = w[DROPOUT_ORDER] > 0 ? ints(c, w[DROPOUT_ORDER]) + origin : 0;
  for (size i = 0; i < (size)w[DROPOUT_N0]; i++)
    for (size j = 0; j < n1; j++, x = from_number(x, n2), y = from_number(y, n2)) {
      const size slot = j + (j < (size)w[DROPOUT_UNTIL] ? 0 : (size)w[DROPOUT_GAP]);
      const double row = (double)(order ? order[i * slots + slot] - origin : slot);
      const double index = w[DROPOUT_BASE] + (double)i * w[DROPOUT_STRIDE0] + row * w[DROPOUT_STRIDE1];
      drop_row(y, x, mask, (uint64_t)index, n2);
    }
}
