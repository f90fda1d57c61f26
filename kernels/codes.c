// Numbers as 8-bit codes, runs of which share a unit: the greatest absolute value of the run, divided by 128. The line is cut into equal
// parts, runs begin with each; beyond the last number codes and units are 0. A run with an infinity, or with what is no number, has
// no number for a unit, so that whoever reads it sees that.
#include "codes.h"
#include "bytes.h"

#define CHUNK 1024

// The bits of absolute values are ordered as these are; infinity, and what is no number, come last.
static uint32_t greatest(const float *x, size n) {
  uint32_t most = 0;
  size i = 0;
#if LANES == 16
  __m512i all[4] = {};
  for (; i + 4 * LANES <= n; i += 4 * LANES)
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++)
      all[v] = _mm512_max_epi32(all[v], _mm512_and_epi32(_mm512_loadu_si512(x + i + v * LANES), _mm512_set1_epi32(0x7fffffff)));
  most = (uint32_t)_mm512_reduce_max_epi32(_mm512_max_epi32(_mm512_max_epi32(all[0], all[1]), _mm512_max_epi32(all[2], all[3])));
#endif
  for (; i < n; i++) {
    const uint32_t bits = bits_of(x[i]) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  return most;
}

// To the nearest whole number of the quotient itself, ties to even. In f64, where no quotient of two f32 that is no tie becomes one: whole
// numbers are 1 apart from 1.5 * 2^52 on, so that adding that rounds.
static void divide(signed char *codes, const float *x, size n, float unit) {
  for (size i = 0; i < n; i++) {
    const double code = ((double)x[i] / (double)unit + 0x1.8p52) - 0x1.8p52;
    codes[i] = (signed char)(int)(code < 127 ? code : 127);
  }
}

// The same in f32, where that is sure. A quotient is at most 128 in size, and a product with the reciprocal at most 2 roundings of 2^-24 from
// it: where the product is farther than 2^-15 from the middle between two whole numbers, both round to the same. Gives whether all were. The
// last bits of a number that is 1.5 * 2^23 more are those of the whole number.
static int multiply(signed char *restrict codes, const float *restrict x, size n, float by) {
  const float whole = 0x1.8p23f, near_middle = 0.5f - 0x1p-15f;
  int unclear = 0;
  size i = 0;
#if LANES == 16
  const __m512 factor = _mm512_set1_ps(by), most = _mm512_set1_ps(whole + 127);
  __mmask16 middles = 0;
  for (; i + LANES <= n; i += LANES) {
    const __m512 quotient = _mm512_loadu_ps(x + i) * factor, moved = quotient + whole;
    middles |= _mm512_cmp_ps_mask(_mm512_abs_ps(quotient - (moved - whole)), _mm512_set1_ps(near_middle), _CMP_GT_OQ);
    _mm_storeu_si128((__m128i *)(codes + i), _mm512_cvtepi32_epi8((__m512i)_mm512_min_ps(moved, most)));
  }
  unclear = middles;
#endif
  for (; i < n; i++) {
    const float quotient = x[i] * by, moved = quotient + whole;
    unclear |= __builtin_fabsf(quotient - (moved - whole)) > near_middle;
    codes[i] = (signed char)bits_of(moved < whole + 127 ? moved : whole + 127);
  }
  return !unclear;
}

// The reciprocal of a tiny unit would be infinite.
static void encode(signed char *codes, const float *x, size n, float unit) {
  if (unit < 0x1p-100f || !multiply(codes, x, n, 1 / unit)) divide(codes, x, n, unit);
}

static float unit_of(struct numbers x, size first, size n) {
  float space[CHUNK];
  uint32_t most = 0;
  for (size at = 0, count; at < n; at += count) {
    count = min_size(CHUNK, n - at);
    const uint32_t here = greatest(wide(x, first + at, count, space), count);
    most = here > most ? here : most;
  }
  return most >= 0x7f800000 ? of_bits(0x7fc00000) : of_bits(most) / 128;
}

