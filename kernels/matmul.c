// Products of matrices: on the CPU's matrix tiles where they pay, else on the variant of the register tile that was chosen.
#include "matmul.h"

size even_block(size total, size most, size unit) {
  size blocks = (total + most - 1) / most;
  return blocks <= 1 ? max_size(total, 1) : round_up((total + blocks - 1) / blocks, unit);
}

// A sum of no terms: what is added, or 0.
static void multiply_nothing(const struct product *x) {
  for (size i = 0; i < x->m; i++)
    for (size j = 0; j < x->n; j++)
      x->out[i * x->stride + j] = (x->bias ? x->bias[j] : 0) + (x->add ? x->add[i * x->stride + j] : 0);
}

void multiply(struct context *c, const struct product *x) {
  if (c->workspace_bytes < LOCKSTEP_WORKSPACE_BYTES)
    c->error = LOCKSTEP_WORKSPACE;
  else if (x->k == 0)
    multiply_nothing(x);
  else if (c->tuning.tiles && tiles_pay(x->m, x->n, x->k))
    multiply_tiles(&c->tuning, x, c->workspace);
  else
    multiply_vectors(&c->tuning, x, c->workspace);
}

// Where b lies packed, packed here if it is to be; null where the CPU's tiles multiply, which pack for themselves.
static const float *panels_of(struct context *c, const struct product *x, double offset, int packs) {
  if (offset == 0 || (c->tuning.tiles && tiles_pay(x->m, x->n, x->k))) return 0;
  float *panels = floats(c, offset);
  if (packs) c->tuning.variant->pack_blocks(&c->tuning.blocks, panels, x->b, x->k, x->n);
  return panels;
}

// The words of matmulPanels begin with those of matmul.
static void multiply_words(struct context *c, const double *w, double panels, int packs) {
  const size m = (size)w[MATMUL_M], n = (size)w[MATMUL_N], k = (size)w[MATMUL_K];
  const int trans_a = w[MATMUL_TRANS_A] != 0, trans_b = w[MATMUL_TRANS_B] != 0;
  for (size i = 0; i < (size)w[MATMUL_BATCH]; i++) {
    const float *a = floats(c, w[MATMUL_A]) + i * (size)w[MATMUL_STRIDE_A];
    const float *b = floats(c, w[MATMUL_B]) + i * (size)w[MATMUL_STRIDE_B];
    const size at = i * (size)w[MATMUL_STRIDE_OUT];
    struct product x = {.out = floats(c, w[MATMUL_OUT]) + at,
                              .bias = w[MATMUL_BIAS] ? floats(c, w[MATMUL_BIAS]) : 0,
                              .add = w[MATMUL_ADD] ? floats(c, w[MATMUL_ADD]) + at : 0,
                              .stride = n,
                              .a = trans_a ? (struct matrix){a, 1, m} : (struct matrix){a, k, 1},
                              .b = trans_b ? (struct matrix){b, 1, k} : (struct matrix){b, n, 1},
                              .m = m,
                              .n = n,
                              .k = k};
    x.panels = panels_of(c, &x, panels, packs);
    multiply(c, &x);
  }
}

COMMAND(matmul) { multiply_words(c, w, 0, 0); }

COMMAND(matmulPanels) { multiply_words(c, w, w[MATMUL_PANELS_PANELS], w[MATMUL_PANELS_PACKS] != 0); }
