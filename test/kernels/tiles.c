// Products on matrix tiles against three plain loops, on emulated tiles (tiles.h): all transpose forms, whole and cut squares, with
// and without what is added, in f32, bf16, bf16 summed into f32, and f16. Prints the products of tiles that each kind took, or the
// first that was wrong.
#include <math.h>
#include <stdio.h>
#include "matmul.h"

enum { MOST = 64 * 1024 };
uint8_t tiles[8][16][64];
long tile_products;

static float numbers[3][MOST], before[MOST], bias[256];
static uint16_t shorts[3][MOST], before_shorts[MOST], bias_shorts[256];
static _Alignas(64) char space[LOCKSTEP_WORKSPACE_BYTES];

static struct numbers stored(int dtype, const float *x, uint16_t *as, size n) {
  if (dtype == DTYPE_F32) return (struct numbers){(char *)x, DTYPE_F32};
  const struct numbers to = {(char *)as, dtype};
  narrow(to, x, n);
  return to;
}

static double rounding(int dtype) { return dtype == DTYPE_BF16 ? 0x1p-8 : dtype == DTYPE_F16 ? 0x1p-11 : 0; }

static int wrong(const struct product *x, struct numbers added) {
  for (size i = 0; i < x->m; i++)
    for (size j = 0; j < x->n; j++) {
      const size at = i * x->stride + j;
      double sum = x->add.at ? number_at(added, at) + number_at(x->bias, j) : 0, weight = fabs(sum);
      for (size p = 0; p < x->k; p++) {
        const double term = (double)number_at(x->a.at, i * x->a.row_stride + p * x->a.column_stride) *
                            number_at(x->b.at, p * x->b.row_stride + j * x->b.column_stride);
        sum += term;
        weight += fabs(term);
      }
      if (!(fabs(number_at(x->out, at) - sum) <= rounding(x->out.dtype) * fabs(sum) + 1e-6 * weight)) return 1;
    }
  return 0;
}

// Whether it was right.
static int multiplied(int from, int to, const size *sizes, int form, int adds) {
  const size m = sizes[0], n = sizes[1], k = sizes[2];
  for (size i = 0; i < MOST; i++) numbers[0][i] = sinf((float)i * 1.3f), numbers[1][i] = cosf((float)i * 0.7f);
  for (size i = 0; i < m * n; i++) numbers[2][i] = before[i] = sinf((float)i);
  for (size i = 0; i < n; i++) bias[i] = (float)i * 0.01f;
  const struct numbers a = stored(from, numbers[0], shorts[0], m * k), b = stored(from, numbers[1], shorts[1], k * n);
  const struct numbers out = stored(to, numbers[2], shorts[2], m * n), none = {};
  const struct product x = {.out = out,
                            .add = adds ? out : none,
                            .bias = adds ? stored(to, bias, bias_shorts, n) : none,
                            .stride = n,
                            .a = form & 1 ? (struct matrix){a, 1, m} : (struct matrix){a, k, 1},
                            .b = form & 2 ? (struct matrix){b, 1, k} : (struct matrix){b, n, 1},
                            .m = m,
                            .n = n,
                            .k = k};
  struct context c = {.workspace = space,
                      .workspace_bytes = sizeof space,
                      .tuning = {.variant = variant_at(0), .blocks = {384, 192, 1024, 768}, .tiles = 1}};
  multiply(&c, &x);
  return !c.error && !wrong(&x, stored(to, before, before_shorts, m * n));
}

int main(void) {
  static const size sizes[][3] = {{128, 192, 128}, {120, 180, 120}, {64, 64, 500}, {64, 64, 64}};
  static const struct {
    const char *name;
    int from, to;
  } kinds[] = {{"f32", DTYPE_F32, DTYPE_F32},
               {"bf16", DTYPE_BF16, DTYPE_BF16},
               {"bf16 to f32", DTYPE_BF16, DTYPE_F32},
               {"f16", DTYPE_F16, DTYPE_F16}};
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    tile_products = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int form = 0; form < 4; form++)
        for (int adds = 0; adds < 2; adds++)
          if (!multiplied(kinds[kind].from, kinds[kind].to, sizes[s], form, adds)) {
            printf("wrong: %s, size %d, form %d, adds %d\n", kinds[kind].name, (int)s, form, adds);
            return 1;
          }
    printf("%s: %ld\n", kinds[kind].name, tile_products);
  }
  return 0;
}