static void encode_run(signed char *codes, struct numbers x, size first, size n, float unit) {
  float space[CHUNK];
  if (!(unit > 0)) {
    __builtin_memset(codes, 0, (size_t)n);
    return;
  }
  for (size at = 0, count; at < n; at += count) {
    count = min_size(CHUNK, n - at);
    encode(codes + at, wide(x, first + at, count, space), count, unit);
  }
}

// A unit is known late, after all numbers of its run: those of several runs are found before any is coded, so that nobody waits for one.
COMMAND(pack) {
  enum { AT_ONCE = 8 };
  signed char *codes = (signed char *)address(c, w[PACK_CODES]);
  float *units = floats(c, w[PACK_UNITS]);
  const struct numbers x = numbers_of(c, w[PACK_X]);
  const size n = (size)w[PACK_N], parts = (size)w[PACK_PARTS], part = (size)w[PACK_PART], run = (size)w[PACK_RUN];
  for (size p = 0; p < parts; p++)
    for (size start = 0; start < part; start += AT_ONCE * run) {
      const size base = p * part, end = min_size(part, start + AT_ONCE * run), there = max_size(start, min_size(end, n - base));
      float *unit = units;
      for (size at = start; at < end; at += run) *units++ = at < there ? unit_of(x, base + at, min_size(run, there - at)) : 0;
      for (size at = start; at < there; at += run)
        encode_run(codes + base + at, x, base + at, min_size(run, there - at), *unit++);
      if (there < end) __builtin_memset(codes + base + there, 0, (size_t)(end - there));
    }
}

static void decode(float *restrict out, const signed char *restrict codes, float unit, size n) {
  for (size i = 0; i < n; i++) out[i] = (float)codes[i] * unit;
}

static void decode_runs(float *out, const signed char *codes, const float *units, size run, size from, size to) {
  for (size end; from < to; out += end - from, from = end) {
    end = min_size(to, (from / run + 1) * run);
    decode(out, codes + from, units[from / run], end - from);
  }
}

void decode_part(struct numbers out, size at, const signed char *codes, const float *units, size run, size from, size to, int large) {
  float space[CHUNK];
  const int streamed = large && !is_narrow(out.dtype);
  for (size n; from < to; from += n, at += n) {
    n = min_size(to - from, CHUNK);
    float *y = streamed ? space : room(out, at, space);
    decode_runs(y, codes, units, run, from, from + n);
    if (streamed) stream_some((char *)((float *)out.at + at), (const char *)y, n * 4);
    else put(out, at, n, y);
  }
  if (streamed) stream_end();
}

// A run of the sum of all addends.
static void decode_sum(float *out, const signed char *codes, const float *units, size n, size addends, size each, size each_units) {
  decode(out, codes, *units, n);
  for (size a = 1; a < addends; a++) {
    const float unit = units[a * each_units];
    for (size i = 0; i < n; i++) out[i] += (float)codes[a * each + i] * unit;
  }
}

COMMAND(unpack) {
  const struct numbers out = numbers_of(c, w[UNPACK_OUT]);
  const signed char *codes = (const signed char *)address(c, w[UNPACK_CODES]);
  const float *units = floats(c, w[UNPACK_UNITS]);
  const size n = (size)w[UNPACK_N], parts = (size)w[UNPACK_PARTS], part = (size)w[UNPACK_PART], run = (size)w[UNPACK_RUN];
  const size addends = (size)w[UNPACK_ADDENDS], part_units = (part + run - 1) / run, each = parts * part;
  float space[CHUNK];
  for (size p = 0; p < parts; p++, codes += part, units += part_units) {
    const size first = p * part, there = min_size(part, n - first);
    if (addends == 1) decode_part(out, first, codes, units, run, 0, there, n * 4 >= c->tuning.moving.coded);
    else
      for (size at = 0, count; at < there; at += count) {
        count = min_size(min_size(run - at % run, there - at), CHUNK);
        float *to = room(out, first + at, space);
        decode_sum(to, codes + at, units + at / run, count, addends, each, parts * part_units);
        put(out, first + at, count, to);
      }
  }
}
