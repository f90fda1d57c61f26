// Columns are summed in f64, row after row, so that how many rows come at once does not show.
#pragma once
#include "numbers.h"

INLINE void add_rows(double *sums, const float *x, size columns, size width, const int rows) {
  size i = 0;
  for (; i + LANES / 2 <= width; i += LANES / 2) {
    dvec sum = *(dvec_at *)(sums + i);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) sum += load_wide(x + r * columns + i);
    *(dvec_at *)(sums + i) = sum;
  }
  for (; i < width; i++)
    for (int r = 0; r < rows; r++) sums[i] += (double)x[r * columns + i];
}

// Adds the columns of x[rows width], whose rows lie `columns` apart.
void add_columns(double *sums, struct numbers x, size rows, size columns, size width);

// out[n] = sums, rounded, or out + them.
void store_columns(struct numbers out, const double *sums, size n, int adds);

// out[c] = sum over rows of x[r c], or out + it.
void sum_rows(struct numbers out, struct numbers x, size rows, size columns, int adds);
