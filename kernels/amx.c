// Matrix multiplication on the tiles of AMX, which multiply bf16 sixteen times as fast as vectors multiply f32. An f32
// is exactly the sum of three bf16: high, middle and low, 8 bits each. Of the nine products of two such sums the six
// largest are taken; the other three together are less than 2^-24 of the product, as is the rounding of f32 itself.
// They are summed in f32 by the tiles, 32 terms at once, so that fewer roundings happen than in a sum one by one. Where both
// operands are bf16, the high parts are all there is, and one product of the six.
//
// Tiles know no numbers below 2^-126, and the parts of infinity are not a number: packing finds out what range a block
// of values spans, and a block that might lose something is multiplied by the vectors.
#include "matmul.h"

#ifdef HAS_TILES
#include "transpose.h"
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINES 16  // rows of a, or columns of b, in one tile
#define DEPTH 32  // k in one tile
#define TILE_BYTES (LINES * DEPTH * 2)
// The square of the result that is computed at once is 2 x 2 tiles. A panel is what one side of it needs: per DEPTH of
// k two tiles of high parts, two of middle parts, two of low parts.
#define SIDE (2 * LINES)
#define PART_BYTES (2 * TILE_BYTES)
#define STEP_BYTES (3 * PART_BYTES)
#define ELEMENT_BYTES (3 * 2)

#ifndef BLOCK_K
#define BLOCK_K 384        // k of one pass
#define BLOCK_ROWS 1024    // of a that are packed for all columns of b
#define STEP_ROWS 64       // of them, packed at once
#define BLOCK_COLUMNS 384  // of b: packed, they stay in the second-level cache
#endif
_Static_assert((BLOCK_ROWS + BLOCK_COLUMNS) * BLOCK_K * ELEMENT_BYTES + 64 <= TILES_BYTES, "workspace");

// What the kernel asks of a process that wants tiles: the state they add to a thread must be allowed first.
int tiles_allowed(void) {
  enum { UNKNOWN, YES, NO, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  static int known = UNKNOWN;
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == UNKNOWN) {
    answer = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0 ? YES : NO;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == YES;
}

// Eight tiles of 16 rows of 64 bytes. A constant, because the compiler believes that only its first bytes are read.
static void configure_tiles(void) {
  static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t column_bytes[16];
    uint8_t rows[16];
  } config = {.palette = 1, .column_bytes = {[0 ... 7] = 64}, .rows = {[0 ... 7] = 16}};
  _tile_loadconfig(&config);
}

// What a block holds, seen while it is packed: of the high parts, as bits without the sign, the largest and the smallest
// but 0 (less one, so that 0 is not the smallest), and whatever the three parts left over.
struct census {
  __m512i least, most, rest;
};

// The same, counted: exponents of the largest and the smallest number but 0, and whether there is any; whether the parts
// are all of it.
struct range {
  int low, high, any, whole;
};

INLINE struct census no_census(void) {
  return (struct census){_mm512_set1_epi16(-1), _mm512_setzero_si512(), _mm512_setzero_si512()};
}

INLINE void count(struct census *c, __m512i high, vec x_low, vec y_low) {
  const __m512i bits = _mm512_add_epi16(high, high);
  c->least = _mm512_min_epu16(c->least, _mm512_sub_epi16(bits, _mm512_set1_epi16(1)));
  c->most = _mm512_max_epu16(c->most, bits);
  c->rest = c->rest | (__m512i)x_low | (__m512i)y_low;
}

static struct range range_of(struct census c) {
  uint16_t least[32], most[32], low = 0xffff, high = 0;
  _mm512_storeu_si512(least, c.least);
  _mm512_storeu_si512(most, c.most);
  for (int i = 0; i < 32; i++) {
    low = least[i] < low ? least[i] : low;
    high = most[i] > high ? most[i] : high;
  }
  const int whole = _mm512_test_epi32_mask(c.rest, _mm512_set1_epi32(0xffff)) == 0;
  return (struct range){.low = ((low + 1) >> 8) - 127, .high = (high >> 8) - 127, .any = high > 0, .whole = whole};
}

