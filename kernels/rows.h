// Rows of tokens that chose the same expert, and the way there and back.
#pragma once
#include "kernels.h"

// A row from where its token lies: `from` is the number of a choice, -1 behind the last row, less where it is not known.
INLINE void fill_row(float *out, const float *token, int from, size columns) {
  if (from >= 0)
    __builtin_memcpy(out, token, (size_t)columns * 4);
  else
    for (size i = 0; i < columns; i++) out[i] = from == -1 ? 0 : __builtin_nanf("");
}

// Adds a row to a token; `to` as above.
INLINE void add_row(float *out, const float *row, int to, size columns) {
  if (to >= 0)
    for (size i = 0; i < columns; i++) out[i] += row[i];
  else if (to != -1)
    for (size i = 0; i < columns; i++) out[i] = __builtin_nanf("");
}
