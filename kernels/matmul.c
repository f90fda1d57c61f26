// Matrix multiplication after Goto and van de Geijn: blocks of a and b are packed into the order in which the register
// tile reads them, sized for the caches they are read from: a panel of b stays in the first level while the block
// of a streams past it from the second. Sums over k run in ascending order, one pass per block of k, so the bits of
// a result depend on the sizes alone.
//
// The plain rung, which all of this must agree with:
//
//   for (i < m) for (j < n) for (p < k) out[i][j] += a[i][p] * b[p][j];
#include "matmul.h"

#ifndef BLOCK_K
#define BLOCK_K 384     // k of one pass
#define BLOCK_ROWS 192  // rows of a packed at once; a multiple of TILE_ROWS
#define BLOCK_COLUMNS 2048
#ifdef __wasm__
#define UNPACKED_COLUMNS 0
#else
#define UNPACKED_COLUMNS 768  // up to so many columns, packing rows of a costs more than it saves
#endif
#endif
_Static_assert(BLOCK_ROWS % TILE_ROWS == 0, "a block of a is whole tiles");
_Static_assert((BLOCK_K * BLOCK_ROWS + BLOCK_K * BLOCK_COLUMNS) * 4 <= LOCKSTEP_WORKSPACE_BYTES, "workspace");

// What one tile reads and writes.
struct tile {
  const float *a;
  size a_row, a_k;  // strides of a
  const float *b;   // k rows of TILE_COLUMNS
  float *out;
  size out_stride, k;
  int accumulate;
};

