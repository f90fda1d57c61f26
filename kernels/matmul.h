// The inner product of everything: a register tile of TILE_ROWS x TILE_COLUMNS of the result, which runs over k with
// all of its sums in registers. Tile and vector width are chosen so that the sums, a row of b and one element of a fit
// the target's registers: more spills, less waits for memory.
#pragma once
#include "kernels.h"

#ifndef TILE_ROWS
#if defined(__AVX512F__)  // 32 registers of 16 lanes
#define TILE_ROWS 12
#define TILE_VECTORS 2
#elif defined(__AVX2__)  // 16 of 8
#define TILE_ROWS 6
#define TILE_VECTORS 2
#elif defined(__aarch64__)  // 32 of 4
#define TILE_ROWS 8
#define TILE_VECTORS 2
#else  // 16 of 4: WebAssembly on x64, where 4 x 16 spills and is a third slower, and plain SSE
#define TILE_ROWS 4
#define TILE_VECTORS 2
#endif
#endif
#define TILE_COLUMNS (TILE_VECTORS * LANES)

// A matrix by strides: element (row, column) is at[row * row_stride + column * column_stride].
struct matrix {
  const float *at;
  size row_stride, column_stride;
};

// out[rows columns] = (or +=, where accumulate) a[rows k] times panels of b: TILE_COLUMNS columns each, k rows of
// TILE_COLUMNS floats, one panel after the other, the last one filled up with anything finite.
void multiply_panels(float *out, size out_stride, struct matrix a, const float *panels, size rows, size columns, size k,
                     int accumulate);

// Packs b[k columns] into such panels, the last one filled up with zeros. Returns the end of what was written.
float *pack_panels(float *to, struct matrix b, size k, size columns);
