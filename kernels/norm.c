// Layer norm and RMS norm are one family: xhat = (x - mean) / deviation over a row, where RMS norm takes the mean to be
// 0. Statistics are summed in f64 in two passes (the row is in cache for the second) and not kept: backward takes
// them again, which costs less than to store and read them.
#include "numbers.h"
#include "functions.h"

struct statistics {
  float mean, scale;  // xhat = (x - mean) * scale
};

INLINE double sum_row_squares(const float *x, size n, double mean) {
  const dvec centre = splat_wide(mean);
  dvec sums[4] = {};
  size i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES)
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
      const dvec a = load_wide(x + i + q * LANES / 2) - centre;
      sums[q] += a * a;
    }
  double sum = sum_wide((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < n; i++) sum += ((double)x[i] - mean) * ((double)x[i] - mean);
  return sum;
}

// Of 16 bits, whose squares f32 holds, runs are summed in f32: each lane a few numbers.
#define RUN (64 * LANES)
INLINE double sum_narrow(const int dtype, const void *x, size n, double mean, const int squared) {
  const vec centre = splat((float)mean);
  double sum = 0;
  for (size start = 0; start < n; start += RUN) {
    const size end = min_size(n, start + RUN);
    vec sums[4] = {};
    size i = start;
    for (; i + 4 * LANES <= end; i += 4 * LANES)
#pragma GCC unroll 2
      for (int q = 0; q < 2; q++) {
        const struct pair at = load_pair(dtype, x, i + 2 * q * LANES);
        const vec a = at.a - centre, b = at.b - centre;
        sums[2 * q] += squared ? a * a : a;
        sums[2 * q + 1] += squared ? b * b : b;
      }
    for (; i + LANES <= end; i += LANES) {
      const vec a = load_as(dtype, x, i, LANES) - centre;
      sums[0] += squared ? a * a : a;
    }
    float lanes[LANES];
    store(lanes, (sums[0] + sums[1]) + (sums[2] + sums[3]));
    sum += sum_wide(load_wide(lanes) + load_wide(lanes + LANES / 2));
    for (; i < end; i++) {
      const double a = (double)number_at((struct numbers){(char *)x, dtype}, i) - mean;
      sum += squared ? a * a : a;
    }
  }
  return sum;
}

INLINE struct statistics statistics_as(const int dtype, const void *x, size n, double eps, const int centred) {
  const int is_wide = dtype == DTYPE_F32;
  const double mean = !centred ? 0 : (is_wide ? sum_of(x, n) : sum_narrow(dtype, x, n, 0, 0)) / (double)n;
  const double variance = (is_wide ? sum_row_squares(x, n, mean) : sum_narrow(dtype, x, n, mean, 1)) / (double)n;
  return (struct statistics){(float)mean, (float)(1 / __builtin_sqrt(variance + eps))};
}


INLINE void statistics_of_rows(const int dtype, struct statistics *s, struct numbers x, size rows, size n, double eps,
                               const int centred) {
  for (size r = 0; r < rows; r++) s[r] = statistics_as(dtype, from_number(x, r * n).at, n, eps, centred);
}

INLINE vec normalised(vec x, vec mean, vec scale, const float *gain, const float *bias, size left) {
  const vec xhat = (x - mean) * scale, g = load_some(gain, left);
  return bias ? fma_lanes(xhat, g, load_some(bias, left)) : xhat * g;
}

// Gain and bias lie as pairs; bias is null for RMS norm, which is not centred either.
INLINE void normalise_row(const int dtype, void *y, const void *x, const float *gain, const float *bias, double eps, size n,
                          const int centred) {
  const struct statistics s = statistics_as(dtype, x, n, eps, centred);
  const vec mean = splat(s.mean), scale = splat(s.scale);
  size i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    const struct pair at = load_pair(dtype, x, i);
    const float *b = centred ? bias + i : 0;
    const struct pair made = {normalised(at.a, mean, scale, gain + i, b, LANES),
                              normalised(at.b, mean, scale, gain + i + LANES, b ? b + LANES : 0, LANES)};
    store_pair(dtype, y, i, made);
  }
  for (; i < n; i += LANES)
    store_as(dtype, y, i, normalised(load_as(dtype, x, i, n - i), mean, scale, gain + i, centred ? bias + i : 0, n - i), n - i);
}