// Whether the six products of any two values, one of each block, neither vanish nor overflow: with 2^-99 <= |x y| all
// that may be below 2^-126 is less than 2^-24 of it, and with 2^-102 <= |x| so is a low part below 2^-126. A high part
// may have been rounded up to the next power of two.
static int within_tiles(struct range a, struct range b) {
  if (!a.whole || !b.whole) return 0;
  if (!a.any || !b.any) return a.high < 127 && b.high < 127;  // nothing but 0 on one side
  return a.low >= -101 && b.low >= -101 && a.low + b.low >= -97 && a.high < 126 && b.high < 126 && a.high + b.high < 114;
}

// Two numbers of each lane become one word each: x the lower, y the upper one.
INLINE __m512i upper_halves(__m512i x, __m512i y) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(x, 16), y);
}

INLINE vec without_lower_half(__m512i x) { return (vec)(x & _mm512_set1_epi32((int)0xffff0000)); }

// Splits two vectors and writes a row of each of the three tiles. The high part is rounded, a tie away from 0: what is
// left has 15 bits, or is a power of two, and cut after 8 leaves 7 for the low part. Of a plain operand nothing is left.
INLINE void split(char *to, vec x, vec y, struct census *c, const int plain) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i x_rounded = _mm512_add_epi32((__m512i)x, half), y_rounded = _mm512_add_epi32((__m512i)y, half);
  const __m512i high = upper_halves(x_rounded, y_rounded);
  if (plain) {
    _mm512_store_si512(to, high);
    count(c, high, (vec){}, (vec){});
    return;
  }
  const vec x_rest = x - without_lower_half(x_rounded), y_rest = y - without_lower_half(y_rounded);
  const vec x_low = x_rest - without_lower_half((__m512i)x_rest), y_low = y_rest - without_lower_half((__m512i)y_rest);
  _mm512_store_si512(to, high);
  _mm512_store_si512(to + PART_BYTES, upper_halves((__m512i)x_rest, (__m512i)y_rest));
  _mm512_store_si512(to + 2 * PART_BYTES, upper_halves((__m512i)x_low, (__m512i)y_low));
  count(c, high, x_low, y_low);
}

// How an operand's elements lie in a tile: k in pairs, p with p + 16. A row of a tile of `a` is a row of a, pair after
// pair; a row of a tile of b is a pair of rows of b, column by column.
enum side { ROWS_OF_A, COLUMNS_OF_B };

// Where the tiles of a line begin, over DEPTH of k from p.
INLINE size place_of(size line, size p, size panel) {
  return line / SIDE * panel + p / DEPTH * STEP_BYTES + line % SIDE / LINES * TILE_BYTES;
}

// Whole tiles of elements that lie in the order of tiles, read in the order in which they lie: `row` is from one row of a
// tile to the next, from one line to the next for a, from one k to the next for b.
INLINE void split_rows(char *to, size panel, struct numbers from, size row, size lines, size k, const enum side side,
                       struct census *c, const int plain) {
  if (side == ROWS_OF_A)
    for (size l = 0; l < lines; l++)
      for (size p = 0; p < k; p += DEPTH)
        split(to + place_of(l, p, panel) + l % LINES * 64, load_numbers(from, l * row + p),
              load_numbers(from, l * row + p + DEPTH / 2), c, plain);
  else
    for (size p = 0; p < k; p += DEPTH)
      for (size i = 0; i < DEPTH / 2; i++)
        for (size l = 0; l < lines; l += LINES)
          split(to + place_of(l, p, panel) + i * 64, load_numbers(from, (p + i) * row + l),
                load_numbers(from, (p + i + DEPTH / 2) * row + l), c, plain);
}

