// Products with one row on the left, as when tokens are generated one by one: every weight is read once and used once, so
// nothing is packed and what counts is that rows of b are read as they lie, several at a time. Sums run over k in the
// order and in the passes of the register tile: a product of one row has the same bits as the same row among others.
#include "matmul.h"

enum { STREAMS = 8, STRIP = 1024 };

// sum + x[0] b[0] + x[1] b[1] + ..., one vector of so many rows of b, one after the other.
INLINE vec add_vectors(const int rows, vec sum, const vec *x, const float *b, size stride, size left) {
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) sum = fma_lanes(x[i], load_some(b + i * stride, left), sum);
  return sum;
}

INLINE void add_rows(const int rows, float *sums, const float *a, const float *b, size stride, size columns) {
  vec x[STREAMS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) x[i] = splat(a[i]);
  EACH_VECTOR(c, left, columns, {
    store_some(sums + c, add_vectors(rows, load_some(sums + c, left), x, b + c, stride, left), left);
  });
}

// One pass over k: what it adds up to joins bias and add, as a tile's sums do.
static void pass(const struct product *x) {
  const float *a = (const float *)x->a.at.at, *bias = (const float *)x->bias.at, *add = (const float *)x->add.at;
  float sums[STRIP], *out = (float *)x->out.at;
  for (size j = 0; j < x->n; j += STRIP) {
    const size columns = min_size(STRIP, x->n - j), stride = x->b.row_stride;
    const float *b = (const float *)x->b.at.at + j;
    size p = 0;
    __builtin_memset(sums, 0, (size_t)columns * 4);
    for (; p + STREAMS <= x->k; p += STREAMS) add_rows(STREAMS, sums, a + p, b + p * stride, stride, columns);
    for (; p < x->k; p++) add_rows(1, sums, a + p, b + p * stride, stride, columns);
    EACH_VECTOR(c, left, columns, {
      vec sum = load_some(sums + c, left);
      if (bias) sum += load_some(bias + j + c, left);
      if (add) sum += load_some(add + j + c, left);
      store_some(out + j + c, sum, left);
    });
  }
}

int is_row(const struct product *x) {
  return x->m == 1 && !is_rounded(x) && !is_narrow(x->a.at.dtype | x->b.at.dtype) && x->b.column_stride == 1 &&
         (x->a.column_stride == 1 || x->k == 1) && !x->panels;
}

void multiply_row(const struct tuning *t, const struct product *x) {
  const size step = even_block(x->k, t->blocks.k, 4);
  for (size p = 0; p < x->k; p += step) {
    const struct product part = part_of(x, 0, 0, p, 1, x->n, min_size(step, x->k - p));
    pass(&part);
  }
}

// Four rows of b at a time, each with two sums: enough to keep the memory busy.
INLINE void dots(const int rows, float *out, const float *a, const float *b, size stride, size k) {
  vec even[4] = {}, odd[4] = {};
  size p = 0;
  for (; p + 2 * LANES <= k; p += 2 * LANES) {
    const vec x = load(a + p), y = load(a + p + LANES);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
      even[i] = fma_lanes(x, load(b + i * stride + p), even[i]);
      odd[i] = fma_lanes(y, load(b + i * stride + p + LANES), odd[i]);
    }
  }
  for (; p < k; p += LANES) {
    const vec x = load_some(a + p, k - p);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) even[i] = fma_lanes(x, load_some(b + i * stride + p, k - p), even[i]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) out[i] = sum_lanes(even[i] + odd[i]);
}

COMMAND(matvec) {
  const size n = (size)w[MATVEC_N], k = (size)w[MATVEC_K], stride = (size)w[MATVEC_STRIDE];
  const float *a = floats(c, w[MATVEC_A]), *b = floats(c, w[MATVEC_B]);
  float *out = floats(c, w[MATVEC_OUT]);
  if (w[MATVEC_TRANS_B] == 0) {
    const struct product x = {.out = {(char *)out, DTYPE_F32},
                              .stride = n,
                              .a = matrix_of(a, k, 1),
                              .b = matrix_of(b, stride, 1),
                              .m = 1,
                              .n = n,
                              .k = k};
    multiply_row(&c->tuning, &x);
    return;
  }
  size j = 0;
  for (; j + 4 <= n; j += 4) dots(4, out + j, a, b + j * stride, stride, k);
  for (; j < n; j++) dots(1, out + j, a, b + j * stride, stride, k);
}
