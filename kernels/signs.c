// Numbers as signs, eight of them a byte, the first the lowest bit: set where a number is negative. They share a unit, the root of their
// mean square: those of a part, or of the whole line, of which every part then has a copy. A unit that is not finite is no number, so
// that whoever reads it sees that. Beyond the last number there is nothing: it counts nowhere, and is 0 where it has room.
#include "numbers.h"

#define CHUNK 1024
#define SUMS 16

COMMAND(blend) {
  float *restrict grad = floats(c, w[BLEND_GRAD]);
  const struct numbers m = numbers_of(c, w[BLEND_M]);
  const float share = (float)w[BLEND_SHARE], rest = (float)w[BLEND_REST];
  float space[CHUNK];
  for (size at = 0, count; at < (size)w[BLEND_N]; at += count) {
    count = min_size(CHUNK, (size)w[BLEND_N] - at);
    const float *x = wide(m, at, count, space);
    for (size i = 0; i < count; i++) grad[at + i] = share * x[i] + rest * grad[at + i];
  }
}

// Runs of f32 sums, added up in f64: as exact as need be, and in vectors.
static double squares(struct numbers x, size first, size n) {
  float space[CHUNK];
  double sum = 0;
  for (size at = 0, count; at < n; at += count) {
    count = min_size(CHUNK, n - at);
    const float *from = wide(x, first + at, count, space);
    float sums[SUMS] = {0};
    size i = 0;
    for (; i + SUMS <= count; i += SUMS)
      for (int lane = 0; lane < SUMS; lane++) sums[lane] += from[i + lane] * from[i + lane];
    for (; i < count; i++) sums[0] += from[i] * from[i];
    for (int lane = 0; lane < SUMS; lane++) sum += (double)sums[lane];
  }
  return sum;
}

static float unit_of(double sum, size count) {
  const double root = count > 0 ? __builtin_sqrt(sum / (double)count) : 0;
  return root < __builtin_inf() ? (float)root : of_bits(0x7fc00000);
}

static void encode(unsigned char *codes, struct numbers x, size first, size n) {
  float space[CHUNK];
  for (size at = 0, count; at < n; at += count) {
    count = min_size(CHUNK, n - at);
    const float *from = wide(x, first + at, count, space);
    size i = 0;
    for (; i + 8 <= count; i += 8) {
      unsigned byte = 0;
      for (unsigned bit = 0; bit < 8; bit++) byte |= (unsigned)(from[i + bit] < 0) << bit;
      codes[(at + i) / 8] = (unsigned char)byte;
    }
    if (i == count) continue;
    unsigned byte = 0;
    for (unsigned bit = 0; i + bit < count; bit++) byte |= (unsigned)(from[i + bit] < 0) << bit;
    codes[(at + i) / 8] = (unsigned char)byte;
  }
}

COMMAND(packSigns) {
  unsigned char *codes = (unsigned char *)address(c, w[PACK_SIGNS_CODES]);
  float *units = floats(c, w[PACK_SIGNS_UNITS]);
  const struct numbers x = numbers_of(c, w[PACK_SIGNS_X]);
  const size n = (size)w[PACK_SIGNS_N], parts = (size)w[PACK_SIGNS_PARTS], part = (size)w[PACK_SIGNS_PART], bytes = (part + 7) / 8;
  const int whole = w[PACK_SIGNS_WHOLE] != 0;
  const float all = whole ? unit_of(squares(x, 0, n), n) : 0;
  __builtin_memset(codes, 0, (size_t)(parts * bytes));
  for (size p = 0; p < parts; p++) {
    const size there = max_size(0, min_size(part, n - p * part));
    units[p] = whole ? all : unit_of(squares(x, p * part, there), there);
    encode(codes + p * bytes, x, p * part, there);
  }
}

INLINE float with_sign(uint32_t unit, unsigned byte, size bit) { return of_bits(unit ^ (uint32_t)((byte >> bit) & 1) << 31); }

// n numbers of one addend, beginning with a byte.
static void decode(float *out, const unsigned char *codes, float unit, size n, int adds) {
  const uint32_t bits = bits_of(unit);
  size i = 0;
  for (; i + 8 <= n; i += 8)
    for (size bit = 0; bit < 8; bit++) {
      const float x = with_sign(bits, codes[i / 8], bit);
      out[i + bit] = adds ? out[i + bit] + x : x;
    }
  for (; i < n; i++) {
    const float x = with_sign(bits, codes[i / 8], i % 8);
    out[i] = adds ? out[i] + x : x;
  }
}

COMMAND(unpackSigns) {
  const struct numbers out = numbers_of(c, w[UNPACK_SIGNS_OUT]);
  const unsigned char *codes = (const unsigned char *)address(c, w[UNPACK_SIGNS_CODES]);
  const float *units = floats(c, w[UNPACK_SIGNS_UNITS]);
  const size n = (size)w[UNPACK_SIGNS_N], parts = (size)w[UNPACK_SIGNS_PARTS], part = (size)w[UNPACK_SIGNS_PART], bytes = (part + 7) / 8;
  const size addends = (size)w[UNPACK_SIGNS_ADDENDS];
  float space[CHUNK];
  for (size p = 0; p < parts; p++) {
    const size first = p * part, there = min_size(part, n - first);
    for (size done = 0, count; done < there; done += count) {
      count = min_size(CHUNK, there - done);
      float *to = room(out, first + done, space);
      for (size a = 0; a < addends; a++)
        decode(to, codes + (a * parts + p) * bytes + done / 8, units[a * parts + p], count, a > 0);
      put(out, first + done, count, to);
    }
  }
  for (size at = n, count; at < (size)w[UNPACK_SIGNS_ROOM]; at += count) {
    count = min_size(CHUNK, (size)w[UNPACK_SIGNS_ROOM] - at);
    float *to = room(out, at, space);
    __builtin_memset(to, 0, (size_t)count * 4);
    put(out, at, count, to);
  }
}
