// Layer norm and RMS norm are one family: xhat = (x - mean) / deviation over a row, where RMS norm takes the mean to be
// 0. Statistics are summed in two passes (the row is in cache for the second) and not kept: backward takes
// them again, which costs less than to store and read them.
#include "numbers.h"
#include "functions.h"

struct statistics {
  float mean, scale;  // xhat = (x - mean) * scale
};

// The sum of what is left of numbers when `middle` is taken away, or of the squares of that. Each lane sums a few in f32, runs are
// summed in f64.
#define RUN (64 * LANES)
INLINE double sum_around(const int dtype, const void *x, size n, double middle, const int squared) {
  const vec centre = splat((float)middle);
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
      const double a = (double)number_at((struct numbers){(char *)x, dtype}, i) - middle;
      sum += squared ? a * a : a;
    }
  }
  return sum;
}

// The mean is found from the row's first number on: sums in f32 then lose a part of the row's spread, not of its mean.
INLINE struct statistics statistics_as(const int dtype, const void *x, size n, double eps, const int centred) {
  const double first = centred ? (double)number_at((struct numbers){(char *)x, dtype}, 0) : 0;
  const double mean = centred ? first + sum_around(dtype, x, n, first, 0) / (double)n : 0;
  const double variance = sum_around(dtype, x, n, mean, 1) / (double)n;
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
#define WIDENED_BATCH 8     // where they are widened first: they stay in the first caches

// Rows of one dtype; columns as pairs hold them: gain and the sums of dgain and dbias, which are null where they are not asked for.
struct grad_rows {
  struct numbers dx, dy, x, add;  // at null: not there
  float *dgain, *dbias;
  const float *gain;
  size rows, n;
};

INLINE void add_column(float *gains, float *biases, vec d, vec x, vec mean, vec scale) {
  store(gains, fma_lanes(d, (x - mean) * scale, load(gains)));
  if (biases) store(biases, load(biases) + d);
}

// Adds the rows of one batch to dgain and dbias. A batch is short, so f32 sums inside it lose next to nothing.
INLINE void add_batch(const int dtype, const struct grad_rows *t, const struct statistics *s, const int centred) {
  for (size start = 0; start < t->n; start += STRIP) {
    const size width = min_size(STRIP, t->n - start);
    float gains[STRIP] = {}, biases[STRIP] = {};
    for (size r = 0; r < t->rows; r++) {
      const char *dy = from_number(t->dy, r * t->n + start).at, *x = from_number(t->x, r * t->n + start).at;
      const vec mean = splat(s[r].mean), scale = splat(s[r].scale);
      float *to = centred ? biases : 0;
      size i = 0;
      for (; i + 2 * LANES <= width; i += 2 * LANES) {
        const struct pair d = load_pair(dtype, dy, i), at = load_pair(dtype, x, i);
        add_column(gains + i, to ? to + i : 0, d.a, at.a, mean, scale);
        add_column(gains + i + LANES, to ? to + i + LANES : 0, d.b, at.b, mean, scale);
      }
      for (; i < width; i += LANES)
        add_column(gains + i, to ? to + i : 0, load_as(dtype, dy, i, width - i), load_as(dtype, x, i, width - i), mean, scale);
    }
    for (size i = 0; i < width; i++) t->dgain[start + i] += gains[i];
    if (t->dbias)
      for (size i = 0; i < width; i++) t->dbias[start + i] += biases[i];
  }
}

struct row_sums {
  vec sums, products;
};
INLINE void sum_column(struct row_sums *s, vec dy, vec gain, vec x, vec mean, vec scale) {
  const vec g = dy * gain;  // 0 past the end, whatever xhat is there
  s->sums += g;
  s->products = fma_lanes(g, (x - mean) * scale, s->products);
}

struct row_means {
  vec mean, scale, sum, product;
};
INLINE vec input_grad(vec dy, vec gain, vec x, const struct row_means *m) {
  const vec xhat = (x - m->mean) * m->scale;
  return m->scale * (dy * gain - fma_lanes(xhat, m->product, m->sum));
}

INLINE struct row_means means_of_row(const int dtype, const void *dy, const void *x, const float *gain, struct statistics s, size n,
                                     const int centred) {
  const vec mean = splat(s.mean), scale = splat(s.scale);
  struct row_sums a = {}, b = {};
  size i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    const struct pair d = load_pair(dtype, dy, i), at = load_pair(dtype, x, i);
    sum_column(&a, d.a, load(gain + i), at.a, mean, scale);
    sum_column(&b, d.b, load(gain + i + LANES), at.b, mean, scale);
  }
  for (; i < n; i += LANES)
    sum_column(&a, load_as(dtype, dy, i, n - i), load_some(gain + i, n - i), load_as(dtype, x, i, n - i), mean, scale);
  const float sum = centred ? sum_lanes(a.sums + b.sums) / (float)n : 0;
  return (struct row_means){mean, scale, splat(sum), splat(sum_lanes(a.products + b.products) / (float)n)};
}

