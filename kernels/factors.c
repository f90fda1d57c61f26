// Gradients as two factors: columns made orthonormal, one after the other, and states that are another in the next step.
#include "kernels.h"
#include "random.h"

COMMAND(become) {
  if (!((double)*floats(c, w[BECOME_NORM_SQUARED]) < w[BECOME_LIMIT])) return;
  __builtin_memcpy(floats(c, w[BECOME_STATE]), floats(c, w[BECOME_NEXT]), (size_t)w[BECOME_N] * 4);
}

static double dot(const float *a, const float *b, size rows, size stride) {
  double sum = 0;
  for (size i = 0; i < rows; i++) sum += (double)a[i * stride] * b[i * stride];
  return sum;
}

// What is left of column `k` beside those before it, made as long as 1. A second time takes away what rounding left of the first.
// Nothing is left where that is less than 2^-20 of what there was; what is not finite stays so.
static int make_orthonormal(float *x, size k, size rows, size columns) {
  float *column = x + k;
  const double length = __builtin_sqrt(dot(column, column, rows, columns));
  for (int time = 0; time < 2; time++)
    for (size j = 0; j < k; j++) {
      const float by = (float)dot(x + j, column, rows, columns);
      for (size i = 0; i < rows; i++) column[i * columns] -= by * x[i * columns + j];
    }
  const double left = __builtin_sqrt(dot(column, column, rows, columns));
  const int none = left <= length * 0x1p-20 && length < __builtin_inf();
  const float by = none ? 0 : (float)(1 / left);
  for (size i = 0; i < rows; i++) column[i * columns] = none ? 0 : column[i * columns] * by;
  return !none;
}

static void draw_column(float *x, struct mask mask, uint64_t first, size k, size rows, size columns) {
  for (size i = 0; i < rows; i++) {
    uint32_t draw;
    mask_draws(&draw, mask, first + (uint64_t)(i * columns + k), 1);
    x[i * columns + k] = ((float)draw - 32767.5f) / 32768;
  }
}

COMMAND(gramSchmidt) {
  const size rows = (size)w[GRAM_SCHMIDT_ROWS], columns = (size)w[GRAM_SCHMIDT_COLUMNS], n = rows * columns;
  float *out = floats(c, w[GRAM_SCHMIDT_OUT]);
  const struct mask mask = {.seed = (uint32_t)(int64_t)w[GRAM_SCHMIDT_SEED], .name = (uint32_t)(int64_t)w[GRAM_SCHMIDT_NAME], .use = 2};
  __builtin_memcpy(out, floats(c, w[GRAM_SCHMIDT_X]), (size_t)(n * (size)w[GRAM_SCHMIDT_EACH]) * 4);
  for (size e = 0; e < (size)w[GRAM_SCHMIDT_EACH]; e++)
    for (size k = 0; k < columns; k++) {
      if (make_orthonormal(out + e * n, k, rows, columns) || w[GRAM_SCHMIDT_DRAWS] == 0) continue;
      draw_column(out + e * n, mask, (uint64_t)w[GRAM_SCHMIDT_FIRST] + (uint64_t)(e * n), k, rows, columns);
      make_orthonormal(out + e * n, k, rows, columns);
    }
}
