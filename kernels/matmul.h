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

INLINE struct matrix block_of(struct matrix x, size row, size column) {
  return (struct matrix){x.at + row * x.row_stride + column * x.column_stride, x.row_stride, x.column_stride};
}

// The size of each of the equal blocks that `total` is cut into: none over `most`, all but the last multiples of `unit`.
size even_block(size total, size most, size unit);

// out[m n] = a[m k] b[k n] + bias[n] + add[m n], which lies as out does and may be out. Both may be null.
struct product {
  float *out;
  const float *bias, *add;
  size stride;  // from one row of out and add to the next
  struct matrix a, b;
  size m, n, k;
};

// The part of a product that is rows [i, i + m), columns [j, j + n), of k [p, p + k): parts are done in the order of p.
INLINE struct product part_of(const struct product *x, size i, size j, size p, size m, size n, size k) {
  const size at = i * x->stride + j;
  return (struct product){.out = x->out + at,
                          .bias = x->bias && p == 0 ? x->bias + j : 0,
                          .add = p > 0 ? x->out + at : x->add ? x->add + at : 0,
                          .stride = x->stride,
                          .a = block_of(x->a, i, p),
                          .b = block_of(x->b, p, j),
                          .m = m,
                          .n = n,
                          .k = k};
}

// On whatever is fastest here. Needs the whole workspace, or sets the error.
void multiply(struct context *c, const struct product *x);

// On vectors, with VECTORS_BYTES of space.
void multiply_vectors(const struct product *x, char *space);

// On the CPU's matrix tiles, with LOCKSTEP_WORKSPACE_BYTES of space: whether it has any that may be used, whether they
// are worth it, and the product.
int tiles_allowed(void);
int tiles_pay(size m, size n, size k);
void multiply_tiles(const struct product *x, char *space);

// out[rows columns] = (or +=, where accumulate) a[rows k] times panels of b: TILE_COLUMNS columns each, k rows of
// TILE_COLUMNS floats, one panel after the other, the last one filled up with anything finite.
void multiply_panels(float *out, size out_stride, struct matrix a, const float *panels, size rows, size columns, size k,
                     int accumulate);

// Packs b[k columns] into such panels, the last one filled up with zeros. Returns the end of what was written.
float *pack_panels(float *to, struct matrix b, size k, size columns);
