// Products of matrices: on the CPU's matrix tiles where they pay, else on the variant of the register tile that was chosen.
#include "matmul.h"
#include "sums.h"

size even_block(size total, size most, size unit) {
  size blocks = (total + most - 1) / most;
  return blocks <= 1 ? max_size(total, 1) : round_up((total + blocks - 1) / blocks, unit);
}

void store_sums(const struct product *x, size i, size j, size rows, size columns, const float *sums, size stride) {
  enum { RUN = 512 };
  float of_bias[RUN], of_add[RUN], total[RUN];
  for (size first = 0; first < columns; first += RUN) {
    const size n = min_size(RUN, columns - first);
    const float *bias = x->bias.at ? wide(x->bias, j + first, n, of_bias) : 0;
    for (size r = 0; r < rows; r++) {
      const size at = (i + r) * x->stride + j + first;
      const float *sum = sums + r * stride + first, *add = x->add.at ? wide(x->add, at, n, of_add) : 0;
      if (bias && add)
        for (size c = 0; c < n; c++) total[c] = sum[c] + bias[c] + add[c];
      else if (bias || add)
        for (size c = 0; c < n; c++) total[c] = sum[c] + (bias ? bias : add)[c];
      narrow(from_number(x->out, at), bias || add ? total : sum, n);
    }
  }
}

// A sum of no terms: what is added, or 0.
static void multiply_nothing(const struct product *x) {
  static const float zeros[64];
  for (size j = 0; j < x->n; j += 64) store_sums(x, 0, j, x->m, min_size(64, x->n - j), zeros, 0);
}

// On tiles a product that is rounded goes block by block through the sums, which lie at the end of the space.
static void multiply_tiles_rounded(const struct tuning *t, const struct product *x, char *space) {
  enum { COLUMNS = 1024 };
  float *sums = (float *)(space + TILES_BYTES + VECTORS_BYTES);
  const size step_n = min_size(x->n, COLUMNS), step_m = SUMS_BYTES / 4 / step_n;
  for (size j = 0; j < x->n; j += step_n)
    for (size i = 0; i < x->m; i += step_m) {
      struct product part = part_of(x, i, j, 0, min_size(step_m, x->m - i), min_size(step_n, x->n - j), x->k);
      part.out = (struct numbers){(char *)sums, DTYPE_F32};
      part.bias = part.add = (struct numbers){};
      part.stride = step_n;
      multiply_tiles(t, &part, space);
      store_sums(x, i, j, part.m, part.n, sums, step_n);
    }
}

// The product: whether the columns of b have been summed, too.
static int multiply_alone(struct context *c, const struct product *x) {
  if (x->k == 0)
    multiply_nothing(x);
  else if (c->tuning.tiles && tiles_pay(x->m, x->n, x->k))
    (is_rounded(x) ? multiply_tiles_rounded : multiply_tiles)(&c->tuning, x, c->workspace);
  else if (is_row(x))
    multiply_row(&c->tuning, x);
  else {
    multiply_vectors(&c->tuning, x, c->workspace);
    return !is_rounded(x);
  }
  return 0;
}

void multiply(struct context *c, const struct product *x) {
  if (c->workspace_bytes < LOCKSTEP_WORKSPACE_BYTES)
    c->error = LOCKSTEP_WORKSPACE;
  else if (!multiply_alone(c, x) && x->sums.at)
    sum_rows(x->sums, x->b.at, x->k, x->n, x->adds);
}

// Where b lies packed, packed here if it is to be; null where the CPU's tiles multiply, which pack for themselves.
static const float *panels_of(struct context *c, const struct product *x, double offset, int packs) {
  if (offset == 0 || (c->tuning.tiles && tiles_pay(x->m, x->n, x->k))) return 0;
  float *panels = floats(c, offset);
  if (packs) c->tuning.variant->pack_blocks(&c->tuning.blocks, panels, x->b, x->k, x->n);
  return panels;
}

// What a product does beside its sums.
struct besides {
  double panels, sums;
  int packs, adds;
};

INLINE struct numbers maybe(const struct context *c, double word, size first) {
  return word ? from_number(numbers_of(c, word), first) : (struct numbers){};
}

// The words of matmulWith begin with those of matmul.
static void multiply_words(struct context *c, const double *w, struct besides with) {
  const size m = (size)w[MATMUL_M], n = (size)w[MATMUL_N], k = (size)w[MATMUL_K];
  const int trans_a = w[MATMUL_TRANS_A] != 0, trans_b = w[MATMUL_TRANS_B] != 0;
  for (size i = 0; i < (size)w[MATMUL_BATCH]; i++) {
    const struct numbers a = from_number(numbers_of(c, w[MATMUL_A]), i * (size)w[MATMUL_STRIDE_A]);
    const struct numbers b = from_number(numbers_of(c, w[MATMUL_B]), i * (size)w[MATMUL_STRIDE_B]);
    const size at = i * (size)w[MATMUL_STRIDE_OUT];
    struct product x = {.out = from_number(numbers_of(c, w[MATMUL_OUT]), at),
                        .bias = maybe(c, w[MATMUL_BIAS], 0),
                        .add = maybe(c, w[MATMUL_ADD], at),
                        .sums = maybe(c, with.sums, 0),
                        .adds = with.adds,
                        .stride = n,
                        .a = trans_a ? (struct matrix){a, 1, m} : (struct matrix){a, k, 1},
                        .b = trans_b ? (struct matrix){b, 1, k} : (struct matrix){b, n, 1},
                        .m = m,
                        .n = n,
                        .k = k};
    x.panels = panels_of(c, &x, with.panels, with.packs);
    multiply(c, &x);
  }
}

COMMAND(matmul) { multiply_words(c, w, (struct besides){}); }

COMMAND(matmulWith) {
  multiply_words(c, w,
                 (struct besides){.panels = w[MATMUL_WITH_PANELS],
                                  .packs = w[MATMUL_WITH_PACKS] != 0,
                                  .sums = w[MATMUL_WITH_SUMS],
                                  .adds = w[MATMUL_WITH_ADDS] != 0});
}
