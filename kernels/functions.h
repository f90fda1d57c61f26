// Functions of f32 vectors, and a few of f64, without a C library: WebAssembly has none, and both targets shall give
// the same numbers. Stated accuracies are in units of the last place of f32, found by trying a million arguments; the bounds
// of test/kernels.test.ts on the commands that use them hold them.
#pragma once
#include "vector.h"

// exp(x) for -86.6 <= x <= 88: within 2 ulp, or, where it is coarse, within 2^-17 in three instructions less, for results that are
// rounded to 8 bits. Nothing is too large or too small, so the exponent, cut off by adding 1.5 * 2^23, which leaves the integer in the
// low bits (so: no -ffast-math), is added to that of the polynomial on [-ln 2 / 2, ln 2 / 2]. That is of degree 6 or 4, in halves, so
// that few steps wait for each other.
struct reduced {
  vec shifted, rest;
};
INLINE struct reduced reduce_exponent(vec x, const int coarse) {
  const vec magic = splat(12582912.f);
  const vec shifted = fma_lanes(x, splat(1.44269504f), magic), n = shifted - magic;
  if (coarse) return (struct reduced){shifted, fma_lanes(n, splat(-0.693147181f), x)};
  return (struct reduced){shifted, fma_lanes(n, splat(2.12194440e-4f), fma_lanes(n, splat(-0.693359375f), x))};
}
INLINE vec exp_reduced(vec shifted, vec r, const int coarse) {
  const vec r2 = r * r;
  vec upper = splat(0.0412773779f), lower = fma_lanes(r, splat(0.167536013f), splat(0.500051260f));
  if (!coarse) {
    upper = fma_lanes(r2, splat(0.00138145697f), fma_lanes(r, splat(0.00836873148f), splat(0.041668389f)));
    lower = fma_lanes(r, splat(0.166665211f), splat(0.49999994f));
  }
  const vec p = fma_lanes(r2, fma_lanes(r2, upper, lower), r + 1);
  return (vec)((ivec)p + ((ivec)shifted << 23));
}
INLINE vec exp_between(vec x, const int coarse) {
  const struct reduced t = reduce_exponent(x, coarse);
  return exp_reduced(t.shifted, t.rest, coarse);
}

// For x <= 88, as differences from a maximum are: 0 below -86.6, whatever the polynomial made of that. NaN passes.
INLINE vec unless_below(vec e, vec x) { return (vec)((ivec)e & ~(ivec)(x < splat(-86.6f))); }
INLINE vec exp_as(const int coarse, vec x) { return unless_below(exp_between(x, coarse), x); }
INLINE vec exp_lanes(vec x) { return exp_as(0, x); }

// exp(x + low), where low is a small correction to x.
INLINE vec exp_split(vec x, vec low) {
  const struct reduced t = reduce_exponent(x, 0);
  return unless_below(exp_reduced(t.shifted, t.rest + low, 0), x);
}

// exp(-x) as a sigmoid wants it: 1 / (1 + exp(-x)) is within 4 ulp where it is over 1e-30, or 2^-17; never 0, so that products with it
// stay finite.
INLINE vec exp_negated(const int coarse, vec x) { return exp_between(lesser(splat(69.f), greater(splat(-86.f), -x)), coarse); }
INLINE vec sigmoid_as(const int coarse, vec x) { return 1 / (1 + exp_negated(coarse, x)); }
INLINE vec sigmoid(vec x) { return sigmoid_as(0, x); }

// exp(-x^2 / 2): the square is taken in two parts, because its last bits are the result's first.
INLINE vec exp_half_square(vec x) {
  const vec top = (vec)((ivec)x & (int32_t)0xfffff000);
  return exp_split(-0.5f * top * top, -0.5f * (x - top) * (x + top));
}