// The same from wherever the elements lie, and however few they are: copied first, the other way round if need be, and
// filled up with zeros.
static void gather_tile(float *to, struct numbers numbers, size line_stride, size k_stride, size lines, size k,
                        const enum side side) {
  float space[DEPTH * DEPTH];
  const float *from = (const float *)numbers.at;
  if (is_narrow(numbers.dtype)) {  // widened first: runs along k, or across
    const size runs = k_stride == 1 ? lines : k, length = k_stride == 1 ? k : lines;
    for (size i = 0; i < runs; i++)
      widen(space + i * DEPTH, from_number(numbers, i * (k_stride == 1 ? line_stride : k_stride)), length);
    from = space;
    line_stride = k_stride == 1 ? DEPTH : 1;
    k_stride = k_stride == 1 ? 1 : DEPTH;
  }
  const size line_to = side == ROWS_OF_A ? DEPTH : 1, k_to = side == ROWS_OF_A ? 1 : LINES;
  if (lines == LINES && k == DEPTH && side == ROWS_OF_A && line_stride == 1)
    for (size l = 0; l < LINES; l += 4)
      for (size p = 0; p < DEPTH; p += LANES) transpose_lanes(to + l * DEPTH + p, DEPTH, from + p * k_stride + l, k_stride);
  else if (lines == LINES && k == DEPTH && side == COLUMNS_OF_B && k_stride == 1)
    for (size p = 0; p < DEPTH; p += 4) transpose_lanes(to + p * LINES, LINES, from + p, line_stride);
  else {
    __builtin_memset(to, 0, LINES * DEPTH * sizeof(float));
    if (k_to == 1 && k_stride == 1)
      for (size l = 0; l < lines; l++) __builtin_memcpy(to + l * line_to, from + l * line_stride, (size_t)k * sizeof(float));
    else if (line_to == 1 && line_stride == 1)
      for (size p = 0; p < k; p++) __builtin_memcpy(to + p * k_to, from + p * k_stride, (size_t)lines * sizeof(float));
    else
      for (size l = 0; l < lines; l++)
        for (size p = 0; p < k; p++) to[l * line_to + p * k_to] = from[l * line_stride + p * k_stride];
  }
}

INLINE void pack_tile(char *to, struct numbers from, size line_stride, size k_stride, size lines, size k,
                      const enum side side, struct census *c, const int plain) {
  float copy[LINES * DEPTH];
  gather_tile(copy, from, line_stride, k_stride, max_size(0, min_size(lines, LINES)), min_size(k, DEPTH), side);
  split_rows(to, 0, (struct numbers){(char *)copy, DTYPE_F32}, side == ROWS_OF_A ? DEPTH : LINES, LINES, DEPTH, side, c, plain);
}

// `lines` rows of a, or columns of b, over k: panels of SIDE lines, one after the other.
INLINE struct range pack(char *to, struct numbers from, size line_stride, size k_stride, size lines, size k,
                         const enum side side, const int plain) {
  const size panel = round_up(k, DEPTH) / DEPTH * STEP_BYTES, row = side == ROWS_OF_A ? line_stride : k_stride;
  const int in_order = (side == ROWS_OF_A ? k_stride : line_stride) == 1;
  const size whole_lines = in_order ? lines / LINES * LINES : 0, whole_k = in_order ? k / DEPTH * DEPTH : 0;
  struct census c = no_census();
  split_rows(to, panel, from, row, whole_lines, whole_k, side, &c, plain);
  for (size p = 0; p < k; p += DEPTH)
    for (size l = p < whole_k ? whole_lines : 0; l < round_up(lines, SIDE); l += LINES)
      pack_tile(to + place_of(l, p, panel), from_number(from, l * line_stride + p * k_stride), line_stride, k_stride,
                lines - l, k - p, side, &c, plain);
  return range_of(c);
}

#define LOAD_A(part)                                            \
  _tile_loadd(4, a + part * PART_BYTES, 64);                    \
  _tile_loadd(5, a + part * PART_BYTES + TILE_BYTES, 64)
#define LOAD_B(part)                                            \
  _tile_loadd(6, b + part * PART_BYTES, 64);                    \
  _tile_loadd(7, b + part * PART_BYTES + TILE_BYTES, 64)
#define MULTIPLY          \
  _tile_dpbf16ps(0, 4, 6);  \
  _tile_dpbf16ps(1, 4, 7);  \
  _tile_dpbf16ps(2, 5, 6);  \
  _tile_dpbf16ps(3, 5, 7)

// A tile of the result, 16 rows of 16: it starts from 0 or from what is added.
#define START(tile, row, column)                                                                  \
  if (from)                                                                                       \
    _tile_loadd(tile, from + row * from_stride + column, from_stride * (size)sizeof(float));      \
  else                                                                                            \
    _tile_zero(tile)