INLINE void normalise_rows(const int dtype, struct numbers y, struct numbers x, const float *gain, const float *bias, double eps,
                           size rows, size n) {
  if (bias)
    for (size r = 0; r < rows; r++) normalise_row(dtype, from_number(y, r * n).at, from_number(x, r * n).at, gain, bias, eps, n, 1);
  else
    for (size r = 0; r < rows; r++) normalise_row(dtype, from_number(y, r * n).at, from_number(x, r * n).at, gain, bias, eps, n, 0);
}

// Gain or bias as pairs of rows in `dtype` want them: where they lie, or in space.
static const float *weights_of(struct numbers x, int dtype, size n, float *space, float *other) {
  if (!is_narrow(dtype)) return wide(x, 0, n, space);
  lay_as_pairs(dtype, space, wide(x, 0, n, other), n);
  return space;
}

// All but `rows`, `n` and eps are words; bias 0: there is none.
static void normalise(struct context *c, const double w[4], size rows, size n, double eps) {
  const struct numbers y = numbers_of(c, w[0]), x = numbers_of(c, w[1]);
  size used = 0;
  float *of_gain = take_room(c, &used, n), *of_bias = take_room(c, &used, n), *of_row = take_room(c, &used, n);
  if (c->error) return;
  const int dtype = x.dtype == y.dtype ? x.dtype : DTYPE_F32;
  const float *gain = weights_of(numbers_of(c, w[2]), dtype, n, of_gain, of_row);
  const float *bias = w[3] == 0 ? 0 : weights_of(numbers_of(c, w[3]), dtype, n, of_bias, of_row);
  if (x.dtype == y.dtype)
    EACH_DTYPE(y.dtype, normalise_rows, y, x, gain, bias, eps, rows, n);
  else
    for (size r = 0; r < rows; r++) {
      widen(of_row, from_number(x, r * n), n);
      const struct numbers row = {(char *)of_row, DTYPE_F32};
      normalise_rows(DTYPE_F32, row, row, gain, bias, eps, 1, n);
      narrow(from_number(y, r * n), of_row, n);
    }
}

COMMAND(layerNorm) {
  const double words[] = {w[LAYER_NORM_Y], w[LAYER_NORM_X], w[LAYER_NORM_GAIN], w[LAYER_NORM_BIAS]};
  normalise(c, words, (size)w[LAYER_NORM_ROWS], (size)w[LAYER_NORM_COLUMNS], w[LAYER_NORM_EPS]);
}

COMMAND(rmsNorm) {
  const double words[] = {w[RMS_NORM_Y], w[RMS_NORM_X], w[RMS_NORM_GAIN], 0};
  normalise(c, words, (size)w[RMS_NORM_ROWS], (size)w[RMS_NORM_COLUMNS], w[RMS_NORM_EPS]);
}

#define STRIP (16 * LANES)  // columns summed at once: the sums stay in the first cache
#define BATCH 64            // rows whose statistics are taken before the strips run over them
#define NARROW_BATCH 8      // where they are widened first: they stay in the first caches