// exp(z^2) erfc(z) for 0 <= z <= 10, within 4 ulp: a polynomial in (z - 2) / (z + 2), over 1 + 2 z.
INLINE vec scaled_erfc(vec z) {
  const vec t = (z - 2) / (z + 2);
  vec p = splat(-0.000409451168f);
  p = fma_lanes(p, t, splat(-0.00124133728f));
  p = fma_lanes(p, t, splat(0.00132048572f));
  p = fma_lanes(p, t, splat(0.00864263624f));
  p = fma_lanes(p, t, splat(-0.00806165859f));
  p = fma_lanes(p, t, splat(-0.0542076565f));
  p = fma_lanes(p, t, splat(0.164055556f));
  p = fma_lanes(p, t, splat(-0.166031092f));
  p = fma_lanes(p, t, splat(-0.0927639902f));
  p = fma_lanes(p, t, splat(1.27697837f));
  return p / fma_lanes(z, splat(2.f), splat(1.f));
}

// The normal distribution below x, given exp(-x^2/2): within 6 ulp, tails included.
INLINE vec normal_cumulative(vec x, vec exp_half_square_x) {
  const vec tail = 0.5f * exp_half_square_x * scaled_erfc(lesser(magnitude(x) * 0.707106781f, splat(10.f)));
  return select_lanes(x < 0, tail, 1 - tail);
}

INLINE double bits_to_f64(uint64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, 8);
  return x;
}

INLINE uint64_t f64_to_bits(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  return bits;
}

// Natural logarithm of a positive normal number: 2 atanh((m - 1) / (m + 1)) after m is brought to [sqrt 1/2, sqrt 2].
INLINE double log_f64(double x) {
  if (!(x > 0)) return x == 0 ? -__builtin_inf() : __builtin_nan("");
  if (x > 1.7e308) return x;
  uint64_t bits = f64_to_bits(x);
  int exponent = (int)(bits >> 52) - 1023;
  double m = bits_to_f64((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    exponent++;
  }
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 0;
  for (int n = 23; n >= 3; n -= 2) sum = (sum + 1.0 / n) * s2;
  return exponent * 0.693147180369123816490 + (2 * s + (2 * s * sum + exponent * 1.90821492927058770002e-10));
}

// exp of a number of moderate size, by its series after the powers of 2 are taken out.
INLINE double exp_f64(double x) {
  if (x < -700) return 0;
  if (x > 709) return __builtin_inf();
  const double n = __builtin_floor(x * 1.4426950408889634 + 0.5);
  const double r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
  double sum = 1;
  for (int i = 14; i >= 1; i--) sum = 1 + sum * r / i;
  return sum * bits_to_f64((uint64_t)(1023 + (int64_t)n) << 52);
}

// Cosine and sine of angles up to 1e8 in size, to 1e-15: pi / 2 in three parts, then the series.
INLINE void cos_sin_f64(double angle, double *cosine, double *sine) {
  const double n = __builtin_floor(angle * 0.63661977236758134 + 0.5);
  const double r = ((angle - n * 1.57079632673412561417) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21;
  const double r2 = r * r;
  double c = 1, s = 1;
  for (int i = 16; i >= 2; i -= 2) c = 1 - c * r2 / (i * (i - 1));
  for (int i = 17; i >= 3; i -= 2) s = 1 - s * r2 / (i * (i - 1));
  s *= r;
  const int64_t quarter = (int64_t)n & 3;
  *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
  *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
}

// x to a whole power n >= 0.
INLINE double power_f64(double x, double n) {
  double result = 1;
  for (uint64_t left = (uint64_t)n; left; left >>= 1, x *= x)
    if (left & 1) result *= x;
  return result;
}

// In f64. Four sums in turn, so that one addition need not wait for the last.
INLINE double sum_of(const float *x, size n) {
  dvec sums[4] = {};
  size i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES)
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) sums[q] += load_wide(x + i + q * LANES / 2);
  double sum = sum_wide((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < n; i++) sum += (double)x[i];
  return sum;
}
