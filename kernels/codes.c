// Numbers as 8-bit codes, runs of which share a unit: the greatest absolute value of the run, divided by 128. The line is cut into equal
// parts, runs begin with each; beyond the last number codes and units are 0. A run with an infinity, or with what is no number, has
// no number for a unit, so that whoever reads it sees that.
#include "numbers.h"

#define CHUNK 1024

// The bits of absolute values are ordered as these are; infinity, and what is no number, come last.
static uint32_t greatest(const float *x, size n) {
  uint32_t most = 0;
  for (size i = 0; i < n; i++) {
    const uint32_t bits = bits_of(x[i]) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  return most;
}

// Whole numbers of f32 are 1 apart from 1.5 * 2^23 on: adding that rounds to the nearest, ties to even.
static void encode(signed char *codes, const float *x, size n, float unit) {
  const float whole = 12582912.f;
  for (size i = 0; i < n; i++) {
    const float code = (x[i] / unit + whole) - whole;
    codes[i] = (signed char)(int)(code < 127.f ? code : 127.f);
  }
}

static float pack_run(signed char *codes, struct numbers x, size first, size n) {
  float space[CHUNK];
  uint32_t most = 0;
  for (size at = 0, count; at < n; at += count) {
    count = min_size(CHUNK, n - at);
    const uint32_t here = greatest(wide(x, first + at, count, space), count);
    most = here > most ? here : most;
  }
  const float unit = most >= 0x7f800000 ? of_bits(0x7fc00000) : of_bits(most) / 128;
  if (!(unit > 0)) {
    __builtin_memset(codes, 0, (size_t)n);
    return unit;
  }
  for (size at = 0, count; at < n; at += count) {
    count = min_size(CHUNK, n - at);
    encode(codes + at, wide(x, first + at, count, space), count, unit);
  }
  return unit;
}

COMMAND(pack) {
  signed char *codes = (signed char *)address(c, w[PACK_CODES]);
  float *units = floats(c, w[PACK_UNITS]);
  const struct numbers x = numbers_of(c, w[PACK_X]);
  const size n = (size)w[PACK_N], parts = (size)w[PACK_PARTS], part = (size)w[PACK_PART], run = (size)w[PACK_RUN];
  for (size p = 0; p < parts; p++)
    for (size at = 0; at < part; at += run) {
      const size first = p * part + at, length = min_size(run, part - at);
      const size there = max_size(0, min_size(length, n - first));
      *units++ = there > 0 ? pack_run(codes + first, x, first, there) : 0;
      __builtin_memset(codes + first + there, 0, (size_t)(length - there));
    }
}

// A run of the sum of all addends.
static void decode(float *out, const signed char *codes, const float *units, size n, size addends, size each, size each_units) {
  for (size i = 0; i < n; i++) out[i] = (float)codes[i] * *units;
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
  const size addends = (size)w[UNPACK_ADDENDS], each = parts * part, each_units = parts * ((part + run - 1) / run);
  float space[CHUNK];
  for (size p = 0; p < parts; p++)
    for (size at = 0; at < part; at += run, units++) {
      const size first = p * part + at, there = min_size(min_size(run, part - at), n - first);
      for (size done = 0, count; done < there; done += count) {
        count = min_size(CHUNK, there - done);
        float *to = room(out, first + done, space);
        decode(to, codes + first + done, units, count, addends, each, each_units);
        put(out, first + done, count, to);
      }
    }
}
