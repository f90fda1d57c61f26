// Packing for a register tile: the operands of a product in the order in which the tile reads them, in panels of TILE_ROWS rows
// of a and TILE_COLUMNS columns of b. Rows of a matrix often lie pages apart, where no CPU sees what comes next: what is
// packed after is fetched on the way.
#pragma once
#include "matmul.h"
#include "sums.h"
#include "transpose.h"

#define TILE_MOST (TILE_COLUMNS > TILE_ROWS ? TILE_COLUMNS : TILE_ROWS)
enum { LINE_FLOATS = 16 };

// A line of each of the next rows, of which p elements are done: once for every line.
INLINE void fetch_rows(const float *from, size stride, size p, const int rows) {
  if (p % LINE_FLOATS == 0)
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) __builtin_prefetch(from + r * stride + p);
}

// A panel: k rows of `width` floats. `from` has k rows (stride k_stride) of `count` <= width elements (stride across).
INLINE void pack_panel(float *to, const float *from, size k_stride, size across, size k, size count, const size width) {
  size done = 0;
  if (across == 1 && count == width) {
    for (size p = 0; p < k; p++, from += k_stride, to += width)
      if (width % LANES == 0)  // the compiler would call a function to copy them one by one
#pragma GCC unroll 8
        for (size j = 0; j < width; j += LANES) store(to + j, load(from + j));
      else
#pragma GCC unroll 8
        for (size j = 0; j < width; j++) to[j] = from[j];
    return;
  }
  if (k_stride == 1) {
    const size fours = k & ~(size)3;
    for (; done + LANES <= count; done += LANES)
      for (size p = 0; p < fours; p += 4) {
        fetch_rows(from + (done + LANES) * across, across, p, LANES);
        transpose_lanes(to + p * width + done, width, from + done * across + p, across);
      }
    for (; done + 4 <= count; done += 4)
      for (size p = 0; p < fours; p += 4) {
        fetch_rows(from + (done + 4) * across, across, p, 4);
        transpose4(to + p * width + done, width, from + done * across + p, across);
      }
    for (size p = fours; p < k; p++)
      for (size j = 0; j < done; j++) to[p * width + j] = from[j * across + p];
  }
  if (across == 1 && width % LANES == 0) {
    for (size p = 0; p < k; p++)
#pragma GCC unroll 8
      for (size j = 0; j < width; j += LANES) {
        const size left = count - j;
        store(to + p * width + j, left > 0 ? load_some(from + p * k_stride + j, left) : splat(0));
      }
    return;
  }
  for (size p = 0; p < k; p++) {
    for (size j = done; j < count; j++) to[p * width + j] = from[p * k_stride + j * across];
    for (size j = count; j < width; j++) to[p * width + j] = 0;
  }
}

// The same from numbers of 16 bits, which lie side by side either along k or across.
INLINE void pack_narrow(const int dtype, float *to, const uint16_t *from, size k_stride, size across, size k, size count,
                        const size width) {
  enum { RUN = 64 };
  if (across == 1 && count == width && width % LANES == 0)
    for (size p = 0; p < k; p++, from += k_stride, to += width)
#pragma GCC unroll 8
      for (size j = 0; j < width; j += LANES) store(to + j, load_as(dtype, from, j, LANES));
  else if (across == 1)
    for (size p = 0; p < k; p++, from += k_stride, to += width) {
      widen(to, (struct numbers){(char *)from, dtype}, count);
      for (size j = count; j < width; j++) to[j] = 0;
    }
  else
    for (size p = 0; p < k; p += RUN) {
      float runs[RUN * TILE_MOST];
      const size length = min_size(RUN, k - p);
      for (size j = 0; j < count; j++)
        for (size i = 0; i < length; i += LANES)
          store_some(runs + j * RUN + i, load_as(dtype, from + p + j * across, i, length - i), length - i);
      pack_panel(to + p * width, runs, 1, RUN, length, count, width);
    }
}

// Whether k rows are more than the first caches hold: only then it matters in which order they are read.
INLINE int is_far(size k_stride, size k) { return k_stride * k > 1 << 15; }

