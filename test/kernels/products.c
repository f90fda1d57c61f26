// Every variant of the register tile in this build against three plain loops: all transpose forms, sizes around those of
// tiles and blocks, with and without what is added; sums of the columns of b, with those that are there or without; rows packed and in place; strides between rows and panels of a part; in f32, bf16
// and f16, of which the last two are rounded once.
// Prints how many products were right, or the first that was wrong. Compiled and run by kernel-variants.test.ts, for CPUs
// that this machine only emulates too.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "matmul.h"

enum { MOST = 270 };
static float a[MOST * MOST], b[MOST * MOST], bias[MOST], add[MOST * MOST], out[MOST * MOST];
static float space[(VECTORS_BYTES + SUMS_BYTES) / 4];
static uint16_t shorts[4][MOST * MOST];  // of a, b, bias and out

static void fill(float *x, size n, unsigned seed) {
  for (size i = 0; i < n; i++) x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1;
}

// What the rounding of a result may change of it.
static double rounding(int dtype) { return dtype == DTYPE_BF16 ? 0x1p-8 : dtype == DTYPE_F16 ? 0x1p-11 : 0; }

static struct numbers stored(int dtype, int which, const float *x, size n) {
  if (dtype == DTYPE_F32) return (struct numbers){(char *)x, DTYPE_F32};
  const struct numbers to = {(char *)shorts[which], dtype};
  narrow(to, x, n);
  return to;
}

static int wrong(const struct product *x, int has_add) {
  const int dtype = x->out.dtype;
  static uint16_t of_add[MOST * MOST];
  struct numbers added = {(char *)add, DTYPE_F32};
  if (dtype != DTYPE_F32) narrow(added = (struct numbers){(char *)of_add, dtype}, add, MOST * MOST);
  for (size i = 0; i < x->m; i++)
    for (size j = 0; j < x->n; j++) {
      const size at = i * x->stride + j;
      double sum = (x->bias.at ? number_at(x->bias, j) : 0) + (has_add ? number_at(added, at) : 0), weight = fabs(sum);
      for (size p = 0; p < x->k; p++) {
        const double term = (double)number_at(x->a.at, i * x->a.row_stride + p * x->a.column_stride) *
                            number_at(x->b.at, p * x->b.row_stride + j * x->b.column_stride);
        sum += term;
        weight += fabs(term);
      }
      if (!(fabs(number_at(x->out, at) - sum) <= rounding(dtype) * fabs(sum) + 1e-6 * weight + 0x1p-25)) return 1;
    }
  for (size i = 0; i < x->m; i++)  // what lies between the rows is as it was
    for (size j = x->n; j < x->stride; j++)
      if (number_at(x->out, i * x->stride + j) != number_at(added, i * x->stride + j)) return 1;
  return 0;
}

static float sums[MOST];

// In f32 the columns of b are summed with blocks of the product, if it lies row by row.
static int wrong_sums(const struct product *x) {
  for (size j = 0; j < x->n && x->sums.at; j++) {
    double sum = 0;
    for (size p = 0; p < x->k; p++) sum += number_at(x->b.at, p * x->n + j);
    if (sums[j] != (x->adds ? bias[j] : 0) + (float)sum) return 1;
  }
  return 0;
}

static struct product product_of(int dtype, size m, size n, size k, int form, int addends) {
  const size stride = n + (form & 2 ? 3 : 0);
  const struct numbers none = {}, left = stored(dtype, 0, a, m * k), right = stored(dtype, 1, b, k * n);
  for (size i = 0; i < m * stride; i++) out[i] = add[i];
  const struct numbers to = stored(dtype, 3, out, m * stride);
  return (struct product){.out = to,
                          .bias = addends & 1 ? stored(dtype, 2, bias, n) : none,
                          .add = addends & 2 ? to : none,
                          .stride = stride,
                          .a = form & 1 ? (struct matrix){left, 1, m} : (struct matrix){left, k, 1},
                          .b = form & 2 ? (struct matrix){right, 1, k} : (struct matrix){right, n, 1},
                          .m = m,
                          .n = n,
                          .k = k};
}

// 0: the blocks of a product; 1: rows in place against panels.
static void multiply_by(const struct variant *v, const struct product *x, const struct blocks *blocks, int in_place) {
  if (!in_place) {
    v->multiply_blocks(blocks, x, space);
    return;
  }
  v->pack_columns(space, x->b, x->k, x->n);
  v->multiply_rows(x, space, x->k);
}

int main(void) {
  static const size sizes[][3] = {{1, 1, 1},   {4, 8, 4},     {8, 17, 7},   {13, 33, 64},
                                  {25, 49, 41}, {37, 65, 40}, {6, 100, 3}, {49, 16, 70},
                                  {13, 270, 256}, {130, 20, 256}};  // the last two, in f32, are packed and fetched as large ones are
  static const struct blocks blocks[] = {{384, 204, 1024, 768}, {32, 24, 64, 0}, {20, 1, 1, 0}};
  fill(a, MOST * MOST, 1), fill(b, MOST * MOST, 2), fill(bias, MOST, 3), fill(add, MOST * MOST, 4);
  static const int dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
  int right = 0, count = 0;
  for (const struct variant *v; (v = variant_at(count)); count++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int form = 0; form < 4; form++)
        for (int addends = 0; addends < 4; addends += 3)
          for (int kind = 0; kind < 10; kind += s < 8 ? 1 : 9, right++) {  // rows in place are f32
            const int how = kind < 9 ? kind % 3 : 3, dtype = dtypes[kind < 9 ? kind / 3 : 0];
            struct product x = product_of(dtype, sizes[s][0], sizes[s][1], sizes[s][2], form, addends);
            if (how < 3 && dtype == DTYPE_F32 && !(form & 2)) x.sums = stored(DTYPE_F32, 0, sums, x.n);
            x.adds = addends & 2;
            for (size j = 0; j < MOST; j++) sums[j] = bias[j];
            multiply_by(v, &x, &blocks[how % 3], how == 3);
            if (!wrong(&x, addends & 2) && !wrong_sums(&x)) continue;
            printf("wrong: %s, %ld x %ld x %ld, form %d, addends %d, how %d, dtype %d\n", v->name, (long)x.m, (long)x.n, (long)x.k,
                   form, addends, how, dtype);
            return 1;
          }
  printf("%d variants, %d products right\n", count, right);
  return 0;
}