// Adds the rows of one batch to dgain and dbias. A batch is short, so f32 sums inside it lose next to nothing.
INLINE void add_batch(float *dgain, float *dbias, const float *dy, const float *x, const struct statistics *s, size rows,
                      size n) {
  for (size start = 0; start < n; start += STRIP) {
    const size width = min_size(STRIP, n - start);
    float gains[STRIP] = {}, biases[STRIP] = {};
    for (size r = 0; r < rows; r++) {
      const float *g = dy + r * n + start, *at = x + r * n + start;
      const vec mean = splat(s[r].mean), scale = splat(s[r].scale);
      EACH_VECTOR(i, left, width, {
        const vec d = load_some(g + i, left), xhat = (load_some(at + i, left) - mean) * scale;
        store(gains + i, fma_lanes(d, xhat, load(gains + i)));
        if (dbias) store(biases + i, load(biases + i) + d);
      });
    }
    for (size i = 0; i < width; i++) dgain[start + i] += gains[i];
    if (dbias)
      for (size i = 0; i < width; i++) dbias[start + i] += biases[i];
  }
}

// dx = add + (g - mean g - xhat mean(g xhat)) / deviation with g = dy gain; without centring the middle term is absent.
// add is null where dx starts from nothing.
INLINE void input_grad_row(const int dtype, void *dx, const float *dy, const float *x, const float *gain, const float *add,
                           struct statistics s, size n, const int centred) {
  const vec mean = splat(s.mean), scale = splat(s.scale);
  vec sums = {}, products = {};
  EACH_VECTOR(i, left, n, {
    const vec g = load_some(dy + i, left) * load_some(gain + i, left);  // 0 past the end, whatever xhat is there
    sums += g;
    products = fma_lanes(g, (load_some(x + i, left) - mean) * scale, products);
  });
  const float sum = centred ? sum_lanes(sums) / (float)n : 0, product = sum_lanes(products) / (float)n;
  EACH_VECTOR(i, left, n, {
    const vec g = load_some(dy + i, left) * load_some(gain + i, left);
    const vec xhat = (load_some(x + i, left) - mean) * scale;
    const vec d = scale * (g - fma_lanes(xhat, splat(product), splat(sum)));
    store_as(dtype, dx, i, add ? load_some(add + i, left) + d : d, left);
  });
}

// Of each its word, 0: not asked for, or not there.
struct norm_grad {
  double dx, dgain, dbias, dy, x, gain, add;
};

// What of it is widened, and where the gradients of the weights are summed; null: not there.
struct norm_space {
  float *dgain, *dbias, *dy, *x, *add;
  const float *gain;
};

INLINE struct norm_space norm_space_of(struct context *c, const struct norm_grad *t, size batch, size n) {
  size used = 0;
  float *of_gain = take_room(c, &used, n);
  const struct norm_space s = {.dgain = room(numbers_of(c, t->dgain), 0, take_room(c, &used, n)),
                               .dbias = room(numbers_of(c, t->dbias), 0, take_room(c, &used, n)),
                               .add = take_room(c, &used, n),
                               .dy = take_room(c, &used, batch * n),
                               .x = take_room(c, &used, batch * n),
                               .gain = c->error || t->gain == 0 ? 0 : wide(numbers_of(c, t->gain), 0, n, of_gain)};
  return s;
}

