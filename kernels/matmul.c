// Matrix multiplication after Goto and van de Geijn: blocks of a and b are packed into the order in which the register
// tile reads them, sized for the caches they are read from: a panel of b stays in the first level while the block
// of a streams past it from the second. Sums over k run in ascending order, one pass per block of k, so the bits of
// a result depend on the sizes alone.
//
// The plain rung, which all of this must agree with:
//
//   for (i < m) for (j < n) for (p < k) out[i][j] += a[i][p] * b[p][j];
#include "matmul.h"
#include "transpose.h"

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
_Static_assert((BLOCK_K * BLOCK_ROWS + BLOCK_K * BLOCK_COLUMNS) * 4 <= VECTORS_BYTES, "workspace");

// What one tile reads and writes.
struct tile {
  const float *a;
  size a_row, a_k;  // strides of a
  const float *b;   // k rows of TILE_COLUMNS
  float *out;
  const float *bias, *add;  // or null
  size stride, k;           // of out and add
};

INLINE void multiply_tile(const int rows, const int vectors, const struct tile *t, size a_row, size a_k) {
  vec sums[TILE_ROWS][TILE_VECTORS] = {};
  const float *a = t->a, *b = t->b;
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {  // so that the result has come by the time the sums are done
    __builtin_prefetch(t->out + i * t->stride, 1);
    __builtin_prefetch(t->out + i * t->stride + vectors * LANES - 1, 1);
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
      const size at = i * t->stride + v * LANES;
      vec sum = sums[i][v];
      if (t->bias) sum += load(t->bias + v * LANES);
      if (t->add) sum += load(t->add + at);
      store(t->out + at, sum);
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
  const struct tile edge = t;
  t.out = whole;
  t.bias = t.add = 0;
  t.stride = TILE_COLUMNS;
  multiply(&t);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      float sum = whole[i * TILE_COLUMNS + j];
      if (edge.bias) sum += edge.bias[j];
      if (edge.add) sum += edge.add[i * edge.stride + j];
      edge.out[i * edge.stride + j] = sum;
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

// The tile at (i, j), from elements of a and a panel of b.
INLINE struct tile tile_of(const struct product *x, size i, size j, struct matrix a, const float *panels) {
  const size at = i * x->stride + j;
  return (struct tile){.a = a.at,
                       .a_row = a.row_stride,
                       .a_k = a.column_stride,
                       .b = panels + j * x->k,
                       .out = x->out + at,
                       .bias = x->bias ? x->bias + j : 0,
                       .add = x->add ? x->add + at : 0,
                       .stride = x->stride,
                       .k = x->k};
}

// The result, from rows of a where they lie.
static void multiply_rows(const struct product *x, const float *panels) {
  for (size j = 0; j < x->n; j += TILE_COLUMNS)
    for (size i = 0; i < x->m; i += TILE_ROWS) {
      const struct tile t = tile_of(x, i, j, block_of(x->a, i, 0), panels);
      multiply_at(strided_tiles, &t, x->m - i, x->n - j);
    }
}

void multiply_panels(float *out, size out_stride, struct matrix a, const float *panels, size rows, size columns, size k,
                     int accumulate) {
  const struct product x = {
      .out = out, .add = accumulate ? out : 0, .stride = out_stride, .a = a, .m = rows, .n = columns, .k = k};
  multiply_rows(&x, panels);
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

// The same from a packed block of a.
static void multiply_block(const struct product *x, const float *a, const float *panels) {
  for (size j = 0; j < x->n; j += TILE_COLUMNS)
    for (size i = 0; i < x->m; i += TILE_ROWS) {
      const struct tile t = tile_of(x, i, j, (struct matrix){a + i * x->k, 1, TILE_ROWS}, panels);
      multiply_at(packed_tiles, &t, x->m - i, x->n - j);
    }
}

size even_block(size total, size most, size unit) {
  size blocks = (total + most - 1) / most;
  return blocks <= 1 ? max_size(total, 1) : round_up((total + blocks - 1) / blocks, unit);
}

void multiply_vectors(const struct product *x, char *space) {
  const size step_n = even_block(x->n, BLOCK_COLUMNS, TILE_COLUMNS);
  const size step_k = even_block(x->k, BLOCK_K, 4), step_m = even_block(x->m, BLOCK_ROWS, TILE_ROWS);
  float *packed_a = (float *)space, *packed_b = packed_a + BLOCK_ROWS * BLOCK_K;
  for (size j = 0; j < x->n; j += step_n)
    for (size p = 0; p < x->k; p += step_k) {
      const size columns = min_size(step_n, x->n - j), depth = min_size(step_k, x->k - p);
      pack_panels(packed_b, block_of(x->b, p, j), depth, columns);
      for (size i = 0; i < x->m; i += step_m) {
        const struct product part = part_of(x, i, j, p, min_size(step_m, x->m - i), columns, depth);
        if (x->a.column_stride == 1 && x->n <= UNPACKED_COLUMNS) {
          multiply_rows(&part, packed_b);
        } else {
          pack_rows(packed_a, part.a, part.m, depth);
          multiply_block(&part, packed_a, packed_b);
        }
      }
    }
}

// A sum of no terms: what is added, or 0.
static void multiply_nothing(const struct product *x) {
  for (size i = 0; i < x->m; i++)
    for (size j = 0; j < x->n; j++)
      x->out[i * x->stride + j] = (x->bias ? x->bias[j] : 0) + (x->add ? x->add[i * x->stride + j] : 0);
}

void multiply(struct context *c, const struct product *x) {
  if (c->workspace_bytes < LOCKSTEP_WORKSPACE_BYTES)
    c->error = LOCKSTEP_WORKSPACE;
  else if (x->k == 0)
    multiply_nothing(x);
  else if (c->tiles && tiles_pay(x->m, x->n, x->k))
    multiply_tiles(x, c->workspace);
  else
    multiply_vectors(x, c->workspace);
}

COMMAND(matmul) {
  const size m = (size)w[MATMUL_M], n = (size)w[MATMUL_N], k = (size)w[MATMUL_K];
  const int trans_a = w[MATMUL_TRANS_A] != 0, trans_b = w[MATMUL_TRANS_B] != 0;
  for (size i = 0; i < (size)w[MATMUL_BATCH]; i++) {
    const float *a = floats(c, w[MATMUL_A]) + i * (size)w[MATMUL_STRIDE_A];
    const float *b = floats(c, w[MATMUL_B]) + i * (size)w[MATMUL_STRIDE_B];
    const size at = i * (size)w[MATMUL_STRIDE_OUT];
    const struct product x = {.out = floats(c, w[MATMUL_OUT]) + at,
                              .bias = w[MATMUL_BIAS] ? floats(c, w[MATMUL_BIAS]) : 0,
                              .add = w[MATMUL_ADD] ? floats(c, w[MATMUL_ADD]) + at : 0,
                              .stride = n,
                              .a = trans_a ? (struct matrix){a, 1, m} : (struct matrix){a, k, 1},
                              .b = trans_b ? (struct matrix){b, 1, k} : (struct matrix){b, n, 1},
                              .m = m,
                              .n = n,
                              .k = k};
    multiply(c, &x);
  }
}
