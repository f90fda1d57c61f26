// Dropout masks by counter: philox4x32-10 (Salmon et al., SC11), the same bits as src/base/random.ts. Whether an element
// is kept depends on the seed, the mask's name, the step and the element's index in the whole tensor, so every plan drops
// the same ones.
#pragma once
#include "vector.h"

struct mask {
  uint32_t seed, name, step, use;  // use: the fourth counter word, so that numbers for one use are not those for another
  uint64_t threshold;  // kept: the first word of philox is at least this
  float scale;         // what a kept element is multiplied by
};

// uniform >= rate, with uniform = word / 2^32, is word >= rate * 2^32, and that product is exact.
INLINE struct mask mask_of(double rate, double seed, double name, double step) {
  return (struct mask){(uint32_t)(int64_t)seed, (uint32_t)(int64_t)name, (uint32_t)(int64_t)step, 0,
                       (uint64_t)__builtin_ceil(rate * 4294967296.0), (float)(1 / (1 - rate))};
}

// factors[i] = 0 or scale, for the elements index, index + 1, ... Plain lanes: compilers make vectors of this loop.
void mask_factors(float *factors, struct mask mask, uint64_t index, size n);

// Numbers of 16 bits for the elements index, index + 1, ...
void mask_draws(uint32_t *draws, struct mask mask, uint64_t index, size n);