// dx = add + (g - mean g - xhat mean(g xhat)) / deviation with g = dy gain; without centring the middle term is absent.
// add is null where dx starts from nothing.
INLINE void input_grad_row(const int dtype, void *dx, const void *dy, const void *x, const float *gain, const void *add,
                           struct statistics s, size n, const int centred) {
  const struct row_means m = means_of_row(dtype, dy, x, gain, s, n, centred);
  size i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    const struct pair d = load_pair(dtype, dy, i), at = load_pair(dtype, x, i);
    struct pair made = {input_grad(d.a, load(gain + i), at.a, &m), input_grad(d.b, load(gain + i + LANES), at.b, &m)};
    if (add) {
      const struct pair start = load_pair(dtype, add, i);
      made = (struct pair){start.a + made.a, start.b + made.b};
    }
    store_pair(dtype, dx, i, made);
  }
  for (; i < n; i += LANES) {
    const size left = n - i;
    const vec d = input_grad(load_as(dtype, dy, i, left), load_some(gain + i, left), load_as(dtype, x, i, left), &m);
    store_as(dtype, dx, i, add ? load_as(dtype, add, i, left) + d : d, left);
  }
}

INLINE void grad_batch(const int dtype, const struct grad_rows *t, const struct statistics *s, const int centred) {
  if (t->dgain) add_batch(dtype, t, s, centred);
  for (size r = 0; t->dx.at && r < t->rows; r++) {
    const size at = r * t->n;
    const void *add = t->add.at ? from_number(t->add, at).at : 0;
    input_grad_row(dtype, from_number(t->dx, at).at, from_number(t->dy, at).at, from_number(t->x, at).at, t->gain, add, s[r],
                   t->n, centred);
  }
}

// Of each its word, 0: not asked for, or not there.
struct norm_grad {
  double dx, dgain, dbias, dy, x, gain, add;
};

INLINE struct numbers operand_of(const struct context *c, double word) {
  return word == 0 ? (struct numbers){} : numbers_of(c, word);
}

// Rows of several dtypes are widened, a batch at a time, into `space`; dx is rounded behind it.
INLINE void grad_widened_batch(struct grad_rows t, const struct statistics *s, float *space, const int centred) {
  const size n = t.rows * t.n;
  struct grad_rows f = t;
  const struct numbers *from[] = {&t.dy, &t.x, &t.add};
  struct numbers *to[] = {&f.dy, &f.x, &f.add};
  for (int i = 0; i < 3; i++)
    if (from[i]->at) *to[i] = (struct numbers){(char *)wide(*from[i], 0, n, space + i * WIDENED_BATCH * t.n), DTYPE_F32};
  if (t.dx.at) f.dx = (struct numbers){(char *)room(t.dx, 0, space), DTYPE_F32};  // over dy, which each element reads first
  grad_batch(DTYPE_F32, &f, s, centred);
  if (t.dx.at) put(t.dx, 0, n, (const float *)f.dx.at);
}

// The dtype that all rows are in; -1: they are in several.
static int dtype_of_rows(const struct numbers *rows, int count) {
  int dtype = -1;
  for (int i = 0; i < count; i++) {
    if (!rows[i].at) continue;
    if (dtype >= 0 && dtype != rows[i].dtype) return -1;
    dtype = rows[i].dtype;
  }
  return dtype;
}

