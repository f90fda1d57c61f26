// Rows of tokens that chose the same expert, and the way there and back.
#pragma once
#include "numbers.h"

// A row from where its token lies: `from` is the number of a choice, -1 behind the last row, less where it is not known.
INLINE void fill_row(struct numbers out, const char *token, int from, size columns) {
  const float nan = __builtin_nanf("");
  if (from >= 0)
    __builtin_memcpy(out.at, token, (size_t)(columns * width_of(out.dtype)));
  else if (from == -1)
    __builtin_memset(out.at, 0, (size_t)(columns * width_of(out.dtype)));
  else
    for (size i = 0; i < columns; i++) narrow(from_number(out, i), &nan, 1);
}

// The rows of a token are summed in runs that stay in the first cache.
enum { ROW_RUN = 512 };

// Adds a run of a row, from its element `first` on, to that of a token; `to` as above.
INLINE void add_run(float *sum, struct numbers row, size first, int to, size n) {
  float space[ROW_RUN];
  const float *x = to >= 0 ? wide(row, first, n, space) : space;
  if (to >= 0)
    for (size i = 0; i < n; i++) sum[i] += x[i];
  else if (to != -1)
    for (size i = 0; i < n; i++) sum[i] = __builtin_nanf("");
}