#define FINISH(tile, row, column) _tile_stored(tile, out + row * stride + column, stride * (size)sizeof(float))

// A square of the result: tiles 0 to 3 are its quarters, 4 and 5 hold a, 6 and 7 hold b. The order of the products is
// the one in which the fewest tiles are loaded. The next square of the result is fetched meanwhile.
INLINE void multiply_square(float *out, size stride, const float *from, size from_stride, const char *a, const char *b,
                            size k, const float *next, const int plain) {
  enum { HIGH, MIDDLE, LOW };
  const size steps = (k + DEPTH - 1) / DEPTH, rows_a_step = (SIDE + steps - 1) / steps;
  const float *const end = next + SIDE * stride;
  START(0, 0, 0);
  START(1, 0, LINES);
  START(2, LINES, 0);
  START(3, LINES, LINES);
  for (size p = 0; p < steps; p++, a += STEP_BYTES, b += STEP_BYTES) {
    for (size r = 0; r < rows_a_step && next < end; r++, next += stride)
      for (size line = 0; line < SIDE; line += 16) __builtin_prefetch(next + line, 1);
    LOAD_A(HIGH);
    if (plain) {
      LOAD_B(HIGH);
      MULTIPLY;
      continue;
    }
    LOAD_B(LOW);
    MULTIPLY;
    LOAD_B(MIDDLE);
    MULTIPLY;
    LOAD_A(MIDDLE);
    MULTIPLY;
    LOAD_B(HIGH);
    MULTIPLY;
    LOAD_A(LOW);
    MULTIPLY;
    LOAD_A(HIGH);
    MULTIPLY;
  }
  FINISH(0, 0, 0);
  FINISH(1, 0, LINES);
  FINISH(2, LINES, 0);
  FINISH(3, LINES, LINES);
}

// What is added to a square, or a part of one at an edge.
static void sum_addends(float *to, const struct product *x) {
  const float *bias = (const float *)x->bias.at, *add = (const float *)x->add.at;
  for (size i = 0; i < x->m; i++)
    for (size j = 0; j < x->n; j++) to[i * SIDE + j] = (bias ? bias[j] : 0) + (add ? add[i * x->stride + j] : 0);
}

static void square(float *out, size stride, const float *from, size from_stride, const char *a, const char *b, size k,
                   const float *next, int plain) {
  if (plain)
    multiply_square(out, stride, from, from_stride, a, b, k, next, 1);
  else
    multiply_square(out, stride, from, from_stride, a, b, k, next, 0);
}

// A square at an edge goes through a whole one of its own.
static void multiply_edge(const struct product *x, const char *a, const char *b, int plain) {
  float whole[SIDE * SIDE] = {};
  sum_addends(whole, x);
  square(whole, SIDE, whole, SIDE, a, b, x->k, whole, plain);
  for (size i = 0; i < x->m; i++) 
    __builtin_memcpy(from_number(x->out, i * x->stride).at, whole + i * SIDE, (size_t)x->n * sizeof(float));
}

static void multiply_whole(const struct product *x, const char *a, const char *b, const float *next, int plain) {
  float sums[SIDE * SIDE], *out = (float *)x->out.at;
  const float *bias = (const float *)x->bias.at, *add = (const float *)x->add.at;
  if (add && bias) {
    sum_addends(sums, x);
    square(out, x->stride, sums, SIDE, a, b, x->k, next, plain);
  } else if (bias)
    square(out, x->stride, bias, 0, a, b, x->k, next, plain);  // one row, for every row
  else
    square(out, x->stride, add, x->stride, a, b, x->k, next, plain);
}

static void multiply_packed(const struct product *x, const char *a, const char *b, int plain) {
  const size line = round_up(x->k, DEPTH) * ELEMENT_BYTES;
  for (size i = 0; i < x->m; i += SIDE)
    for (size j = 0; j < x->n; j += SIDE) {
      const struct product part = part_of(x, i, j, 0, min_size(x->m - i, SIDE), min_size(x->n - j, SIDE), x->k);
      if (part.m == SIDE && part.n == SIDE)
        multiply_whole(&part, a + i * line, b + j * line,
                       (const float *)x->out.at + (j + SIDE < x->n ? i * x->stride + j + SIDE : (i + SIDE) * x->stride), plain);
      else
        multiply_edge(&part, a + i * line, b + j * line, plain);
    }
}

