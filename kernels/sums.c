// Sums of columns, by themselves or of what a product packs.
#include "sums.h"

// A strip is so wide that rows are read in long runs, and its sums, which stay in the first cache, are fetched once for several rows.
#define STRIP 512
#define AT_ONCE 8

// Numbers of 16 bits have 11 digits at most: a few of them are summed in f32.
INLINE vec sum_down(const int dtype, const void *x, size columns, size i, size left, const int rows) {
  vec sum = {};
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) sum += load_as(dtype, x, r * columns + i, left);
  return sum;
}

INLINE void add_narrow_rows(const int dtype, double *sums, const void *x, size columns, size width, const int rows) {
  EACH_VECTOR(i, left, width, {
    float few[LANES];
    store(few, sum_down(dtype, x, columns, i, left, rows));
    if (left == LANES) {
      *(dvec_at *)(sums + i) += load_wide(few);
      *(dvec_at *)(sums + i + LANES / 2) += load_wide(few + LANES / 2);
    } else
      for (size l = 0; l < left; l++) sums[i + l] += (double)few[l];
  });
}

INLINE void add_some_rows(const int dtype, double *sums, const void *x, size columns, size width, const int rows) {
  if (dtype == DTYPE_F32)
    add_rows(sums, (const float *)x, columns, width, rows);
  else
    add_narrow_rows(dtype, sums, x, columns, width, rows);
}

INLINE void add_strip(const int dtype, double *sums, struct numbers x, size rows, size columns, size width) {
  size r = 0;
  for (; r + AT_ONCE <= rows; r += AT_ONCE)
    add_some_rows(dtype, sums, from_number(x, r * columns).at, columns, width, AT_ONCE);
  for (; r < rows; r++) add_some_rows(dtype, sums, from_number(x, r * columns).at, columns, width, 1);
}

void add_columns(double *sums, struct numbers x, size rows, size columns, size width) {
  EACH_DTYPE(x.dtype, add_strip, sums, x, rows, columns, width);
}

void store_columns(struct numbers out, const double *sums, size n, int adds) {
  float before[STRIP], rounded[STRIP];
  for (size start = 0; start < n; start += STRIP) {
    const size width = min_size(STRIP, n - start);
    const float *old = adds ? wide(out, start, width, before) : 0;
    for (size i = 0; i < width; i++) rounded[i] = (old ? old[i] : 0) + (float)sums[start + i];
    narrow(from_number(out, start), rounded, width);
  }
}

void sum_rows(struct numbers out, struct numbers x, size rows, size columns, int adds) {
  for (size start = 0; start < columns; start += STRIP) {
    const size width = min_size(STRIP, columns - start);
    double sums[STRIP] = {};
    add_columns(sums, from_number(x, start), rows, columns, width);
    store_columns(from_number(out, start), sums, width, adds);
  }
}

COMMAND(sumRows) {
  sum_rows(numbers_of(c, w[SUM_ROWS_OUT]), numbers_of(c, w[SUM_ROWS_X]), (size)w[SUM_ROWS_ROWS], (size)w[SUM_ROWS_COLUMNS], 0);
}