// All panels of what lies as they do: a few rows of k at a time, each of them from its beginning to its end. `sums`, or null, are those of
// its columns so far.
INLINE void pack_across(float *to, const float *from, size k_stride, size k, size count, const size width, double *sums) {
  enum { DEPTH = 4 };
  for (size p = 0; p < k; p += DEPTH, from += DEPTH * k_stride) {
    for (size j = 0; j < count; j += width) {
#pragma GCC unroll 8
      for (size l = 0; l < width; l += LINE_FLOATS) fetch_rows(from + DEPTH * k_stride + j + l, k_stride, 0, DEPTH);
      pack_panel(to + j * k + p * width, from + j, k_stride, 1, min_size(DEPTH, k - p), min_size(width, count - j), width);
    }
    if (sums && k - p >= DEPTH)
      add_rows(sums, from, k_stride, count, DEPTH);
    else if (sums)
      for (size r = 0; r < k - p; r++) add_rows(sums, from + r * k_stride, k_stride, count, 1);
  }
}

INLINE void pack_any(float *to, struct numbers from, size k_stride, size across, size k, size count, const size width) {
  const uint16_t *shorts = (const uint16_t *)from.at;
  if (from.dtype == DTYPE_BF16)
    pack_narrow(DTYPE_BF16, to, shorts, k_stride, across, k, count, width);
  else if (from.dtype == DTYPE_F16)
    pack_narrow(DTYPE_F16, to, shorts, k_stride, across, k, count, width);
  else
    pack_panel(to, (const float *)from.at, k_stride, across, k, count, width);
}

// Sums, or null, are of rows that lie as panels do.
static float *pack_summed(float *to, struct matrix b, size k, size columns, double *sums) {
  if (b.at.dtype == DTYPE_F32 && b.column_stride == 1 && is_far(b.row_stride, k)) {
    pack_across(to, (const float *)b.at.at, b.row_stride, k, columns, TILE_COLUMNS, sums);
    return to + k * round_up(columns, TILE_COLUMNS);
  }
  if (sums) add_columns(sums, b.at, k, b.row_stride, columns);
  for (size j = 0; j < columns; j += TILE_COLUMNS, to += k * TILE_COLUMNS)
    pack_any(to, from_number(b.at, j * b.column_stride), b.row_stride, b.column_stride, k,
             min_size(columns - j, TILE_COLUMNS), TILE_COLUMNS);
  return to;
}

static float *pack_columns(float *to, struct matrix b, size k, size columns) { return pack_summed(to, b, k, columns, 0); }

// Rows of 16 bits that lie side by side: runs of them are widened for all panels at once.
static void pack_rows_across(float *to, struct matrix a, size rows, size k) {
  enum { DEPTH = 8, MOST = 768 };
  float runs[DEPTH * MOST];
  for (size first = 0; first < rows; first += MOST / TILE_ROWS * TILE_ROWS) {
    const size count = min_size(MOST / TILE_ROWS * TILE_ROWS, rows - first);
    for (size p = 0; p < k; p += DEPTH) {
      const size depth = min_size(DEPTH, k - p);
      for (size d = 0; d < depth; d++) widen(runs + d * MOST, block_of(a, first, p + d).at, count);
      for (size i = 0; i < count; i += TILE_ROWS)
        pack_panel(to + (first + i) * k + p * TILE_ROWS, runs + i, MOST, 1, depth, min_size(count - i, TILE_ROWS), TILE_ROWS);
    }
  }
}

static void pack_rows_along(float *to, struct matrix a, size rows, size k) {
  for (size i = 0; i < rows; i += TILE_ROWS, to += k * TILE_ROWS)
    pack_any(to, from_number(a.at, i * a.row_stride), a.column_stride, a.row_stride, k, min_size(rows - i, TILE_ROWS),
             TILE_ROWS);
}

static void pack_rows(float *to, struct matrix a, size rows, size k) {
  if (a.row_stride == 1 && is_narrow(a.at.dtype))
    pack_rows_across(to, a, rows, k);
  else if (a.row_stride == 1 && is_far(a.column_stride, k))
    pack_across(to, (const float *)a.at.at, a.column_stride, k, rows, TILE_ROWS, 0);
  else
    pack_rows_along(to, a, rows, k);
}