INLINE void multiply_tile(const int rows, const int vectors, const struct tile *t, size a_row, size a_k) {
  vec sums[TILE_ROWS][TILE_VECTORS] = {};
  const float *a = t->a, *b = t->b;
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {  // so that the result has come by the time the sums are done
    __builtin_prefetch(t->out + i * t->out_stride, 1);
    __builtin_prefetch(t->out + i * t->out_stride + vectors * LANES - 1, 1);
  }
  for (size p = 0; p < t->k; p++, a += a_k, b += TILE_COLUMNS) {
    vec row[TILE_VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) row[v] = load(b + v * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
      vec x = splat(a[i * a_row]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) sums[i][v] = fma_lanes(x, row[v], sums[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      float *to = t->out + i * t->out_stride + v * LANES;
      store(to, t->accumulate ? load(to) + sums[i][v] : sums[i][v]);
    }
}

// One function per number of rows: a tile at the lower edge does not compute rows that nobody reads. The first kind runs
// on packed blocks, whose strides are known; the second on any matrix.
typedef void tile_function(const struct tile *);
#define ROWS_4(do) do(1) do(2) do(3) do(4)
#define ROWS_6(do) ROWS_4(do) do(5) do(6)
#define ROWS_8(do) ROWS_6(do) do(7) do(8)
#define ROWS_12(do) ROWS_8(do) do(9) do(10) do(11) do(12)
#define ROWS_14(do) ROWS_12(do) do(13) do(14)
#define JOIN(a, b) a##b
#define ROWS_UP_TO(n, do) JOIN(ROWS_, n)(do)

#define DEFINE(rows)                                                                                              \
  static void packed_##rows(const struct tile *t) { multiply_tile(rows, TILE_VECTORS, t, 1, TILE_ROWS); }         \
  static void strided_##rows(const struct tile *t) { multiply_tile(rows, TILE_VECTORS, t, t->a_row, t->a_k); }    \
  static void narrow_##rows(const struct tile *t) { multiply_tile(rows, 1, t, t->a_row, t->a_k); }
ROWS_UP_TO(TILE_ROWS, DEFINE)

#define PACKED(rows) packed_##rows,
#define STRIDED(rows) strided_##rows,
#define NARROW(rows) narrow_##rows,
static tile_function *const packed_tiles[TILE_ROWS + 1] = {0, ROWS_UP_TO(TILE_ROWS, PACKED)};
static tile_function *const strided_tiles[TILE_ROWS + 1] = {0, ROWS_UP_TO(TILE_ROWS, STRIDED)};
static tile_function *const narrow_tiles[TILE_ROWS + 1] = {0, ROWS_UP_TO(TILE_ROWS, NARROW)};  // one vector of columns

// A tile at the right edge goes through a whole one of its own, and only its columns are copied out.
static void multiply_edge(tile_function *multiply, struct tile t, int rows, int columns) {
  float whole[TILE_ROWS * TILE_COLUMNS];
  float *out = t.out;
  const int accumulate = t.accumulate;
  const size stride = t.out_stride;
  t.out = whole;
  t.out_stride = TILE_COLUMNS;
  t.accumulate = 0;
  multiply(&t);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      const float sum = whole[i * TILE_COLUMNS + j];
      out[i * stride + j] = accumulate ? out[i * stride + j] + sum : sum;
    }
}

INLINE void multiply_at(tile_function *const *tiles, const struct tile *t, size rows, size columns) {
  const int height = (int)min_size(rows, TILE_ROWS);
  if (columns >= TILE_COLUMNS)
    tiles[height](t);
  else if (columns == LANES)
    narrow_tiles[height](t);
  else
    multiply_edge((columns < LANES ? narrow_tiles : tiles)[height], *t, height, (int)columns);
}

void multiply_panels(float *out, size out_stride, struct matrix a, const float *panels, size rows, size columns, size k,
                     int accumulate) {
  for (size j = 0; j < columns; j += TILE_COLUMNS)
    for (size i = 0; i < rows; i += TILE_ROWS) {
      struct tile t = {a.at + i * a.row_stride,  a.row_stride, a.column_stride, panels + j * k,
                       out + i * out_stride + j, out_stride,   k,               accumulate};
      multiply_at(strided_tiles, &t, rows - i, columns - j);
    }
}

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

// Four rows of four become four columns.
INLINE void transpose4(float *to, size to_stride, const float *from, size from_stride) {
  vec4 a = load4(from), b = load4(from + from_stride), c = load4(from + 2 * from_stride), d = load4(from + 3 * from_stride);
  vec4 ab_low = SHUFFLE(a, b, 0, 4, 1, 5), ab_high = SHUFFLE(a, b, 2, 6, 3, 7);
  vec4 cd_low = SHUFFLE(c, d, 0, 4, 1, 5), cd_high = SHUFFLE(c, d, 2, 6, 3, 7);
  store4(to, SHUFFLE(ab_low, cd_low, 0, 1, 4, 5));
  store4(to + to_stride, SHUFFLE(ab_low, cd_low, 2, 3, 6, 7));
  store4(to + 2 * to_stride, SHUFFLE(ab_high, cd_high, 0, 1, 4, 5));
  store4(to + 3 * to_stride, SHUFFLE(ab_high, cd_high, 2, 3, 6, 7));
}

// The same for LANES rows at once: register l, part q holds four elements of row 4 q + l, and the four by four transposes
// of all parts are one shuffle each.
#if LANES == 16
#define FOUR_ROWS(p, s)                                                                     \
  SHUFFLE(SHUFFLE(load4(p), load4((p) + 4 * (s)), 0, 1, 2, 3, 4, 5, 6, 7),                  \
          SHUFFLE(load4((p) + 8 * (s)), load4((p) + 12 * (s)), 0, 1, 2, 3, 4, 5, 6, 7), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, \
          11, 12, 13, 14, 15)
#define LOW(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH(a, b) SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW2(a, b) SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH2(a, b) SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#elif LANES == 8
#define FOUR_ROWS(p, s) SHUFFLE(load4(p), load4((p) + 4 * (s)), 0, 1, 2, 3, 4, 5, 6, 7)
#define LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(a, b) SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW2(a, b) SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH2(a, b) SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#else
#define FOUR_ROWS(p, s) load4(p)
#define LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#define LOW2(a, b) SHUFFLE(a, b, 0, 1, 4, 5)
#define HIGH2(a, b) SHUFFLE(a, b, 2, 3, 6, 7)
#endif
INLINE void transpose_lanes(float *to, size to_stride, const float *from, size s) {
  const vec a = FOUR_ROWS(from, s), b = FOUR_ROWS(from + s, s), c = FOUR_ROWS(from + 2 * s, s), d = FOUR_ROWS(from + 3 * s, s);
  const vec ab_low = LOW(a, b), ab_high = HIGH(a, b), cd_low = LOW(c, d), cd_high = HIGH(c, d);
  store(to, LOW2(ab_low, cd_low));
  store(to + to_stride, HIGH2(ab_low, cd_low));
  store(to + 2 * to_stride, LOW2(ab_high, cd_high));
  store(to + 3 * to_stride, HIGH2(ab_high, cd_high));
}

// A panel: k rows of `width` floats. `from` has k rows (stride k_stride) of `count` <= width elements (stride across).
INLINE void pack_panel(float *to, const float *from, size k_stride, size across, size k, size count, const size width) {
  size done = 0;
  if (across == 1 && count == width) {
    for (size p = 0; p < k; p++, from += k_stride, to += width)
#pragma GCC unroll 8
      for (size j = 0; j < width; j++) to[j] = from[j];
    return;
  }
  if (k_stride == 1) {
    const size fours = k & ~(size)3;
    for (; done + LANES <= count; done += LANES)
      for (size p = 0; p < fours; p += 4) transpose_lanes(to + p * width + done, width, from + done * across + p, across);
    for (; done + 4 <= count; done += 4)
      for (size p = 0; p < fours; p += 4) transpose4(to + p * width + done, width, from + done * across + p, across);
    for (size p = fours; p < k; p++)
      for (size j = 0; j < done; j++) to[p * width + j] = from[j * across + p];
  }
  for (size p = 0; p < k; p++) {
    for (size j = done; j < count; j++) to[p * width + j] = from[p * k_stride + j * across];
    for (size j = count; j < width; j++) to[p * width + j] = 0;
  }
}

float *pack_panels(float *to, struct matrix b, size k, size columns) {
  for (size j = 0; j < columns; j += TILE_COLUMNS, to += k * TILE_COLUMNS)
    pack_panel(to, b.at + j * b.column_stride, b.row_stride, b.column_stride, k, min_size(columns - j, TILE_COLUMNS),
               TILE_COLUMNS);
  return to;
}

static void pack_rows(float *to, struct matrix a, size rows, size k) {
  for (size i = 0; i < rows; i += TILE_ROWS, to += k * TILE_ROWS)
    pack_panel(to, a.at + i * a.row_stride, a.column_stride, a.row_stride, k, min_size(rows - i, TILE_ROWS), TILE_ROWS);
}

// A packed block of a times the packed panels of b.
static void multiply_block(float *out, size out_stride, const float *a, const float *b, size rows, size columns, size k,
                           int accumulate) {
  for (size j = 0; j < columns; j += TILE_COLUMNS)
    for (size i = 0; i < rows; i += TILE_ROWS) {
      struct tile t = {a + i * k, 1, TILE_ROWS, b + j * k, out + i * out_stride + j, out_stride, k, accumulate};
      multiply_at(packed_tiles, &t, rows - i, columns - j);
    }
}

// The size of each of the equal blocks that `total` is cut into: none over `most`, all but the last multiples of `unit`.
static size even_block(size total, size most, size unit) {
  size blocks = (total + most - 1) / most;
  return blocks <= 1 ? max_size(total, 1) : round_up((total + blocks - 1) / blocks, unit);
}

static void multiply(float *out, struct matrix a, struct matrix b, size m, size n, size k, int accumulate, float *space) {
  const size step_n = even_block(n, BLOCK_COLUMNS, TILE_COLUMNS);
  const size step_k = even_block(k, BLOCK_K, 4), step_m = even_block(m, BLOCK_ROWS, TILE_ROWS);
  float *packed_a = space, *packed_b = space + BLOCK_ROWS * BLOCK_K;
  for (size j = 0; j < n; j += step_n)
    for (size p = 0; p < k; p += step_k) {
      const size columns = min_size(step_n, n - j), depth = min_size(step_k, k - p);
      struct matrix b_block = {b.at + p * b.row_stride + j * b.column_stride, b.row_stride, b.column_stride};
      pack_panels(packed_b, b_block, depth, columns);
      for (size i = 0; i < m; i += step_m) {
        const size rows = min_size(step_m, m - i);
        struct matrix a_block = {a.at + i * a.row_stride + p * a.column_stride, a.row_stride, a.column_stride};
        const int add = accumulate || p > 0;
        if (a.column_stride == 1 && n <= UNPACKED_COLUMNS) {
          multiply_panels(out + i * n + j, n, a_block, packed_b, rows, columns, depth, add);
        } else {
          pack_rows(packed_a, a_block, rows, depth);
          multiply_block(out + i * n + j, n, packed_a, packed_b, rows, columns, depth, add);
        }
      }
    }
}

COMMAND(matmul) {
  const size m = (size)w[MATMUL_M], n = (size)w[MATMUL_N], k = (size)w[MATMUL_K];
  const int trans_a = w[MATMUL_TRANS_A] != 0, trans_b = w[MATMUL_TRANS_B] != 0, accumulate = w[MATMUL_ACCUMULATE] != 0;
  if (c->workspace_bytes < LOCKSTEP_WORKSPACE_BYTES) {
    c->error = LOCKSTEP_WORKSPACE;
    return;
  }
  for (size i = 0; i < (size)w[MATMUL_BATCH]; i++) {
    float *out = floats(c, w[MATMUL_OUT]) + i * (size)w[MATMUL_STRIDE_OUT];
    const float *a = floats(c, w[MATMUL_A]) + i * (size)w[MATMUL_STRIDE_A];
    const float *b = floats(c, w[MATMUL_B]) + i * (size)w[MATMUL_STRIDE_B];
    if (k == 0 && !accumulate)
      for (size e = 0; e < m * n; e++) out[e] = 0;
    multiply(out, trans_a ? (struct matrix){a, 1, m} : (struct matrix){a, k, 1},
             trans_b ? (struct matrix){b, 1, k} : (struct matrix){b, n, 1}, m, n, k, accumulate, (float *)c->workspace);
  }
}