static struct range pack_a(char *to, struct matrix a, size rows, size k, int plain) {
  if (plain) return pack(to, a.at, a.row_stride, a.column_stride, rows, k, ROWS_OF_A, 1);
  return a.column_stride == 1 ? pack(to, a.at, a.row_stride, 1, rows, k, ROWS_OF_A, 0)
                              : pack(to, a.at, a.row_stride, a.column_stride, rows, k, ROWS_OF_A, 0);
}

static struct range pack_b(char *to, struct matrix b, size k, size columns, int plain) {
  if (plain) return pack(to, b.at, b.column_stride, b.row_stride, columns, k, COLUMNS_OF_B, 1);
  return b.column_stride == 1 ? pack(to, b.at, 1, b.row_stride, columns, k, COLUMNS_OF_B, 0)
                              : pack(to, b.at, b.column_stride, b.row_stride, columns, k, COLUMNS_OF_B, 0);
}

// Packing costs what it saves up to about 64 rows, columns or k, and what is filled up with zeros is multiplied too.
int tiles_pay(size m, size n, size k) {
  const double whole = (double)round_up(m, SIDE) * (double)round_up(n, SIDE) * (double)round_up(k, DEPTH);
  return m >= 64 && n >= 64 && k >= 64 && whole <= 1.25 * (double)m * (double)n * (double)k;
}

// Rows of a against all columns of b, k pass by pass. Some rows of a are packed when their turn comes, and kept only if
// more columns wait than are packed at once.
static void multiply_rows(const struct tuning *t, const struct product *x, char *packed_a, char *packed_b, char *rest) {
  const size step_n = even_block(x->n, BLOCK_COLUMNS, SIDE), step_k = even_block(x->k, BLOCK_K, DEPTH);
  struct range ranges[BLOCK_ROWS / STEP_ROWS];
  const int plain = x->a.at.dtype == DTYPE_BF16 && x->b.at.dtype == DTYPE_BF16;
  for (size p = 0; p < x->k; p += step_k)
    for (size j = 0; j < x->n; j += step_n) {
      const size columns = min_size(step_n, x->n - j), depth = min_size(step_k, x->k - p);
      const size line = round_up(depth, DEPTH) * ELEMENT_BYTES;
      const struct range b_range = pack_b(packed_b, block_of(x->b, p, j), depth, columns, plain);
      for (size i = 0; i < x->m; i += STEP_ROWS) {
        const struct product rows = part_of(x, i, j, p, min_size(STEP_ROWS, x->m - i), columns, depth);
        char *a = x->n > step_n ? packed_a + i * line : packed_a;
        if (j == 0) ranges[i / STEP_ROWS] = pack_a(a, rows.a, rows.m, depth, plain);
        if (within_tiles(ranges[i / STEP_ROWS], b_range))
          multiply_packed(&rows, a, packed_b, plain);
        else
          multiply_vectors(t, &rows, rest);
      }
    }
}

void multiply_tiles(const struct tuning *t, const struct product *x, char *space) {
  char *packed_a = (char *)round_up((size)space, 64), *packed_b = packed_a + BLOCK_ROWS * BLOCK_K * ELEMENT_BYTES;
  char *rest = packed_b + BLOCK_COLUMNS * BLOCK_K * ELEMENT_BYTES;
  configure_tiles();
  for (size i = 0; i < x->m; i += BLOCK_ROWS) {
    const struct product rows = part_of(x, i, 0, 0, min_size(BLOCK_ROWS, x->m - i), x->n, x->k);
    multiply_rows(t, &rows, packed_a, packed_b, rest);
  }
  _tile_release();
}

#else
int tiles_allowed(void) { return 0; }
int tiles_pay(size m, size n, size k) { return 0; }
void multiply_tiles(const struct tuning *t, const struct product *x, char *space) { multiply_vectors(t, x, space); }
#endif
