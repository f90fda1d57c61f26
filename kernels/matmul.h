// Products of matrices. The work is done by a variant of the register tile (variant.c), chosen where the kernels run, or by
// the CPU's matrix tiles.
#pragma once
#include "numbers.h"

// A matrix by strides: element (row, column) is at[row * row_stride + column * column_stride].
struct matrix {
  struct numbers at;
  size row_stride, column_stride;
};

INLINE struct matrix matrix_of(const float *at, size row_stride, size column_stride) {
  return (struct matrix){{(char *)at, DTYPE_F32}, row_stride, column_stride};
}

INLINE struct matrix block_of(struct matrix x, size row, size column) {
  return (struct matrix){from_number(x.at, row * x.row_stride + column * x.column_stride), x.row_stride, x.column_stride};
}

// The size of each of the equal blocks that `total` is cut into: none over `most`, all but the last multiples of `unit`.
size even_block(size total, size most, size unit);

// out[m n] = a[m k] b[k n] + bias[n] + add[m n], which lies as out does and may be out. Neither need be there: they are null then.
struct product {
  struct numbers out, bias, add;
  struct numbers sums;  // of the columns of b, which lies row by row and is not packed before; or null
  int adds;             // sums are added to what is there
  size stride;  // from one row of out and add to the next
  struct matrix a, b;
  size m, n, k;
  const float *panels;  // b packed before by the variant's pack_blocks, or null
};

// Whether its sums are taken in f32 elsewhere and stored at the end, rounded once.
INLINE int is_rounded(const struct product *x) { return is_narrow(x->out.dtype | x->bias.dtype | x->add.dtype); }

// Stores a block of such a product, rows from i and columns from j on, of which `sums` are: bias and what is added come on top.
void store_sums(const struct product *x, size i, size j, size rows, size columns, const float *sums, size stride);

// The part of a product that is rows [i, i + m), columns [j, j + n), of k [p, p + k): parts are done in the order of p.
INLINE struct product part_of(const struct product *x, size i, size j, size p, size m, size n, size k) {
  const size at = i * x->stride + j;
  const struct numbers none = {};
  return (struct product){.out = from_number(x->out, at),
                          .bias = x->bias.at && p == 0 ? from_number(x->bias, j) : none,
                          .add = p > 0 ? from_number(x->out, at) : x->add.at ? from_number(x->add, at) : none,
                          .stride = x->stride,
                          .a = block_of(x->a, i, p),
                          .b = block_of(x->b, p, j),
                          .m = m,
                          .n = n,
                          .k = k};
}

// One register tile and what is built on it. A panel of b is `columns` columns wide: k rows of so many floats, one panel
// after the other.
struct variant {
  const char *name;
  int rows, columns;
  // With VECTORS_BYTES of space, and SUMS_BYTES behind them.
  void (*multiply_blocks)(const struct blocks *most, const struct product *x, float *space);
  // Packs b[k n] as multiply_blocks would, block after block: k rows of n floats, n filled up to whole panels.
  void (*pack_blocks)(const struct blocks *most, float *to, struct matrix b, size k, size n);
  // All in f32. From rows of a where they lie and all columns of b, packed in panels of so many rows, of which the first x->k are read:
  // x->b is not.
  void (*multiply_rows)(const struct product *x, const float *panels, size height);
  // Packs b[k columns] into panels, the last one filled up with zeros. Returns the end of what was written.
  float *(*pack_columns)(float *to, struct matrix b, size k, size columns);
};

// Those that were compiled, or null beyond the last.
const struct variant *variant_at(int index);

// Of one row, in f32, of which b's rows lie as they are: done without packing, with the same bits. In matvec.c.
int is_row(const struct product *x);
void multiply_row(const struct tuning *t, const struct product *x);

// On whatever is fastest here. Needs the whole workspace, or sets the error.
void multiply(struct context *c, const struct product *x);

// On vectors, with space as the variant wants it.
INLINE void multiply_vectors(const struct tuning *t, const struct product *x, char *space) {
  t->variant->multiply_blocks(&t->blocks, x, (float *)space);
}

// On the CPU's matrix tiles, with LOCKSTEP_WORKSPACE_BYTES of space: whether it has any that may be used, whether they
// are worth it, and the product.
int tiles_allowed(void);
int tiles_pay(size m, size n, size k);
void multiply_tiles(const struct tuning *t, const struct product *x, char *space);