// Sums of a weight's gradient, as pairs lay them, in the order and the dtype of the result.
static void put_columns(struct numbers to, int dtype, const float *sums, size n, float *space) {
  lay_in_order(dtype, space, sums, n);
  narrow(to, space, n);
}

// Gradients of the weights are summed batch by batch, before dx is written: it may lie where dy or x does.
INLINE void norm_grads(struct context *c, struct norm_grad t, size rows, size n, double eps, const int centred) {
  const struct numbers all[] = {operand_of(c, t.dy), operand_of(c, t.x), operand_of(c, t.add), operand_of(c, t.dx)};
  const struct numbers dgain = operand_of(c, t.dgain), dbias = operand_of(c, t.dbias);
  const int alike = dtype_of_rows(all, 4), dtype = alike < 0 ? DTYPE_F32 : alike;
  const size batch = alike < 0 ? WIDENED_BATCH : BATCH;
  size used = 0;
  float *columns[] = {take_room(c, &used, n), take_room(c, &used, n), take_room(c, &used, n), take_room(c, &used, n)};
  float *space = take_room(c, &used, alike < 0 ? 3 * WIDENED_BATCH * n : 0);
  if (c->error) return;
  for (size i = 0; i < n; i++) columns[0][i] = columns[1][i] = 0;
  const float *gain = t.gain == 0 ? 0 : weights_of(numbers_of(c, t.gain), dtype, n, columns[2], columns[3]);
  for (size start = 0; start < rows; start += batch) {
    const size from = start * n, count = min_size(batch, rows - start);
    struct statistics s[BATCH];
    EACH_DTYPE(all[1].dtype, statistics_of_rows, s, from_number(all[1], from), count, n, eps, centred);
    struct grad_rows of = {.dy = from_number(all[0], from), .x = from_number(all[1], from), .gain = gain, .rows = count, .n = n};
    if (t.add != 0) of.add = from_number(all[2], from);
    if (t.dx != 0) of.dx = from_number(all[3], from);
    if (t.dgain != 0) of.dgain = columns[0];
    if (t.dbias != 0) of.dbias = columns[1];
    if (alike < 0)
      grad_widened_batch(of, s, space, centred);
    else
      EACH_DTYPE(dtype, grad_batch, &of, s, centred);
  }
  if (t.dgain != 0) put_columns(dgain, dtype, columns[0], n, columns[3]);
  if (t.dbias != 0) put_columns(dbias, dtype, columns[1], n, columns[3]);
}

// Each compiled once: they are long, and two commands call each.
__attribute__((noinline)) static void centred_grads(struct context *c, struct norm_grad t, double rows, double n, double eps) {
  norm_grads(c, t, (size)rows, (size)n, eps, 1);
}
__attribute__((noinline)) static void uncentred_grads(struct context *c, struct norm_grad t, double rows, double n, double eps) {
  norm_grads(c, t, (size)rows, (size)n, eps, 0);
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
  centred_grads(c, t, w[LAYER_NORM_INPUT_GRAD_ROWS], w[LAYER_NORM_INPUT_GRAD_COLUMNS], w[LAYER_NORM_INPUT_GRAD_EPS]);
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
  uncentred_grads(c, t, w[RMS_NORM_INPUT_GRAD_ROWS], w[RMS_NORM_INPUT_GRAD_COLUMNS], w[RMS_NORM_INPUT_GRAD_EPS]);
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
  centred_grads(c, t, w[LAYER_NORM_WEIGHT_GRAD_ROWS], w[LAYER_NORM_WEIGHT_GRAD_COLUMNS], w[LAYER_NORM_WEIGHT_GRAD_EPS]);
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
  uncentred_grads(c, t, w[RMS_NORM_WEIGHT_GRAD_ROWS], w[RMS_NORM_WEIGHT_GRAD_COLUMNS], w[RMS_NORM_WEIGHT_GRAD_EPS]);
}