// Gradients of the weights are summed batch by batch, before dx is written: it may lie where dy or x does.
INLINE void norm_grads(struct context *c, struct norm_grad t, size rows, size n, double eps, const int centred) {
  const struct numbers dx = numbers_of(c, t.dx), dgain = numbers_of(c, t.dgain), dbias = numbers_of(c, t.dbias);
  const struct numbers dy = numbers_of(c, t.dy), x = numbers_of(c, t.x), add = numbers_of(c, t.add);
  const size batch = is_narrow(dy.dtype | x.dtype) ? NARROW_BATCH : BATCH;
  const struct norm_space space = norm_space_of(c, &t, is_narrow(dy.dtype | x.dtype) ? batch : 0, n);
  if (c->error) return;
  for (size i = 0; t.dgain != 0 && i < n; i++) space.dgain[i] = 0;
  for (size i = 0; t.dbias != 0 && i < n; i++) space.dbias[i] = 0;
  for (size start = 0; start < rows; start += batch) {
    const size count = min_size(batch, rows - start), from = start * n;
    const float *dys = wide(dy, from, count * n, space.dy), *xs = wide(x, from, count * n, space.x);
    struct statistics s[BATCH];
    EACH_DTYPE(x.dtype, statistics_of_rows, s, from_number(x, from), count, n, eps, centred);
    if (t.dgain != 0) add_batch(space.dgain, t.dbias != 0 ? space.dbias : 0, dys, xs, s, count, n);
    for (size r = 0, at = from; t.dx != 0 && r < count; r++, at += n) {
      const float *start = t.add != 0 ? wide(add, at, n, space.add) : 0;
      EACH_DTYPE(dx.dtype, input_grad_row, from_number(dx, at).at, dys + r * n, xs + r * n, space.gain, start, s[r], n, centred);
    }
  }
  if (t.dgain != 0) put(dgain, 0, n, space.dgain);
  if (t.dbias != 0) put(dbias, 0, n, space.dbias);
}

COMMAND(layerNormInputGrad) {
  const struct norm_grad t = {
      w[LAYER_NORM_INPUT_GRAD_DX],
      w[LAYER_NORM_INPUT_GRAD_DGAIN],
      w[LAYER_NORM_INPUT_GRAD_DBIAS],
      w[LAYER_NORM_INPUT_GRAD_DY],
      w[LAYER_NORM_INPUT_GRAD_X],
      w[LAYER_NORM_INPUT_GRAD_GAIN],
      w[LAYER_NORM_INPUT_GRAD_ADD],
  };
  norm_grads(c, t, (size)w[LAYER_NORM_INPUT_GRAD_ROWS], (size)w[LAYER_NORM_INPUT_GRAD_COLUMNS], w[LAYER_NORM_INPUT_GRAD_EPS],
             1);
}

COMMAND(rmsNormInputGrad) {
  const struct norm_grad t = {
      w[RMS_NORM_INPUT_GRAD_DX],
      w[RMS_NORM_INPUT_GRAD_DGAIN],
      0,
      w[RMS_NORM_INPUT_GRAD_DY],
      w[RMS_NORM_INPUT_GRAD_X],
      w[RMS_NORM_INPUT_GRAD_GAIN],
      w[RMS_NORM_INPUT_GRAD_ADD],
  };
  norm_grads(c, t, (size)w[RMS_NORM_INPUT_GRAD_ROWS], (size)w[RMS_NORM_INPUT_GRAD_COLUMNS], w[RMS_NORM_INPUT_GRAD_EPS], 0);
}

COMMAND(layerNormWeightGrad) {
  const struct norm_grad t = {
      0,
      w[LAYER_NORM_WEIGHT_GRAD_DGAIN],
      w[LAYER_NORM_WEIGHT_GRAD_DBIAS],
      w[LAYER_NORM_WEIGHT_GRAD_DY],
      w[LAYER_NORM_WEIGHT_GRAD_X],
      0,
      0,
  };
  norm_grads(c, t, (size)w[LAYER_NORM_WEIGHT_GRAD_ROWS], (size)w[LAYER_NORM_WEIGHT_GRAD_COLUMNS],
             w[LAYER_NORM_WEIGHT_GRAD_EPS], 1);
}

COMMAND(rmsNormWeightGrad) {
  const struct norm_grad t = {
      0,
      w[RMS_NORM_WEIGHT_GRAD_DGAIN],
      0,
      w[RMS_NORM_WEIGHT_GRAD_DY],
      w[RMS_NORM_WEIGHT_GRAD_X],
      0,
      0,
  };
  norm_grads(c, t, (size)w[RMS_NORM_WEIGHT_GRAD_ROWS], (size)w[RMS_NORM_WEIGHT_GRAD_COLUMNS], w[RMS_NORM_WEIGHT_GRAD_EPS], 0);
}
